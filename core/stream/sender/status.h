/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's report of itself. */
#ifndef GPUD_STREAM_SENDER_STATUS_H
#define GPUD_STREAM_SENDER_STATUS_H

#include "stream/sender/state.h"

/* Answers a QUERY; without the lock. */
void gpud_sender_answer(struct gpud_sender *sender, struct gpud_channel *channel);

/* The frames that receivers have taken. Under the lock. */
uint64_t gpud_sender_count_delivered(const struct gpud_sender *sender);

/* Takes a sample of the frame count when one is due. Under the lock. */
void gpud_sender_sample(struct gpud_sender *sender, int64_t now);

#endif
