/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events of rdma_cm: read without waiting, and acknowledged at once, because an id with an
 * unacknowledged event cannot be destroyed. */
#ifndef GPUD_WIRE_RDMA_EVENTS_H
#define GPUD_WIRE_RDMA_EVENTS_H

#include "base/error.h"
#include <rdma/rdma_cma.h>

struct gpud_rdma_event {
    enum rdma_cm_event_type type;
    int status; /* a negative errno, or a reason of rdma_cm's own */
    struct rdma_cm_id *id;
    uint32_t queue_pair; /* the peer's number */
    uint8_t data[256];   /* the peer's private data */
    size_t size;
};

/* Non-blocking; its descriptor is closed on exec. GPUD_NO_DEVICE, GPUD_NO_ACCESS: what this host
 * lacks, and which command helps. */
enum gpud_status gpud_rdma_open_events(struct rdma_event_channel **events,
                                       struct gpud_error *error);

/* false: none. */
bool gpud_rdma_next_event(struct rdma_event_channel *events, struct gpud_rdma_event *event);

/* Reports an rdma_cm call that failed with this errno: "cannot ACTION WHERE: …". where: the
 * address. */
enum gpud_status gpud_rdma_fail_call(struct gpud_error *error, int number, const char *action,
                                     const char *where);

#endif
