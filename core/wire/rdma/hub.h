/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests to connect, by the address and port that they come to; see listen.h. */
#ifndef GPUD_WIRE_RDMA_HUB_H
#define GPUD_WIRE_RDMA_HUB_H

#include "wire/rdma/private_data.h"
#include <rdma/rdma_cma.h>

#define RDMA_QUEUE_MAX 64

struct rdma_hub;

/* Somebody who wants to connect. */
struct rdma_request {
    struct rdma_cm_id *id;
    uint32_t queue_pair;
    struct gpud_rdma_request said;
};

/* A listener as its hub has it. */
struct rdma_port {
    struct rdma_port *next;
    struct rdma_hub *hub;
    const char *name; /* of the channel */
    int event;        /* readable: something is in the queue */
    uint32_t first, count;
    struct rdma_request queue[RDMA_QUEUE_MAX];
};

/* Joins the hub of that address, which is made if there is none. port->name and event are set.
 * GPUD_IO with EADDRINUSE: the name is taken, or the port. */
enum gpud_status gpud_rdma_join(struct rdma_port *port, const struct sockaddr_storage *address,
                                const char *where, struct gpud_error *error);
void gpud_rdma_leave(struct rdma_port *port);

/* The hub's descriptor, to be polled beside the port's event. */
int gpud_rdma_hub_fd(const struct rdma_port *port);

/* The next request for this port. Its id reports to `events` from then on and is the caller's. What
 * is left makes the port's event readable. GPUD_AGAIN: there is none. */
enum gpud_status gpud_rdma_take_request(struct rdma_port *port, struct rdma_event_channel *events,
                                        struct rdma_request *request, struct gpud_error *error);

/* Whether there is one. Takes what has come to the hub. GPUD_IO: none will come any more. */
enum gpud_status gpud_rdma_look_for_request(struct rdma_port *port, struct gpud_error *error);

/* The id stays the caller's. */
void gpud_rdma_reject(struct rdma_cm_id *id, enum gpud_rdma_refusal_reason reason);

#endif
