/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object of a ring that a writer outside of this library fills. */
#include "target/target.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/sized.h"
#include "frame/layout.h"
#include "target/file.h"
#include "target/frames.h"
#include "target/markers.h"
#include "target/ring.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_DEFAULT 4
/* A silence of this long is reported as one. */
#define SILENCE GPUD_SEC

/* --- create and destroy -------------------------------------------------------------------- */

static enum gpud_status check_params(struct gpud_target_params *params, struct gpud_error *error)
{
    if (!params->layout)
        return gpud_fail(error, GPUD_INVALID, "a target needs a layout: what shall be written?");
    enum gpud_status status = gpud_layout_check(params->layout, error);
    if (status != GPUD_OK)
        return status;
    params->slots = params->slots ? params->slots : SLOTS_DEFAULT;
    if (params->slots < 2 || params->slots > GPUD_TARGET_SLOTS_MAX)
        return gpud_fail(error, GPUD_INVALID, "%u slots: 2 to %d are possible", params->slots,
                         GPUD_TARGET_SLOTS_MAX);
    if (params->pace > GPUD_TARGET_PACED)
        return gpud_fail(error, GPUD_INVALID, "%d is no pace of a writer", (int)params->pace);
    if (params->by_lines && gpud_layout_is_block(params->layout))
        return gpud_fail(error, GPUD_INVALID, "a block has no lines: set by_lines for pictures");
    if ((params->fps_num == 0) != (params->fps_den == 0))
        return gpud_fail(error, GPUD_INVALID, "%u/%u is no frame rate", params->fps_num,
                         params->fps_den);
    if (!params->name)
        return GPUD_OK;
    if (!gpud_is_name(params->name) || strlen(params->name) >= GPUD_TARGET_NAME_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.64s\" is no name of a target: up to %d letters, digits, '.', '_', "
                         "'-', of which the first is no dot",
                         params->name, GPUD_TARGET_NAME_MAX - 1);
    return GPUD_OK;
}

static enum gpud_status make_file(struct gpud_target *target, struct gpud_error *error)
{
    struct gpud_target_ring *ring = target->ring;
    enum gpud_status status = gpud_target_file_create(ring, target->file, &target->file_fd, error);
    if (status == GPUD_OK && ring->kind == GPUD_TARGET_BUS_ADDRESS)
        atomic_store(&ring->exposed, true);
    return status;
}

static void describe_slot(struct gpud_target *target, uint32_t index)
{
    struct gpud_target_ring *ring = target->ring;
    uint64_t offset, marker = GPUD_TARGET_MARKER(index);
    struct gpud_memory *memory = gpud_target_slot_memory(ring, index, &offset);
    struct gpud_target_slot *slot = &target->slots[index];
    *slot = (struct gpud_target_slot){
        .size = sizeof(*slot),
        .kind = ring->kind,
        .surface_fd = ring->memory_fd,
        .marker_fd = -1,
        .bytes = ring->slot_size,
        .first = index + 1,
        .step = ring->slots,
        .lines = gpud_target_word(ring, GPUD_TARGET_LINES(index)),
        .lines_offset = GPUD_TARGET_LINES(index),
    };
    if (ring->kind == GPUD_TARGET_BUS_ADDRESS) {
        slot->surface_address = ring->place[index].bus.word[0];
        slot->marker_address = ring->place[index].bus.word[1];
    } else {
        slot->surface = memory->host ? (char *)memory->host + offset : NULL;
        slot->surface_offset = ring->memory_fd_offset + offset;
        slot->marker = gpud_target_word(ring, marker);
        slot->marker_fd = ring->words_fd;
        slot->marker_offset = marker;
    }
    target->slot[index] = slot;
}

