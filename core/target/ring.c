/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ring that the device writes, its markers, and its frames. */
#include "target/target.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* === memory ================================================================================== */
/* The memory of a target's ring: allocated, freed, or left with the driver. */

#define PAGE UINT64_C(4096)

/* --- allocating ---------------------------------------------------------------------------- */

/* Whether the writer has announced that it writes no more. */
static bool target_has_stopped(const struct gpud_target_ring *ring)
{
    return atomic_load_explicit(gpud_target_word(ring, GPUD_TARGET_STOPPED),
                                memory_order_acquire) == 1;
}

static int64_t memory_finish(void *arg)
{
    struct gpud_target_ring *ring = arg;
    bool abandon = atomic_load(&ring->exposed) && !target_has_stopped(ring);
    for (uint32_t i = 0; i < ring->slots; i++) {
        gpud_signal_destroy(&ring->place[i].signal);
        gpud_queue_unref(&ring->frames[i].queue);
    }
    for (uint32_t i = 0; i < ring->memories; i++) {
        if (abandon)
            gpud_memory_abandon(&ring->memory[i]);
        else
            gpud_memory_unref(&ring->memory[i]);
    }
    gpud_memory_unref(&ring->words);
    gpud_fd_close(&ring->memory_fd);
    gpud_fd_close(&ring->words_fd);
    gpud_device_close(&ring->host);
    gpud_device_close(&ring->device);
    gpud_lock_destroy(&ring->lock);
    free(ring);
    return -1;
}

/* The last reference frees the memory, except memory that a writer on the bus may still write. From
 * any thread: a driver's may drop the last reference, and must not wait for its device. */
static void ring_unref(struct gpud_target_ring *ring)
{
    if (atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) != 1)
        return;
    if (ring->device == ring->host)
        memory_finish(ring);
    else
        gpud_worker_add(&ring->context->later, &ring->work, memory_finish, ring);
}

static enum gpud_status export_fd(struct gpud_memory *memory, int *fd, struct gpud_error *error)
{
    struct gpud_handle handle;
    enum gpud_status status = gpud_memory_export(memory, &handle, error);
    if (status == GPUD_OK)
        *fd = handle.fd;
    return status;
}

static enum gpud_status make_one(struct gpud_target_ring *ring, enum gpud_usage usage,
                                 struct gpud_error *error)
{
    enum gpud_status status = gpud_memory_alloc_for(ring->device, ring->slots * ring->slot_size,
                                                    usage, &ring->memory[0], error);
    if (status == GPUD_OK)
        ring->memories = 1;
    return status;
}

static enum gpud_status make_memory(struct gpud_target_ring *ring, struct gpud_error *error)
{
    struct gpud_device *device = ring->device;
    enum gpud_status status;
    if (device == ring->host) {
        ring->kind = GPUD_TARGET_HOST;
        status = make_one(ring, GPUD_USAGE_TARGET, error);
        return status == GPUD_OK ? export_fd(ring->memory[0], &ring->memory_fd, error) : status;
    }
    if (device->caps & GPUD_CAP_BUS_ADDRESSABLE) {
        ring->kind = GPUD_TARGET_BUS_ADDRESS;
        status = GPUD_OK;
        for (uint32_t i = 0; i < ring->slots && status == GPUD_OK; i++) {
            struct gpud_target_place *place = &ring->place[i];
            status = gpud_memory_alloc_for(device, ring->slot_size, GPUD_USAGE_TARGET,
                                           &ring->memory[i], error);
            if (status != GPUD_OK)
                return status;
            ring->memories++;
            status = gpud_memory_export(ring->memory[i], &place->bus, error);
            if (status == GPUD_OK)
                status = gpud_signal_create(ring->memory[i], 0, &place->signal, error);
        }
        return status;
    }
    if (!device->ops->dmabuf)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "other writers cannot write memory of %s%s%s; use device=host",
                         device->info.name, device->no_direct[0] ? ": " : "", device->no_direct);
    struct gpud_error why;
    ring->kind = GPUD_TARGET_DMABUF;
    status = make_one(ring, GPUD_USAGE_DMABUF, error);
    if (status == GPUD_OK &&
        gpud_memory_export_dmabuf(ring->memory[0], 0, ring->memory[0]->size, &ring->memory_fd,
                                  &ring->memory_fd_offset, &why) != GPUD_OK)
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "other writers cannot write memory of %s: %s; use device=host",
                           device->info.name, why.reason);
    return status;
}

