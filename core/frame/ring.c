/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rings: slots of one layout in one memory. */
#include "frame/frame.h"

#include "base/base.h"

#define PAGE UINT64_C(4096)

void gpud_ring_init(struct gpud_ring *ring, struct gpud_device *device, enum gpud_usage usage,
                    uint64_t frame_size, uint32_t slots_per_memory)
{
    *ring = (struct gpud_ring){
        .device = device,
        .usage = usage,
        .slot_size = (frame_size + PAGE - 1) / PAGE * PAGE,
        .slots_per_memory = slots_per_memory,
    };
}

enum gpud_status gpud_ring_alloc(const struct gpud_ring *ring, struct gpud_memory **memory,
                                 struct gpud_error *error)
{
    return gpud_memory_alloc_for(ring->device, ring->slot_size * ring->slots_per_memory,
                                 ring->usage, memory, error);
}

enum gpud_status gpud_ring_add(struct gpud_ring *ring, struct gpud_memory *memory,
                               struct gpud_error *error)
{
    if (ring->memories == GPUD_RING_MEMORIES_MAX)
        return gpud_fail(error, GPUD_NO_MEMORY, "the ring has its greatest size of %d memories",
                         GPUD_RING_MEMORIES_MAX);
    ring->memory[ring->memories++] = memory;
    return GPUD_OK;
}

enum gpud_status gpud_ring_grow(struct gpud_ring *ring, struct gpud_error *error)
{
    struct gpud_memory *memory;
    enum gpud_status status = gpud_ring_alloc(ring, &memory, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_ring_add(ring, memory, error);
    if (status != GPUD_OK)
        gpud_memory_unref(&memory);
    return status;
}

enum gpud_status gpud_ring_describe(const struct gpud_ring *ring, uint32_t first, bool local,
                                    struct gpud_ring_description *description,
                                    struct gpud_error *error)
{
    description->slot_size = ring->slot_size;
    description->slots_per_memory = ring->slots_per_memory;
    description->memories = 0;
    for (uint32_t i = first; i < ring->memories; i++) {
        struct gpud_handle *handle = &description->handle[description->memories];
        if (local) {
            gpud_memory_export_local(ring->memory[i], handle);
        } else {
            enum gpud_status status = gpud_memory_export(ring->memory[i], handle, error);
            if (status != GPUD_OK) {
                gpud_ring_description_close(description);
                return status;
            }
        }
        description->memories++;
    }
    return GPUD_OK;
}

void gpud_ring_description_close(struct gpud_ring_description *description)
{
    for (uint32_t i = 0; i < description->memories; i++)
        gpud_fd_close(&description->handle[i].fd);
    description->memories = 0;
}

enum gpud_status gpud_ring_import(struct gpud_ring *ring,
                                  const struct gpud_ring_description *description, bool local,
                                  uint64_t frame_size, struct gpud_error *error)
{
    uint32_t before = ring->memories;
    if (description->memories < 1 || description->memories > GPUD_RING_MEMORIES_MAX - before ||
        description->slots_per_memory < 1 || description->slots_per_memory > GPUD_SLOTS_MAX)
        return gpud_fail(error, GPUD_PEER, "the peer's ring has %u memories of %u slots",
                         description->memories, description->slots_per_memory);
    if (description->slot_size < frame_size || description->slot_size > 2 * GPUD_FRAME_SIZE_MAX)
        return gpud_fail(
            error, GPUD_PEER, "the peer's ring has slots of %llu bytes for frames of %llu",
            (unsigned long long)description->slot_size, (unsigned long long)frame_size);
    if (before && (description->slot_size != ring->slot_size ||
                   description->slots_per_memory != ring->slots_per_memory))
        return gpud_fail(error, GPUD_PEER, "the peer's ring grew by slots of another size");

    for (uint32_t i = 0; i < description->memories; i++)
        if (description->handle[i].type == GPUD_HANDLE_LOCAL && !local)
            return gpud_fail(error, GPUD_PEER,
                             "the peer offers memory by pointer, and is another process");

    ring->slot_size = description->slot_size;
    ring->slots_per_memory = description->slots_per_memory;
    for (uint32_t i = 0; i < description->memories; i++) {
        struct gpud_handle handle = description->handle[i];
        handle.keep = ring->has_images;
        enum gpud_status status =
            gpud_memory_import(ring->device, &handle, ring->slot_size * ring->slots_per_memory,
                               ring->usage, &ring->memory[ring->memories], error);
        if (status != GPUD_OK) {
            while (ring->memories > before)
                gpud_memory_unref(&ring->memory[--ring->memories]);
            return status;
        }
        ring->memories++;
    }
    return GPUD_OK;
}

enum gpud_status gpud_ring_view(const struct gpud_ring *ring, struct gpud_device *device,
                                uint32_t first, struct gpud_memory *views[GPUD_RING_MEMORIES_MAX],
                                struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = first; status == GPUD_OK && i < ring->memories; i++)
        status = gpud_memory_view(ring->memory[i], device, &views[i], error);
    return status;
}

void gpud_ring_finish(struct gpud_ring *ring)
{
    while (ring->memories)
        gpud_memory_unref(&ring->memory[--ring->memories]);
}
