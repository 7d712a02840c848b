/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections before their first message, HELLO or QUERY. In the listener's thread, without the
 * lock. */
#ifndef GPUD_STREAM_SENDER_NEWCOMER_H
#define GPUD_STREAM_SENDER_NEWCOMER_H

#include "stream/sender/state.h"

/* Takes ownership of the channel. */
void gpud_newcomer_add(struct gpud_sender *sender, struct gpud_channel *channel);

/* Whether further connections must stay in the system's queue: the table is full of newcomers that
 * wait for their turn. */
bool gpud_newcomers_are_full(const struct gpud_sender *sender);

/* The descriptor to poll for its first message; -1: it has arrived. */
int gpud_newcomer_fd(const struct gpud_newcomer *newcomer);

/* The next deadline of a newcomer, or the time of the next turn. */
int64_t gpud_newcomers_deadline(const struct gpud_sender *sender);

/* Reads their messages, by ppoll()'s results for the first `count`, and drops those that are late.
 * A limited number a second have their turn, those of processes with the fewest connections first.
 */
struct pollfd;
void gpud_newcomers_read(struct gpud_sender *sender, const struct pollfd *fds, uint32_t count);
void gpud_newcomers_close(struct gpud_sender *sender);

#endif
