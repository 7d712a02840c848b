/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection, from OFFLINE until the receiver has said who it is, and its end. In the acquiring
 * thread. */
#ifndef GPUD_STREAM_RECEIVER_CONNECT_H
#define GPUD_STREAM_RECEIVER_CONNECT_H

#include "stream/receiver/state.h"

/* Steps from OFFLINE, and from CONNECTING, towards HELLO; as gpud_receiver_step(). */
enum gpud_status gpud_receiver_connect(struct gpud_receiver *receiver, struct gpud_error *error);
enum gpud_status gpud_receiver_await_channel(struct gpud_receiver *receiver,
                                             struct gpud_error *error);

/* GPUD_PEER: the sender is gone. GPUD_INVALID: this message cannot be said. */
enum gpud_status gpud_receiver_send(struct gpud_receiver *receiver, struct gpud_message *message,
                                    struct gpud_error *error);

/* The sender turned this receiver away; *error says so. */
enum gpud_status gpud_receiver_take_refusal(struct gpud_receiver *receiver,
                                            const struct gpud_refuse *refuse,
                                            struct gpud_error *error);

/* The session, if there is one, ends; frames that are held live on. */
void gpud_receiver_drop_session(struct gpud_receiver *receiver);

/* When to connect again after this connection failed with that status. */
int64_t gpud_receiver_retry_in(const struct gpud_receiver *receiver, enum gpud_status status);

/* Ends the connection, and tells the sender why. Frames that are held live on, and the connection
 * with them: its end tells the sender that the last one is back. */
void gpud_receiver_disconnect(struct gpud_receiver *receiver, int64_t retry_in, const char *why);

/* The session's counters into the receiver's. Under receiver->lock. */
void gpud_receiver_collect(struct gpud_receiver *receiver, struct gpud_receiver_info *info);

#endif
