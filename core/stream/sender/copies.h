/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Puts the device work that each receiver of a frame needs on queues. */
#ifndef GPUD_STREAM_SENDER_COPIES_H
#define GPUD_STREAM_SENDER_COPIES_H

#include "stream/sender/targets.h"

/* Enqueues everything that the delivery's targets need. */
enum gpud_status gpud_copies_enqueue(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                     struct gpud_error *error);

/* The frame's slot, if the delivery is finished once its work is on the queues: the receivers'
 * devices wait for signals, and the same queue orders the slot's next writer. Else NULL. Under the
 * lock. */
struct gpud_slot *gpud_copies_are_stream_ordered(const struct gpud_sender *sender,
                                                 const struct gpud_delivery *delivery);

#endif
