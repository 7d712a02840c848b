/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_STREAM_RECEIVER_FRAMES_H
#define GPUD_STREAM_RECEIVER_FRAMES_H

#include "stream/receiver/session.h"

/* Prepares the frames of a new session, so that none is made while frames flow. */
void gpud_session_make_frames(struct gpud_session *session);

#endif
