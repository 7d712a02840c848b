/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's own slots in one epoch: lent to the application to write, and shared with receivers
 * that map them. A slot is free again when the application and every receiver have released it.
 *
 * The lock of the pool's owner guards the ring and taking slots. Any thread may return slots,
 * without the lock, even after the end of the sender and the epoch: the pool lives until its last
 * slot is back. */
#ifndef GPUD_STREAM_SENDER_POOL_H
#define GPUD_STREAM_SENDER_POOL_H

#include "base/lock.h"
#include "frame/frame.h"
#include "frame/ring.h"
#include "route/ops.h"

struct gpud_pool;
struct gpud_sender;

#define GPUD_SLOT_READS GPUD_RECEIVERS_MAX

struct gpud_slot {
    struct gpud_frame frame; /* first: a lent frame is its slot */
    struct gpud_pool *pool;
    struct gpud_memory *view; /* the memory as pool->viewer sees it; NULL without a viewer */
    _Atomic(const struct gpud_route_slot_ops *)
        given_by;           /* gave it to a receiver's device, or NULL */
    atomic_uint users;      /* writers and readers; 0: it is free */
    uint64_t written;       /* pool->lent when it was lent last; 0: it is clear */
    struct gpud_slot *next; /* in the list of returned slots */
    /* Pending reads of other queues than the pool's; the slot's next user comes after them. */
    struct gpud_fence reads[GPUD_SLOT_READS];
    uint32_t read_count;
    bool unknown_reads; /* more reads than fit here: the slot is never lent again */
    /* Called once, when the application releases the frame, unless the argument is NULL then. */
    void (*on_release)(struct gpud_slot *slot, void *arg);
    _Atomic(void *) on_release_arg;
};

struct gpud_pool {
    atomic_uint references;         /* the owner's, and one for each slot in use */
    struct gpud_slot *_Atomic back; /* returned slots, latest first: free, too */
    _Atomic uint32_t freed;         /* incremented when one returns and a thread waits */
    atomic_uint waiters;
    uint32_t epoch;
    struct gpud_layout layout;
    struct gpud_device *device;
    struct gpud_queue
        *queue;   /* maps the slots if the device's memory has no host address; else NULL */
    bool dmabufs; /* each slot has one, if the device supports it */
    struct gpud_device *viewer; /* another device that copies into the slots; NULL: none */
    struct gpud_ring ring;
    uint32_t share; /* slots that each user of the pool has room for, at least */
    const struct gpud_sender *lender; /* only to be compared: it may be gone */
    struct gpud_memory *views[GPUD_RING_MEMORIES_MAX];
    struct gpud_handle handle[GPUD_RING_MEMORIES_MAX]; /* for importers; created on first use */
    bool exported[GPUD_RING_MEMORIES_MAX];
    struct gpud_slot *slots[GPUD_RING_MEMORIES_MAX]; /* by memory */
    uint32_t opened;                                 /* memories whose slots may be lent */
    /* A circular buffer. On the host the latest slot is taken first, because it is in the caches;
     * on a device the oldest, from which no queue copies any more. */
    struct gpud_slot *free[GPUD_RING_SLOTS_MAX];
    uint32_t free_first, free_count;
    struct gpud_error refusal;  /* why the last take could not use free slots; OK: it could */
    uint64_t lent;              /* slots so far */
    struct gpud_lock wake_lock; /* keeps the descriptor `wake` open while it is raised */
    atomic_int wake;            /* eventfd of a loop that polls for a free slot; -1: none */
};

/* A pool with `slots` open slots in one memory or, with apart, in one memory each; it grows by a
 * memory at a time. queue: of the device, or NULL on the host. dmabufs: each slot gets one. */
enum gpud_status gpud_pool_create(struct gpud_device *device, struct gpud_queue *queue,
                                  enum gpud_usage usage, bool dmabufs, struct gpud_device *viewer,
                                  const struct gpud_layout *layout, uint32_t epoch, uint32_t slots,
                                  bool apart, struct gpud_pool **pool, struct gpud_error *error);