/* The size of a slot of this layout. */
static uint64_t target_slot_size(const struct gpud_layout *layout)
{
    return (layout->size + PAGE - 1) / PAGE * PAGE;
}

/* === markers ================================================================================= */
/* Finds out by the markers how far the writer has come, and checks them against each other.
 *
 * Frames are written in order, so the state is one number: how many are written. The next frame's
 * marker is in its slot. After a pause the writer may be rounds ahead, and is found by growing
 * steps. Words in host memory can be read, so every wrong value is detected. DirectGMA's markers
 * can only be compared, by a wait of the device: the waits for each slot's next value stay enqueued
 * on queues that do nothing else. */

/* After a longer pause the writer may be rounds ahead. */
#define OFTEN (20 * GPUD_MSEC)

/* How long a marker may be ahead of an earlier one: a device may see two markers in another order
 * than they were written, and a busy machine may notice late. */
#define AHEAD_MAX_WORDS (100 * GPUD_MSEC)
#define AHEAD_MAX_DEVICE (3 * GPUD_SEC)

/* Longest wait before the caller checks for other events. */
#define SLICE (20 * GPUD_MSEC)
#define NAP_MIN (50 * GPUD_USEC)
#define NAP_MAX GPUD_MSEC

static _Atomic uint32_t *marker_of(const struct gpud_target_ring *ring, uint32_t slot)
{
    return gpud_target_word(ring, GPUD_TARGET_MARKER(slot));
}

static void note_seen(struct gpud_target_place *place, uint32_t value)
{
    uint32_t seen = atomic_load_explicit(&place->seen, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_weak(&place->seen, &seen, value))
        ;
}

/* Whether frame `number` is written. patient: a device that was not asked about it before gets the
 * time to look. */
static enum gpud_status is_written(const struct gpud_target_ring *ring, uint32_t number,
                                   bool patient, bool *written, struct gpud_error *error)
{
    uint32_t slot = number % ring->slots, value = number + 1;
    struct gpud_target_place *place = (struct gpud_target_place *)&ring->place[slot];
    enum gpud_status status = GPUD_OK;
    *written = atomic_load_explicit(&place->seen, memory_order_acquire) >= value;
    if (*written)
        return GPUD_OK;
    if (!place->signal) {
        *written = atomic_load_explicit(marker_of(ring, slot), memory_order_acquire) >= value;
        return GPUD_OK;
    }
    if (patient) {
        status = gpud_signal_wait_host(place->signal, value, 0, error);
        *written = status == GPUD_OK;
        status = status == GPUD_TIMEOUT ? GPUD_OK : status;
    } else {
        status = gpud_signal_look(place->signal, value, written, error);
    }
    if (status == GPUD_OK && *written)
        note_seen(place, value);
    return status;
}

/* Whether the writer has overwritten frame `number`, or may be doing so. From any thread. */
static bool is_lapped(const struct gpud_target_ring *ring, uint32_t number)
{
    /* A free-running writer starts to fill a slot as soon as the previous one is full. */
    uint32_t over = ring->slots - (ring->pace == GPUD_TARGET_FREE_RUNNING);
    bool written = false;
    return is_written(ring, number + over, false, &written, NULL) == GPUD_OK && written;
}

/* --- words --------------------------------------------------------------------------------- */

