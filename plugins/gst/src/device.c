/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where gpudirectsrc's frames shall arrive, and what that means for caps and contexts.
 *
 * A named device is a named device. With `auto` frames arrive on the GPU that downstream works on,
 * if it would rather have CUDA memory than any other. If not, they arrive where the sender has
 * them: on its GPU if that is one of this machine's, a driver is here and downstream takes CUDA
 * memory too (a fakesink, a tee, an appsink without caps do); else in host memory. The sender says
 * where when the link is half made; a receiver on another device is put in the place of this one
 * then, before the sender counts on it. So a stream for plain elements, and one on a machine
 * without a GPU, is what it was. Whatever frames arrive on a GPU are pushed as CUDA memory if
 * downstream takes that at all, else as memory that maps to the CPU on demand. */
#include "context.h"
#include "src/src.h"

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
    self->follows = !prefers_cuda;
    return prefers_cuda ? gpu_find(GST_ELEMENT(self), GST_BASE_SRC_PAD(self), &self->given) : -1;
}

gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops)
{
    self->follows = FALSE;
    self->moves = 0;
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

/* NULL: single fields have no place in GStreamer's CUDA memory. */
static GstCaps *with_cuda(const GstCaps *caps)
{
    if (caps_are_fields(caps))
        return NULL;
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

/* Elements that can pass memory through say that they accept it, whatever stands behind them; which
 * caps there are asks that, too. */
static gboolean downstream_takes(GstGpudirectSrc *self, GstCaps *caps)
{
    GstPad *pad = GST_BASE_SRC_PAD(self);

    if (!gst_pad_peer_query_accept_caps(pad, caps))
        return FALSE;
    GstCaps *possible = gst_pad_peer_query_caps(pad, caps);
    gboolean takes = gst_caps_can_intersect(possible, caps);
    gst_caps_unref(possible);
    return takes;
}

GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu)
{
    struct gpu *found = get_gpu(self);
    GstCaps *cuda = found ? with_cuda(caps) : NULL;

    *gpu = NULL;
    if (cuda && downstream_takes(self, cuda)) {
        gst_caps_unref(caps);
        *gpu = found;
        return cuda;
    }
    gst_clear_caps(&cuda);
    if (gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), caps))
        return caps;
    gst_caps_unref(caps);
    return NULL;
}

/* --- the sender's device ------------------------------------------------------------------ */

/* A sender that says another place each time is not followed for ever. */
#define MOVES_MAX 2

gboolean gst_gpudirect_src_may_follow(GstGpudirectSrc *self, const void *media, size_t size)
{
    if (!self->follows || self->moves >= MOVES_MAX)
        return FALSE;
    gchar *place = media_get_place(media, size);
    gboolean may = place || g_atomic_int_get(&self->opened_on) >= 0;
    g_free(place);
    return may;
}

/* Who names CUDA memory among others has a GPU to work on; who takes anything has none. */
static gboolean downstream_works_on(GstGpudirectSrc *self, gint ordinal)
{
    GstCaps *caps = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(self), NULL);
    gboolean names_cuda = FALSE;

    for (guint i = 0; !gst_caps_is_any(caps) && i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);
        names_cuda |= !gst_caps_features_is_any(features) &&
                      gst_caps_features_contains(features, CUDA_FEATURE);
    }
    gst_caps_unref(caps);
    return !names_cuda ||
           gpu_find(GST_ELEMENT(self), GST_BASE_SRC_PAD(self), &self->given) == ordinal;
}

/* The GPU that the sender has its frames on, if downstream takes them there; else -1. */
static gint find_place(GstGpudirectSrc *self, const struct src_format *format)
{
    gsize size;
    const void *media = g_bytes_get_data(format->media, &size);
    gchar *place = media_get_place(media, size), *reason = NULL;
    gint ordinal = place ? gpu_of_place(place) : -1;
    GstVideoInfo info;

    g_free(place);
    GstCaps *caps =
        ordinal >= 0 ? media_to_caps(&format->layout, media, size, &info, &reason) : NULL;
    GstCaps *cuda = caps ? with_cuda(caps) : NULL;
    if (!cuda || !downstream_takes(self, cuda) || !downstream_works_on(self, ordinal))
        ordinal = -1;
    gst_clear_caps(&cuda);
    gst_clear_caps(&caps);
    g_free(reason);
    return ordinal;
}

static gboolean move(GstGpudirectSrc *self, gint ordinal)
{
    gchar *device = ordinal < 0 ? g_strdup("host") : g_strdup_printf("cuda:%d", ordinal);
    struct gpud_error error;
    gboolean moved = gst_gpudirect_src_reopen(self, device, &error);

    self->moves++;
    if (moved) {
        GST_INFO_OBJECT(self, "device=auto: frames arrive on %s, for the sender's sake", device);
        g_atomic_int_set(&self->opened_on, ordinal);
        self->linked = FALSE;
        self->waiting_since = 0;
    } else {
        GST_WARNING_OBJECT(self, "frames cannot arrive on %s, where the sender has them: %s",
                           device, error.reason);
        self->follows = FALSE;
    }
    g_free(device);
    return moved;
}

gboolean gst_gpudirect_src_follow(GstGpudirectSrc *self, const struct src_format *format)
{
    if (!self->follows || self->moves >= MOVES_MAX)
        return FALSE;
    gint ordinal = find_place(self, format);
    return ordinal != g_atomic_int_get(&self->opened_on) && move(self, ordinal);
}

gboolean gst_gpudirect_src_retreat(GstGpudirectSrc *self)
{
    return self->follows && self->moves < MOVES_MAX && g_atomic_int_get(&self->opened_on) >= 0 &&
           move(self, -1);
}

const gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps)
{
    GstCaps *cuda = with_cuda(caps);
    gboolean only_cuda = cuda && gst_pad_peer_query_accept_caps(GST_BASE_SRC_PAD(self), cuda);

    gst_clear_caps(&cuda);
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
