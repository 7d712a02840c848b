/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The elements' common properties, their device, and what they report. */
#include "element/endpoint.h"

#include "base/plugin.h"
#include "wire/codec.h"

/* === devicechoice ============================================================================ */

enum gpu_use device_choice_get_use(struct device_choice *choice, gint *number)
{
    GST_OBJECT_LOCK(choice->element);
    enum gpu_use use = gpu_use_of_device(choice->settings->device, number);
    GST_OBJECT_UNLOCK(choice->element);
    return use;
}

void device_choice_set_reason(struct device_choice *choice, gchar *reason)
{
    if (reason)
        GST_CAT_INFO_OBJECT(choice->category, choice->element, "device=auto: %s", reason);
    GST_OBJECT_LOCK(choice->element);
    g_free(choice->reason);
    choice->reason = reason;
    GST_OBJECT_UNLOCK(choice->element);
}

gint device_choice_find_gpu(struct device_choice *choice, const struct gpu_vendor *vendor,
                            gchar **reason)
{
    GST_OBJECT_LOCK(choice->element);
    g_autofree gchar *address = g_strdup(choice->settings->address);
    GST_OBJECT_UNLOCK(choice->element);
    return gpu_find(vendor, choice->element, choice->pad, &choice->contexts, address, reason);
}

/* The core's "auto" does not serve here: it follows the address, and ignores caps. */
gchar *device_choice_get_named(struct device_choice *choice)
{
    GST_OBJECT_LOCK(choice->element);
    gchar *device = g_strdup(choice->settings->device ? choice->settings->device : "auto");
    GST_OBJECT_UNLOCK(choice->element);
    if (!g_str_equal(device, "auto"))
        return device;
    g_free(device);
    device_choice_set_reason(
        choice, g_strdup_printf("host: the elements %s prefer no GPU's memory",
                                GST_PAD_IS_SINK(choice->pad) ? "upstream" : "downstream"));
    return g_strdup("host");
}

gchar *device_choice_choose(struct device_choice *choice, gint *number, gboolean *undecided)
{
    gboolean any = device_choice_get_use(choice, number) == GPU_USE_ANY;
    const struct gpu_vendor *preferred = NULL;
    gchar *reason = NULL;

    device_choice_set_reason(choice, NULL);
    if (any) {
        g_autoptr(GstCaps) caps = gst_pad_peer_query_caps(choice->pad, NULL);
        preferred = gpu_vendor_of_caps(caps);
    }
    if (preferred) {
        *number = device_choice_find_gpu(choice, preferred, &reason);
        device_choice_set_reason(choice, reason);
    }
    if (undecided)
        *undecided = any && !preferred;
    return *number >= 0 ? gpu_get_name(*number) : device_choice_get_named(choice);
}

void device_choice_tell(struct device_choice *choice, GstStructure *stats)
{
    GST_OBJECT_LOCK(choice->element);
    g_autofree gchar *reason = g_strdup(choice->reason);
    GST_OBJECT_UNLOCK(choice->element);
    if (reason)
        gst_structure_set(stats, "device-reason", G_TYPE_STRING, reason, NULL);
}

gboolean device_choice_answer_query(struct device_choice *choice, GstQuery *query)
{
    gint number;

    if (GST_QUERY_TYPE(query) != GST_QUERY_CONTEXT)
        return FALSE;
    enum gpu_use use = device_choice_get_use(choice, &number);
    return gpu_answer_query(choice->element, query, use, number,
                            g_atomic_int_get(&choice->opened_on), &choice->contexts);
}

/* === field =================================================================================== */

GType enum_type(const gchar *name, const GEnumValue *values)
{
    static GMutex lock;

    g_mutex_lock(&lock);
    GType type = g_type_from_name(name);
    if (!type) {
        type = g_enum_register_static(name, values);
        gst_type_mark_as_plugin_api(type, 0);
    }
    g_mutex_unlock(&lock);
    return type;
}

