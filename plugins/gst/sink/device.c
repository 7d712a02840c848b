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

#include "errors.h"
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

    GST_OBJECT_LOCK(self);
    gchar *address = g_strdup(self->endpoint.settings.address);
    GST_OBJECT_UNLOCK(self);
    caps = blocks_filter_caps(gpu_filter_caps(caps, use, number), address);
    caps = caps_filter_dmabufs(caps, filter);
    g_free(address);
    if (use == GPU_USE_NAMED)
        caps = gpu_put_first(caps, gpu_get_vendor(number));
    return endpoint_filter_caps(caps, filter);
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
