/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "element/endpoint.h"
#include "base/context.h"
#include "wire/blocks.h"

static GQuark endpoint_quark(void)
{
    return g_quark_from_static_string("gpudirect-endpoint");
}

static struct endpoint *endpoint_of(gpointer element)
{
    return g_object_get_qdata(element, endpoint_quark());
}

/* Both elements are final, so their class's parent is the base class of GStreamer. */
static GstElementClass *parent_of(GstElement *element)
{
    return g_type_class_peek_parent(GST_ELEMENT_GET_CLASS(element));
}

/* --- properties --------------------------------------------------------------------------- */

static gboolean get_report(struct endpoint *endpoint, guint id, GValue *value)
{
    struct endpoint_route route;

    switch (id) {
    case ENDPOINT_ACTIVE_PATH:
        endpoint->ops->get_route(endpoint->element, &route);
        g_value_set_string(value, route.path);
        return TRUE;
    case ENDPOINT_FALLBACK_REASON:
        endpoint->ops->get_route(endpoint->element, &route);
        g_value_set_string(value, route.fallback_reason);
        return TRUE;
    case ENDPOINT_STATS:
        g_value_take_boxed(value, endpoint->ops->make_stats(endpoint->element));
        return TRUE;
    default:
        return endpoint->ops->get_report(endpoint->element, id, value);
    }
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    struct endpoint *endpoint = endpoint_of(object);

    if (get_report(endpoint, id, value))
        return;
    GST_OBJECT_LOCK(object);
    gboolean known = endpoint->ops->get_property(endpoint->element, id, value) ||
                     settings_get(&endpoint->settings, id, value);
    GST_OBJECT_UNLOCK(object);
    if (!known)
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
    struct endpoint *endpoint = endpoint_of(object);

    GST_OBJECT_LOCK(object);
    gboolean may = settings_may_set(pspec, endpoint->started);
    gboolean known = !may || endpoint->ops->set_property(endpoint->element, id, value) ||
                     settings_set(&endpoint->settings, id, value);
    GST_OBJECT_UNLOCK(object);
    if (!known)
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    if (may)
        endpoint->ops->changed(endpoint->element, id);
    else
        settings_refuse(endpoint->element, pspec);
}

static void install_reports(GObjectClass *klass, const struct setting_texts *texts)
{
    const GParamFlags report = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

    g_object_class_install_property(
        klass, ENDPOINT_ACTIVE_PATH,
        g_param_spec_string("active-path", "Active path", texts->active_path, "none", report));
    g_object_class_install_property(
        klass, ENDPOINT_FALLBACK_REASON,
        g_param_spec_string("fallback-reason", "Fallback reason",
                            "Why the active path is no better one; empty if there is none", "",
                            report));
    g_object_class_install_property(
        klass, ENDPOINT_STATS,
        g_param_spec_boxed("stats", "Statistics", texts->stats, GST_TYPE_STRUCTURE, report));
}

/* --- the element -------------------------------------------------------------------------- */

static gboolean set_clock(GstElement *element, GstClock *clock)
{
    g_atomic_int_set(&endpoint_of(element)->clock_kind, (gint)clock_kind_of(clock));
    return parent_of(element)->set_clock(element, clock);
}

static void set_context(GstElement *element, GstContext *context)
{
    gpu_take_context(element, context, &endpoint_of(element)->device.contexts);
    parent_of(element)->set_context(element, context);
}

/* Posts the statistics first, because applications stop listening at an error. */
static gboolean post_message(GstElement *element, GstMessage *message)
{
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        endpoint_post_stats(endpoint_of(element));
    return parent_of(element)->post_message(element, message);
}

