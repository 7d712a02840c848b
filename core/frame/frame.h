/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Layouts, rings and frames. */
#ifndef GPUD_FRAME_FRAME_H
#define GPUD_FRAME_FRAME_H

#include "base/base.h"
#include "device/device.h"
#include <gpudirect/frame.h>
#include <gpudirect/layout.h>
#include <gpudirect/sender.h>

/* === frame =================================================================================== */
/* The inside of a frame. A ring's owner makes its frames with the ring, so that none is allocated
 * while frames flow; only wrapped frames are allocated one by one. */

/* The operations of a frame's owner. All but the last are mandatory: an owner with nothing to wait
 * for uses the functions below. */
struct gpud_frame_owner_ops {
    /* Takes the frame back; from any thread, possibly after its sender, receiver or capture was
     * destroyed. */
    void (*release)(struct gpud_frame *frame);
    /* Orders later work on the queue after the frame's bytes. queue: of the frame's device, which
     * has fences. */
    enum gpud_status (*wait)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* The same for the calling thread: the bytes are complete, or will be after the current work on
     * the frame's own queue. GPUD_PEER: they never will be; the frame was flagged CORRUPTED. */
    enum gpud_status (*wait_host)(struct gpud_frame *frame, int64_t deadline,
                                  struct gpud_error *error);
    /* Hands the frame on, to its owner or to receivers, only after the queue's current work. */
    enum gpud_status (*post)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* Whether the bytes are known never to come. */
    bool (*is_poisoned)(const struct gpud_frame *frame);
    /* As wait_host, for the first rows alone, of a frame that may still be written. GPUD_PEER:
     * every time. NULL: there are no such frames. */
    enum gpud_status (*wait_lines)(struct gpud_frame *frame, uint32_t lines, int64_t deadline,
                                   struct gpud_error *error);
};

/* For frames that are complete when they are handed out. */
enum gpud_status gpud_frame_wait_complete(struct gpud_frame *frame, struct gpud_queue *queue,
                                          struct gpud_error *error);
enum gpud_status gpud_frame_wait_host_complete(struct gpud_frame *frame, int64_t deadline,
                                               struct gpud_error *error);
bool gpud_frame_is_never_poisoned(const struct gpud_frame *frame);

/* wait and post for frames whose own queue orders all work on them; without one (host memory) all
 * work on them is done when the call that did it returns. */
enum gpud_status gpud_frame_join_wait(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error);
enum gpud_status gpud_frame_join_post(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error);

/* Orders later work on a queue of any device after the frame's bytes. If the devices cannot wait
 * for each other, or for their own queues, the calling thread waits. GPUD_PEER: as for wait_host.
 */
enum gpud_status gpud_frame_order(struct gpud_frame *frame, struct gpud_queue *queue,
                                  int64_t deadline, struct gpud_error *error);

/* As gpud_frame_map(), but of `size` bytes from byte `from` of the frame on, and only while nothing
 * of it is mapped. *data is where the part begins. */
enum gpud_status gpud_frame_map_part(struct gpud_frame *frame, uint64_t from, uint64_t size,
                                     unsigned access, int64_t timeout_ns, void **data,
                                     struct gpud_error *error);

/* Makes sure that a frame in device memory has a queue. That of wrapped memory is created on first
 * use, because most such frames are only submitted. */
enum gpud_status gpud_frame_need_queue(struct gpud_frame *frame, struct gpud_error *error);

/* The bytes in use. */
uint64_t gpud_frame_bytes(const struct gpud_frame *frame);

/* Fails if bytes that the CPU wrote into the frame were lost. */
enum gpud_status gpud_frame_check(const struct gpud_frame *frame, struct gpud_error *error);

/* The flags that belong to the picture, and travel with it; the others belong to one frame, or to
 * the library. */
