/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GstMemory that is a slot: it owns a gpud_frame, shows it to users that map it, and gives it
 * back when the last reference on the memory (not on a buffer: think of tee) is gone.
 *
 * The GstMemory objects are kept, one for each slot, and used again for the next frame in that
 * slot, so that whatever downstream remembers about a memory stays true and nothing is allocated
 * while frames flow.
 *
 * There are several kinds: memory that the CPU maps (memory.c, map.c), and one for each vendor of
 * GPUs (in its folder). */
#ifndef GPUD_GST_MEMORY_SLOT_H
#define GPUD_GST_MEMORY_SLOT_H

#include "counters.h"
#include "memory/outstanding.h"
#include "wire/caps.h"

#include <gpudirect/frame.h>
#include <gst/gst.h>

struct gpu;
struct shared_sender;
struct slot_memory;
struct slot_store;

/* No GstMemory waits longer than this for a picture that is still on its way. */
#define SLOT_MAP_TIMEOUT (2 * GPUD_SEC)

/* What differs between kinds of memory; every op is there in every kind. */
struct slot_kind {
    GstAllocator *(*new_allocator)(void);

    /* A GstMemory for the frame's bytes, of the store's allocator. NULL: they cannot be had so, and
     * the log says why. */
    GstMemory *(*new_memory)(struct slot_store *store, struct gpud_frame *frame,
                             const struct gpud_layout *layout, const struct video_planes *planes);

    /* A frame was put into the slot. */
    void (*arrived)(struct slot_memory *slot);

    /* The slot's frame is about to be submitted or released. */
    void (*leaving)(struct slot_memory *slot);
};

/* What the memories of one pool share. */
struct slot_store {
    gatomicrefcount references;
    const struct slot_kind *kind;
    GstAllocator *allocator;
    GstVideoInfo info;
    struct gpu *gpu; /* where the slots lie; NULL: the CPU maps them */
    gpointer stream; /* the vendor's, for all memories, if it has one; freed by stream_free() */
    GDestroyNotify stream_free;
    struct shared_sender *sender; /* to compare with, not a reference */
    guint epoch;
    gboolean host;
    struct outstanding *outstanding;
    struct counters *counters;
    gint misused; /* atomic: an element writes into maps for reading, see map.c */

    GMutex lock;
    gboolean closed;
    GPtrArray *idle; /* GstMemory by slot, or NULL */
    GQueue extras;   /* idle GstMemory that is no slot */
};

struct slot_memory {
    GstMemory *memory; /* whose inside this is */
    struct slot_store *store;
    struct gpud_frame *frame; /* NULL while idle */
    uint32_t slot;
    gboolean extra; /* memory of its own, beyond the ring's: it stands in for a slot */
    gsize size;     /* of the whole in GStreamer's terms */
    struct video_planes planes;
    void *host;  /* the slot's bytes where the CPU may always touch them; else NULL */
    guint epoch; /* the sender's, when it gave the frame out */
    struct shared_sender *sender; /* to compare with, not a reference */
    gboolean on_device;           /* the CPU sees it by maps alone */

    GMutex lock;               /* of the rest; held over no call that waits */
    GCond idle;                /* no longer busy */
    gboolean busy;             /* a thread makes the first map, or ends the last one */
    guint maps;                /* by the CPU */
    struct gpud_frame *mapped; /* while there are maps or it is busy: the frame they go by */
    struct gpud_frame *reader; /* a second frame over the bytes, for readers; or NULL */
    void *data;                /* what the core shows there */
    gboolean goes_up;          /* it is copied to the device with the last unmap */
    gboolean filled;           /* the frame has content that must be kept */
    guint looks;               /* at what readers do to the bytes */
    gboolean looking;          /* while it is mapped: `seen` is the sum of the bytes before */
    guint64 seen;

    /* On a GPU. */
    gboolean visible; /* the GPU's queue waits for the bytes, or they have arrived */
    gboolean used;    /* mapped for the GPU since the frame was submitted or put in */
    gboolean written; /* by the GPU, since the CPU last waited for it */
};

/* For the store alone: what a memory is, from now on. */
void slot_memory_bind(GstMemory *memory, struct slot_memory *slot, GDestroyNotify destroy);

/* The slot that a memory is, or of which it is a part; NULL: it is not of this plugin. */
struct slot_memory *slot_memory_of(GstMemory *memory);

/* The slot that a buffer is, whole and unchanged, or NULL. */
struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer);

#endif
