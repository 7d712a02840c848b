/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections that have not said yet what for. In the listener's thread, without the lock. */
#ifndef GPUD_STREAM_SENDER_NEWCOMER_H
#define GPUD_STREAM_SENDER_NEWCOMER_H

#include "stream/sender/state.h"

/* Takes the channel. */
void gpud_newcomer_add(struct gpud_sender *sender, struct gpud_channel *channel);

/* Whether connections have to wait in the system's queue: every newcomer here has spoken, and waits
 * for its turn. */
bool gpud_newcomers_are_full(const struct gpud_sender *sender);

/* Where the newcomer's next words are polled for; -1: it has spoken. */
int gpud_newcomer_fd(const struct gpud_newcomer *newcomer);

/* When the first of them is late, or has its turn. */
int64_t gpud_newcomers_deadline(const struct gpud_sender *sender);

/* Reads what they say, by what ppoll() said of the first `count`, and ends those that are late. So
 * many of them a second have their turn, one of the process that connected least first. */
struct pollfd;
void gpud_newcomers_read(struct gpud_sender *sender, const struct pollfd *fds, uint32_t count);
void gpud_newcomers_close(struct gpud_sender *sender);

#endif
