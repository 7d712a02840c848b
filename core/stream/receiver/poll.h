/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A descriptor for who waits in a loop of their own: readable when acquiring has something to do.
 * It is armed whenever an acquire ends with nothing, and costs nothing before it was asked for. All
 * in the acquiring thread, but for what says otherwise. */
#ifndef GPUD_STREAM_RECEIVER_POLL_H
#define GPUD_STREAM_RECEIVER_POLL_H

#include "stream/shared/loop.h"

#include <stdatomic.h>

struct gpud_receiver;

struct gpud_receiver_poll {
    struct gpud_loop loop; /* its timer: a state's deadline, the next try to connect */
    /* The loop is made by any thread, under the receiver's lock, and does not change once this is
     * set: the acquiring thread asks here and takes no lock. */
    atomic_bool is_open;
    int watched; /* the channel's descriptor; -1: not now */
    bool is_armed;
};

void gpud_receiver_poll_init(struct gpud_receiver *receiver);
void gpud_receiver_poll_finish(struct gpud_receiver *receiver);

/* An acquire found nothing. */
void gpud_receiver_poll_arm(struct gpud_receiver *receiver);

/* The next one begins. */
void gpud_receiver_poll_disarm(struct gpud_receiver *receiver);

/* The channel is about to go; frames that are held may keep its descriptor. */
void gpud_receiver_poll_unwatch(struct gpud_receiver *receiver);

/* Readable now; from any thread, under the receiver's lock. */
void gpud_receiver_poll_wake(struct gpud_receiver *receiver);

#endif
