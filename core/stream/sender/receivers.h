/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adding and removing receivers: in the listener's thread, or after it ended, without the lock. */
#ifndef GPUD_STREAM_SENDER_RECEIVERS_H
#define GPUD_STREAM_SENDER_RECEIVERS_H

#include "stream/sender/link.h"

/* Makes a receiver for this HELLO, and answers it. Takes the channel on success; on failure the
 * status and *why are for the refusal. */
enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why);

/* Describes this side to the receiver. */
void gpud_link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint);

/* gpud_link_kill(); takes the lock. */
void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* Ends a handshake that cannot succeed, and sends the peer the reason. */
void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason);

/* Logs and reports links that began and ended since the last call, and removes dead ones. */
void gpud_links_settle(struct gpud_sender *sender);

#endif
