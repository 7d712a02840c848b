/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A ring's buffers: made by its method, mapped for the device that copies them, dropped. The ring
 * is also freed here, perhaps in the thread that releases the last frame. */
#include "capture/buffers.h"

#include "base/fd.h"
#include "capture/method.h"

#include <errno.h>
#include <stdlib.h>

void gpud_capture_buffer_drop(struct gpud_capture_buffer *buffer)
{
    for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++)
        gpud_fd_close(&buffer->dmabuf[area]);
    gpud_memory_unref(&buffer->bounce);
    gpud_memory_unref(&buffer->memory);
}

static void drop_buffers(struct gpud_capture_ring *ring)
{
    for (uint32_t i = 0; i < ring->buffer_count; i++)
        gpud_capture_buffer_drop(&ring->buffers[i]);
    free(ring->buffers);
    ring->buffers = NULL;
    ring->buffer_count = 0;
}

/* The memory goes first: a driver may keep mapped buffers. */
void gpud_capture_buffers_undo(struct gpud_capture_ring *ring)
{
    uint32_t none = 0;
    drop_buffers(ring);
    gpud_v4l2_request(ring->node, ring->method->memory, &none);
}

enum gpud_status gpud_capture_buffers_create(struct gpud_capture_ring *ring,
                                             struct gpud_error *error)
{
    uint32_t count = ring->limit + GPUD_CAPTURE_SPARE;
    if (gpud_v4l2_request(ring->node, ring->method->memory, &count) < 0)
        return errno == EBUSY
                   ? gpud_fail_native(error, GPUD_IO, "errno", EBUSY,
                                      "%s is in use by another program", ring->node->path)
                   : gpud_fail_errno(error, "the driver makes no buffers of this kind");
    if (count < 2 || count > GPUD_CAPTURE_BUFFERS_MAX)
        return gpud_fail(error, GPUD_IO, "the driver made %u buffers: 2 to %d can be used", count,
                         GPUD_CAPTURE_BUFFERS_MAX);
    ring->buffers = calloc(count, sizeof(*ring->buffers));
    if (!ring->buffers)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u buffers", count);
    ring->buffer_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        buffer->ring = ring;
        buffer->raw.index = i;
        buffer->raw.memory = ring->method->memory;
        buffer->raw.planes = ring->placement.areas;
        for (uint32_t area = 0; area < GPUD_PLANES_MAX; area++)
            buffer->dmabuf[area] = -1;
    }
    return ring->method->setup(ring, error);
}

/* Maps a buffer's pages for the copying device. With a method of that kind, the CPU copies each
 * frame into pages that the device can read. */
static enum gpud_status show_to_device(struct gpud_capture_ring *ring,
                                       struct gpud_capture_buffer *buffer, struct gpud_error *error)
{
    struct gpud_memory *shown = buffer->memory;
    if (ring->method->by_cpu) {
        enum gpud_status status = gpud_memory_alloc_for(ring->host, ring->placement.layout.size,
                                                        GPUD_USAGE_LOCAL, &buffer->bounce, error);
        if (status != GPUD_OK)
            return status;
        shown = buffer->bounce;
    }
    enum gpud_status status = gpud_memory_view(shown, ring->device, &buffer->source, error);
    if (status == GPUD_OK && buffer->source->unpinned && !ring->method->by_cpu)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s cannot register the driver's memory",
                         ring->device->info.name);
    return status;
}

enum gpud_status gpud_capture_buffers_show(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++)
        status = show_to_device(ring, &ring->buffers[i], error);
    return status;
}

static void destroy(struct gpud_capture_ring *ring)
{
    for (uint32_t i = 0; i < ring->frame_count; i++) {
        gpud_queue_unref(&ring->frames[i].queue);
        if (!ring->in_place)
            gpud_memory_unref(&ring->frames[i].memory);
    }
    free(ring->frames);
    drop_buffers(ring);
    gpud_fd_close(&ring->wake_fd);
    gpud_device_close(&ring->device);
    gpud_device_close(&ring->host);
    pthread_cond_destroy(&ring->complete);
    gpud_lock_destroy(&ring->lock);
    gpud_lock_destroy(&ring->driver_lock);
    free(ring);
}

void gpud_capture_ring_unref(struct gpud_capture_ring *ring)
{
    if (atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) == 1)
        destroy(ring);
}
