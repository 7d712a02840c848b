/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A ring: slots of one size, in one or more memories of one device. Its owner allocates it and
 * describes it once; the other side imports the description. It can grow while it is in use (a
 * sender's ring does, by one memory for each receiver that maps it), and lose its last memories
 * when none of their slots is in use. */
#ifndef GPUD_FRAME_RING_H
#define GPUD_FRAME_RING_H

#include "device/device.h"
#include <gpudirect/sender.h>

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

#endif