void fields_install(GObjectClass *klass, GParamSpec *const *pspecs, guint count)
{
    for (guint id = 0; id < count; id++)
        if (pspecs[id])
            g_object_class_install_property(klass, id, pspecs[id]);
}

void field_get(gconstpointer field, GValue *value)
{
    switch (G_TYPE_FUNDAMENTAL(G_VALUE_TYPE(value))) {
    case G_TYPE_STRING:
        g_value_set_string(value, *(const gchar *const *)field);
        break;
    case G_TYPE_UINT64:
        g_value_set_uint64(value, *(const guint64 *)field);
        break;
    case G_TYPE_UINT:
        g_value_set_uint(value, (guint)g_atomic_int_get((const gint *)field));
        break;
    case G_TYPE_INT:
        g_value_set_int(value, g_atomic_int_get((const gint *)field));
        break;
    case G_TYPE_BOOLEAN:
        g_value_set_boolean(value, g_atomic_int_get((const gint *)field));
        break;
    default:
        g_value_set_enum(value, g_atomic_int_get((const gint *)field));
    }
}

void field_set(gpointer field, const GValue *value)
{
    switch (G_TYPE_FUNDAMENTAL(G_VALUE_TYPE(value))) {
    case G_TYPE_STRING:
        g_free(*(gchar **)field);
        *(gchar **)field = g_value_dup_string(value);
        break;
    case G_TYPE_UINT64:
        *(guint64 *)field = g_value_get_uint64(value);
        break;
    case G_TYPE_UINT:
        g_atomic_int_set((gint *)field, (gint)g_value_get_uint(value));
        break;
    case G_TYPE_INT:
        g_atomic_int_set((gint *)field, g_value_get_int(value));
        break;
    case G_TYPE_BOOLEAN:
        g_atomic_int_set((gint *)field, g_value_get_boolean(value));
        break;
    default:
        g_atomic_int_set((gint *)field, g_value_get_enum(value));
    }
}

/* === settings ================================================================================ */

#define SLOTS_MIN 2 /* one is read while the next is written */

static const GEnumValue slow_receivers[] = {
    {GPUD_SLOW_DEFAULT,
     "At a receiver: as the sender says; at the sender: drop-oldest if upstream is live, else "
     "block",
     "auto"},
    {GPUD_SLOW_BLOCK, "Wait for the receiver", "block"},
    {GPUD_SLOW_DROP_NEWEST, "The receiver does not get the new frame", "drop-newest"},
    {GPUD_SLOW_DROP_OLDEST, "The receiver loses the oldest frame that it has not taken",
     "drop-oldest"},
    {0, NULL, NULL},
};

void settings_init(struct settings *settings)
{
    settings->device = g_strdup("auto");
    settings->access = g_strdup("user");
    settings->slots = SLOTS_DEFAULT;
    settings->slow_receiver = GPUD_SLOW_DEFAULT;
}

void settings_clear(struct settings *settings)
{
    g_free(settings->address);
    g_free(settings->device);
    g_free(settings->access);
    g_free(settings->psk_file);
    g_free(settings->tls_certificate);
    g_free(settings->tls_key);
    g_free(settings->tls_ca);
    g_free(settings->common_clock);
}

void settings_copy(struct settings *to, const struct settings *from)
{
    settings_clear(to);
    *to = *from;
    to->address = g_strdup(from->address);
    to->device = g_strdup(from->device);
    to->access = g_strdup(from->access);
    to->psk_file = g_strdup(from->psk_file);
    to->tls_certificate = g_strdup(from->tls_certificate);
    to->tls_key = g_strdup(from->tls_key);
    to->tls_ca = g_strdup(from->tls_ca);
    to->common_clock = g_strdup(from->common_clock);
}

