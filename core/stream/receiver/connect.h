/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection, from OFFLINE to the receiver's HELLO, and its end. In the acquiring thread. */
#ifndef GPUD_STREAM_RECEIVER_CONNECT_H
#define GPUD_STREAM_RECEIVER_CONNECT_H

#include "stream/receiver/state.h"

/* Advances from OFFLINE and CONNECTING towards HELLO; as gpud_receiver_step(). */
enum gpud_status gpud_receiver_connect(struct gpud_receiver *receiver, struct gpud_error *error);
enum gpud_status gpud_receiver_await_channel(struct gpud_receiver *receiver,
                                             struct gpud_error *error);

/* GPUD_PEER: the sender is gone. GPUD_INVALID: this message cannot be encoded. */
enum gpud_status gpud_receiver_send(struct gpud_receiver *receiver, struct gpud_message *message,
                                    struct gpud_error *error);

/* Sends the wish for more slots, unless the sender has heard it. Under receiver->lock. */
void gpud_receiver_ask_for_slots(struct gpud_receiver *receiver);

/* Handles the sender's refusal of this receiver; *error has its reason. */
enum gpud_status gpud_receiver_take_refusal(struct gpud_receiver *receiver,
                                            const struct gpud_refuse *refuse,
                                            struct gpud_error *error);

/* Ends the session, if there is one; frames still held stay valid. */
void gpud_receiver_drop_session(struct gpud_receiver *receiver);

/* The same for one that was never used. */
void gpud_receiver_drop_next(struct gpud_receiver *receiver);

/* When to connect again after this connection failed with that status. */
int64_t gpud_receiver_retry_in(const struct gpud_receiver *receiver, enum gpud_status status);

/* Ends the connection and sends the reason. Frames still held stay valid and keep the connection
 * open: its end tells the sender that the last one is back. */
void gpud_receiver_disconnect(struct gpud_receiver *receiver, int64_t retry_in, const char *why);

/* Adds the session's counters to the receiver's. Under receiver->lock. */
void gpud_receiver_collect(struct gpud_receiver *receiver, struct gpud_receiver_info *info);

#endif
