/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's own slots, of one epoch: lent to the application to write into, shared with the
 * receivers that map them. A slot is free again when the application and every receiver are
 * finished with it.
 *
 * Slots are taken, and the ring is, under the lock of the pool's owner. They come back without one
 * and from any thread, even after the sender and the epoch are gone: the pool lives until its last
 * slot is back. */
#ifndef GPUD_STREAM_SENDER_POOL_H
#define GPUD_STREAM_SENDER_POOL_H

#include "base/lock.h"
#include "frame/frame.h"
#include "frame/ring.h"
#include "route/ops.h"

struct gpud_pool;

#define GPUD_SLOT_READS GPUD_RECEIVERS_MAX

struct gpud_slot {
    struct gpud_frame frame; /* first: a lent frame is its slot */
    struct gpud_pool *pool;
    struct gpud_memory *view; /* the memory as pool->viewer sees it; NULL without a viewer */
    _Atomic(const struct gpud_route_slot_ops *) given_by; /* to a receiver's device; NULL: not */
    atomic_uint users;                                    /* that write or read it; 0: it is free */
    uint64_t written;       /* when it was lent last, by pool->lent; 0: it is clear */
    struct gpud_slot *next; /* among those that came back */
    /* What other queues than the pool's still have to read in the slot: its next user comes
     * after them. */
    struct gpud_fence reads[GPUD_SLOT_READS];
    uint32_t read_count;
    bool unknown_reads; /* there were more of them than fit here: it is never lent again */
};

struct gpud_pool {
    atomic_uint references;         /* the owner's, and one for each slot in use */
    struct gpud_slot *_Atomic back; /* slots that came back, latest first: free, too */
    _Atomic uint32_t freed;         /* counted up when one did and a thread waited */
    atomic_uint waiters;
    uint32_t epoch;
    struct gpud_layout layout;
    struct gpud_device *device;
    struct gpud_queue
        *queue;   /* maps the slots where the device's memory has no host address; else NULL */
    bool dmabufs; /* each slot has one, where the device can */
    struct gpud_device *viewer; /* another device that copies into the slots; NULL: none */
    struct gpud_ring ring;
    uint32_t share; /* slots that each user of the pool has room for */
    struct gpud_memory *views[GPUD_RING_MEMORIES_MAX];
    struct gpud_handle handle[GPUD_RING_MEMORIES_MAX]; /* as others import them; made when needed */
    bool exported[GPUD_RING_MEMORIES_MAX];
    struct gpud_slot *slots[GPUD_RING_MEMORIES_MAX]; /* by memory */
    uint32_t opened;                                 /* memories whose slots are lent */
    /* Round a circle. On the host the slot that came last goes first, it is the one in the caches;
     * on a device the one that came first: no queue copies from it any more. */
    struct gpud_slot *free[GPUD_RING_SLOTS_MAX];
    uint32_t free_first, free_count;
    struct gpud_error refusal;  /* why the last take left free slots alone; OK: it did not */
    uint64_t lent;              /* slots so far */
    struct gpud_lock wake_lock; /* whose descriptor it is lives as long as it stands here */
    atomic_int wake;            /* eventfd of a loop that polls for a free one; -1: none */
};

/* A pool with `slots` slots, which are lent, in one memory or, apart, in one each; it grows by a
 * memory at a time. queue: of the device, or NULL on the host. dmabufs: each slot shall have one.
 */
enum gpud_status gpud_pool_create(struct gpud_device *device, struct gpud_queue *queue,
                                  enum gpud_usage usage, bool dmabufs, struct gpud_device *viewer,
                                  const struct gpud_layout *layout, uint32_t epoch, uint32_t slots,
                                  bool apart, struct gpud_pool **pool, struct gpud_error *error);

/* Another memory for a pool. Making one may take long; adding it does not. */
struct gpud_pool_part {
    struct gpud_memory *memory, *view;
    struct gpud_handle handle;
    bool exported;
    struct gpud_slot *slots;
};

/* Makes one; needs no lock but a reference on the pool. */
enum gpud_status gpud_pool_make_part(const struct gpud_pool *pool, struct gpud_pool_part *part,
                                     struct gpud_error *error);
void gpud_pool_discard_part(struct gpud_pool_part *part);

/* Adds it; on failure it is discarded. Its slots are not lent yet: first every receiver that
 * maps the ring must know of it. */
enum gpud_status gpud_pool_add_part(struct gpud_pool *pool, struct gpud_pool_part *part,
                                    struct gpud_error *error);
void gpud_pool_open(struct gpud_pool *pool);

/* Slots of the memories from `first` on are lent no more, until gpud_pool_open(). */
void gpud_pool_close(struct gpud_pool *pool, uint32_t first);

/* How many memories are open, or have slots in use: those behind them can go. */
uint32_t gpud_pool_count_needed(struct gpud_pool *pool);

/* Takes the last memory out, which has to be one of those; the caller discards it. */
void gpud_pool_remove_last(struct gpud_pool *pool, struct gpud_pool_part *part);

/* What others are told of the memories from `first` on. The descriptors in it stay the pool's.
 * same_process: by pointer. */
enum gpud_status gpud_pool_describe(struct gpud_pool *pool, uint32_t first, bool same_process,
                                    struct gpud_ring_description *description,
                                    struct gpud_error *error);

/* For one more owner. */
void gpud_pool_ref(struct gpud_pool *pool);

/* An owner is done; slots may still be out. */
void gpud_pool_unref(struct gpud_pool **pool);

/* A free slot with one user, or NULL: gpud_pool_explain() says why. */
struct gpud_slot *gpud_pool_take(struct gpud_pool *pool);

/* Why the last take gave none. GPUD_TIMEOUT: the slots are in use; else what the device says, whose
 * queues cannot be made to wait for those that still read free slots. */
enum gpud_status gpud_pool_explain(const struct gpud_pool *pool, struct gpud_error *error);

/* A free slot that holds a picture of the time before pool->lent was that; with one user. NULL:
 * none. */
struct gpud_slot *gpud_pool_take_old(struct gpud_pool *pool, uint64_t lent);

/* Clears a slot that was taken so. */
enum gpud_status gpud_slot_clear(struct gpud_slot *slot, struct gpud_error *error);

/* Whether there is one. */
bool gpud_pool_has_old(struct gpud_pool *pool, uint64_t lent);

uint32_t gpud_pool_count_free(struct gpud_pool *pool);

/* An eventfd to be raised whenever a slot comes back; -1: none. */
void gpud_pool_set_wake(struct gpud_pool *pool, int fd);

/* Waits until one may be free; without the owner's lock, and with a reference. */
void gpud_pool_wait(struct gpud_pool *pool, int64_t deadline);
void gpud_pool_wake(struct gpud_pool *pool);

void gpud_slot_hold(struct gpud_slot *slot);
void gpud_slot_drop(struct gpud_slot *slot);

/* Work before the fence, which is the slot's from now on, reads the slot, which is held. */
void gpud_slot_add_read(struct gpud_slot *slot, const struct gpud_fence *fence);

/* Whether a frame was lent by a pool whose slots are written in the order of this queue. */
bool gpud_pool_orders(const struct gpud_frame *frame, const struct gpud_queue *queue);

/* The slot that a frame lies in, or NULL if it was not lent by this pool. */
struct gpud_slot *gpud_pool_slot_of(const struct gpud_pool *pool, struct gpud_frame *frame);

#endif
