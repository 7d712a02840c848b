/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures in dma-bufs: the ring's own, which upstream writes, and those that upstream brings.
 *
 * Upstream asks for the ring's by caps of memory:DMABuf, or as a driver that imports them (v4l2src
 * io-mode=dmabuf-import). Such a driver accepts no other memory, but does not say so in the query,
 * so the sink inspects the elements upstream. If the kernel can export the ring's memory as
 * dma-bufs (udmabuf), it is written in place; if not, or while no slot is free, the CPU copies from
 * other dma-bufs, as it does from those that upstream brings. */
#include "sink/dmabufs.h"

#include "base/errors.h"
#include "memory/dmabuf.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* Bounds the search in a pipeline with a loop. */
#define ELEMENTS_MAX 64

static gboolean has_choice(GstElement *element, const gchar *property)
{
    GParamSpec *spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), property);
    gint value;

    if (!spec || !G_IS_PARAM_SPEC_ENUM(spec))
        return FALSE;
    g_object_get(element, property, &value, NULL);
    const GEnumValue *choice = g_enum_get_value(G_PARAM_SPEC_ENUM(spec)->enum_class, value);
    return choice && g_strcmp0(choice->value_nick, "dmabuf-import") == 0;
}

static gboolean imports_behind(GstPad *sink, guint depth);

/* Whether this pad's element imports dma-bufs, or one whose buffers it passes on. */
static gboolean imports(GstPad *source, guint depth)
{
    GstElement *element = gst_pad_get_parent_element(source);
    gboolean found = FALSE;

    if (element && !GST_IS_BIN(element))
        found = has_choice(element, "io-mode") || has_choice(element, "capture-io-mode");
    gst_clear_object(&element);
    if (found || depth == 0)
        return found;
    GstIterator *links = gst_pad_iterate_internal_links(source);
    GValue item = G_VALUE_INIT;
    while (!found && links && gst_iterator_next(links, &item) == GST_ITERATOR_OK) {
        found = imports_behind(g_value_get_object(&item), depth - 1);
        g_value_reset(&item);
    }
    g_value_unset(&item);
    g_clear_pointer(&links, gst_iterator_free);
    return found;
}

static gboolean imports_behind(GstPad *sink, guint depth)
{
    GstPad *peer = gst_pad_get_peer(sink);
    gboolean found = peer && imports(peer, depth);

    gst_clear_object(&peer);
    return found;
}

gboolean gst_gpudirect_sink_wants_dmabufs(GstGpudirectSink *self)
{
    struct gpud_error error;

    g_atomic_int_set(&self->lends_dmabufs, FALSE);
    g_atomic_int_set(&self->copied_dmabufs, FALSE);
    if (self->format.gpu || self->ring_device != self->host)
        return FALSE;
    gboolean imports =
        !self->format.in_dmabufs && imports_behind(GST_BASE_SINK_PAD(self), ELEMENTS_MAX);
    if (!imports && !self->format.in_dmabufs)
        return FALSE;
    if (dmabuf_can_be_made(&error))
        return TRUE;
    GST_INFO_OBJECT(self, "no dma-bufs for upstream: %s", error.reason);
    if (imports)
        GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                            ("The driver upstream is to write into dma-bufs, and there are none "
                             "for it: set its io-mode to userptr, or to auto."),
                            ("%s", error.reason));
    return FALSE;
}

void gst_gpudirect_sink_tell_dmabufs(GstGpudirectSink *self)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error;

    if (!self->format.dmabufs)
        return;
    enum gpud_status status =
        gpud_sender_acquire(shared_sender_core(self->sender), 0, &frame, &error);
    if (status == GPUD_OK && !dmabuf_is_in_frame(frame, &error))
        status = error.status;
    gpud_frame_release(&frame);
    g_atomic_int_set(&self->lends_dmabufs, status == GPUD_OK);
    if (status == GPUD_OK)
        GST_INFO_OBJECT(self, "upstream may write straight into slots");
    else if (self->format.in_dmabufs) /* it may have some of its own */
        GST_INFO_OBJECT(self, "upstream cannot write into slots: %s", error.reason);
    else if (status == GPUD_UNSUPPORTED)
        GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                            ("The driver upstream cannot write into the ring, so each picture is "
                             "copied once: with io-mode=userptr none is."),
                            ("%s", error.reason));
}