/* Checks the markers in host memory against those that were seen before. */
static enum gpud_status check_words(struct gpud_target_ring *ring, struct gpud_error *error)
{
    for (uint32_t slot = 0; slot < ring->slots && !ring->place[slot].signal; slot++) {
        struct gpud_target_place *place = &ring->place[slot];
        uint32_t seen = atomic_load_explicit(&place->seen, memory_order_relaxed);
        uint32_t value = atomic_load_explicit(marker_of(ring, slot), memory_order_acquire);
        if (value == seen)
            continue;
        if (value < seen)
            return gpud_fail(
                error, GPUD_PEER,
                "the marker of slot %u went back from %u to %u: a writer that starts again "
                "begins with the number in the word next",
                slot, seen, value);
        if (value > GPUD_TARGET_FRAMES_MAX)
            return gpud_fail(
                error, GPUD_PEER,
                "the marker of slot %u stands at %u: a ring has frames up to the marker %u "
                "only",
                slot, value, GPUD_TARGET_FRAMES_MAX);
        if ((value - 1) % ring->slots != slot)
            return gpud_fail(
                error, GPUD_PEER,
                "the marker of slot %u stands at %u, which belongs to slot %u: frame n "
                "goes to slot n %% %u, with the marker n + 1",
                slot, value, (value - 1) % ring->slots, ring->slots);
        note_seen(place, value);
    }
    return GPUD_OK;
}

/* --- the number of frames ------------------------------------------------------------------ */

/* Goes on from the written frame `at` by whole rounds, as far as the slot's marker reaches. */
static enum gpud_status skip_rounds(const struct gpud_target_ring *ring, bool patient, uint32_t *at,
                                    struct gpud_error *error)
{
    uint32_t step = ring->slots;
    while (step < GPUD_TARGET_FRAMES_MAX - *at) {
        bool written;
        enum gpud_status status = is_written(ring, *at + step, patient, &written, error);
        if (status != GPUD_OK)
            return status;
        if (written) {
            *at += step;
            step *= 2;
        } else if (step == ring->slots) {
            return GPUD_OK;
        } else {
            step = ring->slots;
        }
    }
    return GPUD_OK;
}

/* A written frame with an unwritten one before it. It is an error only if it stays. */
struct gap {
    bool found;
    uint32_t number, missing;
};

/* Brings ring->posted up to date. */
static enum gpud_status advance(struct gpud_target_ring *ring, bool patient, struct gap *gap,
                                struct gpud_error *error)
{
    uint32_t posted = ring->posted;
    enum gpud_status status;
    bool written, rounds = false;
    for (;;) {
        if (posted >= GPUD_TARGET_FRAMES_MAX)
            break;
        status = is_written(ring, posted, patient, &written, error);
        if (status != GPUD_OK || !written)
            break;
        uint32_t at = posted;
        status = skip_rounds(ring, patient, &at, error);
        if (status != GPUD_OK)
            break;
        rounds |= at != posted;
        posted = at + 1;
    }
    if (posted >= GPUD_TARGET_FRAMES_MAX)
        status = GPUD_OK;
    /* After a jump: whether the frames of the last round before the newest are written too. */
    for (uint32_t i = 1; rounds && i < ring->slots && status == GPUD_OK && !gap->found; i++) {
        status = is_written(ring, posted - 1 - i, true, &written, error);
        if (status == GPUD_OK)
            *gap = (struct gap){!written, posted - 1, posted - 1 - i};
    }
    if (status == GPUD_OK && !gap->found)
        ring->posted = posted;
    return status;
}

/* --- rows ---------------------------------------------------------------------------------- */

/* How many rows of frame `number`, the next one, are announced. GPUD_PEER: more than it has. */
static enum gpud_status look_at_lines(struct gpud_target_ring *ring, uint32_t number,
                                      uint32_t *lines, struct gpud_error *error)
{
    const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)gpud_target_word(
        ring, GPUD_TARGET_LINES(number % ring->slots));
    uint64_t value = atomic_load_explicit(word, memory_order_acquire);
    /* Of another frame of this slot: none of this one is announced. */
    *lines = value >> 32 == number ? (uint32_t)value : 0;
    if (*lines <= ring->layout.height)
        return GPUD_OK;
    atomic_store(&ring->lied, true);
    return gpud_fail(error, GPUD_PEER,
                     "the word lines of slot %u says more rows of frame %u than the %u that it has",
                     number % ring->slots, number, ring->layout.height);
}

