/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The canary: a driver may accept a buffer's memory and write elsewhere without an error (AMD's
 * exporter moves its memory when a device attaches). Each buffer gets a pattern before its first
 * capture; a frame that still has all of it was never written. */
#include "capture/canary.h"

#include "base/clock.h"

#include <string.h>

#define SPOT 16 /* bytes */
#define ROWS 5  /* that start with a spot, from the first row to the last */
#define SPOTS (ROWS * GPUD_PLANES_MAX)
/* The time for the copy engine to fetch a few bytes. */
#define LOOK_TIMEOUT (2 * GPUD_SEC)

static void paint(unsigned char *spot, uint32_t number)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (number + 1);
    for (uint32_t i = 0; i < SPOT; i++) {
        state ^= state >> 29;
        state *= UINT64_C(0xbf58476d1ce4e5b9);
        spot[i] = (unsigned char)(state >> 40);
    }
}

/* The offset of a spot, and its bytes; 0: the picture is too small for it. */
static uint32_t place(const struct gpud_layout *layout, uint32_t number, uint64_t *offset)
{
    const struct gpud_plane *plane = &layout->plane[number / ROWS];
    uint32_t row = number % ROWS;
    if (number / ROWS >= layout->planes || plane->rows < ROWS)
        return 0;
    *offset = plane->offset + (uint64_t)plane->stride * (row * (plane->rows - 1) / (ROWS - 1));
    return plane->row_bytes < SPOT ? (uint32_t)plane->row_bytes : SPOT;
}

static enum gpud_status map(struct gpud_memory *memory, struct gpud_queue *queue, uint64_t offset,
                            uint32_t size, unsigned access, void **data, struct gpud_error *error)
{
    if (!memory->host)
        return gpud_queue_map(queue, memory, offset, size, access, gpud_deadline(LOOK_TIMEOUT),
                              data, error);
    *data = (char *)memory->host + offset;
    return gpud_memory_begin_access(memory, access, error);
}

static enum gpud_status unmap(struct gpud_memory *memory, struct gpud_queue *queue, void *data,
                              unsigned access, struct gpud_error *error)
{
    if (!memory->host)
        return gpud_queue_unmap(queue, memory, data, error);
    gpud_memory_end_access(memory, access);
    return GPUD_OK;
}

static enum gpud_status set(const struct gpud_capture_ring *ring, struct gpud_memory *memory,
                            struct gpud_queue *queue, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t number = 0; number < SPOTS && status == GPUD_OK; number++) {
        uint64_t offset;
        unsigned char spot[SPOT];
        void *data;
        uint32_t size = place(&ring->placement.layout, number, &offset);
        if (!size)
            continue;
        paint(spot, number);
        status = map(memory, queue, offset, size, GPUD_WRITE, &data, error);
        if (status != GPUD_OK)
            return status;
        memcpy(data, spot, size);
        status = unmap(memory, queue, data, GPUD_WRITE, error);
    }
    if (status == GPUD_OK && queue)
        status = gpud_queue_finish(queue, gpud_deadline(LOOK_TIMEOUT), error);
    return status;
}

enum gpud_status gpud_capture_ring_set_canaries(struct gpud_capture_ring *ring,
                                                struct gpud_error *error)
{
    struct gpud_queue *queue = NULL;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++) {
        struct gpud_memory *memory = ring->buffers[i].memory;
        if (!queue && !memory->host)
            status = gpud_queue_create(memory->device, &queue, error);
        if (status == GPUD_OK)
            status = set(ring, memory, queue, error);
        ring->unproven |= UINT64_C(1) << i;
    }
    gpud_queue_unref(&queue);
    return status;
}

enum gpud_status gpud_capture_ring_prove(struct gpud_capture_ring *ring, uint32_t index,
                                         struct gpud_error *error)
{
    struct gpud_memory *memory = ring->buffers[index].memory;
    struct gpud_queue *queue = ring->frames[index].queue;
    bool looked = false, written = false;
    for (uint32_t number = 0; number < SPOTS && !written; number++) {
        uint64_t offset;
        unsigned char spot[SPOT];
        void *data;
        uint32_t size = place(&ring->placement.layout, number, &offset);
        if (!size)
            continue;
        paint(spot, number);
        enum gpud_status status = map(memory, queue, offset, size, GPUD_READ, &data, error);
        if (status != GPUD_OK)
            return status;
        looked = true;
        written = memcmp(data, spot, size) != 0;
        status = unmap(memory, queue, data, GPUD_READ, error);
        if (status != GPUD_OK)
            return status;
    }
    if (looked && !written)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver took the memory of %s and wrote elsewhere",
                         ring->device->info.name);
    ring->unproven &= ~(UINT64_C(1) << index);
    ring->proven = true;
    return GPUD_OK;
}
