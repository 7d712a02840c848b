/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A driver upstream that writes pictures into dma-bufs which it is given (v4l2src
 * io-mode=dmabuf-import) takes no other memory, and no element asks for that kind by name. So the
 * sink looks who is there. Its slots then have dma-bufs, where the kernel makes such of memory that
 * receivers map (udmabuf): the card writes straight into the ring. Where it does not, and while no
 * slot is free, other dma-bufs stand in, and the CPU copies. */
#include "sink/dmabufs.h"

#include "errors.h"

#include <unistd.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* A pipeline that goes in a circle ends here. */
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

/* Whether the element of this pad imports, or one that it passes buffers on from. */
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
    struct gpud_memory *memory = NULL;
    struct gpud_error error;

    g_atomic_int_set(&self->lends_dmabufs, FALSE);
    if (self->gpu || self->ring_device != self->host ||
        !imports_behind(GST_BASE_SINK_PAD(self), ELEMENTS_MAX))
        return FALSE;
    if (gpud_memory_alloc_dmabuf(self->host, 1, &memory, &error) != GPUD_OK) {
        GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                            ("The driver upstream is to write into dma-bufs, and there are none "
                             "for it: set its io-mode to userptr, or to auto."),
                            ("%s", error.reason));
        return FALSE;
    }
    gpud_memory_unref(&memory);
    return TRUE;
}

void gst_gpudirect_sink_tell_dmabufs(GstGpudirectSink *self)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error;
    uint64_t offset;
    gint fd;

    if (!self->dmabufs)
        return;
    enum gpud_status status =
        gpud_sender_acquire(shared_sender_core(self->sender), 0, &frame, &error);
    if (status == GPUD_OK)
        status = gpud_frame_export_dmabuf(frame, &fd, &offset, &error);
    if (status == GPUD_OK)
        close(fd);
    gpud_frame_release(&frame);
    g_atomic_int_set(&self->lends_dmabufs, status == GPUD_OK);
    if (status == GPUD_OK)
        GST_INFO_OBJECT(self, "the driver upstream writes straight into slots");
    else if (status == GPUD_UNSUPPORTED)
        GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                            ("The driver upstream cannot write into the ring, so each picture is "
                             "copied once: with io-mode=userptr none is."),
                            ("%s", error.reason));
}