/* GPUD_TIMEOUT: not yet. */
static enum gpud_status try_lines(struct gpud_target_ring *ring, uint32_t number, uint32_t lines,
                                  struct gpud_error *error)
{
    struct gpud_target_place *place = &ring->place[number % ring->slots];
    bool written;
    uint32_t seen;
    if (is_lapped(ring, number))
        return gpud_fail(error, GPUD_PEER, "frame %u was overwritten by its writer", number);
    enum gpud_status status = is_written(ring, number, false, &written, error);
    if (status == GPUD_OK && !written)
        status = look_at_lines(ring, number, &seen, error);
    if (status == GPUD_PEER)
        atomic_store(&place->torn, true);
    if (status != GPUD_OK || written)
        return status;
    /* Notes what was seen. A writer that starts again writes the frame once more. */
    uint32_t before = atomic_load(&place->lines);
    if (seen < before || atomic_load(&place->torn)) {
        atomic_store(&place->torn, true);
        return gpud_fail(error, GPUD_PEER,
                         "frame %u is incomplete: its writer announced %u rows, and then %u",
                         place->number, before, seen);
    }
    while (before < seen && !atomic_compare_exchange_weak(&place->lines, &before, seen))
        ;
    if (seen >= lines)
        return GPUD_OK;
    return gpud_fail(error, GPUD_TIMEOUT, "%u of frame %u's %u rows are written", seen, number,
                     ring->layout.height);
}

/* Lines that are never announced: a wait for them is one for the marker alone. */
#define WHOLE UINT32_MAX

/* Waits until so many rows of a held frame are announced, or until its marker is written.
 * GPUD_PEER: the rows never come. From any thread. */
static enum gpud_status ring_wait_lines(struct gpud_target_ring *ring, uint32_t number,
                                        uint32_t lines, int64_t deadline, struct gpud_error *error)
{
    int64_t nap = NAP_MIN;
    for (;;) {
        enum gpud_status status = try_lines(ring, number, lines, error);
        int64_t now = gpud_now();
        if (status != GPUD_TIMEOUT || now >= deadline)
            return status;
        struct timespec until = gpud_timespec(deadline - now < nap ? deadline - now : nap);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &until, NULL);
        nap = nap * 2 < NAP_MAX ? nap * 2 : NAP_MAX;
    }
}

/* --- the state as a whole ------------------------------------------------------------------ */

enum gpud_status gpud_target_look(struct gpud_target_ring *ring, struct gpud_error *error)
{
    if (atomic_load(&ring->lied))
        return gpud_fail(error, GPUD_PEER,
                         "a word lines said more rows than the %u that a frame has",
                         ring->layout.height);
    uint32_t before = ring->posted;
    struct gap gap = {.found = false};
    enum gpud_status status = check_words(ring, error);
    if (status == GPUD_OK)
        status = advance(ring, gpud_now() - ring->looked > OFTEN, &gap, error);
    ring->looked = gpud_now();
    bool stands = ring->posted == before && !gap.found; /* then a later frame may be written */
    for (uint32_t i = 1; stands && i < ring->slots && status == GPUD_OK && !gap.found; i++) {
        gap = (struct gap){.number = ring->posted + i, .missing = ring->posted};
        status = is_written(ring, gap.number, false, &gap.found, error);
    }
    if (status != GPUD_OK)
        return status;
    int64_t max = ring->place[0].signal ? AHEAD_MAX_DEVICE : AHEAD_MAX_WORDS;
    if (!gap.found)
        ring->gap_since = 0;
    else if (!ring->gap_since)
        ring->gap_since = ring->looked;
    else if (ring->looked - ring->gap_since > max)
        return gpud_fail(error, GPUD_PEER,
                         "the marker of slot %u says that frame %u is there, and that of slot %u "
                         "does not say so of frame %u before it: frames are written in order, from "
                         "%u on",
                         gap.number % ring->slots, gap.number, gap.missing % ring->slots,
                         gap.missing, ring->posted);
    if (ring->posted != before)
        atomic_store_explicit(gpud_target_word(ring, GPUD_TARGET_NEXT), ring->posted,
                              memory_order_release);
    return GPUD_OK;
}

/* --- waiting ------------------------------------------------------------------------------- */

