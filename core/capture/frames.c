/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Turns a dequeued buffer into a frame, in place or by a copy of the device into a slot; and takes
 * frames back. Nothing here allocates. */
#include "capture/frames.h"

#include "base/clock.h"
#include "capture/buffers.h"
#include "capture/feed.h"

#include <string.h>

/* --- both ---------------------------------------------------------------------------------- */

static struct gpud_frame *acquire_slot(struct gpud_capture_ring *ring, uint32_t slot)
{
    struct gpud_frame *frame = &ring->frames[slot];
    gpud_lock_take(&ring->lock);
    ring->acquired |= gpud_capture_bit(slot);
    gpud_lock_release(&ring->lock);
    atomic_fetch_add_explicit(&ring->references, 1, memory_order_relaxed);
    frame->access = 0;
    return frame;
}

/* The device has finished with a buffer. Runs in a thread of the device's driver, so it must not
 * call the capture driver: the next acquiring or releasing thread queues the buffer. */
static void on_complete(void *arg, enum gpud_status status)
{
    struct gpud_capture_buffer *buffer = arg;
    struct gpud_capture_ring *ring = buffer->ring;
    gpud_lock_take(&ring->lock);
    ring->pending--;
    ring->to_queue |= gpud_capture_bit(buffer->raw.index);
    ring->failed |= status != GPUD_OK;
    ring->returned = true;
    gpud_capture_ring_wake(ring, true);
    pthread_cond_signal(&ring->complete);
    gpud_lock_release(&ring->lock);
}

/* --- in place ------------------------------------------------------------------------------ */

static struct gpud_capture_buffer *buffer_of(const struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    return &ring->buffers[frame->slot];
}

static struct gpud_frame *acquire_in_place(struct gpud_capture_ring *ring, uint32_t index)
{
    ring->buffers[index].posted = false;
    return acquire_slot(ring, index);
}

/* Whether queues have been given work on the buffer since it was acquired. All of it comes before
 * everything on the frame's own queue. */
static bool is_used(const struct gpud_frame *frame)
{
    return frame->queue && (buffer_of(frame)->posted || frame->access);
}

static enum gpud_status wait_in_place(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    return is_used(frame) ? gpud_frame_join_wait(frame, queue, error) : GPUD_OK;
}

static enum gpud_status post_in_place(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_join_post(frame, queue, error);
    if (status == GPUD_OK)
        buffer_of(frame)->posted = true;
    return status;
}

/* Returns the buffer to the driver when the queue has finished with it. */
static void queue_when_complete(struct gpud_capture_ring *ring, struct gpud_frame *frame)
{
    struct gpud_capture_buffer *buffer = buffer_of(frame);
    struct gpud_error why;
    if (gpud_queue_on_complete(frame->queue, on_complete, buffer, &why) != GPUD_OK) {
        /* A buffer whose work never ends does not come back. */
        if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_SEC), &why) == GPUD_OK)
            on_complete(buffer, GPUD_OK);
        else
            gpud_log_error(ring->log, "capture", "a buffer of the driver's is lost: %s",
                           why.reason);
    }
    gpud_queue_flush(frame->queue, NULL);
}

/* After the stop the driver fills no buffer, and no other thread waits for the queue. */
static void finish_after_stop(struct gpud_capture_ring *ring, struct gpud_frame *frame)
{
    struct gpud_error why;
    if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_CAPTURE_STOP_TIMEOUT), &why) == GPUD_OK)
        return;
    gpud_log_error(ring->log, "capture", "work on a frame never ends: its memory is not freed: %s",
                   why.reason);
    atomic_fetch_add(&ring->references, 1); /* kept for good */
}

static void release_in_place(struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    bool used = is_used(frame);
    gpud_lock_take(&ring->lock);
    bool pending = used && !ring->stopped;
    ring->acquired &= ~gpud_capture_bit(frame->slot);
    if (pending)
        ring->pending++;
    else
        ring->to_queue |= gpud_capture_bit(frame->slot);
    gpud_capture_ring_wake(ring, false);
    gpud_lock_release(&ring->lock);
    if (pending)
        queue_when_complete(ring, frame);
    else if (used)
        finish_after_stop(ring, frame);
    /* Now rather than at the next acquire: until then the driver might run out of buffers. */
    if (!pending || gpud_capture_ring_has_back(ring))
        gpud_capture_ring_requeue(ring, NULL);
    gpud_capture_ring_unref(ring);
}

