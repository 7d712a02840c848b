/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_RING_H
#define GPUD_CAPTURE_RING_H

#include "capture/method.h"

/* Which methods may be taken. */
struct gpud_capture_choice {
    const char *method;                      /* the only one; NULL: any */
    bool direct;                             /* only those that need no copy */
    const struct gpud_capture_method *below; /* only those after this one, which was found not to
                                                work; NULL: all */
    const char *reason;                      /* why that one does not */
};

/* Creates and queues the buffers by the first method that works. fallback_reason holds the reasons
 * against the better ones. */
enum gpud_status gpud_capture_ring_create(struct gpud_v4l2 *node, struct gpud_device *device,
                                          struct gpud_device *host,
                                          const struct gpud_placement *placement, uint32_t slots,
                                          const struct gpud_capture_choice *choice,
                                          struct gpud_capture_ring **ring,
                                          struct gpud_error *error);
enum gpud_status gpud_capture_ring_start(struct gpud_capture_ring *ring, struct gpud_error *error);

/* Stops the driver, waits for devices to finish with its buffers, and frees the driver's buffers.
 * GPUD_IO: it keeps them, because acquired frames use them; stop again when those are released. */
enum gpud_status gpud_capture_ring_stop(struct gpud_capture_ring *ring, struct gpud_error *error);

#endif
