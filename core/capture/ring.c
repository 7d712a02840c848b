/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A ring's life with its driver: created by the first method that works, started, stopped. */
#include "capture/ring.h"

#include "base/clock.h"
#include "capture/buffers.h"
#include "capture/canary.h"
#include "capture/feed.h"
#include "capture/frames.h"
#include "capture/ring_watch.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* --- methods ------------------------------------------------------------------------------- */

static enum gpud_status try_method(struct gpud_capture_ring *ring,
                                   const struct gpud_capture_method *method, uint32_t capabilities,
                                   bool direct, struct gpud_error *error)
{
    if (capabilities && !(capabilities & method->capability))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", method->refusal);
    ring->method = method;
    ring->in_place = ring->device == ring->host || method->on_device;
    if (direct && !ring->in_place)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "each frame would be copied, and a direct path is required");
    enum gpud_status status = gpud_capture_buffers_create(ring, error);
    if (status == GPUD_OK && method->canary)
        status = gpud_capture_ring_set_canaries(ring, error);
    if (status == GPUD_OK && !ring->in_place)
        status = gpud_capture_buffers_show(ring, error);
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++)
        if (gpud_capture_ring_queue(ring, i) < 0)
            status = gpud_fail_errno(error, "the driver refuses the buffer");
    if (status != GPUD_OK) {
        gpud_capture_buffers_undo(ring);
        return status;
    }
    ring->proven = !method->canary;
    ring->queued = ring->buffer_count == 64 ? UINT64_MAX : (UINT64_C(1) << ring->buffer_count) - 1;
    return GPUD_OK;
}

/* Whether to try a method. */
static bool is_wanted(const struct gpud_capture_ring *ring,
                      const struct gpud_capture_choice *choice,
                      const struct gpud_capture_method *method)
{
    bool host = ring->device == ring->host;
    if (choice->method)
        return strcmp(choice->method, method->name) == 0 && !(host && method->by_cpu);
    return !(host && (method->by_name || method->by_cpu));
}

static void add_reason(char *reasons, size_t size, const char *method, const char *reason)
{
    size_t used = strlen(reasons);
    gpud_print_n(reasons + used, size - used, "%sv4l2-%s: %s", used ? "; " : "", method, reason);
}

static enum gpud_status try_methods(struct gpud_capture_ring *ring,
                                    const struct gpud_capture_choice *choice,
                                    struct gpud_error *error)
{
    uint32_t capabilities = gpud_v4l2_memories(ring->node);
    char reasons[sizeof(ring->fallback_reason)] = "";
    struct gpud_error why = {.status = GPUD_UNSUPPORTED};
    bool below = !choice->below;
    if (choice->below)
        gpud_print(reasons, "%s", choice->reason);
    for (size_t i = 0; gpud_capture_methods[i]; i++) {
        const struct gpud_capture_method *method = gpud_capture_methods[i];
        if (below && is_wanted(ring, choice, method)) {
            if (try_method(ring, method, capabilities, choice->direct, &why) == GPUD_OK) {
                gpud_print(ring->fallback_reason, "%s", reasons);
                return GPUD_OK;
            }
            add_reason(reasons, sizeof(reasons), method->name, why.reason);
        }
        below |= method == choice->below;
    }
    return gpud_fail_native(error, why.status, why.origin, why.native, "%s", reasons);
}

/* --- frames -------------------------------------------------------------------------------- */

/* In place the frames are the buffers; else slots, each with memory of its own. */
static enum gpud_status make_frames(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    uint32_t count = ring->in_place ? ring->buffer_count : ring->limit;
    ring->frames = calloc(count, sizeof(*ring->frames));
    if (!ring->frames)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for %u frames", count);
    ring->frame_count = count;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_frame *frame = &ring->frames[i];
        frame->ops = ring->in_place ? &gpud_capture_in_place_ops : &gpud_capture_copied_ops;
        frame->owner = ring;
        frame->slot = i;
        frame->memory = ring->in_place ? ring->buffers[i].memory : NULL;
        if (!frame->memory || !frame->memory->host) /* else the CPU needs no queue to map it */
            status = gpud_queue_create(ring->device, &frame->queue, error);
        if (status == GPUD_OK && !ring->in_place)
            status = gpud_memory_alloc_for(ring->device, ring->placement.layout.size,
                                           GPUD_USAGE_LOCAL, &frame->memory, error);
    }
    uint32_t most = count > GPUD_CAPTURE_SPARE ? count - GPUD_CAPTURE_SPARE : 1;
    if (ring->in_place && ring->limit > most)
        ring->limit = most;
    return status;
}

