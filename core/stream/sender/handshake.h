/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The handshake with one receiver. */
#ifndef GPUD_STREAM_SENDER_HANDSHAKE_H
#define GPUD_STREAM_SENDER_HANDSHAKE_H

#include "stream/sender/link.h"

/* Handles a message, in the listener's thread, without the lock. The caller closes its
 * attachments. */
void gpud_link_handle(struct gpud_link *link, struct gpud_message *message);

#endif