void gpud_target_wait(struct gpud_target_ring *ring, int64_t began, int64_t deadline)
{
    uint32_t slot = ring->posted % ring->slots;
    struct gpud_target_place *place = &ring->place[slot];
    if (ring->gap_since) { /* the next frame may be written, but not another before it */
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = NAP_MAX}, NULL);
    } else if (!place->signal) {
        /* A card does not wake threads. A process may, by FUTEX_WAKE on the marker. */
        int64_t now = gpud_now(), nap = (now - began) / 8;
        nap = nap < NAP_MIN ? NAP_MIN : nap > NAP_MAX ? NAP_MAX : nap;
        gpud_futex_wait(marker_of(ring, slot), atomic_load(&place->seen),
                        deadline - now < nap ? deadline : now + nap);
    } else { /* the next look reports a failed device */
        int64_t slice = gpud_deadline(ring->by_lines ? NAP_MAX : SLICE);
        gpud_signal_wait_host(place->signal, ring->posted + 1, deadline < slice ? deadline : slice,
                              NULL);
    }
}

/* === frames ================================================================================== */
/* A target's frames: a slot that the writer has filled is a frame until it is released. Nothing
 * here allocates. */

static uint64_t bit(uint32_t slot)
{
    return UINT64_C(1) << slot;
}

static struct gpud_target_place *frames_place_of(const struct gpud_frame *frame)
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

static enum gpud_status frames_post(struct gpud_frame *frame, struct gpud_queue *queue,
                                    struct gpud_error *error)
{
    enum gpud_status status = gpud_frame_join_post(frame, queue, error);
    if (status == GPUD_OK && frame->queue)
        frames_place_of(frame)->posted = true;
    return status;
}

static bool is_poisoned(const struct gpud_frame *frame)
{
    const struct gpud_target_place *place = frames_place_of(frame);
    return atomic_load(&place->torn) || is_lapped(frame->owner, place->number);
}

/* The device has finished with a slot. Runs in a thread of its driver. */
static void frames_on_complete(void *arg, enum gpud_status status)
{
    struct gpud_target_place *place = arg;
    struct gpud_target_ring *ring = place->ring;
    gpud_lock_take(&ring->lock);
    ring->pending &= ~bit((uint32_t)(place - ring->place));
    ring->failed |= status != GPUD_OK;
    tell_given_back(ring);
    gpud_lock_release(&ring->lock);
    ring_unref(ring);
}

static void frames_release(struct gpud_frame *frame)
{
    struct gpud_target_ring *ring = frame->owner;
    struct gpud_target_place *place = frames_place_of(frame);
    struct gpud_error why;
    /* Work that queues were given on the frame comes before everything on the frame's own queue. */
    bool used = frame->queue && (place->posted || frame->access), lapped = is_poisoned(frame);
    gpud_lock_take(&ring->lock);
    ring->held &= ~bit(frame->slot);
    if (used)
        ring->pending |= bit(frame->slot);
    ring->corrupted += lapped;
    tell_given_back(ring);
    gpud_lock_release(&ring->lock);
    if (used) {
        atomic_fetch_add_explicit(&ring->references, 1,
                                  memory_order_relaxed); /* the completion's */
        if (gpud_queue_on_complete(frame->queue, frames_on_complete, place, &why) == GPUD_OK)
            gpud_queue_flush(frame->queue, NULL);
        else if (gpud_queue_finish(frame->queue, gpud_deadline(GPUD_SEC), &why) == GPUD_OK)
            frames_on_complete(place, GPUD_OK);
        else /* a slot whose work never ends does not come back */
            gpud_log_error(&ring->context->log, "target", "a slot of \"%s\" is lost: %s",
                           ring->name, why.reason);
    }
    ring_unref(ring);
}

/* Makes what the writer wrote visible to the frame's own queue and to the device. */
static enum gpud_status make_visible(struct gpud_target_ring *ring, struct gpud_frame *frame,
                                     struct gpud_error *error)
{
    const struct gpud_target_place *place = frames_place_of(frame);
    if (place->signal)
        return gpud_signal_wait_queue(place->signal, place->number + 1, frame->queue, error);
    return gpud_memory_flush_remote(frame->memory, error);
}