/* Another memory for a pool. Making it is slow; adding it is fast. */
struct gpud_pool_part {
    struct gpud_memory *memory, *view;
    struct gpud_handle handle;
    bool exported;
    struct gpud_slot *slots;
};

/* Makes one; needs a reference on the pool but no lock. */
enum gpud_status gpud_pool_make_part(const struct gpud_pool *pool, struct gpud_pool_part *part,
                                     struct gpud_error *error);
void gpud_pool_discard_part(struct gpud_pool_part *part);

/* Adds it; on failure it is discarded. Its slots are lent only after gpud_pool_open(), when every
 * receiver that maps the ring knows it. */
enum gpud_status gpud_pool_add_part(struct gpud_pool *pool, struct gpud_pool_part *part,
                                    struct gpud_error *error);
void gpud_pool_open(struct gpud_pool *pool);

/* Stops lending slots of the memories from `first` on, until gpud_pool_open(). */
void gpud_pool_close(struct gpud_pool *pool, uint32_t first);

/* How many memories are open or have slots in use; later ones can be removed. */
uint32_t gpud_pool_count_needed(struct gpud_pool *pool);

/* Removes the last memory, which must be a removable one; the caller discards it. */
void gpud_pool_remove_last(struct gpud_pool *pool, struct gpud_pool_part *part);

/* Describes the memories from `first` on to a peer. The descriptors in it stay the pool's.
 * same_process: by pointer. */
enum gpud_status gpud_pool_describe(struct gpud_pool *pool, uint32_t first, bool same_process,
                                    struct gpud_ring_description *description,
                                    struct gpud_error *error);

/* Adds an owner. */
void gpud_pool_ref(struct gpud_pool *pool);

/* Drops an owner; slots may still be in use. */
void gpud_pool_unref(struct gpud_pool **pool);

/* Takes a free slot, with one user; NULL: gpud_pool_explain() says why. */
struct gpud_slot *gpud_pool_take(struct gpud_pool *pool);

/* Why the last take failed. GPUD_TIMEOUT: the slots are in use; else the device's error: its queue
 * cannot wait for the queues that still read free slots. */
enum gpud_status gpud_pool_explain(const struct gpud_pool *pool, struct gpud_error *error);

/* Takes a free slot, with one user, whose picture was written before pool->lent had this value.
 * NULL: none. */
struct gpud_slot *gpud_pool_take_old(struct gpud_pool *pool, uint64_t lent);

/* Clears a slot from gpud_pool_take_old(). */
enum gpud_status gpud_slot_clear(struct gpud_slot *slot, struct gpud_error *error);

/* Whether there is one. */
bool gpud_pool_has_old(struct gpud_pool *pool, uint64_t lent);

uint32_t gpud_pool_count_free(struct gpud_pool *pool);

/* Sets an eventfd to raise whenever a slot is returned; -1: none. */
void gpud_pool_set_wake(struct gpud_pool *pool, int fd);

/* Waits until a slot may be free; without the owner's lock, and with a reference. */
void gpud_pool_wait(struct gpud_pool *pool, int64_t deadline);
void gpud_pool_wake(struct gpud_pool *pool);

void gpud_slot_hold(struct gpud_slot *slot);
void gpud_slot_drop(struct gpud_slot *slot);

/* Records that work before the fence, which the slot takes over, reads it. The slot is in use. */
void gpud_slot_add_read(struct gpud_slot *slot, const struct gpud_fence *fence);

/* Whether the frame was lent by a pool whose slots are written in the order of this queue. */
bool gpud_pool_orders(const struct gpud_frame *frame, const struct gpud_queue *queue);

/* Whether a pool of this sender lent the frame, the current one or one before. */
bool gpud_pool_was_lent_by(const struct gpud_frame *frame, const struct gpud_sender *sender);

/* The frame's slot, or NULL if this pool did not lend it. */
struct gpud_slot *gpud_pool_slot_of(const struct gpud_pool *pool, struct gpud_frame *frame);

#endif