/* --- creating and stopping ----------------------------------------------------------------- */

enum gpud_status gpud_capture_ring_create(struct gpud_v4l2 *node, struct gpud_device *device,
                                          struct gpud_device *host,
                                          const struct gpud_placement *placement, uint32_t slots,
                                          const struct gpud_capture_choice *choice,
                                          struct gpud_capture_ring **ring, struct gpud_error *error)
{
    struct gpud_capture_ring *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a ring");
    atomic_init(&made->references, 1);
    made->log = &host->context->log;
    made->node = node;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    made->placement = *placement;
    made->limit = slots;
    made->watch_fd = -1;
    gpud_lock_init(&made->driver_lock, GPUD_RANK_CAPTURE_DRIVER);
    gpud_lock_init(&made->lock, GPUD_RANK_CAPTURE_RING);
    gpud_cond_init(&made->complete);

    enum gpud_status status = GPUD_OK;
    made->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->wake_fd < 0)
        status = gpud_fail_errno(error, "cannot create an eventfd");
    if (status == GPUD_OK)
        status = try_methods(made, choice, error);
    if (status == GPUD_OK)
        status = make_frames(made, error);
    if (status != GPUD_OK) {
        if (made->buffer_count)
            gpud_capture_buffers_undo(made);
        gpud_capture_ring_unref(made);
        return status;
    }
    *ring = made;
    return GPUD_OK;
}

enum gpud_status gpud_capture_ring_start(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    if (gpud_v4l2_stream(ring->node, true) < 0)
        return gpud_fail_errno(error, "the driver of %s does not start%s", ring->node->path,
                               errno == ENOSPC ? ": the bus has no bandwidth left" : "");
    ring->streaming = true;
    return GPUD_OK;
}

/* How many buffers devices still work on after a while. Their memory must stay. */
static uint32_t wait_for_devices(struct gpud_capture_ring *ring)
{
    int64_t until = gpud_deadline(GPUD_CAPTURE_STOP_TIMEOUT);
    gpud_lock_take(&ring->lock);
    ring->stopped = true; /* what is released from now on waits by itself */
    while (ring->pending && gpud_lock_wait_until(&ring->lock, &ring->complete, until))
        ;
    uint32_t stuck = ring->pending;
    gpud_lock_release(&ring->lock);
    return stuck;
}

enum gpud_status gpud_capture_ring_stop(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    gpud_lock_take(&ring->driver_lock);
    ring->streaming = false;
    gpud_capture_ring_update_watch(ring);
    gpud_v4l2_stream(ring->node, false);
    gpud_lock_take(&ring->lock);
    ring->queued = 0;
    gpud_lock_release(&ring->lock);
    gpud_lock_release(&ring->driver_lock);

    uint32_t stuck = wait_for_devices(ring);
    if (stuck) {
        gpud_log_error(ring->log, "capture",
                       "%s does not finish with %u buffers: their memory is not freed",
                       ring->device->info.name, stuck);
        atomic_fetch_add(&ring->references, 1); /* kept for good */
    }

    /* A driver may keep mapped buffers, so unused ones are unmapped first. */
    gpud_lock_take(&ring->lock);
    uint64_t in_use = stuck ? UINT64_MAX : ring->in_place ? ring->acquired : 0;
    gpud_lock_release(&ring->lock);
    for (uint32_t i = 0; i < ring->buffer_count; i++)
        if (!(in_use >> i & 1))
            gpud_capture_buffer_drop(&ring->buffers[i]);
    uint32_t none = 0;
    if (gpud_v4l2_request(ring->node, ring->method->memory, &none) < 0 && errno == EBUSY)
        return gpud_fail_native(
            error, GPUD_IO, "errno", EBUSY,
            "the driver of %s waits for the frames that are still held: release them first",
            ring->node->path);
    return GPUD_OK;
}
