/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_STREAM_RECEIVER_LINES_H
#define GPUD_STREAM_RECEIVER_LINES_H

#include "stream/receiver/session.h"

/* Why frames cannot come while they are written; NULL: they can. */
const char *gpud_session_whole_reason(const struct gpud_session *session);

/* Asks the sender for such frames, before it knows the page. */
void gpud_session_ask_for_lines(struct gpud_session *session);

/* The rest of a frame's rows never comes: poisons it. GPUD_PEER. */
enum gpud_status gpud_rx_lose(struct gpud_rx_frame *rx, struct gpud_error *error);

/* Waits for a frame's first rows. GPUD_PEER: they never come, and the frame is poisoned. Any
 * thread. */
enum gpud_status gpud_rx_wait_lines(struct gpud_rx_frame *rx, uint32_t lines, int64_t deadline,
                                    struct gpud_error *error);

#endif
