/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where gpudirectsink's ring lies, and what that means for caps and contexts.
 *
 * A named device is a named device. With `auto` the ring lies in host memory, until upstream sends
 * CUDA memory: then it lies on the GPU that upstream works on. What upstream will send is guessed
 * when the sink starts, by the caps that it prefers; where the caps prove the guess wrong, the
 * sender is opened anew on the GPU, and receivers that had come already connect once more. */
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

/* Whether the device that was asked for leaves room for CUDA memory; *ordinal is -1 for auto. */
static gboolean may_be_gpu(GstGpudirectSink *self, gint *ordinal)
{
    gchar *device = get_device(self);
    gboolean is_auto = g_str_equal(device, "auto");

    *ordinal = gpu_ordinal_of_name(device);
    g_free(device);
    return (is_auto || *ordinal >= 0) && gpu_supported();
}

static gint find_gpu(GstGpudirectSink *self)
{
    return gpu_find(GST_ELEMENT(self), GST_BASE_SINK_PAD(self), &self->given);
}

gchar *gst_gpudirect_sink_choose_device(GstGpudirectSink *self)
{
    gint ordinal;

    if (!may_be_gpu(self, &ordinal) || ordinal >= 0)
        return get_device(self);
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SINK_PAD(self), NULL);
    gboolean prefers_cuda = caps_are_cuda(caps);
    gst_caps_unref(caps);
    return prefers_cuda ? g_strdup_printf("cuda:%d", find_gpu(self)) : g_strdup("auto");
}

static gboolean move(GstGpudirectSink *self, const gchar *device)
{
    GST_INFO_OBJECT(self, "the ring moves to %s", device);
    gst_gpudirect_sink_close_sender(self);
    gst_gpudirect_sink_clear_clients(self); /* who was there has to come once more */
    g_object_notify(G_OBJECT(self), "num-clients");
    self->moved = TRUE;
    return gst_gpudirect_sink_open_sender(self, device);
}

static struct gpu *find_place(GstGpudirectSink *self, struct gpud_error *error)
{
    gint ordinal;

    if (may_be_gpu(self, &ordinal))
        return gpu_get(ordinal >= 0 ? ordinal : find_gpu(self), error);
    *error = (struct gpud_error){.status = GPUD_UNSUPPORTED};
    g_strlcpy(error->reason,
              "the property device names no NVIDIA GPU: set it to auto or to cuda:N, or put "
              "cudadownload before gpudirectsink",
              sizeof(error->reason));
    return NULL;
}

gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, gboolean cuda)
{
    struct gpud_error error;

    if (!cuda) {
        /* A ring on a GPU takes what the CPU writes, too. */
        gchar *device = self->lender ? NULL : get_device(self);
        gboolean there = self->lender || move(self, device);
        g_free(device);
        return there;
    }
    struct gpu *gpu = find_place(self, &error);
    if (!gpu) {
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error,
                            "CUDA memory cannot be sent");
        return FALSE;
    }
    gchar *device = g_strdup_printf("cuda:%d", gpu->ordinal);
    if (self->opened_on == gpu->ordinal || move(self, device))
        self->gpu = gpu;
    g_free(device);
    return self->gpu != NULL;
}

/* --- caps and contexts -------------------------------------------------------------------- */

static GstCaps *cuda_first(GstCaps *caps)
{
    GstCaps *cuda = gst_caps_new_empty();

    for (guint i = 0; i < gst_caps_get_size(caps); i++)
        if (gst_caps_features_contains(gst_caps_get_features(caps, i), CUDA_FEATURE))
            gst_caps_append_structure_full(cuda,
                                           gst_structure_copy(gst_caps_get_structure(caps, i)),
                                           gst_caps_features_copy(gst_caps_get_features(caps, i)));
    gst_caps_append(cuda, caps_without_cuda(caps));
    return cuda;
}

static GstCaps *sink_get_caps(GstBaseSink *base, GstCaps *filter)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    GstCaps *caps = gst_pad_get_pad_template_caps(GST_BASE_SINK_PAD(base));
    gint ordinal;

    if (!may_be_gpu(self, &ordinal))
        caps = caps_without_cuda(caps);
    else if (ordinal >= 0)
        caps = cuda_first(caps);
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
    gint ordinal;

    if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT && may_be_gpu(self, &ordinal)) {
        if (ordinal < 0)
            ordinal = MAX(0, g_atomic_int_get(&self->opened_on));
        if (gpu_answer_query(GST_ELEMENT(self), query, ordinal, &self->given))
            return TRUE;
    }
    return parent->query(base, query);
}

static void sink_set_context(GstElement *element, GstContext *context)
{
    GstElementClass *parent = g_type_class_peek(GST_TYPE_BASE_SINK);

    gpu_take_context(element, context, &GST_GPUDIRECT_SINK(element)->given);
    parent->set_context(element, context);
}

void gst_gpudirect_sink_class_init_place(GstBaseSinkClass *klass)
{
    gchar *text = g_strconcat(SLOT_VIDEO_CAPS, gpu_template_caps, NULL);
    GstCaps *caps = gst_caps_from_string(text);

    gst_element_class_add_pad_template(
        GST_ELEMENT_CLASS(klass), gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
    g_free(text);
    GST_ELEMENT_CLASS(klass)->set_context = sink_set_context;
    klass->get_caps = sink_get_caps;
    klass->query = sink_query;
}
