/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds out by the markers how far the writer has come, and checks them against each other.
 *
 * Frames are written in order, so the state is one number: how many are written. The next frame's
 * marker is in its slot. After a pause the writer may be rounds ahead, and is found by growing
 * steps. Words in host memory can be read, so every wrong value is noticed. DirectGMA's markers can
 * only be compared, by a wait of the device: the waits for each slot's next value stay enqueued on
 * queues that do nothing else. */
#include "target/markers.h"

#include "base/sleep.h"

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

bool gpud_target_is_lapped(const struct gpud_target_ring *ring, uint32_t number)
{
    /* A free-running writer starts to fill a slot as soon as the previous one is full. */
    uint32_t over = ring->slots - (ring->pace == GPUD_TARGET_FREE_RUNNING);
    bool written = false;
    return is_written(ring, number + over, false, &written, NULL) == GPUD_OK && written;
}

/* --- words --------------------------------------------------------------------------------- */

static enum gpud_status check_word(struct gpud_target_ring *ring, uint32_t slot,
                                   struct gpud_error *error)
{
    struct gpud_target_place *place = &ring->place[slot];
    uint32_t seen = atomic_load_explicit(&place->seen, memory_order_relaxed);
    uint32_t value = atomic_load_explicit(marker_of(ring, slot), memory_order_acquire);
    if (value == seen)
        return GPUD_OK;
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
        return gpud_fail(error, GPUD_PEER,
                         "the marker of slot %u stands at %u, which belongs to slot %u: frame n "
                         "goes to slot n %% %u, with the marker n + 1",
                         slot, value, (value - 1) % ring->slots, ring->slots);
    note_seen(place, value);
    return GPUD_OK;
}

static enum gpud_status check_words(struct gpud_target_ring *ring, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->slots && !ring->place[i].signal && status == GPUD_OK; i++)
        status = check_word(ring, i, error);
    return status;
}

/* --- the number of frames ------------------------------------------------------------------ */

static enum gpud_status fail_gap(const struct gpud_target_ring *ring, uint32_t number,
                                 uint32_t missing, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_PEER,
                     "the marker of slot %u says that frame %u is there, and that of slot %u does "
                     "not say so of frame %u before it: frames are written in order, from %u on",
                     number % ring->slots, number, missing % ring->slots, missing, ring->posted);
}

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

/* Whether the frames of the last round before frame `newest` are written too. */
static enum gpud_status check_round(const struct gpud_target_ring *ring, uint32_t newest,
                                    struct gap *gap, struct gpud_error *error)
{
    for (uint32_t i = 1; i < ring->slots && !gap->found; i++) {
        bool written;
        enum gpud_status status = is_written(ring, newest - i, true, &written, error);
        if (status != GPUD_OK)
            return status;
        *gap = (struct gap){!written, newest, newest - i};
    }
    return GPUD_OK;
}

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
    if (status == GPUD_OK && rounds)
        status = check_round(ring, posted - 1, gap, error);
    if (status == GPUD_OK && !gap->found)
        ring->posted = posted;
    return status;
}

/* Looks for a later frame than the next one. */
static enum gpud_status find_gap(const struct gpud_target_ring *ring, struct gap *gap,
                                 struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 1; i < ring->slots && status == GPUD_OK && !gap->found; i++) {
        *gap = (struct gap){.number = ring->posted + i, .missing = ring->posted};
        status = is_written(ring, gap->number, false, &gap->found, error);
    }
    return status;
}

/* GPUD_PEER: the gap has been there for too long. */
static enum gpud_status reject_gap(struct gpud_target_ring *ring, const struct gap *gap,
                                   struct gpud_error *error)
{
    int64_t max = ring->place[0].signal ? AHEAD_MAX_DEVICE : AHEAD_MAX_WORDS;
    if (!gap->found)
        ring->gap_since = 0;
    else if (!ring->gap_since)
        ring->gap_since = ring->looked;
    else if (ring->looked - ring->gap_since > max)
        return fail_gap(ring, gap->number, gap->missing, error);
    return GPUD_OK;
}

/* --- rows ---------------------------------------------------------------------------------- */