/* The driver has written the bytes before it returns the buffer, so neither the CPU nor a queue
 * waits for them; only for later work of the application's queues or maps. */
const struct gpud_frame_owner_ops gpud_capture_in_place_ops = {
    .release = release_in_place,
    .wait = wait_in_place,
    .wait_host = gpud_frame_wait_host_complete,
    .post = post_in_place,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

/* --- copied -------------------------------------------------------------------------------- */

static enum gpud_status enqueue(const struct gpud_capture_buffer *buffer,
                                const struct gpud_v4l2_buffer *dequeued,
                                const struct gpud_frame *slot, struct gpud_error *error)
{
    const struct gpud_placement *placement = &buffer->ring->placement;
    struct gpud_queue *queue = slot->queue;
    struct gpud_memory *to = slot->memory;
    bool shifted = false;
    for (uint32_t i = 0; i < placement->areas; i++)
        shifted |= dequeued->plane[i].data_offset != 0;
    if (!shifted)
        return gpud_queue_copy(queue,
                               &(struct gpud_copy){
                                   .to = to,
                                   .from = buffer->source,
                                   .row_bytes = placement->layout.size,
                                   .rows = 1,
                               },
                               error);
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < placement->layout.planes && status == GPUD_OK; i++) {
        const struct gpud_plane *plane = &placement->layout.plane[i];
        status = gpud_queue_copy(
            queue,
            &(struct gpud_copy){
                .to = to,
                .from = buffer->source,
                .to_offset = plane->offset,
                .from_offset = plane->offset + dequeued->plane[placement->area_of[i]].data_offset,
                .to_stride = plane->stride,
                .from_stride = plane->stride,
                .row_bytes = plane->row_bytes,
                .rows = plane->rows,
            },
            error);
    }
    return status;
}

static enum gpud_status acquire_copied(struct gpud_capture_ring *ring,
                                       const struct gpud_v4l2_buffer *dequeued,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_capture_buffer *buffer = &ring->buffers[dequeued->index];
    gpud_lock_take(&ring->lock);
    uint32_t slot = (uint32_t)__builtin_ctzll(~ring->acquired);
    bool failed = ring->failed;
    ring->pending++;
    gpud_lock_release(&ring->lock);

    enum gpud_status status =
        failed ? gpud_fail(error, GPUD_IO, "a copy on %s failed: start the capture again",
                           ring->device->info.name)
               : GPUD_OK;
    if (status == GPUD_OK) {
        if (buffer->bounce)
            memcpy(buffer->bounce->host, buffer->memory->host, ring->placement.layout.size);
        status = enqueue(buffer, dequeued, &ring->frames[slot], error);
    }
    if (status == GPUD_OK)
        status = gpud_queue_on_complete(ring->frames[slot].queue, on_complete, buffer, error);
    if (status != GPUD_OK) {
        /* Enqueued work may still read the buffer; if it never ends, the buffer does not come
         * back. */
        if (gpud_queue_finish(ring->frames[slot].queue, gpud_deadline(GPUD_SEC), NULL) == GPUD_OK)
            on_complete(buffer, status);
        return status;
    }
    *frame = acquire_slot(ring, slot);
    status = gpud_queue_flush((*frame)->queue, error);
    if (status != GPUD_OK)
        gpud_frame_release(frame); /* on_complete() returns the buffer */
    return status;
}

static void release_copied(struct gpud_frame *frame)
{
    struct gpud_capture_ring *ring = frame->owner;
    gpud_lock_take(&ring->lock);
    ring->acquired &= ~gpud_capture_bit(
        frame->slot); /* the queue's work on the slot comes before the next copy */
    gpud_capture_ring_wake(ring, false);
    gpud_lock_release(&ring->lock);
    if (gpud_capture_ring_has_back(ring))
        gpud_capture_ring_requeue(ring, NULL);
    gpud_capture_ring_unref(ring);
}

const struct gpud_frame_owner_ops gpud_capture_copied_ops = {
    .release = release_copied,
    .wait = gpud_frame_join_wait,
    .wait_host = gpud_frame_wait_host_complete, /* after everything on the frame's queue */
    .post = gpud_frame_join_post,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

enum gpud_status gpud_capture_ring_acquire(struct gpud_capture_ring *ring,
                                           const struct gpud_v4l2_buffer *dequeued,
                                           struct gpud_frame **frame, struct gpud_error *error)
{
    if (!ring->in_place)
        return acquire_copied(ring, dequeued, frame, error);
    *frame = acquire_in_place(ring, dequeued->index);
    return GPUD_OK;
}