/* How long a call that has no deadline of its own waits for the marker. */
#define WHOLE_DEADLINE GPUD_SEC

/* The bytes are complete before a frame is handed out, unless it is early. If the marker is a
 * device's, the frame's own queue waits for it too: not before it was seen. */
static enum gpud_status frames_wait_host(struct gpud_frame *frame, int64_t deadline,
                                         struct gpud_error *error)
{
    struct gpud_target_ring *ring = frame->owner;
    struct gpud_target_place *place = frames_place_of(frame);
    if (!place->early)
        return GPUD_OK;
    enum gpud_status status = ring_wait_lines(ring, place->number, WHOLE, deadline, error);
    if (status == GPUD_OK)
        status = make_visible(ring, frame, error);
    if (status == GPUD_OK)
        place->early = false;
    return status;
}

static enum gpud_status wait(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error)
{
    enum gpud_status status = frames_wait_host(frame, gpud_deadline(WHOLE_DEADLINE), error);
    return status == GPUD_OK ? gpud_frame_join_wait(frame, queue, error) : status;
}

static enum gpud_status frames_wait_lines(struct gpud_frame *frame, uint32_t lines,
                                          int64_t deadline, struct gpud_error *error)
{
    struct gpud_target_ring *ring = frame->owner;
    const struct gpud_target_place *place = frames_place_of(frame);
    if (!place->early)
        return GPUD_OK;
    enum gpud_status status = ring_wait_lines(ring, place->number, lines, deadline, error);
    return status == GPUD_OK ? gpud_memory_flush_remote(frame->memory, error) : status;
}

static const struct gpud_frame_owner_ops frame_ops = {
    .release = frames_release,
    .wait = wait,
    .wait_host = frames_wait_host,
    .post = frames_post,
    .is_poisoned = is_poisoned,
    .wait_lines = frames_wait_lines,
};

/* --- handing out --------------------------------------------------------------------------- */

/* The number of the next frame, with the lock held. false: there is no frame. */
static bool frames_choose(struct gpud_target_ring *ring, uint32_t *number)
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

/* Whether the frame that is being written may be handed out, with the lock held. */
static enum gpud_status choose_early(struct gpud_target_ring *ring, uint32_t *number, bool *found,
                                     struct gpud_error *error)
{
    uint32_t lines = 0;
    *number = ring->posted;
    if (!ring->by_lines || ring->next != ring->posted || ring->posted >= GPUD_TARGET_FRAMES_MAX ||
        (ring->held | ring->pending) & bit(*number % ring->slots))
        return GPUD_OK;
    enum gpud_status status = look_at_lines(ring, *number, &lines, error);
    *found = status == GPUD_OK && lines > 0;
    return status;
}

enum gpud_status gpud_target_take(struct gpud_target_ring *ring, struct gpud_frame **frame,
                                  uint64_t *dropped, struct gpud_error *error)
{
    uint32_t number;
    gpud_lock_take(&ring->lock);
    bool failed = ring->failed, found = !failed && frames_choose(ring, &number), early = false;
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
    frames_place_of(taken)->posted = false;
    frames_place_of(taken)->early = early;
    atomic_store(&frames_place_of(taken)->lines, 0);
    atomic_store(&frames_place_of(taken)->torn, false);
    struct gpud_frame_info *info = &taken->info;
    info->dts_ns = GPUD_TIME_NONE;
    info->duration_ns =
        ring->fps_num ? (uint64_t)GPUD_SEC * ring->fps_den / ring->fps_num : GPUD_TIME_NONE;
    info->offset = number;
    info->flags = 0;
    info->meta_size = 0;
    info->layout = ring->layout;
    if (!early)
        status = make_visible(ring, taken, error);
    if (status != GPUD_OK)
        gpud_frame_release(&taken);
    else
        *frame = taken;
    return status;
}

/* === ring ==================================================================================== */
/* A target's ring: a new one, or one that an earlier target left because its writer may still
 * write to it. */

static void end_kept(struct gpud_kept *kept)
{
    ring_unref((struct gpud_target_ring *)kept);
}

