/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slots in GPU memory: the code that all vendors share. */
#include "memory/gpuslot.h"

#include "base/context.h"
#include "memory/map.h"
#include "memory/memory.h"

#include <string.h>

static const struct gpu_vendor *vendor_of(const struct slot_memory *slot)
{
    return slot->store->gpu->vendor;
}

static gpointer stream_of(const struct slot_memory *slot)
{
    return vendor_of(slot)->get_stream(slot->memory);
}

gpointer gpu_slot_pointer(struct gpud_frame *frame)
{
    struct gpud_frame_info info;

    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    return (guint8 *)info.native + info.memory_offset;
}

GstVideoInfo gpu_slot_info(const struct slot_store *store, const struct gpud_layout *layout,
                           const struct video_planes *planes)
{
    GstVideoInfo info = store->info;

    for (guint i = 0; i < planes->count; i++) {
        info.offset[i] = planes->offset[i];
        info.stride[i] = planes->stride[i];
    }
    info.size = (gsize)layout->size;
    return info;
}

/* --- order -------------------------------------------------------------------------------- */

/* The stream may hold work of the elements, or a wait for a frame. The latter always ends, because
 * the core releases GPUs that wait for a dead peer. */
static void wait_on_cpu(struct slot_memory *slot)
{
    const struct gpu *gpu = slot->store->gpu;

    counter_add(&slot->store->counters->waits_device);
    if (!gpu->vendor->enter(gpu))
        return;
    gpu->vendor->finish(gpu, stream_of(slot));
    gpu->vendor->leave(gpu);
}

/* Under the lock: neither call waits. */
static enum gpud_status order_stream(struct slot_memory *slot, struct gpud_error *error)
{
    gpointer stream = stream_of(slot);
    enum gpud_status status = gpud_frame_wait(slot->frame, stream, error);

    if (status == GPUD_PEER) /* the frame is now flagged as corrupted, and can still be shown */
        status = gpud_frame_wait(slot->frame, stream, error);
    return status;
}

/* Orders the memory's stream after the frame's bytes. Under the lock, which is dropped if the CPU
 * has to wait for them. */
static gboolean make_visible(struct slot_memory *slot)
{
    struct gpud_error error;

    if (slot->visible)
        return TRUE;
    enum gpud_status status = order_stream(slot, &error);
    if (status == GPUD_UNSUPPORTED) {
        g_mutex_unlock(&slot->lock);
        gboolean mapped = slot_memory_map(slot, GST_MAP_READ) != NULL;
        if (mapped)
            slot_memory_unmap(slot);
        g_mutex_lock(&slot->lock);
        counter_add(&slot->store->counters->waits_device);
        status = mapped ? GPUD_OK : status;
    }
    if (status != GPUD_OK) {
        GST_CAT_ERROR(gpud_gst_debug, "slot %u cannot be used by the GPU: %s", slot->slot,
                      error.reason);
        return FALSE;
    }
    slot->visible = TRUE;
    return TRUE;
}

void gpu_slot_arrived(struct slot_memory *slot)
{
    g_mutex_lock(&slot->lock);
    slot->visible = slot->extra;
    slot->used = slot->written = FALSE;
    if (vendor_of(slot)->orders_early && make_visible(slot)) {
        slot->used = TRUE;
        vendor_of(slot)->set_pending(slot->memory);
    }
    g_mutex_unlock(&slot->lock);
}

void gpu_slot_leaving(struct slot_memory *slot)
{
    struct gpud_error error;
    gboolean waits = FALSE;

    g_mutex_lock(&slot->lock);
    if (slot->used && slot->extra) {
        waits = TRUE; /* its memory is about to be freed */
    } else if (slot->used && gpud_frame_post(slot->frame, stream_of(slot), &error) != GPUD_OK) {
        GST_CAT_DEBUG(gpud_gst_debug, "the CPU waits for slot %u: %s", slot->slot, error.reason);
        waits = TRUE;
    }
    slot->used = FALSE;
    g_mutex_unlock(&slot->lock);
    if (waits)
        wait_on_cpu(slot);
}

/* --- mapping ------------------------------------------------------------------------------ */

static gpointer map_for_gpu(struct slot_memory *slot, GstMapFlags flags)
{
    g_mutex_lock(&slot->lock);
    gboolean visible = make_visible(slot);
    slot->used |= visible;
    if (visible && (flags & GST_MAP_WRITE)) {
        slot->written = slot->filled = TRUE;
        vendor_of(slot)->set_pending(slot->memory);
    }
    g_mutex_unlock(&slot->lock);
    return visible ? gpu_slot_pointer(slot->frame) : NULL;
}

/* Several threads may wait for the same work; none returns the bytes before it is done. */
static void await_written(struct slot_memory *slot)
{
    g_mutex_lock(&slot->lock);
    gboolean written = slot->written;
    g_mutex_unlock(&slot->lock);
    if (!written)
        return;
    wait_on_cpu(slot);
    g_mutex_lock(&slot->lock);
    slot->written = FALSE;
    g_mutex_unlock(&slot->lock);
}

