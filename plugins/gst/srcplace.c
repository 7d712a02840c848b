/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where gpudirectsrc's frames shall arrive, and what that means for caps and contexts.
 *
 * A named device is a named device. With `auto` frames arrive in host memory, unless downstream
 * would rather have CUDA memory than any other: then on the GPU that it works on. Whatever frames
 * arrive on a GPU are pushed as CUDA memory if downstream takes that at all, else as memory that
 * maps to the CPU on demand. */
#include "context.h"
#include "gpudirectsrc.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* Whether the device that was asked for leaves room for CUDA memory; *ordinal is -1 for auto. */
static gboolean may_be_gpu(GstGpudirectSrc *self, gint *ordinal)
{
    GST_OBJECT_LOCK(self);
    gboolean is_auto = !self->settings.device || g_str_equal(self->settings.device, "auto");
    *ordinal = gpu_ordinal_of_name(self->settings.device);
    GST_OBJECT_UNLOCK(self);
    return (is_auto || *ordinal >= 0) && gpu_supported();
}

static gint choose_gpu(GstGpudirectSrc *self)
{
    gint ordinal;

    if (!may_be_gpu(self, &ordinal))
        return -1;
    if (ordinal >= 0)
        return ordinal;
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(self), NULL);
    gboolean prefers_cuda = caps_are_cuda(caps);
    gst_caps_unref(caps);
    return prefers_cuda ? gpu_find(GST_ELEMENT(self), GST_BASE_SRC_PAD(self), &self->given) : -1;
}

gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops)
{
    /* A capture card's frames lie where its driver puts them. */
    gint ordinal = ops->configure ? -1 : choose_gpu(self);

    g_atomic_int_set(&self->opened_on, ordinal);
    if (ordinal >= 0)
        return g_strdup_printf("cuda:%d", ordinal);
    GST_OBJECT_LOCK(self);
    gchar *device = g_strdup(self->settings.device);
    GST_OBJECT_UNLOCK(self);
    return device;
}

GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps)
{
    gint ordinal;
    g_mutex_lock(&self->input_lock);
    gboolean running = self->input != NULL;
    g_mutex_unlock(&self->input_lock);

    gboolean cuda = running ? g_atomic_int_get(&self->opened_on) >= 0 : may_be_gpu(self, &ordinal);
    return cuda ? caps : caps_without_cuda(caps);
}

static GstCaps *with_cuda(const GstCaps *caps)
{
    GstCaps *cuda = gst_caps_copy(caps);

    gst_caps_set_features(cuda, 0, gst_caps_features_new(CUDA_FEATURE, NULL));
    return cuda;
}

/* No GPU for GStreamer is no reason to stop: the core maps its frames for the CPU. */
static struct gpu *get_gpu(GstGpudirectSrc *self)
{
    gint ordinal = g_atomic_int_get(&self->opened_on);
    struct gpud_error error;

    if (ordinal < 0)
        return NULL;
    struct gpu *gpu = gpu_get(ordinal, &error);
    if (!gpu)
        GST_WARNING_OBJECT(self, "no CUDA memory: %s", error.reason);
    return gpu;
}

GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);
    struct gpu *found = get_gpu(self);
    GstCaps *cuda = found ? with_cuda(caps) : NULL;

    *gpu = NULL;
    if (cuda && gst_pad_peer_query_accept_caps(pad, cuda)) {
        gst_caps_unref(caps);
        *gpu = found;
        return cuda;
    }
    gst_clear_caps(&cuda);
    if (gst_pad_peer_query_accept_caps(pad, caps))
        return caps;
    gst_caps_unref(caps);
    return NULL;
}

const gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps)
{
    GstCaps *cuda = with_cuda(caps);
    gboolean only_cuda = gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), cuda);

    gst_caps_unref(cuda);
    return only_cuda ? "they want CUDA memory: set gpudirectsrc's property device to cuda:N"
                     : "put a videoconvert after gpudirectsrc";
}

gboolean gst_gpudirect_src_share_context(GstGpudirectSrc *self, GstQuery *query)
{
    gint ordinal;

    if (!may_be_gpu(self, &ordinal))
        return FALSE;
    if (ordinal < 0)
        ordinal = MAX(0, g_atomic_int_get(&self->opened_on));
    return gpu_answer_query(GST_ELEMENT(self), query, ordinal, &self->given);
}

static void src_set_context(GstElement *element, GstContext *context)
{
    GstElementClass *parent = g_type_class_peek(GST_TYPE_PUSH_SRC);

    gpu_take_context(element, context, &GST_GPUDIRECT_SRC(element)->given);
    parent->set_context(element, context);
}

void gst_gpudirect_src_class_init_place(GstElementClass *klass)
{
    gchar *text = g_strconcat(SLOT_VIDEO_CAPS, gpu_template_caps, NULL);
    GstCaps *caps = gst_caps_from_string(text);

    gst_element_class_add_pad_template(
        klass, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
    g_free(text);
    klass->set_context = src_set_context;
}