void gpud_target_ring_leave(struct gpud_target_ring *ring)
{
    if (!atomic_load(&ring->exposed) || target_has_stopped(ring)) {
        ring_unref(ring);
        return;
    }
    gpud_log_info(&ring->context->log, "target",
                  "the writer of \"%s\" has not said that it stopped: its %llu bytes of %s stay",
                  ring->name, (unsigned long long)(ring->slots * ring->slot_size),
                  ring->device->info.name);
    ring->kept.end = end_kept;
    gpud_context_keep(ring->context, &ring->kept);
}

struct wanted {
    const struct gpud_device *device;
    const struct gpud_target_params *params;
};

static bool ring_fits(const struct gpud_kept *kept, const void *arg)
{
    const struct wanted *wanted = arg;
    const struct gpud_target_ring *ring = (const struct gpud_target_ring *)kept;
    return kept->end == end_kept && !ring->broken && ring->name[0] && wanted->params->name &&
           strcmp(ring->name, wanted->params->name) == 0 && ring->device == wanted->device &&
           ring->slots == wanted->params->slots &&
           ring->slot_size == target_slot_size(wanted->params->layout);
}

/* A new ring: its words, its slots and how the writer reaches them, and its frames. */
static enum gpud_status ring_make(struct gpud_context *context, struct gpud_device *device,
                                  struct gpud_device *host, const struct gpud_target_params *params,
                                  struct gpud_target_ring **ring, struct gpud_error *error)
{
    struct gpud_target_ring *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a target");
    atomic_init(&made->references, 1);
    gpud_lock_init(&made->lock, GPUD_RANK_TARGET_RING);
    made->context = context;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    gpud_print(made->name, "%s", params->name ? params->name : "");
    made->layout = *params->layout;
    made->slots = params->slots;
    made->slot_size = target_slot_size(params->layout);
    made->words_fd = made->memory_fd = -1;
    for (uint32_t i = 0; i < made->slots; i++)
        made->place[i].ring = made;
    enum gpud_status status =
        gpud_memory_alloc_for(host, GPUD_TARGET_WORDS_SIZE, GPUD_USAGE_TARGET, &made->words, error);
    if (status == GPUD_OK)
        status = export_fd(made->words, &made->words_fd, error);
    if (status == GPUD_OK)
        status = make_memory(made, error);
    for (uint32_t i = 0; i < made->slots && status == GPUD_OK; i++) {
        struct gpud_frame *frame = &made->frames[i];
        frame->ops = &frame_ops;
        frame->owner = made;
        frame->slot = i;
        frame->memory = gpud_target_slot_memory(made, i, &frame->offset);
        if (device != host) /* host memory needs no queue */
            status = gpud_queue_create(device, &frame->queue, error);
    }
    if (status != GPUD_OK)
        ring_unref(made);
    else
        *ring = made;
    return status;
}

enum gpud_status gpud_target_ring_create(struct gpud_context *context, struct gpud_device *device,
                                         struct gpud_device *host,
                                         const struct gpud_target_params *params,
                                         struct gpud_target_ring **ring, struct gpud_error *error)
{
    struct wanted wanted = {device, params};
    struct gpud_target_ring *found =
        (struct gpud_target_ring *)gpud_context_take_kept(context, ring_fits, &wanted);
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    if (found) {
        /* The writer goes on, or starts again with `next`. Its addresses stay valid, so it may not
         * notice. Frames that it wrote while no target existed are skipped. */
        found->layout = *params->layout;
        status = gpud_target_look(found, &why);
        gpud_lock_take(&found->lock);
        found->next = found->posted;
        gpud_lock_release(&found->lock);
    }
    if (status != GPUD_OK) {
        found->broken = true; /* so that it never matches again */
        gpud_context_keep(context, &found->kept);
        found = NULL;
        status = GPUD_OK;
    }
    if (!found)
        status = ring_make(context, device, host, params, &found, error);
    if (status != GPUD_OK)
        return status;
    found->pace = params->pace;
    found->fps_num = params->fps_num;
    found->fps_den = params->fps_den;
    *ring = found;
    return GPUD_OK;
}