static gpointer gpu_slot_map(GstMemory *memory, GstMapInfo *info, gsize maxsize)
{
    struct slot_memory *slot = slot_memory_of(memory);

    if (info->flags & vendor_of(slot)->map_flag)
        return map_for_gpu(slot, info->flags);
    await_written(slot);
    return slot_memory_map(slot, info->flags);
}

static void gpu_slot_unmap(GstMemory *memory, GstMapInfo *info)
{
    struct slot_memory *slot = slot_memory_of(memory);

    if (info->flags & vendor_of(slot)->map_flag)
        return;
    if (!slot_memory_unmap(slot))
        return;
    /* The core is uploading what the CPU wrote, so the GPU must wait again. That is ordered now,
     * while only the writer has the memory: later the frame may be in a submit. */
    g_mutex_lock(&slot->lock);
    slot->visible = FALSE;
    slot->used |= make_visible(slot);
    g_mutex_unlock(&slot->lock);
}

/* --- copies ------------------------------------------------------------------------------- */

static gboolean copy_rows(const struct slot_memory *slot, const struct gpu_rows *rows, guint count)
{
    const struct gpu *gpu = slot->store->gpu;
    gboolean copied = gpu->vendor->enter(gpu);

    if (!copied)
        return FALSE;
    for (guint i = 0; i < count && copied; i++)
        copied = gpu->vendor->copy_rows(gpu, stream_of(slot), &rows[i]);
    gpu->vendor->leave(gpu);
    if (copied)
        counter_add(&slot->store->counters->copies_gpu);
    return copied;
}

static GstMemory *copy_part(GstMemory *memory, gsize offset, gsize size)
{
    GstMemory *copy = gst_allocator_alloc(NULL, size, NULL);
    GstMapInfo from, to;

    if (!gst_memory_map(memory, &from, GST_MAP_READ)) {
        gst_memory_unref(copy);
        return NULL;
    }
    gst_memory_map(copy, &to, GST_MAP_WRITE);
    memcpy(to.data, from.data + offset, size);
    gst_memory_unmap(copy, &to);
    gst_memory_unmap(memory, &from);
    return copy;
}

/* A copy of the whole memory stays on the GPU with the same layout, because the buffer's
 * GstVideoMeta is copied, too. */
static GstMemory *gpu_slot_copy(GstMemory *memory, gssize offset, gssize size)
{
    struct slot_memory *slot = slot_memory_of(memory);
    GstMapFlags for_gpu = vendor_of(slot)->map_flag;
    GstMapInfo from, to;
    gboolean copied = FALSE;
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;

    if (memory->parent || offset != 0 || length != memory->maxsize)
        return copy_part(memory, (gsize)offset, length);
    GstMemory *copy = slot_store_get_extra(slot->store);
    if (!copy)
        return NULL;
    if (copy->maxsize < length) {
        gst_memory_unref(copy);
        return copy_part(memory, 0, length);
    }
    if (gst_memory_map(memory, &from, GST_MAP_READ | for_gpu)) {
        if (gst_memory_map(copy, &to, GST_MAP_WRITE | for_gpu)) {
            const struct gpu_rows all = {from.data, to.data, length, length, length, 1};
            copied = copy_rows(slot, &all, 1);
            gst_memory_unmap(copy, &to);
        }
        gst_memory_unmap(memory, &from);
    }
    if (copied)
        return copy;
    gst_memory_unref(copy);
    return NULL;
}

gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to)
{
    struct slot_memory *slot = slot_memory_of(gst_buffer_peek_memory(from, 0));
    GstMapFlags for_gpu = vendor_of(slot)->map_flag;
    struct gpu_rows rows[GPUD_PLANES_MAX];
    struct gpud_layout layout;
    GstVideoFrame source, target;
    gboolean copied = FALSE;

    if (!layout_from_info(&layout, info) ||
        !gst_video_frame_map(&source, info, from, GST_MAP_READ | for_gpu))
        return FALSE;
    if (gst_video_frame_map(&target, info, to,
                            GST_MAP_WRITE | for_gpu |
                                (GstMapFlags)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
        for (guint i = 0; i < layout.planes; i++)
            rows[i] = (struct gpu_rows){
                .from = GST_VIDEO_FRAME_PLANE_DATA(&source, i),
                .from_stride =
                    MAX((gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&source, i), layout.plane[i].row_bytes),
                .to = GST_VIDEO_FRAME_PLANE_DATA(&target, i),
                .to_stride =
                    MAX((gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&target, i), layout.plane[i].row_bytes),
                .bytes = layout.plane[i].row_bytes,
                .rows = layout.plane[i].rows,
            };
        copied = copy_rows(slot, rows, layout.planes);
        gst_video_frame_unmap(&target);
    }
    gst_video_frame_unmap(&source);
    return copied;
}

void gpu_slot_init_allocator(GstAllocator *allocator)
{
    allocator->mem_map_full = gpu_slot_map;
    allocator->mem_unmap_full = gpu_slot_unmap;
    allocator->mem_copy = gpu_slot_copy;
}