static enum gpud_status fail_lines(struct gpud_target_ring *ring, uint32_t number,
                                   struct gpud_error *error)
{
    atomic_store(&ring->lied, true);
    return gpud_fail(error, GPUD_PEER,
                     "the word lines of slot %u says more rows of frame %u than the %u that it has",
                     number % ring->slots, number, ring->layout.height);
}

enum gpud_status gpud_target_look_at_lines(struct gpud_target_ring *ring, uint32_t number,
                                           uint32_t *lines, struct gpud_error *error)
{
    const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)gpud_target_word(
        ring, GPUD_TARGET_LINES(number % ring->slots));
    uint64_t value = atomic_load_explicit(word, memory_order_acquire);
    /* Of another frame of this slot: none of this one is announced. */
    *lines = value >> 32 == number ? (uint32_t)value : 0;
    return *lines <= ring->layout.height ? GPUD_OK : fail_lines(ring, number, error);
}

/* Notes what was seen. A writer that starts again writes the frame once more. */
static enum gpud_status check_lines(struct gpud_target_place *place, uint32_t lines,
                                    struct gpud_error *error)
{
    uint32_t before = atomic_load(&place->lines);
    if (lines < before || atomic_load(&place->torn)) {
        atomic_store(&place->torn, true);
        return gpud_fail(error, GPUD_PEER,
                         "frame %u is incomplete: its writer announced %u rows, and then %u",
                         place->number, before, lines);
    }
    while (before < lines && !atomic_compare_exchange_weak(&place->lines, &before, lines))
        ;
    return GPUD_OK;
}

/* GPUD_TIMEOUT: not yet. */
static enum gpud_status try_lines(struct gpud_target_ring *ring, uint32_t number, uint32_t lines,
                                  struct gpud_error *error)
{
    struct gpud_target_place *place = &ring->place[number % ring->slots];
    bool written;
    uint32_t seen;
    if (gpud_target_is_lapped(ring, number))
        return gpud_fail(error, GPUD_PEER, "frame %u was overwritten by its writer", number);
    enum gpud_status status = is_written(ring, number, false, &written, error);
    if (status == GPUD_OK && !written)
        status = gpud_target_look_at_lines(ring, number, &seen, error);
    if (status == GPUD_PEER)
        atomic_store(&place->torn, true);
    if (status == GPUD_OK && !written)
        status = check_lines(place, seen, error);
    if (status != GPUD_OK || written || seen >= lines)
        return status;
    return gpud_fail(error, GPUD_TIMEOUT, "%u of frame %u's %u rows are written", seen, number,
                     ring->layout.height);
}

enum gpud_status gpud_target_wait_lines(struct gpud_target_ring *ring, uint32_t number,
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
    if (status == GPUD_OK && ring->posted == before && !gap.found)
        status = find_gap(ring, &gap, error);
    if (status == GPUD_OK)
        status = reject_gap(ring, &gap, error);
    if (status == GPUD_OK && ring->posted != before)
        atomic_store_explicit(gpud_target_word(ring, GPUD_TARGET_NEXT), ring->posted,
                              memory_order_release);
    return status;
}

/* --- waiting ------------------------------------------------------------------------------- */

/* A card does not wake threads. A process may, by FUTEX_WAKE on the marker. */
static void wait_for_word(_Atomic uint32_t *word, uint32_t seen, int64_t began, int64_t deadline)
{
    int64_t now = gpud_now(), nap = (now - began) / 8;
    nap = nap < NAP_MIN ? NAP_MIN : nap > NAP_MAX ? NAP_MAX : nap;
    gpud_futex_wait(word, seen, deadline - now < nap ? deadline : now + nap);
}

void gpud_target_wait(struct gpud_target_ring *ring, int64_t began, int64_t deadline)
{
    uint32_t slot = ring->posted % ring->slots;
    struct gpud_target_place *place = &ring->place[slot];
    int64_t slice = gpud_deadline(ring->by_lines ? NAP_MAX : SLICE);
    if (ring->gap_since) /* the next frame may be written, but not another before it */
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = NAP_MAX}, NULL);
    else if (!place->signal)
        wait_for_word(marker_of(ring, slot), atomic_load(&place->seen), began, deadline);
    else /* the next look reports a failed device */
        gpud_signal_wait_host(place->signal, ring->posted + 1, deadline < slice ? deadline : slice,
                              NULL);
}
