/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection manager beside the card of fake_card.h, in place of librdmacm: one listener, and
 * peers that the test plays itself. It tells of nothing that the test did not say. */
#ifndef GPUD_TESTS_RDMA_FAKE_CM_H
#define GPUD_TESTS_RDMA_FAKE_CM_H

#include "fake_card.h"

#define FAKE_ANSWERS 4
struct fake_answer {
    int status; /* why a request is rejected */
    uint8_t data[64];
    size_t size;
};

/* What the code under test has now. */
struct fake_cm {
    unsigned channels, ids, events;
    unsigned rejected;                        /* requests that were turned away, ever */
    unsigned requests;                        /* that the code under test sent, ever */
    unsigned pairless;                        /* of these, without a queue pair */
    uint16_t asked_port;                      /* to which the last one was sent */
    struct fake_answer answers[FAKE_ANSWERS]; /* to the next ones; all others are lost */
    size_t answer_count;
    uint8_t refusal[256], refusal_size; /* of the last request that was turned away */
};
extern struct fake_cm fake_cm;

/* The answer to the request after those that have one already. */
void fake_cm_answer(int status, const void *data, size_t size);

/* A peer with its own queue pair, which connects to any listener. */
struct fake_peer {
    struct rdma_cm_id *id, *server; /* server: the id at the other end, while it is there */
    struct gpud_rdma *rdma;
    uint32_t queue_pair;
    bool accepted, established, ended;
};

/* The request arrives: these bytes come along. */
void fake_peer_ask(struct fake_peer *peer, uint32_t queue_pair, const void *data, size_t size);
/* After the other end accepted: both stand. */
void fake_peer_establish(struct fake_peer *peer);
/* The peer hangs up: the other end is told. */
void fake_peer_leave(struct fake_peer *peer);
void fake_peer_close(struct fake_peer *peer);

/* Whatever was posted at both ends arrives. */
void fake_peer_deliver(struct fake_peer *peer);

#endif
