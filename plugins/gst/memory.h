/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GstMemory that is a slot: it owns a gpud_frame, shows it to the CPU when somebody maps it, and
 * gives it back when the last reference on the memory (not on a buffer: think of tee) is gone.
 *
 * The GstMemory objects are kept, one for each slot, and used again for the next frame in the same
 * place, so that whatever downstream remembers about a memory stays true and nothing is allocated
 * while frames flow. */
#ifndef GPUD_GST_MEMORY_H
#define GPUD_GST_MEMORY_H

#include "layoutcaps.h"
#include "ledger.h"

#include <gpudirect/frame.h>
#include <gst/gst.h>

#define GST_TYPE_GPUDIRECT_ALLOCATOR (gst_gpudirect_allocator_get_type())
G_DECLARE_FINAL_TYPE(GstGpudirectAllocator, gst_gpudirect_allocator, GST, GPUDIRECT_ALLOCATOR,
                     GstAllocator)

struct lender;

struct slot_memory {
    GstMemory memory;         /* first */
    struct gpud_frame *frame; /* NULL while parked */
    uint32_t slot;
    struct video_planes planes;
    void *host;            /* where a lent frame lies that the CPU may always touch; else NULL */
    GMutex lock;           /* frame's map and unmap, which come from any thread */
    guint maps;            /* under lock */
    guint generation;      /* the lender's, when the frame was lent */
    struct lender *lender; /* identity only, not a reference */
};

/* info says what the frames hold; lender is NULL where frames come from a receiver, and their
 * memory is read-only then. host: lent frames lie in host memory. */
GstGpudirectAllocator *gst_gpudirect_allocator_new(const GstVideoInfo *info, struct lender *lender,
                                                   guint generation, gboolean host,
                                                   struct ledger *ledger);

/* The memory for the frame's slot, with the frame in it: the parked one or a new one. Takes the
 * frame. */
GstMemory *gst_gpudirect_allocator_wrap(GstGpudirectAllocator *allocator, struct gpud_frame *frame);

/* Puts another frame of the same slot into a memory that nobody else holds. Takes the frame. */
void slot_memory_attach(GstMemory *memory, struct gpud_frame *frame);

/* Takes the frame out of a memory that nobody else holds. */
struct gpud_frame *slot_memory_detach(GstMemory *memory);

/* Gives a frame back and counts it as such. */
void slot_memory_give_back(GstGpudirectAllocator *allocator, struct gpud_frame *frame);

/* From now on (until it is opened again) memories are freed, not parked. */
void gst_gpudirect_allocator_close(GstGpudirectAllocator *allocator);
void gst_gpudirect_allocator_open(GstGpudirectAllocator *allocator);

/* The slot that a buffer is, whole and unchanged, or NULL. */
struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer);

#endif
