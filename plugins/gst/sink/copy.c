/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Buffers that are not slots cost one copy. On the host, and on a GPU whose slots the CPU sees as
 * pinned memory (which one DMA uploads), prepare() copies into a slot, before the sink waits for
 * the picture's time. For OpenCL devices the core reads the buffer's own memory when the frame is
 * submitted. A dma-buf is read by the ring's device, if its driver imports it. A slot that
 * gpudirectsrc received or captured into a device's memory is copied by that device, without the
 * CPU. */
#include "sink/copy.h"

#include "element/picture.h"
#include "base/errors.h"
#include "memory/dmabuf.h"
#include "memory/map.h"
#include "memory/pool.h"
#include "wire/caps.h"

#include <gst/allocators/gstdmabuf.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

void gst_gpudirect_sink_drop_prepared(GstGpudirectSink *self)
{
    gst_clear_buffer(&self->copies.slot);
    gst_clear_buffer(&self->copies.of);
}

gboolean gst_gpudirect_sink_check(GstGpudirectSink *self, GstBuffer *buffer)
{
    if (layout_buffer_holds_picture(&self->format.info, buffer))
        return TRUE;
    if (__atomic_fetch_add(&self->malformed, 1, __ATOMIC_RELAXED) == 0)
        GST_ELEMENT_WARNING(
            self, STREAM, FORMAT,
            ("A buffer does not hold a picture of the caps, and is dropped: look at the element "
             "upstream. The stats count those that follow (dropped-malformed)."),
            ("%" G_GSIZE_FORMAT " bytes, %" G_GSIZE_FORMAT " are expected",
             gst_buffer_get_size(buffer), GST_VIDEO_INFO_SIZE(&self->format.info)));
    else
        GST_WARNING_OBJECT(self, "no picture of the caps: %" GST_PTR_FORMAT, buffer);
    return FALSE;
}

static gboolean copy_picture(GstGpudirectSink *self, GstBuffer *from, GstBuffer *to)
{
    switch (picture_copy(&self->format.info, from, to, self->endpoint.counters)) {
    case PICTURE_COPIED:
        return TRUE;
    case PICTURE_UNREADABLE:
        GST_ELEMENT_ERROR(
            self, STREAM, FORMAT,
            ("A buffer does not hold a picture of the caps: look at the element upstream."),
            ("%" G_GSIZE_FORMAT " bytes", gst_buffer_get_size(from)));
        return FALSE;
    default:
        GST_ELEMENT_ERROR(
            self, RESOURCE, WRITE,
            ("A slot of the ring cannot be written: look at the log of gpudirectcore."), (NULL));
        return FALSE;
    }
}

static enum gpud_status take_slot(GstGpudirectSink *self, gint64 timeout, GstBuffer **buffer)
{
    struct gpud_frame *frame;
    struct gpud_error error;
    enum gpud_status status =
        gpud_sender_acquire(shared_sender_core(self->sender), timeout, &frame, &error);

    if (status == GPUD_OK)
        return gst_gpudirect_pool_wrap(self->copies.pool, frame, buffer) == GST_FLOW_OK
                   ? GPUD_OK
                   : GPUD_AGAIN;
    if (status != GPUD_TIMEOUT && status != GPUD_AGAIN)
        gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error, "No slot for a frame");
    return status;
}

enum gpud_status gst_gpudirect_sink_copy(GstGpudirectSink *self, GstBuffer *buffer, gint64 timeout)
{
    if (self->copies.slot && self->copies.of == buffer)
        return GPUD_OK;
    gst_gpudirect_sink_drop_prepared(self);

    GstBuffer *slot;
    enum gpud_status status = take_slot(self, timeout, &slot);
    if (status != GPUD_OK)
        return status;
    if (!copy_picture(self, buffer, slot)) {
        gst_buffer_unref(slot);
        return GPUD_IO;
    }
    if (dmabuf_is_in_buffer(buffer))
        g_atomic_int_set(&self->copied_dmabufs, TRUE);
    self->copies.slot = slot;
    self->copies.of = gst_buffer_ref(buffer);
    return GPUD_OK;
}

/* --- the core copies ---------------------------------------------------------------------- */

struct mapped_buffer {
    GstBuffer *buffer;
    GstMapInfo map;
};

static void unmap_buffer(void *user)
{
    struct mapped_buffer *mapped = user;

    gst_buffer_unmap(mapped->buffer, &mapped->map);
    gst_buffer_unref(mapped->buffer);
    g_free(mapped);
}

