/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A slot as a GstCudaMemory: what is special about one series of GStreamer is in cuda.h.
 *
 * Mapped with GST_MAP_CUDA it shows the device pointer, after the stream on which its users are
 * ordered was made to wait for the bytes; no CPU waits. Mapped without, the core shows it to the
 * CPU. When the frame leaves, its next owner waits for that stream. A buffer that nobody maps costs
 * nothing. */
#include "context.h"
#include "memory/cuda/cuda.h"

#include <string.h>

typedef struct {
    GstCudaAllocator parent;
} GstGpudirectCudaAllocator;
typedef GstCudaAllocatorClass GstGpudirectCudaAllocatorClass;

GType gst_gpudirect_cuda_allocator_get_type(void);
G_DEFINE_TYPE(GstGpudirectCudaAllocator, gst_gpudirect_cuda_allocator, GST_TYPE_CUDA_ALLOCATOR)

static CUdeviceptr frame_pointer(struct gpud_frame *frame)
{
    uint64_t offset;
    struct gpud_memory *memory = gpud_frame_get_memory(frame, &offset);

    return (CUdeviceptr)(guintptr)gpud_memory_get_native(memory) + offset;
}

/* --- order: all under slot->lock ---------------------------------------------------------- */

/* On the stream there may be work of the elements, or a wait for a frame, which ends in any case:
 * the core releases GPUs that wait for a peer that died. */
static void wait_on_cpu(struct slot_memory *slot)
{
    GstCudaContext *context = (GstCudaContext *)slot->store->gpu->context;

    counter_add(&slot->store->counters->waits_device);
    if (!gst_cuda_context_push(context))
        return;
    CuStreamSynchronize(cuda_series_stream(slot->memory));
    gst_cuda_context_pop(NULL);
}

/* Work that is put on the memory's stream from now on sees the frame's bytes. */
static gboolean make_visible(struct slot_memory *slot)
{
    CUstream stream = cuda_series_stream(slot->memory);
    struct gpud_error error;

    if (slot->visible)
        return TRUE;
    enum gpud_status status = gpud_frame_wait(slot->frame, stream, &error);
    if (status ==
        GPUD_PEER) /* the frame is flagged as corrupted now, and can be shown all the same */
        status = gpud_frame_wait(slot->frame, stream, &error);
    if (status == GPUD_UNSUPPORTED && slot_memory_map(slot, GST_MAP_READ)) {
        slot_memory_unmap(slot);
        counter_add(&slot->store->counters->waits_device);
        status = GPUD_OK;
    }
    if (status != GPUD_OK) {
        GST_CAT_ERROR(gpud_gst_debug, "slot %u is not to be had for the GPU: %s", slot->slot,
                      error.reason);
        return FALSE;
    }
    slot->visible = TRUE;
    return TRUE;
}

static void cuda_arrived(struct slot_memory *slot)
{
    g_mutex_lock(&slot->lock);
    slot->visible = slot->extra;
    slot->used = slot->written = FALSE;
    if (cuda_series_orders_early && make_visible(slot)) {
        slot->used = TRUE;
        cuda_series_pending(slot->memory);
    }
    g_mutex_unlock(&slot->lock);
}

static void cuda_leaving(struct slot_memory *slot)
{
    struct gpud_error error;

    g_mutex_lock(&slot->lock);
    if (slot->used && slot->extra) {
        wait_on_cpu(slot); /* its memory is about to be freed */
    } else if (slot->used &&
               gpud_frame_post(slot->frame, cuda_series_stream(slot->memory), &error) != GPUD_OK) {
        GST_CAT_DEBUG(gpud_gst_debug, "slot %u is waited for: %s", slot->slot, error.reason);
        wait_on_cpu(slot);
    }
    slot->used = FALSE;
    g_mutex_unlock(&slot->lock);
}

/* --- mapping ------------------------------------------------------------------------------ */

static gpointer map_for_gpu(struct slot_memory *slot, GstMapFlags flags)
{
    if (!make_visible(slot))
        return NULL;
    slot->used = TRUE;
    if (flags & GST_MAP_WRITE) {
        slot->written = slot->filled = TRUE;
        cuda_series_pending(slot->memory);
    }
    return (gpointer)(guintptr)frame_pointer(slot->frame);
}

static gpointer map_for_cpu(struct slot_memory *slot, GstMapFlags flags)
{
    if (slot->written)
        wait_on_cpu(slot);
    slot->written = FALSE;
    return slot_memory_map(slot, flags);
}

static gpointer cuda_map(GstMemory *memory, GstMapInfo *info, gsize maxsize)
{
    struct slot_memory *slot = slot_memory_of(memory);

    g_mutex_lock(&slot->lock);
    gpointer data = info->flags & GST_MAP_CUDA ? map_for_gpu(slot, info->flags)
                                               : map_for_cpu(slot, info->flags);
    g_mutex_unlock(&slot->lock);
    return data;
}

static void cuda_unmap(GstMemory *memory, GstMapInfo *info)
{
    struct slot_memory *slot = slot_memory_of(memory);

    if (info->flags & GST_MAP_CUDA)
        return;
    g_mutex_lock(&slot->lock);
    slot_memory_unmap(slot);
    /* What the CPU wrote is uploaded later by the core, so the GPU has to wait for it again. */
    if (info->flags & GST_MAP_WRITE)
        slot->visible = FALSE;
    g_mutex_unlock(&slot->lock);
}

/* --- copies ------------------------------------------------------------------------------- */

