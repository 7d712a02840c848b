/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's thread. */
#ifndef GPUD_STREAM_SENDER_LISTENER_H
#define GPUD_STREAM_SENDER_LISTENER_H

#include "stream/sender/state.h"

/* Listens, unless it has another sender's listener, and starts the thread. Call
 * gpud_sender_stop_listening() after a failure, too. */
enum gpud_status gpud_sender_listen(struct gpud_sender *sender, const struct gpud_address *address,
                                    const struct gpud_access_rule *access, bool standby,
                                    struct gpud_error *error);

/* The part of each turn that follows reading messages: offers, deadlines, the ends of links. */
void gpud_listener_turn(struct gpud_sender *sender);

/* Ends the thread; no more connections are accepted. */
void gpud_sender_stop_listening(struct gpud_sender *sender);

/* Ends the thread; the listener, in which connections may be pending, is the caller's. */
struct gpud_listener *gpud_sender_take_listener(struct gpud_sender *sender);

#endif
