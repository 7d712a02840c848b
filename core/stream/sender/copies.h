/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What each receiver of a frame needs done by devices, put on their queues. */
#ifndef GPUD_STREAM_SENDER_COPIES_H
#define GPUD_STREAM_SENDER_COPIES_H

#include "stream/sender/targets.h"

/* Puts all that the delivery's targets need on the queues. */
enum gpud_status gpud_copies_enqueue(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                     struct gpud_error *error);

/* The frame's slot, if what is delivered can be forgotten as soon as it is on the queues: the
 * receivers' devices wait for signals, and the next writer of the slot comes in the order of the
 * same queue. Else NULL. Under the lock. */
struct gpud_slot *gpud_copies_are_stream_ordered(const struct gpud_sender *sender,
                                                 const struct gpud_delivery *delivery);

#endif