void settings_copy_keys(struct settings *to, const struct settings *from)
{
    g_free(to->psk_file);
    g_free(to->tls_certificate);
    g_free(to->tls_key);
    g_free(to->tls_ca);
    to->psk_file = g_strdup(from->psk_file);
    to->tls_certificate = g_strdup(from->tls_certificate);
    to->tls_key = g_strdup(from->tls_key);
    to->tls_ca = g_strdup(from->tls_ca);
}

void settings_install(GObjectClass *klass, const struct setting_texts *texts)
{
    const GParamFlags ready = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
    const GParamFlags at_address = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | texts->address_when;
    GParamSpec *const pspecs[SETTING_COUNT] = {
        [SETTING_ADDRESS] =
            g_param_spec_string("address", "Address", texts->address, NULL, at_address),
        [SETTING_DEVICE] = g_param_spec_string("device", "Device", texts->device, "auto", ready),
        [SETTING_SLOTS] = g_param_spec_uint("slots", "Slots", texts->slots, 1, GPUD_SLOTS_MAX,
                                            SLOTS_DEFAULT, ready),
        [SETTING_SLOW_RECEIVER] = g_param_spec_enum(
            "slow-receiver", "Slow receiver", texts->slow_receiver,
            enum_type("GstGpudirectSlowReceiver", slow_receivers), GPUD_SLOW_DEFAULT,
            G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | texts->slow_receiver_when),
        [SETTING_REQUIRE_DIRECT] = g_param_spec_boolean("require-direct", "Require a direct route",
                                                        texts->require_direct, FALSE, ready),
        [SETTING_ACCESS] = g_param_spec_string("access", "Access", texts->access, "user", ready),
        [SETTING_PSK_FILE] =
            g_param_spec_string("psk-file", "Pre-shared key", texts->psk_file, NULL, at_address),
        [SETTING_TLS_CERTIFICATE] = g_param_spec_string(
            "tls-certificate", "Certificate",
            "Between hosts, by tcp://, instead of a psk-file: a PEM file with this end's "
            "certificate; set tls-key and tls-ca, too. The files are read at each connection "
            "(unset or empty: none)",
            NULL, at_address),
        [SETTING_TLS_KEY] =
            g_param_spec_string("tls-key", "Certificate's key",
                                "A PEM file with the private key of tls-certificate, readable by "
                                "its owner only (unset or empty: none)",
                                NULL, at_address),
        [SETTING_TLS_CA] = g_param_spec_string(
            "tls-ca", "Certificate authority",
            "A PEM file with the certificates of the authorities that the other end's certificate "
            "must be from (unset or empty: none)",
            NULL, at_address),
        [SETTING_ALLOW_UNAUTHENTICATED] =
            texts->allow_unauthenticated
                ? g_param_spec_boolean("allow-unauthenticated", "Allow unauthenticated",
                                       texts->allow_unauthenticated, FALSE, ready)
                : NULL,
        [SETTING_COMMON_CLOCK] = g_param_spec_string(
            "common-clock", "Common clock",
            "A name for this pipeline's clock: if both ends have the same, their clocks show the "
            "same time, also on two hosts. PTP, network and NTP clocks of GStreamer have names of "
            "their own (unset or empty: no name)",
            NULL, ready),
        [SETTING_TRUST_URI] = g_param_spec_boolean(
            "trust-uri", "Trust the URI",
            "Whether a URI may set who is admitted, and which key files are read: access, "
            "psk-file, tls-certificate, tls-key, tls-ca, allow-unauthenticated. Set it before the "
            "URI, and only if no playlist or other user can choose that",
            FALSE, ready),
    };

    fields_install(klass, pspecs, SETTING_COUNT);
}