static gboolean copy_rows(GstCudaContext *context, CUstream stream, const CUDA_MEMCPY2D *copies,
                          guint count)
{
    gboolean copied = gst_cuda_context_push(context);

    if (!copied)
        return FALSE;
    for (guint i = 0; i < count && copied; i++)
        copied = CuMemcpy2DAsync(&copies[i], stream) == CUDA_SUCCESS;
    gst_cuda_context_pop(NULL);
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

/* A copy of the whole memory stays on the GPU, and has the same layout: the buffer's GstVideoMeta
 * is copied, too. */
static GstMemory *cuda_copy(GstMemory *memory, gssize offset, gssize size)
{
    struct slot_memory *slot = slot_memory_of(memory);
    struct slot_store *store = slot->store;
    GstMapInfo from, to;
    gboolean copied = FALSE;
    gsize length = size < 0 ? memory->size - (gsize)offset : (gsize)size;

    if (memory->parent || offset != 0 || length != memory->maxsize)
        return copy_part(memory, (gsize)offset, length);
    GstMemory *copy = slot_store_get_extra(store);
    if (!copy)
        return NULL;
    if (copy->maxsize < length) {
        gst_memory_unref(copy);
        return copy_part(memory, 0, length);
    }
    if (gst_memory_map(memory, &from, GST_MAP_READ | GST_MAP_CUDA)) {
        if (gst_memory_map(copy, &to, GST_MAP_WRITE | GST_MAP_CUDA)) {
            CUDA_MEMCPY2D all = {
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = (CUdeviceptr)(guintptr)from.data,
                .srcPitch = length,
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstDevice = (CUdeviceptr)(guintptr)to.data,
                .dstPitch = length,
                .WidthInBytes = length,
                .Height = 1,
            };
            copied = copy_rows((GstCudaContext *)store->gpu->context, cuda_series_stream(memory),
                               &all, 1);
            gst_memory_unmap(copy, &to);
        }
        gst_memory_unmap(memory, &from);
    }
    if (copied) {
        counter_add(&store->counters->copies_gpu);
        return copy;
    }
    gst_memory_unref(copy);
    return NULL;
}

gboolean cuda_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to)
{
    struct slot_memory *slot = slot_memory_of(gst_buffer_peek_memory(from, 0));
    CUDA_MEMCPY2D copies[GPUD_PLANES_MAX];
    struct gpud_layout layout;
    GstVideoFrame source, target;
    gboolean copied = FALSE;

    if (!layout_from_info(&layout, info) ||
        !gst_video_frame_map(&source, info, from, GST_MAP_READ | GST_MAP_CUDA))
        return FALSE;
    if (gst_video_frame_map(&target, info, to,
                            GST_MAP_WRITE | GST_MAP_CUDA |
                                (GstMapFlags)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
        for (guint i = 0; i < layout.planes; i++)
            copies[i] = (CUDA_MEMCPY2D){
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = (CUdeviceptr)(guintptr)GST_VIDEO_FRAME_PLANE_DATA(&source, i),
                .srcPitch =
                    MAX((gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&source, i), layout.plane[i].row_bytes),
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstDevice = (CUdeviceptr)(guintptr)GST_VIDEO_FRAME_PLANE_DATA(&target, i),
                .dstPitch =
                    MAX((gsize)GST_VIDEO_FRAME_PLANE_STRIDE(&target, i), layout.plane[i].row_bytes),
                .WidthInBytes = layout.plane[i].row_bytes,
                .Height = layout.plane[i].rows,
            };
        copied = copy_rows((GstCudaContext *)slot->store->gpu->context,
                           cuda_series_stream(slot->memory), copies, layout.planes);
        gst_video_frame_unmap(&target);
    }
    gst_video_frame_unmap(&source);
    if (copied)
        counter_add(&slot->store->counters->copies_gpu);
    return copied;
}

/* --- the kind ----------------------------------------------------------------------------- */

static GstMemory *cuda_new_memory(struct slot_store *store, struct gpud_frame *frame,
                                  const struct gpud_layout *layout,
                                  const struct video_planes *planes)
{
    GstVideoInfo info = store->info;

    for (guint i = 0; i < planes->count; i++) {
        info.offset[i] = planes->offset[i];
        info.stride[i] = planes->stride[i];
    }
    info.size = (gsize)layout->size;
    GstMemory *memory = cuda_series_new_memory(store, &info, frame_pointer(frame));
    /* GstCudaAllocator cannot share a part of a memory; GStreamer copies it then. */
    GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_NO_SHARE);
    return memory;
}

static GstAllocator *cuda_new_allocator(void)
{
    return g_object_new(gst_gpudirect_cuda_allocator_get_type(), NULL);
}

const struct slot_kind cuda_slot_kind = {
    .new_allocator = cuda_new_allocator,
    .new_memory = cuda_new_memory,
    .arrived = cuda_arrived,
    .leaving = cuda_leaving,
};

static void gst_gpudirect_cuda_allocator_class_init(GstGpudirectCudaAllocatorClass *klass)
{
    GST_ALLOCATOR_CLASS(klass)->free = cuda_series_free_memory;
}

/* Replaces the methods that GstCudaAllocator has set. */
static void gst_gpudirect_cuda_allocator_init(GstGpudirectCudaAllocator *self)
{
    GstAllocator *allocator = GST_ALLOCATOR(self);

    allocator->mem_map_full = cuda_map;
    allocator->mem_unmap_full = cuda_unmap;
    allocator->mem_copy = cuda_copy;
}
