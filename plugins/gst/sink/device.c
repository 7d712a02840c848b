/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The device of gpudirectsink's ring, and its consequences for caps and contexts.
 *
 * A device that the user names is used. With `auto` the ring lies in host memory, or on upstream's
 * GPU if upstream sends GPU memory. When the sink starts it guesses this from the caps that
 * upstream prefers; if the actual caps prove the guess wrong, a sender on that GPU replaces this
 * one, and receivers reconnect. The address stays with the element: one that stands by for it does
 * not get it. */
#include "sink/device.h"

#include "base/errors.h"
#include "sink/open.h"
#include "wire/blocks.h"
#include "wire/dmabufcaps.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

static gboolean move(GstGpudirectSink *self, const gchar *device)
{
    GST_INFO_OBJECT(self, "the ring moves to %s", device);
    self->sender_is_new = TRUE;
    return gst_gpudirect_sink_replace_sender(self, device);
}

/* The GPU from which pictures in this vendor's memory are sent. */
static struct gpu *choose_gpu(GstGpudirectSink *self, const struct gpu_vendor *vendor,
                              struct gpud_error *error)
{
    gint number;
    enum gpu_use use = device_choice_get_use(&self->endpoint.device, &number);

    if (use == GPU_USE_ANY) {
        gchar *reason = NULL;
        number = device_choice_find_gpu(&self->endpoint.device, vendor, &reason);
        device_choice_set_reason(&self->endpoint.device, reason);
        return gpu_get(number, error);
    }
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
    if (self->endpoint.device.opened_on == gpu->number || move(self, device))
        self->format.gpu = gpu;
    g_free(device);
    return self->format.gpu != NULL;
}

gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, const struct gpu_vendor *vendor)
{
    if (vendor)
        return follow_to_gpu(self, vendor);
    /* A ring on a GPU takes what the CPU writes, too. */
    gchar *device = self->sender ? NULL : device_choice_get_named(&self->endpoint.device);
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
    enum gpu_use use = device_choice_get_use(&self->endpoint.device, &number);

    caps = caps_filter_dmabufs(gpu_filter_caps(caps, use, number), filter);
    if (use == GPU_USE_NAMED)
        caps = gpu_put_first(caps, gpu_get_vendor(number));
    return endpoint_filter_caps(caps, filter);
}

/* What a pad gives may not be negotiated yet, while its stream is known. */
static gboolean gives_blocks(GstPad *pad)
{
    GstStream *stream = gst_pad_get_stream(pad);
    GstCaps *caps = gst_pad_query_caps(pad, NULL);
    gboolean blocks = stream && (gst_stream_get_stream_type(stream) &
                                 (GST_STREAM_TYPE_AUDIO | GST_STREAM_TYPE_TEXT));

    blocks |= blocks_are_caps(caps);
    gst_caps_unref(caps);
    gst_clear_object(&stream);
    return blocks;
}

/* Whether a pad that may give pictures can still appear. */
static gboolean may_add_pictures(GstElement *element)
{
    GstCaps *pictures = gst_caps_from_string(VIDEO_RAW "(ANY)");
    gboolean may = FALSE;

    for (GList *at = gst_element_get_pad_template_list(element); at; at = at->next) {
        GstPadTemplate *template = at->data;
        may |= template->direction == GST_PAD_SRC && template->presence == GST_PAD_SOMETIMES &&
               gst_caps_can_intersect(template->caps, pictures);
    }
    gst_caps_unref(pictures);
    return may;
}

static void report_refusal(GstGpudirectSink *self, GstElement *element, const gchar *address)
{
    gchar *text =
        g_strdup_printf("\"%s\" waits for pictures of %s, and is not linked to its sound or data: "
                        "send those on an address of their own, such as cam1/audio, or, if there "
                        "are no pictures, put an identity before gpudirectsink.",
                        address ? address : "", GST_OBJECT_NAME(element));

    GST_ELEMENT_INFO(self, RESOURCE, SETTINGS, ("%s", text), ("%s", text));
    g_free(text);
}

/* Pads of a decoder appear one by one, and the first that fits is linked. On the channel's own
 * address its pictures are meant, even if its sound is there first. */
static GstPadLinkReturn sink_link(GstPad *pad, GstObject *parent, GstPad *peer)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(parent);
    GstElement *element = gst_pad_get_parent_element(peer);

    GST_OBJECT_LOCK(self);
    gchar *address = g_strdup(self->endpoint.settings.address);
    GST_OBJECT_UNLOCK(self);
    gboolean refused =
        element && !blocks_is_stream(address) && gives_blocks(peer) && may_add_pictures(element);
    if (refused)
        report_refusal(self, element, address);
    g_free(address);
    gst_clear_object(&element);
    return refused ? GST_PAD_LINK_REFUSED : GST_PAD_LINK_OK;
}

void gst_gpudirect_sink_init_device(GstGpudirectSink *self)
{
    gst_pad_set_link_function(GST_BASE_SINK_PAD(self), sink_link);
}

static gboolean sink_query(GstBaseSink *base, GstQuery *query)
{
    GstBaseSinkClass *parent = g_type_class_peek(GST_TYPE_BASE_SINK);

    return device_choice_answer_query(&GST_GPUDIRECT_SINK(base)->endpoint.device, query) ||
           parent->query(base, query);
}

void gst_gpudirect_sink_class_init_device(GstBaseSinkClass *klass)
{
    klass->get_caps = sink_get_caps;
    klass->query = sink_query;
}
