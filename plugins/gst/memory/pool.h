/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Buffers that are slots, for both ends:
 *
 *     sending     gpudirectsink proposes the pool to upstream: acquiring a buffer takes a slot from
 *                 the sender. When none is free, a stand-in of the same shape costs a copy later
 *     receiving   gpudirectsrc owns the pool: each frame that arrives is wrapped in a buffer
 *
 * The buffer, its GstMemory and its GstVideoMeta are kept for each slot and reused.
 *
 * Several classes share the implementation: GstGpudirectPool here, and one for each GPU vendor (in
 * its folder), because a vendor's elements accept only pools of their own class. */
#ifndef GPUD_GST_MEMORY_POOL_H
#define GPUD_GST_MEMORY_POOL_H

#include "memory/gpuvendor.h"
#include "memory/memory.h"
#include "memory/sender.h"

/* The state that pools of all classes share. */
struct slot_pool {
    GstBufferPool *pool;          /* the pool that embeds this */
    GstVideoInfo info;            /* with the slots' strides */
    struct gpu *gpu;              /* NULL: memory that the CPU maps */
    gboolean dmabufs;             /* all buffers have one */
    gint no_slots;                /* atomic: slots have no dma-bufs, all buffers are stand-ins */
    struct shared_sender *sender; /* NULL: a receiving pool */
    guint epoch;
    struct counters *counters;
    struct slot_store *store;

    GMutex lock;
    GPtrArray *idle; /* GstBuffer by slot, with the slot's idle memory inside, or NULL */
    GQueue plain;    /* idle buffers that stand in for slots */
};

struct slot_pool_params {
    const GstVideoInfo *info;
    struct gpu *gpu;                 /* NULL: memory that the CPU maps */
    gboolean dmabufs;                /* and that has dma-bufs */
    struct shared_sender *sender;    /* NULL: a receiving pool */
    struct outstanding *outstanding; /* of that: counts the slots that its buffers hold */
    struct counters *counters;
};

/* A configured pool for these caps, or NULL. */
GstBufferPool *gst_gpudirect_pool_new(const struct slot_pool_params *params, GstCaps *caps);

/* A buffer around the frame, which is consumed. The pool must be active. */
GstFlowReturn gst_gpudirect_pool_wrap(GstBufferPool *pool, struct gpud_frame *frame,
                                      GstBuffer **buffer);

/* A buffer of the same format, in memory that is not a slot. */
GstBuffer *gst_gpudirect_pool_stand_in(GstBufferPool *pool);

/* --- for the classes ---------------------------------------------------------------------- */

void slot_pool_init(struct slot_pool *self, GstBufferPool *pool,
                    const struct slot_pool_params *params);
void slot_pool_clear(struct slot_pool *self);

/* Implementations of GstBufferPool's methods of the same names. */
GstFlowReturn slot_pool_acquire(struct slot_pool *self, GstBuffer **buffer,
                                GstBufferPoolAcquireParams *params);
void slot_pool_release(struct slot_pool *self, GstBuffer *buffer);
void slot_pool_start(struct slot_pool *self);
void slot_pool_stop(struct slot_pool *self);
const gchar **slot_pool_get_options(GstBufferPool *pool);

/* Whether the pool can serve this configuration. */
gboolean slot_pool_accepts(struct slot_pool *self, GstStructure *config);

#endif
