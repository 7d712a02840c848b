/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What differs between the series of GStreamer's CUDA library: series122.c is for 1.22,
 * series124.c for 1.24 and later, and exactly one of them is built.
 *
 * 1.22 has no streams per memory. Each element works on its own stream, made with
 * CU_STREAM_DEFAULT, and waits for it (cuStreamSynchronize) before it passes on or releases a
 * buffer. Such streams synchronise with the context's legacy default stream in both directions, so
 * ordering a frame on the default stream (NULL) of the primary context orders it for all elements
 * in that context, without a wait on the CPU.
 *
 * 1.24 gave memories a GstCudaStream. An element works on that one, or waits for it where the
 * memory is flagged NEED_SYNC. So a frame is ordered on its memory's stream. */
#ifndef GPUD_MEMORY_CUDA_CUDA_H
#define GPUD_MEMORY_CUDA_CUDA_H

#include "memory/memory.h"
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>

/* --- the parts of the vendor's entry (vendor.c) ---------------------------------------------- */

extern const struct slot_kind cuda_slot_kind; /* memory.c */

/* memory.c */
gint cuda_get_ordinal(GstObject *context);
gboolean cuda_look_into(GstMemory *memory, gint *ordinal, const GstVideoInfo **info);

/* memory.c */
gboolean cuda_enter(const struct gpu *gpu);
void cuda_leave(const struct gpu *gpu);
void cuda_finish(const struct gpu *gpu, gpointer stream);
gboolean cuda_copy_rows(const struct gpu *gpu, gpointer stream, const struct gpu_rows *rows);

/* --- the series --------------------------------------------------------------------------- */

/* As in struct gpu_vendor. */
#if GPU_CUDA_STREAMS
#define CUDA_SERIES_ORDERS_EARLY TRUE
#else
#define CUDA_SERIES_ORDERS_EARLY FALSE
#endif

gpointer cuda_series_get_stream(GstMemory *memory);
void cuda_series_set_pending(GstMemory *memory);
gboolean cuda_series_await_writes(GstMemory *memory, const struct gpu *gpu, gpointer *stream);

/* Makes a GstCudaMemory around a device pointer that the slot keeps, and frees it. */
GstMemory *cuda_series_new_memory(struct slot_store *store, const GstVideoInfo *info,
                                  CUdeviceptr pointer);
void cuda_series_free_memory(GstAllocator *allocator, GstMemory *memory);

/* Chooses the stream of a pool's memories: the one that the pool's user asks for, or a new one. */
void cuda_series_choose_stream(struct slot_store *store, GstStructure *config);

#endif
