/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* NVIDIA's GPUs as the elements see them: caps with the feature memory:CUDAMemory, contexts that
 * the elements of a pipeline share, pools of GstCudaMemory.
 *
 * The core works in the primary context of a GPU. The elements give just that context, wrapped, to
 * whoever asks for a GstCudaContext, so that all of a pipeline works in it and no two contexts have
 * to be kept in step. Where an application or another element brought a context of its own, device
 * pointers are still good (one address space for the whole process), but such an element takes no
 * pool of ours: each picture then costs one copy by the GPU.
 *
 * Built without GStreamer's CUDA library, nogpu.c says that there is no GPU. */
#ifndef GPUD_GST_MEMORY_GPU_H
#define GPUD_GST_MEMORY_GPU_H

#include "memory/memory.h"

#include <gst/gst.h>
#include <gst/video/video.h>

#define CUDA_FEATURE "memory:CUDAMemory"

/* Lives until the process ends, as the core's context does. */
struct gpu {
    gint ordinal;
    struct gpud_device *device;
    GstObject *context; /* a GstCudaContext: the primary one */
};

/* Whether these caps are of pictures in CUDA memory. */
gboolean caps_are_cuda(const GstCaps *caps);

/* The caps without what is of CUDA memory. Takes the caps. */
GstCaps *caps_without_cuda(GstCaps *caps);

/* What the templates offer beside SLOT_VIDEO_CAPS: ";" and the same with the feature, or "". */
extern const gchar gpu_template_caps[];

/* Whether CUDA can be spoken of at all: it is built in, and the driver's library is there. */
gboolean gpu_supported(void);

/* N of "cuda:N", or -1. */
gint gpu_ordinal_of_name(const gchar *device);

struct gpu *gpu_get(gint ordinal, struct gpud_error *error);

/* Which of the machine's GPUs that is, in words that every process on it understands, however it
 * counts them; g_free it. NULL: nobody says. And the other way round: N, or -1 where there is no
 * such GPU here. */
gchar *gpu_get_place(gint ordinal);
gint gpu_of_place(const gchar *place);

/* --- contexts ----------------------------------------------------------------------------- */

/* For GstElement's set_context: *given (under the object lock) becomes the GstCudaContext in it, if
 * it is one. */
void gpu_take_context(GstElement *element, GstContext *context, GstObject **given);

/* The GPU that the pipeline works on already: by what was given, by the neighbour on this pad, by
 * the application; else the first. */
gint gpu_find(GstElement *element, GstPad *pad, GstObject **given);

/* Answers a GST_QUERY_CONTEXT for a GstCudaContext on this GPU. FALSE: it asks for something else.
 */
gboolean gpu_answer_query(GstElement *element, GstQuery *query, gint ordinal, GstObject **given);

/* --- memory ------------------------------------------------------------------------------- */

/* Strides and offsets as GStreamer's CUDA elements like them: one stride for all planes, aligned
 * for textures. */
void gpu_align_info(struct gpu *gpu, GstVideoInfo *info);

const struct slot_kind *gpu_slot_kind(void);

struct slot_pool;
struct slot_pool_params;
GstBufferPool *gpu_pool_new(const struct slot_pool_params *params);
struct slot_pool *gpu_pool_get_slots(GstBufferPool *pool);

/* A frame in a buffer's own CUDA memory, from which the core copies; it holds the buffer until that
 * is done. Ordered after what the GPU has still to do for the buffer. NULL with *error filled:
 * there is no way from there. */
struct gpud_frame *gpu_wrap_buffer(GstBuffer *buffer, struct tally *tally,
                                   struct gpud_error *error);

/* Copies a picture from one CUDA buffer of ours to another, in the GPU's own time. */
gboolean gpu_copy_picture(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to);

#endif
