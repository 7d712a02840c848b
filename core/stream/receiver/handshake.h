/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a connection to a tested session. In the acquiring thread. */
#ifndef GPUD_STREAM_RECEIVER_HANDSHAKE_H
#define GPUD_STREAM_RECEIVER_HANDSHAKE_H

#include "stream/receiver/state.h"

/* Takes one step towards STREAMING: connects, or handles a message. GPUD_OK: go on. GPUD_AGAIN:
 * nothing to do until the connection is readable (or, OFFLINE, until `retry`). Every other status
 * ends the call. error: not NULL. */
enum gpud_status gpud_receiver_step(struct gpud_receiver *receiver, struct gpud_error *error);

/* Handles a message whose position has been reached. GPUD_CLOSED: EOS. */
/* Makes the session that the pending OFFER offers, before it is its turn. If that fails, the OFFER
 * stays pending, and is handled when it is. */
void gpud_receiver_prepare(struct gpud_receiver *receiver);

/* Goes on with the handshake of the next session, as far as it can without waiting. */
enum gpud_status gpud_receiver_advance_next(struct gpud_receiver *receiver,
                                            struct gpud_error *error);

/* Every frame before it was taken: the next session takes over, in whatever state it is. */
enum gpud_status gpud_receiver_use_next(struct gpud_receiver *receiver, struct gpud_error *error);

enum gpud_status gpud_receiver_handle(struct gpud_receiver *receiver, struct gpud_message *message,
                                      struct gpud_error *error);

#endif
