/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A target's frames: a slot that the writer has filled is a frame until it is released. Nothing
 * here allocates. */
#include "target/frames.h"

#include "base/clock.h"
#include "target/markers.h"
#include "target/memory.h"

static uint64_t bit(uint32_t slot)
{
    return UINT64_C(1) << slot;
}

static struct gpud_target_place *place_of(const struct gpud_frame *frame)
{
    return &((struct gpud_target_ring *)frame->owner)->place[frame->slot];
}

/* With the lock held: publishes the number below which no frame is read any more. */
static void tell_given_back(struct gpud_target_ring *ring)
{
    uint32_t first = ring->next;
    for (uint64_t left = ring->held | ring->pending; left; left &= left - 1) {
        uint32_t number = ring->place[__builtin_ctzll(left)].number;
        first = number < first ? number : first;
    }
    atomic_store_explicit(gpud_target_word(ring, GPUD_TARGET_GIVEN_BACK), first,
                          memory_order_release);
}

/* --- owner --------------------------------------------------------------------------------- */

/* Work that queues were given on the frame comes before everything on the frame's own queue. */
static bool is_used(const struct gpud_frame *frame)
{
    return frame->queue && (place_of(frame)->posted || frame->access);
}

static enum gpud_status post(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_join_post(frame, queue, error);
    if (status == GPUD_OK && frame->queue)
        place_of(frame)->posted = true;
    return status;
}

static bool is_poisoned(const struct gpud_frame *frame)
{
    const struct gpud_target_place *place = place_of(frame);
    return atomic_load(&place->torn) || gpud_target_is_lapped(frame->owner, place->number);
}

/* The device has finished with a slot. Runs in a thread of its driver. */
static void on_complete(void *arg, enum gpud_status status)
{
    struct gpud_target_place *place = arg;
    struct gpud_target_ring *ring = place->ring;
    gpud_lock_take(&ring->lock);
    ring->pending &= ~bit((uint32_t)(place - ring->place));
    ring->failed |= status != GPUD_OK;
    tell_given_back(ring);
    gpud_lock_release(&ring->lock);
    gpud_target_ring_unref(ring);
}

static void give_back_when_complete(struct gpud_target_ring *ring, struct gpud_frame *frame)
{
    struct gpud_target_place *place = place_of(frame);
    struct gpud_error why;
    atomic_fetch_add_explicit(&ring->references, 1, memory_order_relaxed);
    if (gpud_queue_on_complete(frame->queue, on_complete, place, &why) != GPUD_OK) {
        /* A slot whose work never ends does not come back. */
        if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_SEC), &why) == GPUD_OK)
            on_complete(place, GPUD_OK);
        else
            gpud_log_error(&ring->context->log, "target", "a slot of \"%s\" is lost: %s",
                           ring->name, why.reason);
    } else {
        gpud_queue_flush(frame->queue, NULL);
    }
    gpud_target_ring_unref(ring); /* the other reference goes with the completion */
}

static void release(struct gpud_frame *frame)
{
    struct gpud_target_ring *ring = frame->owner;
    bool used = is_used(frame), lapped = is_poisoned(frame);
    gpud_lock_take(&ring->lock);
    ring->held &= ~bit(frame->slot);
    if (used)
        ring->pending |= bit(frame->slot);
    ring->corrupted += lapped;
    tell_given_back(ring);
    gpud_lock_release(&ring->lock);
    if (used)
        give_back_when_complete(ring, frame); /* and drops the reference */
    else
        gpud_target_ring_unref(ring);
}

/* Makes what the writer wrote visible to the frame's own queue and to the device. */
static enum gpud_status make_visible(struct gpud_target_ring *ring, struct gpud_frame *frame,
                                     struct gpud_error *error)
{
    const struct gpud_target_place *place = place_of(frame);
    if (place->signal)
        return gpud_signal_wait_queue(place->signal, place->number + 1, frame->queue, error);
    return gpud_memory_flush_remote(frame->memory, error);
}

/* How long a call that has no deadline of its own waits for the marker. */
#define WHOLE_DEADLINE GPUD_SEC

/* The bytes are complete before a frame is handed out, unless it is early. If the marker is a
 * device's, the frame's own queue waits for it too: not before it was seen. */
static enum gpud_status wait_host(struct gpud_frame *frame, int64_t deadline,
                                  struct gpud_error *error)
{
    struct gpud_target_ring *ring = frame->owner;
    struct gpud_target_place *place = place_of(frame);
    if (!place->early)
        return GPUD_OK;
    enum gpud_status status =
        gpud_target_wait_lines(ring, place->number, GPUD_TARGET_WHOLE, deadline, error);
    if (status == GPUD_OK)
        status = make_visible(ring, frame, error);
    if (status == GPUD_OK)
        place->early = false;
    return status;
}

static enum gpud_status wait(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error)
{
    enum gpud_status status = wait_host(frame, gpud_deadline(WHOLE_DEADLINE), error);
    return status == GPUD_OK ? gpud_frame_join_wait(frame, queue, error) : status;
}

