/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connection requests, by the address and port that they arrive at; see listen.h. */
#ifndef GPUD_WIRE_RDMA_HUB_H
#define GPUD_WIRE_RDMA_HUB_H

#include "wire/rdma/private_data.h"
#include <rdma/rdma_cma.h>

#define RDMA_QUEUE_MAX 64

struct rdma_hub;

/* A receiver's request to connect. */
struct rdma_request {
    struct rdma_cm_id *id;
    uint32_t queue_pair;
    struct gpud_rdma_request data;
};

/* A listener's part in its hub. */
struct rdma_port {
    struct rdma_port *next;
    struct rdma_hub *hub;
    const char *name;  /* of the channel */
    const char *where; /* its address */
    bool is_noted;     /* there may be a note of it, see share.h */
    int event;         /* readable: the queue is not empty */
    uint32_t first, count;
    struct rdma_request queue[RDMA_QUEUE_MAX];
};

/* Joins the hub of that address, or creates it. The caller has set port->name and port->event, and
 * keeps `where` until it leaves. GPUD_IO with EADDRINUSE: the port is taken, or the name by this
 * process. */
enum gpud_status gpud_rdma_join(struct rdma_port *port, const struct sockaddr_storage *address,
                                const char *where, struct gpud_error *error);
void gpud_rdma_leave(struct rdma_port *port);

/* Notes for the process that has the port where this one listens. The caller has locked the name
 * (local.h), and keeps it locked until it has left. */
enum gpud_status gpud_rdma_announce(struct rdma_port *port, struct gpud_error *error);

/* Whether another process has the port, or is found by this name at it. */
bool gpud_rdma_is_shared(const struct rdma_port *port);

/* The hub's descriptor, to poll together with the port's event. */
int gpud_rdma_hub_fd(const struct rdma_port *port);

/* Takes the next request for this port. The caller owns its id, whose events go to `events` from
 * then on. Remaining requests keep the port's event readable. GPUD_AGAIN: none. */
enum gpud_status gpud_rdma_take_request(struct rdma_port *port, struct rdma_event_channel *events,
                                        struct rdma_request *request, struct gpud_error *error);

/* Whether there is one; handles the hub's pending events first. GPUD_IO: no request can arrive
 * until the network card is back. */
enum gpud_status gpud_rdma_look_for_request(struct rdma_port *port, struct gpud_error *error);

/* The id stays the caller's. */
void gpud_rdma_reject(struct rdma_cm_id *id, enum gpud_rdma_refusal_reason reason);

#endif
