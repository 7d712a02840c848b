/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A target's ring: a new one, or one that an earlier target left because its writer may still
 * write to it. */
#include "target/ring.h"

#include "target/frames.h"
#include "target/markers.h"
#include "target/memory.h"

#include <string.h>

static void end_kept(struct gpud_kept *kept)
{
    gpud_target_ring_unref((struct gpud_target_ring *)kept);
}

void gpud_target_ring_leave(struct gpud_target_ring *ring)
{
    if (!atomic_load(&ring->exposed) || gpud_target_has_stopped(ring)) {
        gpud_target_ring_unref(ring);
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

static bool fits(const struct gpud_kept *kept, const void *arg)
{
    const struct wanted *wanted = arg;
    const struct gpud_target_ring *ring = (const struct gpud_target_ring *)kept;
    return kept->end == end_kept && !ring->broken && ring->name[0] && wanted->params->name &&
           strcmp(ring->name, wanted->params->name) == 0 && ring->device == wanted->device &&
           ring->slots == wanted->params->slots &&
           ring->slot_size == gpud_target_slot_size(wanted->params->layout);
}

/* The writer goes on, or starts again with `next`. Its addresses stay valid, so it may not notice.
 * Frames that it wrote while no target existed are skipped. */
static enum gpud_status take_over(struct gpud_target_ring *ring,
                                  const struct gpud_target_params *params, struct gpud_error *error)
{
    ring->layout = *params->layout;
    enum gpud_status status = gpud_target_look(ring, error);
    gpud_lock_take(&ring->lock);
    ring->next = ring->posted;
    gpud_lock_release(&ring->lock);
    return status;
}

static enum gpud_status make(struct gpud_context *context, struct gpud_device *device,
                             struct gpud_device *host, const struct gpud_target_params *params,
                             struct gpud_target_ring **ring, struct gpud_error *error)
{
    struct gpud_target_ring *made;
    enum gpud_status status =
        gpud_target_memory_create(context, device, host, params, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_target_frames_create(made, error);
    if (status != GPUD_OK)
        gpud_target_ring_unref(made);
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
        (struct gpud_target_ring *)gpud_context_take_kept(context, fits, &wanted);
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    if (found && take_over(found, params, &why) != GPUD_OK) {
        found->broken = true; /* so that it never matches again */
        gpud_context_keep(context, &found->kept);
        found = NULL;
    }
    if (!found)
        status = make(context, device, host, params, &found, error);
    if (status != GPUD_OK)
        return status;
    found->pace = params->pace;
    found->fps_num = params->fps_num;
    found->fps_den = params->fps_den;
    *ring = found;
    return GPUD_OK;
}
