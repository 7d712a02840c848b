/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CUDA memory of GStreamer's own kind, around a slot. */
#include "memory/cuda/cuda.h"

/* === memory ================================================================================== */
/* A slot as a GstCudaMemory. cuda.h hides the differences between GStreamer's series, gpuslot.h has
 * the code that all vendors share. */

typedef struct {
    GstCudaAllocator parent;
} GstGpudirectCudaAllocator;

typedef GstCudaAllocatorClass GstGpudirectCudaAllocatorClass;

GType gst_gpudirect_cuda_allocator_get_type(void);

G_DEFINE_TYPE(GstGpudirectCudaAllocator, gst_gpudirect_cuda_allocator, GST_TYPE_CUDA_ALLOCATOR)

gboolean cuda_enter(const struct gpu *gpu)
{
    return gst_cuda_context_push((GstCudaContext *)gpu->context);
}

void cuda_leave(const struct gpu *gpu)
{
    gst_cuda_context_pop(NULL);
}

void cuda_finish(const struct gpu *gpu, gpointer stream)
{
    CuStreamSynchronize(stream);
}

gboolean cuda_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows)
{
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = (CUdeviceptr)(guintptr)rows->from,
        .srcPitch = rows->from_stride,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = (CUdeviceptr)(guintptr)rows->to,
        .dstPitch = rows->to_stride,
        .WidthInBytes = rows->bytes,
        .Height = rows->rows,
    };
    return CuMemcpy2DAsync(&copy, stream) == CUDA_SUCCESS;
}

static GstMemory *cuda_new_memory(struct slot_store *store, struct gpud_frame *frame,
                                  const struct gpud_layout *layout,
                                  const struct video_planes *planes)
{
    GstVideoInfo info = gpu_slot_info(store, layout, planes);
    GstMemory *memory =
        cuda_series_new_memory(store, &info, (CUdeviceptr)(guintptr)gpu_slot_pointer(frame));

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
    .arrived = gpu_slot_arrived,
    .leaving = gpu_slot_leaving,
};

static void gst_gpudirect_cuda_allocator_class_init(GstGpudirectCudaAllocatorClass *klass)
{
    GST_ALLOCATOR_CLASS(klass)->free = cuda_series_free_memory;
}

static void gst_gpudirect_cuda_allocator_init(GstGpudirectCudaAllocator *self)
{
    gpu_slot_init_allocator(GST_ALLOCATOR(self));
}

/* === frame =================================================================================== */
/* Any element's GstCudaMemory and GstCudaContext. */

gint cuda_get_ordinal(GstObject *context)
{
    guint ordinal = 0;

    g_object_get(context, "cuda-device-id", &ordinal, NULL);
    return (gint)ordinal;
}

gboolean cuda_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info)
{
    if (!gst_is_cuda_memory(memory))
        return FALSE;
    *ordinal = cuda_get_ordinal(GST_OBJECT(GST_CUDA_MEMORY_CAST(memory)->context));
    *info = &GST_CUDA_MEMORY_CAST(memory)->info;
    return TRUE;
}
