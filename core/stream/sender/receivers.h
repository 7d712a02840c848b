/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers come and go: in the listener's thread, or after it, without the lock. */
#ifndef GPUD_STREAM_SENDER_RECEIVERS_H
#define GPUD_STREAM_SENDER_RECEIVERS_H

#include "stream/sender/link.h"

/* A receiver of this HELLO, which is answered. Takes the channel on success; on failure status and
 * *why say what it is to be refused with. */
enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why);

/* What this side says of itself to the receiver. */
void gpud_link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint);

/* gpud_link_kill(), under the lock that it takes. */
void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* The end of a handshake that cannot succeed; the peer is told why. */
void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason);

/* Logs and reports what began and ended since the last call, hangs up and removes what is dead. */
void gpud_links_settle(struct gpud_sender *sender);

#endif