#define GPUD_FRAME_TRAVELS                                                                      \
    (GPUD_FRAME_CORRUPTED | GPUD_FRAME_DISCONTINUITY | GPUD_FRAME_INTERLACED |                  \
     GPUD_FRAME_TOP_FIRST | GPUD_FRAME_TOP_FIELD | GPUD_FRAME_BOTTOM_FIELD | GPUD_FRAME_DELTA | \
     ~(uint32_t)(GPUD_FRAME_USER - 1))

struct gpud_frame {
    const struct gpud_frame_owner_ops *ops;
    void *owner;
    atomic_uint extra_refs;     /* holders besides the first */
    struct gpud_memory *memory; /* borrowed from the owner's ring */
    uint64_t offset;            /* of the frame, in memory */
    uint32_t slot;              /* in the owner's ring; UINT32_MAX: wrapped */
    struct gpud_queue *queue;   /* orders work on the frame, and maps it; NULL: host memory */
    struct gpud_fence written;  /* wrapped: work on it that is pending on the application's queue */
    void *mapped;               /* the address that the queue's map returned */
    unsigned maps;              /* nesting */
    unsigned access;            /* of the current map */
    struct gpud_error write_error; /* why the last bytes written by a map are lost; or GPUD_OK */
    struct gpud_frame_info info;   /* info.bytes 0: all */
};

/* === large_meta ============================================================================== */
/* The bytes of a large meta, shared by a frame and what is left of it where it waits. Each pointer
 * to them is a reference; NULL: none. */

/* The room for one in a link's memory, so that each begins at a line of its own. */
static inline size_t gpud_large_meta_room(uint32_t max)
{
    return ((size_t)max + 63) & ~(size_t)63;
}

/* With one reference; bytes are uninitialised. NULL: out of memory. */
void *gpud_large_meta_create(size_t size);
void gpud_large_meta_ref(const void *bytes);
void gpud_large_meta_unref(const void *bytes);

/* Drops the frame's. */
static inline void gpud_large_meta_clear(struct gpud_frame_info *info)
{
    if (!info->large_meta)
        return;
    gpud_large_meta_unref(info->large_meta);
    info->large_meta = NULL;
    info->large_meta_size = 0;
}

/* === layout ================================================================================== */

/* Whether a frame of one layout can be copied, plane by plane, into a frame of the other: strides
 * and offsets may differ. */
bool gpud_layout_same_picture(const struct gpud_layout *a, const struct gpud_layout *b);

/* Whether it is a block, whose frames may use fewer bytes than it has: one row of everything. */
bool gpud_layout_is_block(const struct gpud_layout *layout);

/* The largest size that a frame of a valid layout has for a good reason: twice its rows, or its
 * rows with a stride of whole pages, and 1 MiB, as tiles and huge pages round it up. A block has
 * any. */
uint64_t gpud_layout_reasonable_size(const struct gpud_layout *layout);

/* Whether both place every byte at the same offset. */
bool gpud_layout_equal(const struct gpud_layout *a, const struct gpud_layout *b);

/* === ring ==================================================================================== */
/* A ring: slots of one size, in one or more memories of one device. Its owner allocates it and
 * describes it once; the other side imports the description. It can grow while it is in use (a
 * sender's ring does, by one memory for each receiver that maps it), and lose its last memories
 * when none of their slots is in use. */

/* A sender's ring has room for its own slots and for those of every receiver. */
#define GPUD_RING_MEMORIES_MAX 64
#define GPUD_RING_SLOTS_MAX 2048

/* What the other side is told: one memory for each handle. */
struct gpud_ring_description {
    uint64_t slot_size;
    uint32_t slots_per_memory;
    uint32_t memories;
    struct gpud_handle handle[GPUD_RING_MEMORIES_MAX];
};

struct gpud_ring {
    struct gpud_device *device;
    enum gpud_usage usage;
    bool has_images;    /* a peer's, for gpud_memory_export_vulkan() */
    uint64_t slot_size; /* in whole pages */
    uint32_t slots_per_memory;
    uint32_t memories;
    struct gpud_memory *memory[GPUD_RING_MEMORIES_MAX];
};