struct gpud_frame *gst_gpudirect_sink_wrap(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct mapped_buffer *mapped = g_new0(struct mapped_buffer, 1);
    struct gpud_memory *memory = NULL;
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout;
    struct gpud_error error;

    /* Mapping several blocks as one would already cost a copy. */
    if (gst_buffer_n_memory(buffer) != 1 || !gst_buffer_map(buffer, &mapped->map, GST_MAP_READ)) {
        g_free(mapped);
        return NULL;
    }
    mapped->buffer = gst_buffer_ref(buffer);
    if (!layout_from_buffer(&layout, &self->format.info, buffer, mapped->map.size) ||
        gpud_memory_wrap(self->host, mapped->map.data, mapped->map.size, unmap_buffer, mapped,
                         &memory, &error) != GPUD_OK) {
        unmap_buffer(mapped);
        return NULL;
    }
    if (gpud_frame_wrap(memory, 0, &layout, &frame, &error) != GPUD_OK) {
        GST_WARNING_OBJECT(self, "cannot wrap a buffer: %s", error.reason);
        frame = NULL;
    }
    gpud_memory_unref(&memory);
    return frame;
}

/* --- slots of other rings ----------------------------------------------------------------- */

/* A ring on the host takes slots of any device: that device writes into the host's slot. */
gboolean gst_gpudirect_sink_may_pass(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct slot_memory *slot = slot_memory_of_buffer(buffer);
    struct gpud_frame_info info;

    if (!slot || slot->sender || !slot->frame)
        return FALSE;
    info.size = sizeof(info);
    gpud_frame_get_info(slot->frame, &info);
    return info.device != self->host &&
           (info.device == self->ring_device || self->ring_device == self->host);
}

static void release_passed(void *buffer)
{
    gst_buffer_unref(buffer);
}

struct gpud_frame *gst_gpudirect_sink_pass(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct slot_memory *slot = slot_memory_of_buffer(buffer);
    struct gpud_frame *frame;
    struct gpud_layout layout;
    struct gpud_error error;

    if (!layout_from_buffer(&layout, &self->format.info, buffer, gst_buffer_get_size(buffer)))
        return NULL;
    gst_buffer_ref(buffer);
    frame = slot_memory_wrap(slot, &layout, release_passed, buffer, &error);
    if (!frame) {
        GST_WARNING_OBJECT(self, "a slot cannot be passed on: %s", error.reason);
        gst_buffer_unref(buffer);
    }
    return frame;
}

/* --- dma-bufs of other elements ----------------------------------------------------------- */

/* What the ring's device made of a memory, kept with it, as upstream's memories come again. */
struct imported {
    struct gpud_device *device; /* to compare with, not a reference */
    gsize offset, size;
    struct gpud_memory *memory; /* NULL: its driver does not import it */
};

static GQuark imported_quark(void)
{
    static GQuark quark;

    if (!quark)
        quark = g_quark_from_static_string("GpudirectImported");
    return quark;
}

static void free_imported(gpointer user)
{
    struct imported *imported = user;

    gpud_memory_unref(&imported->memory);
    g_free(imported);
}

static struct imported *import_memory(GstGpudirectSink *self, GstMemory *memory)
{
    struct imported *made = g_new0(struct imported, 1);
    struct gpud_error error;

    made->device = self->ring_device;
    made->size = gst_memory_get_sizes(memory, &made->offset, NULL);
    if (gpud_memory_import_dmabuf(self->ring_device, gst_dmabuf_memory_get_fd(memory), made->offset,
                                  made->size, &made->memory, &error) != GPUD_OK)
        GST_DEBUG_OBJECT(self, "the CPU copies from a dma-buf: %s", error.reason);
    gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), imported_quark(), made, free_imported);
    return made;
}

static struct gpud_memory *find_imported(GstGpudirectSink *self, GstBuffer *buffer)
{
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : NULL;
    gsize offset;

    if (!memory || self->ring_device == self->host || !gst_is_dmabuf_memory(memory))
        return NULL;
    struct imported *imported =
        gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), imported_quark());
    if (!imported || imported->device != self->ring_device ||
        imported->size != gst_memory_get_sizes(memory, &offset, NULL) || imported->offset != offset)
        imported = import_memory(self, memory);
    return imported->memory;
}

gboolean gst_gpudirect_sink_may_import(GstGpudirectSink *self, GstBuffer *buffer)
{
    return find_imported(self, buffer) != NULL;
}

struct import {
    GstBuffer *buffer;
    struct gpud_frame *frame; /* over the memory */
};

static void release_import(void *user)
{
    struct import *import = user;

    gpud_frame_release(&import->frame);
    gst_buffer_unref(import->buffer);
    g_free(import);
}

struct gpud_frame *gst_gpudirect_sink_import(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct import *import = g_new0(struct import, 1);
    struct gpud_frame *frame = NULL;
    struct gpud_layout layout;
    struct gpud_error error = {.reason = "its planes cannot be described"};

    import->buffer = gst_buffer_ref(buffer);
    if (!layout_from_buffer(&layout, &self->format.info, buffer, gst_buffer_get_size(buffer)) ||
        gpud_frame_wrap(find_imported(self, buffer), 0, &layout, &import->frame, &error) !=
            GPUD_OK ||
        gpud_frame_wrap_frame(import->frame, NULL, release_import, import, &frame, &error) !=
            GPUD_OK) {
        GST_WARNING_OBJECT(self, "a dma-buf is copied by the CPU: %s", error.reason);
        release_import(import);
        return NULL;
    }
    return frame;
}
