/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* On which device gpudirectsink's ring lies, and what that means for caps and contexts.
 *
 * A device that the user names is used. With `auto` the ring lies in host memory until upstream
 * sends a GPU's memory: then it lies on the GPU that upstream works on. What upstream will send is
 * guessed when the sink starts, by the caps that upstream prefers; where the caps that come prove
 * the guess wrong, the sender is opened again on that GPU, and receivers connect once more. */
#include "errors.h"
#include "sink/sink.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

static gchar *get_device(GstGpudirectSink *self)
{
    GST_OBJECT_LOCK(self);
    gchar *device = g_strdup(self->settings.device ? self->settings.device : "auto");
    GST_OBJECT_UNLOCK(self);
    return device;
}

static enum gpu_use get_use(GstGpudirectSink *self, gint *number)
{
    gchar *device = get_device(self);
    enum gpu_use use = gpu_use_of_device(device, number);

    g_free(device);
    return use;
}

/* Takes the reason; NULL: the user named the device. */
static void set_reason(GstGpudirectSink *self, gchar *reason)
{
    if (reason)
        GST_INFO_OBJECT(self, "device=auto: %s", reason);
    GST_OBJECT_LOCK(self);
    g_free(self->device_reason);
    self->device_reason = reason;
    GST_OBJECT_UNLOCK(self);
}

static gint find_gpu(GstGpudirectSink *self, const struct gpu_vendor *vendor)
{
    GST_OBJECT_LOCK(self);
    gchar *address = g_strdup(self->settings.address), *reason = NULL;
    GST_OBJECT_UNLOCK(self);
    gint number = gpu_find(vendor, GST_ELEMENT(self), GST_BASE_SINK_PAD(self), &self->contexts,
                           address, &reason);

    g_free(address);
    set_reason(self, reason);
    return number;
}

static gchar *choose_host(GstGpudirectSink *self)
{
    set_reason(self, g_strdup("host: the elements upstream prefer no GPU's memory"));
    return g_strdup("host");
}

/* The core's "auto" is another one: it knows an address, and no caps. */
static gchar *get_named(GstGpudirectSink *self)
{
    gchar *device = get_device(self);

    if (!g_str_equal(device, "auto"))
        return device;
    g_free(device);
    return choose_host(self);
}

gchar *gst_gpudirect_sink_choose_device(GstGpudirectSink *self)
{
    gint number;

    set_reason(self, NULL);
    if (get_use(self, &number) != GPU_USE_ANY)
        return get_named(self);
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SINK_PAD(self), NULL);
    const struct gpu_vendor *preferred = gpu_vendor_of_caps(caps);
    gst_caps_unref(caps);
    return preferred ? gpu_get_name(find_gpu(self, preferred)) : choose_host(self);
}

static gboolean move(GstGpudirectSink *self, const gchar *device)
{
    GST_INFO_OBJECT(self, "the ring moves to %s", device);
    gst_gpudirect_sink_close_sender(self);
    gst_gpudirect_sink_clear_clients(self); /* they will connect again */
    g_object_notify(G_OBJECT(self), "num-clients");
    self->moved = TRUE;
    return gst_gpudirect_sink_open_sender(self, device);
}

/* The GPU that pictures in this vendor's memory are sent from. */
static struct gpu *choose_gpu(GstGpudirectSink *self, const struct gpu_vendor *vendor,
                              struct gpud_error *error)
{
    gint number;
    enum gpu_use use = get_use(self, &number);

    if (use == GPU_USE_ANY)
        return gpu_get(find_gpu(self, vendor), error);
    if (use == GPU_USE_NAMED && gpu_get_vendor(number) == vendor)
        return gpu_get(number, error);
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    g_snprintf(error->reason, sizeof(error->reason),
               "the property device names no %s GPU: set it to auto or to %sN, or put %s before "
               "gpudirectsink",
               vendor->maker, vendor->prefix, vendor->download);
    return NULL;
}

static gboolean follow_to_gpu(GstGpudirectSink *self, const struct gpu_vendor *vendor)
{
    struct gpud_error error;
    struct gpu *gpu = choose_gpu(self, vendor, &error);

    if (!gpu) {
        gchar *what = g_strdup_printf("%s cannot be sent", vendor->memory);
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error, what);
        g_free(what);
        return FALSE;
    }
    gchar *device = gpu_get_name(gpu->number);
    if (self->opened_on == gpu->number || move(self, device))
        self->gpu = gpu;
    g_free(device);
    return self->gpu != NULL;
}

gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, const struct gpu_vendor *vendor)
{
    if (vendor)
        return follow_to_gpu(self, vendor);
    /* A ring on a GPU takes what the CPU writes, too. */
    gchar *device = self->sender ? NULL : get_named(self);
    gboolean there = self->sender || move(self, device);
    g_free(device);
    return there;
}

/* --- caps and contexts -------------------------------------------------------------------- */

static GstCaps *sink_get_caps(GstBaseSink *base, GstCaps *filter)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    GstCaps *caps = gst_pad_get_pad_template_caps(GST_BASE_SINK_PAD(base));
    gint number;
    enum gpu_use use = get_use(self, &number);

    caps = gpu_filter_caps(caps, use, number);
    if (use == GPU_USE_NAMED)
        caps = gpu_put_first(caps, gpu_get_vendor(number));
    if (filter) {
        GstCaps *both = gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);
        gst_caps_unref(caps);
        caps = both;
    }
    return caps;
}

static gboolean sink_query(GstBaseSink *base, GstQuery *query)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    GstBaseSinkClass *parent = g_type_class_peek(GST_TYPE_BASE_SINK);
    gint number;

    if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT) {
        enum gpu_use use = get_use(self, &number);
        if (gpu_answer_query(GST_ELEMENT(self), query, use, number,
                             g_atomic_int_get(&self->opened_on), &self->contexts))
            return TRUE;
    }
    return parent->query(base, query);
}

static void sink_set_context(GstElement *element, GstContext *context)
{
    GstElementClass *parent = g_type_class_peek(GST_TYPE_BASE_SINK);

    gpu_take_context(element, context, &GST_GPUDIRECT_SINK(element)->contexts);
    parent->set_context(element, context);
}

void gst_gpudirect_sink_class_init_device(GstBaseSinkClass *klass)
{
    GstCaps *caps = gpu_template_caps();

    gst_element_class_add_pad_template(
        GST_ELEMENT_CLASS(klass), gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
    GST_ELEMENT_CLASS(klass)->set_context = sink_set_context;
    klass->get_caps = sink_get_caps;
    klass->query = sink_query;
}
