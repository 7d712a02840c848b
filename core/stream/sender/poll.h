/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Notifies an application that submits from an event loop when to continue. All under the lock. */
#ifndef GPUD_STREAM_SENDER_POLL_H
#define GPUD_STREAM_SENDER_POLL_H

#include "stream/sender/link.h"

/* Arm it when a call finds no slot or no credit; disarm it when the next one begins. */
void gpud_sender_poll_arm(struct gpud_sender *sender);
void gpud_sender_poll_disarm(struct gpud_sender *sender);

/* Requests a KICK for the next returned entry. Check once more after the call. */
void gpud_sender_poll_ask(struct gpud_link *link);

/* Handles a KICK. false: none was requested. */
bool gpud_sender_poll_kick(struct gpud_link *link);

#endif
