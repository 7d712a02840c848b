/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A network card in the test's own process, in place of libibverbs and librdmacm: it does nothing
 * by itself, so that a test decides what happens when. It is as strict as a card: an access outside
 * a registration breaks both queue pairs, a queue that overflows ends the test, and so does a
 * message without a receive, as no test here has a peer that lies. */
#ifndef GPUD_TESTS_RDMA_FAKE_CARD_H
#define GPUD_TESTS_RDMA_FAKE_CARD_H

#include "device/rdma/rdma.h"

/* The thread that closes connections calls the card beside the test: each call begins with this,
 * and has the card alone until it returns. */
#define ONE_AT_A_TIME \
    __attribute__((cleanup(fake_card_leave), unused)) int inside = fake_card_enter()
int fake_card_enter(void);
void fake_card_leave(const int *inside);

struct fake_card {
    enum ibv_transport_type transport;
    int queue_max, completions_max; /* limits that it tells of */
    uint32_t inline_max, message_max;
    uint32_t create_max; /* requests with which a queue pair can be made, in truth */
    int dmabuf_errno;    /* EBADF: it takes dma-bufs */
    int register_errno;  /* registrations fail with it; 0: they do not */
    unsigned dmabufs;    /* asked for with a descriptor */
    unsigned domains, channels, queues, pairs, regions; /* that are there now */
    unsigned depth, inline_bytes;                       /* of the last queue pair */
    uint64_t last_offset, last_address;                 /* of the last dma-buf */
};

extern struct fake_card fake_card;

/* Nothing of the card is there any more; and all is as it was at first. */
void fake_card_check_empty(void);
void fake_card_reset(void);

/* Ids on the card, and two of them as ends of one connection. */
struct rdma_cm_id *fake_id_create(void);
void fake_id_destroy(struct rdma_cm_id *id);
void fake_connect(struct rdma_cm_id *a, struct rdma_cm_id *b);

/* The card does what was posted next at this id: the other end sees it. false: there is nothing. */
bool fake_deliver(struct rdma_cm_id *id);

/* It says of what it did next that it is done, if it was asked to. false: there is nothing. */
bool fake_complete(struct rdma_cm_id *id);

/* The bytes behind an address and a key, if they may be used so; or NULL. */
char *fake_find(uint64_t address, uint64_t size, uint32_t key, bool remote, int access);

#endif