static enum gpud_status wait_lines(struct gpud_frame *frame, uint32_t lines, int64_t deadline,
                                   struct gpud_error *error)
{
    struct gpud_target_ring *ring = frame->owner;
    const struct gpud_target_place *place = place_of(frame);
    if (!place->early)
        return GPUD_OK;
    enum gpud_status status = gpud_target_wait_lines(ring, place->number, lines, deadline, error);
    return status == GPUD_OK ? gpud_memory_flush_remote(frame->memory, error) : status;
}

static const struct gpud_frame_owner_ops frame_ops = {
    .release = release,
    .wait = wait,
    .wait_host = wait_host,
    .post = post,
    .is_poisoned = is_poisoned,
    .wait_lines = wait_lines,
};

enum gpud_status gpud_target_frames_create(struct gpud_target_ring *ring, struct gpud_error *error)
{
    for (uint32_t i = 0; i < ring->slots; i++) {
        struct gpud_frame *frame = &ring->frames[i];
        frame->ops = &frame_ops;
        frame->owner = ring;
        frame->slot = i;
        frame->memory = gpud_target_slot_memory(ring, i, &frame->offset);
        if (ring->device == ring->host)
            continue; /* no queue: host memory */
        enum gpud_status status = gpud_queue_create(ring->device, &frame->queue, error);
        if (status != GPUD_OK)
            return status;
    }
    return GPUD_OK;
}

/* --- handing out --------------------------------------------------------------------------- */

/* The number of the next frame, with the lock held. false: there is no frame. */
static bool choose(struct gpud_target_ring *ring, uint32_t *number)
{
    uint32_t posted = ring->posted;
    if (ring->next > posted) /* that one is out already, and not whole yet */
        return false;
    /* The frames that the writer leaves alone. */
    uint32_t whole = ring->slots - (ring->pace == GPUD_TARGET_FREE_RUNNING);
    *number = posted - ring->next > whole ? posted - 1 : ring->next;
    /* A slot that is still in use is not handed out again. */
    while (*number < posted && (ring->held | ring->pending) & bit(*number % ring->slots))
        ++*number;
    return *number < posted;
}

static void describe(struct gpud_target_ring *ring, struct gpud_frame *frame, uint32_t number)
{
    struct gpud_frame_info *info = &frame->info;
    info->dts_ns = GPUD_TIME_NONE;
    info->duration_ns =
        ring->fps_num ? (uint64_t)GPUD_SEC * ring->fps_den / ring->fps_num : GPUD_TIME_NONE;
    info->offset = number;
    info->flags = 0;
    info->meta_size = 0;
    info->layout = ring->layout;
}

/* Whether the frame that is being written may be handed out, with the lock held. */
static enum gpud_status choose_early(struct gpud_target_ring *ring, uint32_t *number, bool *found,
                                     struct gpud_error *error)
{
    uint32_t lines = 0;
    *number = ring->posted;
    if (!ring->by_lines || ring->next != ring->posted || ring->posted >= GPUD_TARGET_FRAMES_MAX ||
        (ring->held | ring->pending) & bit(*number % ring->slots))
        return GPUD_OK;
    enum gpud_status status = gpud_target_look_at_lines(ring, *number, &lines, error);
    *found = status == GPUD_OK && lines > 0;
    return status;
}

enum gpud_status gpud_target_take(struct gpud_target_ring *ring, struct gpud_frame **frame,
                                  uint64_t *dropped, struct gpud_error *error)
{
    uint32_t number;
    gpud_lock_take(&ring->lock);
    bool failed = ring->failed, found = !failed && choose(ring, &number), early = false;
    enum gpud_status status = GPUD_OK;
    if (!failed && !found) {
        status = choose_early(ring, &number, &early, error);
        found = early;
    }
    /* Without a frame to hand out, skips those that cannot be handed out later either. */
    uint32_t from = ring->next;
    if (!failed && (found || from < ring->posted))
        ring->next = found ? number + 1 : ring->posted;
    if (found) {
        ring->held |= bit(number % ring->slots);
        ring->place[number % ring->slots].number = number;
    }
    if (ring->next != from)
        tell_given_back(ring);
    gpud_lock_release(&ring->lock);
    if (failed)
        return gpud_fail(error, GPUD_IO, "work on frames failed on %s: make a new target",
                         ring->device->info.name);
    if (status != GPUD_OK)
        return status;
    *dropped = ring->next - from - found;
    if (!found)
        return GPUD_OK;

    struct gpud_frame *taken = &ring->frames[number % ring->slots];
    atomic_fetch_add_explicit(&ring->references, 1, memory_order_relaxed);
    taken->access = 0;
    place_of(taken)->posted = false;
    place_of(taken)->early = early;
    atomic_store(&place_of(taken)->lines, 0);
    atomic_store(&place_of(taken)->torn, false);
    describe(ring, taken, number);
    if (!early)
        status = make_visible(ring, taken, error);
    if (status != GPUD_OK)
        gpud_frame_release(&taken);
    else
        *frame = taken;
    return status;
}
