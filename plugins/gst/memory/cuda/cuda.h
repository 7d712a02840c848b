/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What differs between the series of GStreamer's CUDA library: series122.c is for 1.22,
 * series124.c for 1.24 and later, and exactly one of them is built.
 *
 * 1.22 knows no streams of memories. Each element works on a stream of its own, made with
 * CU_STREAM_DEFAULT, and waits for it (cuStreamSynchronize) before it hands a buffer on or lets go
 * of one. Such streams keep step with the context's legacy default stream: what is put on them
 * after something on that stream, runs after it, and that stream waits for what they had before.
 * So ordering a frame on the default stream (NULL) of the primary context orders it for all
 * elements that work in that context, and no CPU waits.
 *
 * 1.24 gave memories a GstCudaStream. An element works on that one, or waits for it where the
 * memory is flagged NEED_SYNC. So a frame is ordered on its memory's stream. */
#ifndef GPUD_GST_MEMORY_CUDA_CUDA_H
#define GPUD_GST_MEMORY_CUDA_CUDA_H

#include "memory/gpu.h"
#include "memory/pool.h"

#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

/* --- what the vendor's entry (vendor.c) is made of ------------------------------------------ */

extern const struct slot_kind cuda_slot_kind;                        /* memory.c */
GstBufferPool *cuda_new_pool(const struct slot_pool_params *params); /* pool.c */
struct gpud_frame *cuda_wrap_buffer(GstBuffer *buffer, struct counters *counters,
                                    struct gpud_error *error);                        /* frame.c */
gboolean cuda_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to); /* memory.c */

/* --- the series --------------------------------------------------------------------------- */

/* Whether a frame must be ordered as soon as it is put into a memory, because elements use the
 * memory's stream without mapping it; else it is done when an element maps it. */
extern const gboolean cuda_series_orders_early;

/* Makes a GstCudaMemory around a device pointer that the slot keeps, and frees it. */
GstMemory *cuda_series_new_memory(struct slot_store *store, const GstVideoInfo *info,
                                  CUdeviceptr pointer);
void cuda_series_free_memory(GstAllocator *allocator, GstMemory *memory);

/* The stream on which everybody who uses the memory is ordered. */
CUstream cuda_series_stream(GstMemory *memory);

/* To be called when work that writes to the memory was put on that stream. */
void cuda_series_pending(GstMemory *memory);

/* Work that is put on *stream (of the primary context) afterwards sees what others wrote into their
 * memory. TRUE: the CPU had to wait for that. */
gboolean cuda_series_await_writes(GstCudaMemory *memory, struct gpu *gpu, CUstream *stream);

/* Chooses the stream of a pool's memories: the one that the pool's user asks for, or a new one. */
void cuda_series_choose_stream(struct slot_store *store, GstStructure *config);

#endif
