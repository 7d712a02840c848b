/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The format of the pictures, and the buffers that hold them.
 *
 * Normally a buffer is the slot itself. Two things force a copy: downstream cannot read strides, or
 * holds so many buffers that the ring has no slot left, which would stop the stream for good. */
#ifndef GPUD_GST_SRC_PICTURES_H
#define GPUD_GST_SRC_PICTURES_H

#include "memory/gpu.h"
#include "memory/pool.h"

#include <gst/base/gstbasesrc.h>

/* The streaming thread's. */
struct pictures {
    GstBaseSrc *src;
    struct counters *counters; /* the endpoint's */
    GstVideoInfo info;
    struct gpud_layout layout;       /* that of caps and pool */
    GstBufferPool *pool;             /* wraps frames of the current epoch; NULL: no format yet */
    struct outstanding *outstanding; /* the pool's */
    struct gpu *gpu;        /* the GPU of the buffers' memory; NULL: the CPU; set by its owner */
    guint32 epoch;          /* that of the card's frames that the pool has wrapped; 0: none yet */
    gboolean is_default;    /* planes have GStreamer's default layout */
    gboolean reads_strides; /* downstream does; set by its owner */
};

/* Sets the format of the following pictures. FALSE: there can be no buffers for them. */
gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout);

/* There is no format. */
void pictures_reset(struct pictures *pictures);

/* Allocates memory outside the ring for one picture. */
GstFlowReturn pictures_alloc(struct pictures *pictures, GstBuffer **buffer);

/* Copies a slot's picture into such memory; posts nothing. */
GstFlowReturn pictures_copy(struct pictures *pictures, GstBuffer *slot, GstBuffer **buffer);

/* Whether a slot must be copied before it is pushed. Waits briefly if downstream holds nearly all
 * of the ring's slots. any_memory: downstream accepts any memory, and did not ask for a GPU's. */
gboolean pictures_need_copy(struct pictures *pictures, guint slots, gboolean any_memory);

#endif