gboolean settings_check(GstElement *element, const struct settings *settings)
{
    const struct {
        const gchar *name, *text;
    } texts[] = {
        {"address", settings->address},
        {"device", settings->device},
        {"access", settings->access},
        {"psk-file", settings->psk_file},
        {"tls-certificate", settings->tls_certificate},
        {"tls-key", settings->tls_key},
        {"tls-ca", settings->tls_ca},
        {"common-clock", settings->common_clock},
    };

    /* The core accepts any bytes in a path; GStreamer's messages and structures only UTF-8. */
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        if (!texts[i].text || g_utf8_validate(texts[i].text, -1, NULL))
            continue;
        g_autofree gchar *shown = g_utf8_make_valid(texts[i].text, -1);
        GST_ELEMENT_ERROR(
            element, RESOURCE, SETTINGS,
            ("The property %s is not valid UTF-8: \"%s\". Give it in UTF-8.", texts[i].name, shown),
            (NULL));
        return FALSE;
    }
    if (settings->slots >= SLOTS_MIN)
        return TRUE;
    GST_ELEMENT_ERROR(element, RESOURCE, SETTINGS,
                      ("slots=%u is too few: one slot is read while the next one is written. Set "
                       "slots to %d, or more, up to %d.",
                       settings->slots, SLOTS_MIN, GPUD_SLOTS_MAX),
                      (NULL));
    return FALSE;
}

void settings_refuse(GstElement *element, const GParamSpec *pspec)
{
    /* A GstBaseSink starts on its way to READY, a GstBaseSrc on its way to PAUSED. */
    GST_ELEMENT_WARNING(element, RESOURCE, SETTINGS,
                        ("The property %s was not changed: it can be set only in the state%s.",
                         pspec->name, GST_IS_BASE_SINK(element) ? " NULL" : "s NULL and READY"),
                        (NULL));
}

gpointer settings_field(const struct settings *settings, guint id)
{
    static const gsize offsets[SETTING_COUNT] = {
        [SETTING_ADDRESS] = offsetof(struct settings, address),
        [SETTING_DEVICE] = offsetof(struct settings, device),
        [SETTING_SLOTS] = offsetof(struct settings, slots),
        [SETTING_SLOW_RECEIVER] = offsetof(struct settings, slow_receiver),
        [SETTING_REQUIRE_DIRECT] = offsetof(struct settings, require_direct),
        [SETTING_ACCESS] = offsetof(struct settings, access),
        [SETTING_PSK_FILE] = offsetof(struct settings, psk_file),
        [SETTING_TLS_CERTIFICATE] = offsetof(struct settings, tls_certificate),
        [SETTING_TLS_KEY] = offsetof(struct settings, tls_key),
        [SETTING_TLS_CA] = offsetof(struct settings, tls_ca),
        [SETTING_ALLOW_UNAUTHENTICATED] = offsetof(struct settings, allow_unauthenticated),
        [SETTING_COMMON_CLOCK] = offsetof(struct settings, common_clock),
        [SETTING_TRUST_URI] = offsetof(struct settings, trust_uri),
    };

    return id > 0 && id < SETTING_COUNT ? (guint8 *)settings + offsets[id] : NULL;
}

gboolean settings_set(struct settings *settings, guint id, const GValue *value)
{
    gpointer field = settings_field(settings, id);

    if (field)
        field_set(field, value);
    if (id == SETTING_SLOTS)
        settings->slots_set = TRUE;
    return field != NULL;
}

/* === endpoint ================================================================================ */

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

static void endpoint_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    struct endpoint *endpoint = endpoint_of(object);
    gconstpointer field = settings_field(&endpoint->settings, id);
    struct endpoint_route route;

    switch (id) {
    case ENDPOINT_ACTIVE_PATH:
    case ENDPOINT_FALLBACK_REASON:
        endpoint->ops->get_route(endpoint->element, &route);
        g_value_set_string(value, id == ENDPOINT_ACTIVE_PATH ? route.path : route.fallback_reason);
        return;
    case ENDPOINT_STATS:
        g_value_take_boxed(value, endpoint->ops->make_stats(endpoint->element));
        return;
    }
    if (field) {
        GST_OBJECT_LOCK(object);
        field_get(field, value);
        GST_OBJECT_UNLOCK(object);
    } else if (!endpoint->ops->get_property(endpoint->element, id, value)) {
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    }
}

