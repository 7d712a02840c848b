/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GstMemory that is a slot: it owns a gpud_frame, maps it for users, and releases it with the
 * last reference to the memory (not to a buffer: think of tee).
 *
 * Each slot's GstMemory is kept and reused for the next frame in that slot, so that anything
 * downstream caches about a memory stays valid, and nothing is allocated while frames flow.
 *
 * There are several kinds: memory that the CPU maps (memory.c, map.c), and one for each vendor of
 * GPUs (in its folder). */
#ifndef GPUD_GST_MEMORY_SLOT_H
#define GPUD_GST_MEMORY_SLOT_H

#include "base/counters.h"
#include "memory/outstanding.h"
#include "wire/caps.h"

#include <gpudirect/frame.h>
#include <gst/gst.h>

struct gpu;
struct shared_sender;
struct slot_memory;
struct slot_store;

/* The longest that a map waits for a picture that has not arrived yet. */
#define SLOT_MAP_TIMEOUT (2 * GPUD_SEC)

/* The operations of a kind of memory; all but the last are required. */
struct slot_kind {
    GstAllocator *(*new_allocator)(void);

    /* A GstMemory for the frame's bytes, of the store's allocator. NULL: it cannot be made, and the
     * log says why. */
    GstMemory *(*new_memory)(struct slot_store *store, struct gpud_frame *frame,
                             const struct gpud_layout *layout, const struct video_planes *planes);

    /* A frame was put into the slot. */
    void (*arrived)(struct slot_memory *slot);

    /* The slot's frame is about to be submitted or released. */
    void (*leaving)(struct slot_memory *slot);

    /* Whether no driver works any more on memory whose last reference is gone. NULL: it orders
     * its users itself. */
    gboolean (*is_unused)(struct slot_memory *slot);
};

/* The state that the memories of one pool share. */
struct slot_store {
    gatomicrefcount references;
    const struct slot_kind *kind;
    GstAllocator *allocator;
    GstVideoInfo info;
    struct gpu *gpu; /* the GPU of the slots' memory; NULL: the CPU maps them */
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
    GQueue extras;   /* idle GstMemory that is not a slot */
};

struct slot_memory {
    GstMemory *memory; /* the memory that this describes */
    struct slot_store *store;
    struct gpud_frame *frame; /* NULL while idle */
    uint32_t slot;
    gboolean extra; /* memory outside the ring, which replaces a slot */
    gsize size;     /* the total size in GStreamer's terms */
    struct video_planes planes;
    void *host;  /* the slot's bytes if the CPU may always access them; else NULL */
    guint epoch; /* the sender's when the frame was acquired */
    struct shared_sender *sender; /* to compare with, not a reference */
    gboolean on_device;           /* the CPU can access it only through maps */

    GMutex lock;               /* of the rest; not held during calls that wait */
    GCond idle;                /* no longer busy */
    gboolean busy;             /* a thread makes the first map, or ends the last one */
    guint maps;                /* by the CPU */
    struct gpud_frame *mapped; /* the frame that is mapped, while there are maps or it is busy */
    struct gpud_frame *reader; /* a second frame over the bytes, for readers; or NULL */
    void *data;                /* the core's mapping of it */
    gboolean copies_back;      /* the last unmap copies it to the device */
    gboolean filled;           /* the frame has content that must be kept */
    guint checks;              /* how often read maps were checked for writes */
    gboolean checking;         /* while it is mapped: `checksum` is that of the bytes before */
    guint64 checksum;

    /* On a GPU. */
    gboolean visible; /* the GPU's queue waits for the bytes, or they have arrived */
    gboolean used;    /* mapped for the GPU since the frame was submitted or attached */
    gboolean written; /* by the GPU, since the CPU last waited for it */
};

/* For the store only: makes a memory a slot. */
void slot_memory_bind(GstMemory *memory, struct slot_memory *slot, GDestroyNotify destroy);

/* The slot of a memory, or of the memory of which it is a part; NULL: it is not this plugin's. */
struct slot_memory *slot_memory_of(GstMemory *memory);

static inline gboolean slot_memory_is_unused(struct slot_memory *slot)
{
    return !slot->store->kind->is_unused || slot->store->kind->is_unused(slot);
}

/* The slot of a buffer that contains exactly one, whole and unchanged; else NULL. */
struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer);

#endif
