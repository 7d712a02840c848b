/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The format of the pictures, and the buffers that hold them.
 *
 * Normally a buffer is the slot itself. Three things force a copy: downstream cannot read strides,
 * needs memory of its own allocator, or holds so many buffers that the ring is nearly empty: it
 * then gets copies until it holds fewer, because the stream would lose pictures, or stop.
 *
 * Where the caps are of dma-bufs, buffers are the ring's, if its memory has some: that of a card or
 * a third-party writer has, and that which a sender writes to. Memory that a sender lends for
 * reading has none, because a dma-buf could be written to; its pictures are copied into others. */
#ifndef GPUD_GST_SRC_PICTURES_H
#define GPUD_GST_SRC_PICTURES_H

#include "memory/gpu.h"
#include "memory/pool.h"

#include <gst/base/gstbasesrc.h>

enum dmabuf_use { DMABUFS_UNUSED, DMABUFS_SLOTS, DMABUFS_COPIES };

/* The streaming thread's. */
struct pictures {
    GstBaseSrc *src;
    struct counters *counters; /* the endpoint's */
    GstVideoInfo info;
    struct gpud_layout layout; /* that of caps and pool */
    GstBufferPool *pool;       /* wraps frames of the current epoch; NULL: no format yet */
    GstBufferPool *dmabufs;    /* wraps them as dma-bufs, if the caps are of those; else NULL */
    gint dmabuf_use;           /* atomic: enum dmabuf_use */
    struct outstanding *outstanding; /* the slots of this format that downstream holds */
    guint slots;                     /* of the ring, which downstream may hold */
    gboolean is_hoarded;             /* downstream has shown that it holds all that it can get */
    GstCaps *caps;                   /* those of the pool */
    const struct gpu *caps_gpu;      /* and the GPU */
    struct gpu *gpu;        /* the GPU of the buffers' memory; NULL: the CPU; set by its owner */
    guint32 epoch;          /* that of the card's frames that the pool has wrapped; 0: none yet */
    gboolean is_default;    /* planes have GStreamer's default layout */
    gboolean reads_strides; /* downstream does; set by its owner */
    gint fills_files;       /* atomic: buffers are memory of downstream's allocator; set likewise */
};

/* Sets the format of the following pictures. FALSE: there can be no buffers for them. */
gboolean pictures_set_format(struct pictures *pictures, GstCaps *caps,
                             const struct gpud_layout *layout);

/* Whether these caps, in the memory that the owner has set, are the format already. */
gboolean pictures_have_format(const struct pictures *pictures, const GstCaps *caps);

/* There is no format. */
void pictures_reset(struct pictures *pictures);

/* Wraps a frame, or copies it where copy, or the kind of memory, requires that (*copied). Takes the
 * frame. GST_FLOW_CUSTOM_SUCCESS: its writer did not finish it, and there is no buffer. */
GstFlowReturn pictures_wrap(struct pictures *pictures, struct gpud_frame *frame, gboolean copy,
                            gboolean *copied, GstBuffer **buffer);

/* Allocates memory outside the ring for one picture. */
GstFlowReturn pictures_alloc(struct pictures *pictures, GstBuffer **buffer);

/* Copies a slot's picture into such memory; posts nothing. */
GstFlowReturn pictures_copy(struct pictures *pictures, GstBuffer *slot, GstBuffer **buffer);

/* Whether a slot must be copied before it is pushed. any_memory: downstream accepts any memory, and
 * did not ask for a GPU's. sender_waits: for slots, where others lose frames. */
gboolean pictures_need_copy(struct pictures *pictures, gboolean any_memory, gboolean sender_waits);

#endif
