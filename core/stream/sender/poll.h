/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What tells an application that submits in a loop of its own when to go on. All under the lock. */
#ifndef GPUD_STREAM_SENDER_POLL_H
#define GPUD_STREAM_SENDER_POLL_H

#include "stream/sender/link.h"

/* A call found no slot or no credit; the next one begins. */
void gpud_sender_poll_arm(struct gpud_sender *sender);
void gpud_sender_poll_disarm(struct gpud_sender *sender);

/* The next entry that comes back is told by a KICK. Look once more after the call. */
void gpud_sender_poll_ask(struct gpud_link *link);

/* A receiver says that it gave something back. false: it was not asked to. */
bool gpud_sender_poll_kick(struct gpud_link *link);

#endif