void endpoint_class_init(GstElementClass *klass, const struct setting_texts *texts)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    GstCaps *caps = gpu_template_caps();

    gst_caps_append(caps, blocks_template_caps());
    object_class->set_property = set_property;
    object_class->get_property = get_property;
    settings_install(object_class, texts);
    install_reports(object_class, texts);
    gst_element_class_add_pad_template(
        klass, gst_pad_template_new(texts->pad, texts->direction, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
    klass->set_clock = set_clock;
    klass->set_context = set_context;
    klass->post_message = post_message;
}

void endpoint_init(struct endpoint *endpoint, GstElement *element, GstPad *pad,
                   GstDebugCategory *category, const struct endpoint_ops *ops)
{
    g_object_set_qdata(G_OBJECT(element), endpoint_quark(), endpoint);
    endpoint->element = element;
    endpoint->category = category;
    endpoint->ops = ops;
    settings_init(&endpoint->settings);
    device_choice_init(&endpoint->device, element, pad, &endpoint->settings, category);
    endpoint->counters = counters_new();
    endpoint->lost_metas = lost_metas_new(category);
}

void endpoint_clear(struct endpoint *endpoint)
{
    device_choice_clear(&endpoint->device);
    settings_clear(&endpoint->settings);
    settings_clear(&endpoint->running);
    counters_unref(endpoint->counters);
    lost_metas_free(endpoint->lost_metas);
}

void endpoint_start(struct endpoint *endpoint)
{
    GST_OBJECT_LOCK(endpoint->element);
    endpoint->started = TRUE;
    settings_copy(&endpoint->running, &endpoint->settings);
    GST_OBJECT_UNLOCK(endpoint->element);
}

void endpoint_stop(struct endpoint *endpoint)
{
    GST_OBJECT_LOCK(endpoint->element);
    endpoint->started = FALSE;
    GST_OBJECT_UNLOCK(endpoint->element);
}

/* --- the clock ---------------------------------------------------------------------------- */

enum clock_kind endpoint_get_clock(struct endpoint *endpoint, struct clock_name *name)
{
    enum clock_kind kind = (enum clock_kind)g_atomic_int_get(&endpoint->clock_kind);

    clock_name_of(name, endpoint->element, kind, endpoint->running.common_clock);
    return kind;
}

const gchar *endpoint_name_clock(struct endpoint *endpoint, struct clock_name *name)
{
    enum clock_kind kind = (enum clock_kind)g_atomic_int_get(&endpoint->clock_kind);

    GST_OBJECT_LOCK(endpoint->element);
    gchar *common = g_strdup(endpoint->settings.common_clock);
    GST_OBJECT_UNLOCK(endpoint->element);
    clock_name_of(name, endpoint->element, kind, common);
    g_free(common);
    return clock_name_text(name, kind);
}

/* --- statistics --------------------------------------------------------------------------- */

void endpoint_post_stats(struct endpoint *endpoint)
{
    GstElement *element = endpoint->element;

    if (!__atomic_exchange_n(&endpoint->stats_due, FALSE, __ATOMIC_RELAXED))
        return;
    GstStructure *stats = endpoint->ops->make_stats(element);
    gst_structure_set_name(stats, "gpudirect-stats");
    GST_CAT_INFO_OBJECT(gpud_gst_debug, element, "at the end: %" GST_PTR_FORMAT, stats);
    gst_element_post_message(element, gst_message_new_element(GST_OBJECT(element), stats));
}

static GstPadProbeReturn see_event(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    GstElement *element = gst_pad_get_parent_element(pad);

    if (element && GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_EOS)
        endpoint_post_stats(user);
    gst_clear_object(&element);
    return GST_PAD_PROBE_OK;
}

void endpoint_post_stats_at_eos(struct endpoint *endpoint)
{
    gst_pad_add_probe(endpoint->device.pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, see_event,
                      endpoint, NULL);
}

gchar *endpoint_find_pipeline_name(GstElement *element)
{
    static const gchar made_up[] = "pipeline";
    GstObject *top = gst_object_ref(element);
    GstObject *parent;

    while ((parent = gst_object_get_parent(top))) {
        gst_object_unref(top);
        top = parent;
    }
    gchar *name = GST_IS_PIPELINE(top) ? gst_object_get_name(top) : NULL;
    gst_object_unref(top);
    if (name && g_str_has_prefix(name, made_up) &&
        !name[strlen(made_up) + strspn(name + strlen(made_up), "0123456789")])
        g_clear_pointer(&name, g_free);
    return name;
}

GstCaps *endpoint_filter_caps(GstCaps *caps, GstCaps *filter)
{
    if (!filter)
        return caps;
    GstCaps *both = gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(caps);
    return both;
}