void gpud_ring_init(struct gpud_ring *ring, struct gpud_device *device, enum gpud_usage usage,
                    uint64_t frame_size, uint32_t slots_per_memory);

/* Allocates one more memory for the ring without changing the ring, so that its lock is not
 * needed. */
enum gpud_status gpud_ring_alloc(const struct gpud_ring *ring, struct gpud_memory **memory,
                                 struct gpud_error *error);

/* Adds such a memory, and takes it over. GPUD_NO_MEMORY: the ring has its greatest size. */
enum gpud_status gpud_ring_add(struct gpud_ring *ring, struct gpud_memory *memory,
                               struct gpud_error *error);

/* Does both. On failure the ring is unchanged. */
enum gpud_status gpud_ring_grow(struct gpud_ring *ring, struct gpud_error *error);

/* Exports the memories from `first` on; the descriptors in it are the caller's to close. local: by
 * pointer, for an importer in this process and context. */
enum gpud_status gpud_ring_describe(const struct gpud_ring *ring, uint32_t first, bool local,
                                    struct gpud_ring_description *description,
                                    struct gpud_error *error);
void gpud_ring_description_close(struct gpud_ring_description *description);

/* Adds a peer's memories to an initialised ring. local: the kernel confirms that the peer is this
 * process, so memory may come by pointer. frame_size is what the importer knows that a slot must
 * hold. The description comes from the peer, and is checked. On failure the ring is unchanged. */
enum gpud_status gpud_ring_import(struct gpud_ring *ring,
                                  const struct gpud_ring_description *description, bool local,
                                  uint64_t frame_size, struct gpud_error *error);

/* The memories from `first` on as seen by another device, which copies from or to them (the ring's
 * own device sees them as they are); borrowed from the ring. */
enum gpud_status gpud_ring_view(const struct gpud_ring *ring, struct gpud_device *device,
                                uint32_t first, struct gpud_memory *views[GPUD_RING_MEMORIES_MAX],
                                struct gpud_error *error);
void gpud_ring_finish(struct gpud_ring *ring);

static inline uint32_t gpud_ring_slots(const struct gpud_ring *ring)
{
    return ring->memories * ring->slots_per_memory;
}

static inline struct gpud_memory *gpud_ring_slot(const struct gpud_ring *ring, uint32_t slot,
                                                 uint64_t *offset)
{
    *offset = (uint64_t)(slot % ring->slots_per_memory) * ring->slot_size;
    return ring->memory[slot / ring->slots_per_memory];
}

/* === rows ==================================================================================== */
/* A part of a picture: some of its rows, and as large a part of each plane, rounded down. */

/* A picture that is copied while it is written is copied in at most so many steps, the last of
 * which is its end: each is a command for a device, and a wake-up. */
#define GPUD_LINES_STEPS 8

static inline uint32_t gpud_lines_step(uint32_t height)
{
    return (height + GPUD_LINES_STEPS - 1) / GPUD_LINES_STEPS;
}

struct gpud_rows {
    uint32_t from, to; /* of the picture: from the first one, to before the second one */
};

/* The bytes of a plane that these rows have, from the start of the frame; the last row ends with
 * its picture. *size 0: none. */
void gpud_rows_of_plane(const struct gpud_layout *layout, uint32_t plane, struct gpud_rows rows,
                        uint64_t *offset, uint64_t *size);

/* Enqueues their copy, plane by plane, between two frames of one picture, whose layouts may differ.
 * frames: the two memories, and the offsets of the frames in them; its other fields do not count.
 */
enum gpud_status gpud_rows_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                const struct gpud_layout *to, const struct gpud_layout *from,
                                struct gpud_rows rows, struct gpud_error *error);

#endif
