/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GstCudaMemory in GStreamer 1.22, which cannot wrap a pointer: the structure is public, and is
 * filled here. Its private part stays NULL: only the methods of GstCudaAllocator look at that, and
 * memory.c replaces all of them. */
#include "memory/cuda/cuda.h"

GstMemory *cuda_series_new_memory(struct slot_store *store, const GstVideoInfo *info,
                                  CUdeviceptr pointer)
{
    GstCudaMemory *memory = g_new0(GstCudaMemory, 1);

    gst_memory_init(&memory->mem, (GstMemoryFlags)0, store->allocator, NULL, info->size, 0, 0,
                    info->size);
    memory->context = (GstCudaContext *)gst_object_ref(store->gpu->context);
    memory->info = *info;
    return &memory->mem;
}

void cuda_series_free_memory(GstAllocator *allocator, GstMemory *memory)
{
    gst_object_unref(GST_CUDA_MEMORY_CAST(memory)->context);
    g_free(memory);
}

gpointer cuda_series_get_stream(GstMemory *memory)
{
    return NULL;
}

void cuda_series_set_pending(GstMemory *memory)
{
}

/* Elements wait before they pass a buffer on. Work that they did not wait for is on the default
 * stream of the memory's context: in the primary context the GPU orders it, in another the CPU must
 * wait. */
gboolean cuda_series_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream)
{
    GstCudaContext *context = GST_CUDA_MEMORY_CAST(memory)->context;

    *stream = NULL;
    if (gst_cuda_context_get_handle(context) ==
        gst_cuda_context_get_handle((GstCudaContext *)gpu->context))
        return FALSE;
    if (gst_cuda_context_push(context)) {
        CuStreamSynchronize(NULL);
        gst_cuda_context_pop(NULL);
    }
    return TRUE;
}

void cuda_series_choose_stream(struct slot_store *store, GstStructure *config)
{
}