static void endpoint_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec)
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
    const GParamFlags report = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;
    GObjectClass *object_class = G_OBJECT_CLASS(klass);

    object_class->set_property = endpoint_set_property;
    object_class->get_property = endpoint_get_property;
    settings_install(object_class, texts);
    g_object_class_install_property(
        object_class, ENDPOINT_ACTIVE_PATH,
        g_param_spec_string("active-path", "Active path", texts->active_path, "none", report));
    g_object_class_install_property(
        object_class, ENDPOINT_FALLBACK_REASON,
        g_param_spec_string("fallback-reason", "Fallback reason",
                            "Why a better path is not used; empty if there is no better one", "",
                            report));
    g_object_class_install_property(
        object_class, ENDPOINT_STATS,
        g_param_spec_boxed("stats", "Statistics", texts->stats, GST_TYPE_STRUCTURE, report));
    gst_element_class_add_pad_template(
        klass, gst_pad_template_new(texts->pad, texts->direction, GST_PAD_ALWAYS, GST_CAPS_ANY));
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
    endpoint->device.element = element;
    endpoint->device.pad = pad;
    endpoint->device.settings = &endpoint->settings;
    endpoint->device.category = category;
    endpoint->device.opened_on = -1;
    endpoint->counters = counters_new();
    endpoint->lost_metas = lost_metas_new(category);
}

void endpoint_clear(struct endpoint *endpoint)
{
    gpu_contexts_clear(&endpoint->device.contexts);
    g_free(endpoint->device.reason);
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
    endpoint->degraded_reported = FALSE;
    GST_OBJECT_UNLOCK(endpoint->element);
}

void endpoint_report_route(struct endpoint *endpoint, const struct gpud_peer_info *peer)
{
    if (peer->degraded == GPUD_DEGRADED_NO || endpoint->degraded_reported)
        return;
    endpoint->degraded_reported = TRUE;
    GST_ELEMENT_WARNING(endpoint->element, RESOURCE, SETTINGS,
                        ("The route %s between here and %s is worse than the devices allow: %s",
                         peer->path, peer->name, peer->fallback_reason),
                        (NULL));
}

void endpoint_stop(struct endpoint *endpoint)
{
    GST_OBJECT_LOCK(endpoint->element);
    endpoint->started = FALSE;
    GST_OBJECT_UNLOCK(endpoint->element);
}

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
    g_autofree gchar *common = g_strdup(endpoint->settings.common_clock);
    GST_OBJECT_UNLOCK(endpoint->element);
    clock_name_of(name, endpoint->element, kind, common);
    return clock_name_text(name, kind);
}

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

GstCaps *endpoint_known_caps(void)
{
    GstCaps *caps = gpu_template_caps();

    gst_caps_append(caps, blocks_known_caps());
    return caps;
}

GstCaps *endpoint_filter_caps(GstCaps *caps, GstCaps *filter, gboolean any_data)
{
    if (!filter)
        return caps;
    GstCaps *both = gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(caps);
    return any_data && !gst_caps_is_any(filter) ? gst_caps_merge(both, blocks_pick_data(filter))
                                                : both;
}

/* === picture ================================================================================= */

enum picture_copied picture_copy(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to,
                                 struct counters *counters)
{
    enum picture_copied result = PICTURE_UNWRITABLE;
    GstVideoFrame source, target;

    if (!gst_video_frame_map(&source, info, from, GST_MAP_READ))
        return PICTURE_UNREADABLE;
    if (gst_video_frame_map(&target, info, to,
                            GST_MAP_WRITE | (GstMapFlags)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
        if (gst_video_frame_copy(&target, &source))
            result = PICTURE_COPIED;
        gst_video_frame_unmap(&target);
    }
    gst_video_frame_unmap(&source);
    if (result == PICTURE_COPIED)
        counter_add(&counters->copies_cpu);
    return result;
}