enum gpud_status gpud_target_create(struct gpud_context *context,
                                    const struct gpud_target_params *params,
                                    struct gpud_target **target, struct gpud_error *error)
{
    struct gpud_target_params own;
    struct gpud_device *device = NULL, *host = NULL;
    enum gpud_status status =
        gpud_sized_read(&own, sizeof(own), params, GPUD_END_OF(struct gpud_target_params, layout),
                        "gpud_target_params", error);
    if (status == GPUD_OK)
        status = check_params(&own, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_target *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a target");
    gpud_lock_init(&made->lock, GPUD_RANK_TARGET);
    made->context = context;
    made->file_fd = -1;
    made->began = gpud_now();
    status = gpud_device_open(context, own.device, &device, error);
    if (status == GPUD_OK)
        status = gpud_device_open(context, "host", &host, error);
    if (status == GPUD_OK)
        status = gpud_target_ring_create(context, device, host, &own, &made->ring, error);
    if (status == GPUD_OK)
        made->ring->by_lines = own.by_lines;
    gpud_device_close(&device);
    gpud_device_close(&host);
    if (status == GPUD_OK && own.name)
        status = make_file(made, error);
    if (status != GPUD_OK) {
        gpud_target_destroy(&made);
        return status;
    }
    for (uint32_t i = 0; i < made->ring->slots; i++)
        describe_slot(made, i);
    *target = made;
    return GPUD_OK;
}

void gpud_target_destroy(struct gpud_target **target)
{
    if (!target || !*target)
        return;
    struct gpud_target *gone = *target;
    *target = NULL;
    gpud_target_file_remove(gone->file, &gone->file_fd);
    if (gone->ring)
        gpud_target_ring_leave(gone->ring);
    gpud_context_drain(gone->context);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

/* --- what the application asks ------------------------------------------------------------- */

void gpud_target_get_info(struct gpud_target *target, struct gpud_target_info *info)
{
    static const char *const paths[] = {
        [GPUD_TARGET_HOST] = "target-host",
        [GPUD_TARGET_BUS_ADDRESS] = "target-directgma",
        [GPUD_TARGET_DMABUF] = "target-dmabuf",
    };
    struct gpud_target_ring *ring = target->ring;
    struct gpud_target_info told = {
        .layout = ring->layout,
        .slots = ring->slots,
        .words_fd = ring->words_fd,
        .words = ring->words->host,
        .given_back_offset = GPUD_TARGET_GIVEN_BACK,
        .next_offset = GPUD_TARGET_NEXT,
        .stopped_offset = GPUD_TARGET_STOPPED,
        .age_ns = GPUD_TIME_NONE,
        .slot = target->slot,
    };
    if (ring->kind == GPUD_TARGET_BUS_ADDRESS)
        atomic_store(&ring->exposed, true);
    gpud_print(told.path, "%s", paths[ring->kind]);
    gpud_print(told.file, "%s", target->file);
    gpud_lock_take(&ring->lock);
    told.corrupted = ring->corrupted;
    gpud_lock_release(&ring->lock);
    gpud_lock_take(&target->lock);
    told.frames = target->frames;
    told.dropped = target->dropped;
    if (target->last)
        told.age_ns = (uint64_t)(gpud_now() - target->last);
    gpud_print(told.reason, "%s", target->reason);
    gpud_lock_release(&target->lock);
    gpud_sized_copy(info, info->size, &told, sizeof(told));
}

void gpud_target_interrupt(struct gpud_target *target, bool interrupted)
{
    atomic_store(&target->interrupted, interrupted);
}

static void set_reason(struct gpud_target *target, const char *reason)
{
    gpud_lock_take(&target->lock);
    gpud_print(target->reason, "%s", reason);
    gpud_lock_release(&target->lock);
}

/* --- acquire ------------------------------------------------------------------------------- */

static enum gpud_status say_failure(const struct gpud_target *target, struct gpud_error *error)
{
    if (error)
        *error = target->failure;
    return target->failure.status;
}

static enum gpud_status end_target(struct gpud_target *target, const struct gpud_error *why,
                                   struct gpud_error *error)
{
    target->failure = *why;
    target->ring->broken = true;
    set_reason(target, why->reason);
    return say_failure(target, error);
}

static enum gpud_status end_of_numbers(struct gpud_target *target, struct gpud_error *error)
{
    struct gpud_error why;
    gpud_fail(&why, GPUD_CLOSED,
              "the writer has written %u frames, which is all that a ring has numbers for: make "
              "a new target",
              GPUD_TARGET_FRAMES_MAX);
    return end_target(target, &why, error);
}

static bool holds_all(struct gpud_target_ring *ring)
{
    gpud_lock_take(&ring->lock);
    bool all = (uint32_t)__builtin_popcountll(ring->held | ring->pending) == ring->slots;
    gpud_lock_release(&ring->lock);
    return all;
}

static enum gpud_status say_silent(struct gpud_target *target, struct gpud_error *error)
{
    struct gpud_error why;
    if (holds_all(target->ring))
        return gpud_fail(error, GPUD_TIMEOUT,
                         "the application holds all %u frames of the target: release one",
                         target->ring->slots);
    const char *name = target->ring->name[0] ? target->ring->name : "the target";
    int64_t since = gpud_now() - (target->last ? target->last : target->began);
    double seconds = (double)since / GPUD_SEC;
    gpud_fail(&why, GPUD_TIMEOUT,
              target->last ? "the writer of %s has written no frame for %.1f s: does it run?"
                           : "no frame was written to %s within %.1f s: is there a writer?",
              name, seconds);
    if (since > SILENCE)
        set_reason(target, why.reason);
    if (error)
        *error = why;
    return GPUD_TIMEOUT;
}

static void hand_out(struct gpud_target *target, struct gpud_frame *frame, uint64_t dropped)
{
    struct gpud_frame_info *info = &frame->info;
    int64_t now = gpud_now();
    target->sequence += 1 + dropped;
    if (dropped || target->discontinuity || !target->frames)
        info->flags |= GPUD_FRAME_DISCONTINUITY;
    target->discontinuity = false;
    info->pts_ns = info->submitted_ns = (uint64_t)now;
    info->sequence = target->sequence;
    info->epoch = 1;
    gpud_lock_take(&target->lock);
    target->frames++;
    target->dropped += dropped;
    info->dropped = target->dropped;
    target->last = now;
    target->reason[0] = '\0';
    gpud_lock_release(&target->lock);
}

static void note_unseen(struct gpud_target *target, uint64_t dropped)
{
    target->sequence += dropped;
    target->discontinuity = true;
    gpud_lock_take(&target->lock);
    target->dropped += dropped;
    target->last = gpud_now();
    gpud_lock_release(&target->lock);
    if (!target->said_full)
        gpud_log_warning(&target->context->log, "target",
                         "frames of \"%s\" are dropped, because the application holds their slots",
                         target->ring->name);
    target->said_full = true;
}

static enum gpud_status acquire(struct gpud_target *target, int64_t deadline,
                                struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_target_ring *ring = target->ring;
    for (int64_t began = gpud_now();;) {
        struct gpud_frame *taken = NULL;
        struct gpud_error why;
        uint64_t dropped = 0;
        if (atomic_load(&target->interrupted))
            return gpud_fail(error, GPUD_AGAIN, "the target was interrupted");
        if (gpud_target_look(ring, &why) != GPUD_OK ||
            gpud_target_take(ring, &taken, &dropped, &why) != GPUD_OK)
            return end_target(target, &why, error);
        if (taken) {
            hand_out(target, taken, dropped);
            *frame = taken;
            return GPUD_OK;
        }
        if (dropped)
            note_unseen(target, dropped);
        if (ring->posted >= GPUD_TARGET_FRAMES_MAX)
            return end_of_numbers(target, error);
        if (gpud_now() >= deadline)
            return say_silent(target, error);
        gpud_target_wait(ring, began, deadline);
    }
}

enum gpud_status gpud_target_acquire(struct gpud_target *target, int64_t timeout_ns,
                                     struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (target->failure.status != GPUD_OK)
        return say_failure(target, error);
    return acquire(target, gpud_deadline(timeout_ns), frame, error);
}
