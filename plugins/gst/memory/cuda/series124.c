/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GstCudaMemory in GStreamer 1.24 and later, which wraps pointers and gives memories a stream. */
#include "memory/cuda/cuda.h"

/* The slot owns the pointer, so nothing is freed with the memory. */
static void cuda_keep(gpointer nothing)
{
}

GstMemory *cuda_series_new_memory(struct slot_store *store, const GstVideoInfo *info,
                                  CUdeviceptr pointer)
{
    return gst_cuda_allocator_alloc_wrapped(
        (GstCudaAllocator *)store->allocator, (GstCudaContext *)store->gpu->context,
        (GstCudaStream *)store->stream, info, pointer, NULL, cuda_keep);
}

void cuda_series_free_memory(GstAllocator *allocator, GstMemory *memory)
{
    GstAllocatorClass *parent = g_type_class_peek(GST_TYPE_CUDA_ALLOCATOR);

    parent->free(allocator, memory);
}

static CUstream handle_of(GstCudaMemory *memory)
{
    GstCudaStream *stream = gst_cuda_memory_get_stream(memory);
    return stream ? gst_cuda_stream_get_handle(stream) : NULL;
}

gpointer cuda_series_get_stream(GstMemory *memory)
{
    return handle_of(GST_CUDA_MEMORY_CAST(memory));
}

void cuda_series_set_pending(GstMemory *memory)
{
    if (gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)))
        GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
}

/* The GPU waits for a stream of the primary context, the CPU for one of another context. */
gboolean cuda_series_await_writes(GstMemory *any, const struct gpu *gpu, gpointer *stream)
{
    GstCudaMemory *memory = GST_CUDA_MEMORY_CAST(any);

    *stream = NULL;
    if (gst_cuda_context_get_handle(memory->context) ==
        gst_cuda_context_get_handle((GstCudaContext *)gpu->context)) {
        *stream = handle_of(memory);
        return FALSE;
    }
    if (gst_cuda_memory_get_stream(memory)) {
        gst_cuda_memory_sync(memory);
    } else if (gst_cuda_context_push(memory->context)) {
        CuStreamSynchronize(NULL);
        gst_cuda_context_pop(NULL);
    }
    return TRUE;
}

void cuda_series_choose_stream(struct slot_store *store, GstStructure *config)
{
    GstCudaContext *context = (GstCudaContext *)store->gpu->context;
    GstCudaStream *stream = gst_buffer_pool_config_get_cuda_stream(config);

    if (stream && stream->context != context)
        gst_clear_cuda_stream(&stream);
    if (!stream && !store->stream)
        stream = gst_cuda_stream_new(context);
    if (!stream)
        return;
    if (store->stream)
        gst_cuda_stream_unref(store->stream);
    store->stream = stream;
    store->stream_free = (GDestroyNotify)gst_cuda_stream_unref;
}
