/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory for large metas between hosts, where it is pinned at both ends: the first frame that has
 * one asks the receiver for it (METAS). Until the answer comes, the link has no room for a frame,
 * as while the card's queue is full. */
#ifndef GPUD_STREAM_SENDER_METAS_H
#define GPUD_STREAM_SENDER_METAS_H

#include "stream/sender/link.h"

/* A frame with a large meta is to be sent: asks for memory, once for each transport. It may end the
 * link. Under the lock. */
void gpud_metas_ask(struct gpud_link *link);

/* Handles the answer, of which one is due. The listener's thread, without the lock. */
void gpud_metas_take(struct gpud_link *link, const struct gpud_metas *answer);

#endif
