/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The frames of a session: in the acquiring thread, except where noted. */
#ifndef GPUD_STREAM_RECEIVER_FRAMES_H
#define GPUD_STREAM_RECEIVER_FRAMES_H

#include "stream/receiver/session.h"

/* Prepares the frames of a new session, so that none is allocated while frames flow. */
void gpud_session_make_frames(struct gpud_session *session);

/* Claims the next frame before the position: 1 and *rx with its sequence and times in frame.info;
 * 0: none, or no room for it; −1: a violation or a failed device, with *error. */
int gpud_session_next_frame(struct gpud_session *session, uint32_t limit, struct gpud_rx_frame **rx,
                            struct gpud_error *error);

/* Whether gpud_session_next_frame() has something to do. */
bool gpud_session_has_work(struct gpud_session *session);

/* After the writer's death: releases queues that wait for its signals; their frames count as
 * corrupted. Any thread. */
void gpud_session_poison(struct gpud_session *session);

#endif
