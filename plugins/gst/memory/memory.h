/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GstMemory that is a slot: it owns a gpud_frame, shows it to whoever maps it, and gives it back
 * when the last reference on the memory (not on a buffer: think of tee) is gone.
 *
 * The GstMemory objects are kept, one for each slot, and used again for the next frame in that
 * slot, so that whatever downstream remembers about a memory stays true and nothing is allocated
 * while frames flow.
 *
 * There are several kinds: memory that the CPU maps (memory.c, map.c), and one for each vendor of
 * GPUs (in its folder). */
#ifndef GPUD_GST_MEMORY_MEMORY_H
#define GPUD_GST_MEMORY_MEMORY_H

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

extern const struct slot_kind plain_slot_kind;
/* GstMemory with a dma-buf, for a driver that writes it; on the host. */
extern const struct slot_kind dmabuf_slot_kind;

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
    gint misused; /* atomic: somebody writes where it said that it would read, see map.c */

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

/* info says what the frames hold; sender is NULL where frames come from a receiver, and their
 * memory is read-only then. host: the sender's slots lie in host memory. */
struct slot_store_params {
    const struct slot_kind *kind;
    const GstVideoInfo *info;
    struct gpu *gpu;
    struct shared_sender *sender;
    guint epoch;
    gboolean host;
    struct outstanding *outstanding;
    struct counters *counters;
};
struct slot_store *slot_store_new(const struct slot_store_params *params);
struct slot_store *slot_store_ref(struct slot_store *store);
void slot_store_unref(struct slot_store *store);

/* From now on (until it is opened again) memories are freed with their last reference. */
void slot_store_close(struct slot_store *store);
void slot_store_open(struct slot_store *store);

/* The memory for the frame's slot, with the frame in it: the idle one or a new one. Takes the
 * frame, which goes back where there is no such memory to be had (NULL), as the log says. */
GstMemory *slot_store_wrap(struct slot_store *store, struct gpud_frame *frame);

/* Memory of the store's kind and shape, on its GPU, that is no slot. When its last reference goes
 * it is kept for the next call, so that a GPU's memory is not allocated for each frame. NULL: there
 * is none left, as the log says. */
GstMemory *slot_store_get_extra(struct slot_store *store);

/* Puts another frame of the same slot into a memory that nobody else holds. Takes the frame. */
void slot_memory_attach(struct slot_memory *slot, struct gpud_frame *frame);

/* Takes the frame out of a memory that nobody else holds. */
struct gpud_frame *slot_memory_detach(struct slot_memory *slot);

/* It gets a new user: what is in it need not be kept when the next one writes to it. */
void slot_memory_forget(struct slot_memory *slot);

/* Gives a frame back and counts it as such. */
void slot_store_give_back(struct slot_store *store, struct gpud_frame *frame);

/* The slot that a memory is, or of which it is a part; NULL: it is not of this plugin. */
struct slot_memory *slot_memory_of(GstMemory *memory);

/* The slot that a buffer is, whole and unchanged, or NULL. */
struct slot_memory *slot_memory_of_buffer(GstBuffer *buffer);

/* --- map.c -------------------------------------------------------------------------------- */

/* Shows the frame to the CPU. NULL: it cannot be, and the log says why. */
void *slot_memory_map(struct slot_memory *slot, GstMapFlags flags);
/* TRUE: what was written is on its way to the device. */
gboolean slot_memory_unmap(struct slot_memory *slot);

/* What an allocator does with slots that the CPU maps, of whichever class. */
gpointer slot_memory_map_full(GstMemory *memory, GstMapInfo *info, gsize maxsize);
void slot_memory_unmap_full(GstMemory *memory, GstMapInfo *info);

enum slot_use {
    SLOT_FREE,    /* nothing is in the way of the submit */
    SLOT_READ,    /* a branch of a tee has it mapped: the device copies it, by slot_memory_wrap() */
    SLOT_WRITTEN, /* it is mapped for writing: what is in the map is copied */
};

/* Before the slot's frame is submitted, with this info. SLOT_FREE: the memory is read-only from now
 * on, and may be mapped during the submit, too. shared: others may have the memory. Does not wait.
 */
enum slot_use slot_memory_begin_submit(struct slot_memory *slot, gboolean shared,
                                       const struct gpud_frame_info *info);

/* gpud_frame_wrap_frame() over the slot's frame; NULL: *error says why not. */
struct gpud_frame *slot_memory_wrap(struct slot_memory *slot, const struct gpud_layout *layout,
                                    void (*released)(void *user), void *user,
                                    struct gpud_error *error);

#endif
