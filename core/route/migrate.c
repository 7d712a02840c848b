/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* migrate: both ends are in one process and their devices in one OpenCL context, so both use the
 * sender's slots. The runtime moves a slot to the receiver's device as soon as its frame is
 * submitted, and back when it is written again. */
#include "device/device.h"
#include "route/route.h"

#include <string.h>

static bool migrate_can_connect(const struct gpud_endpoint *sender,
                                const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *ends[] = {sender, receiver};
    for (int i = 0; i < 2; i++) {
        if (strcmp(ends[i]->kind, "opencl") != 0) {
            gpud_print_n(why, GPUD_REASON_MAX, "only between OpenCL devices, not %s",
                         ends[i]->device);
            return false;
        }
    }
    if (sender->token != receiver->token) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "not the same process: only inside one, with one gpud_context, do two "
                     "devices have an OpenCL context in common");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i]->caps & GPUD_CAP_BUS_ADDRESSABLE) {
            gpud_print_n(why, GPUD_REASON_MAX,
                         "no common context: %s has DirectGMA, for which it needs an OpenCL "
                         "context of its own",
                         ends[i]->device);
            return false;
        }
    }
    if (strcmp(sender->device, receiver->device) == 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "both ends are on %s: nothing has to move",
                     sender->device);
        return false;
    }
    if (!sender->common || sender->common != receiver->common) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "no common context: %s and %s belong to different OpenCL drivers, or their "
                     "driver has refused one for both, as the log says",
                     sender->device, receiver->device);
        return false;
    }
    return true;
}

/* --- the moves ----------------------------------------------------------------------------- */

static bool is_possible(const struct gpud_device *from)
{
    return from->common != NULL;
}

static enum gpud_status migrate_open_queue(struct gpud_device *to, struct gpud_queue **queue,
                                           struct gpud_error *error)
{
    return gpud_queue_create(to, queue, error);
}

static enum gpud_status migrate(struct gpud_queue *queue, struct gpud_memory *slot,
                                struct gpud_queue *written, struct gpud_error *error)
{
    return gpud_queue_migrate(queue, slot, written, false, error);
}

/* Only saves the driver a move. If it fails, the driver moves the slot when it is written, and a
 * failed queue is reported then. */
static void migrate_back(struct gpud_queue *queue, struct gpud_memory *slot)
{
    gpud_queue_migrate(queue, slot, NULL, true, NULL);
}

static const struct gpud_route_slot_ops slots = {
    .is_possible = is_possible,
    .open = migrate_open_queue,
    .give = migrate,
    .take_back = migrate_back,
};

const struct gpud_route_ops gpud_migrate_route = {
    .name = "migrate",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .slots = &slots,
    .can_connect = migrate_can_connect,
};
