/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_FOLLOW_H
#define GPUD_CAPTURE_FOLLOW_H

#include "capture/state.h"

/* Follows the signal, before each check for a frame. look: it may have changed. True: the state, or
 * the ring, is perhaps another one. */
bool gpud_capture_follow(struct gpud_capture *capture, bool look);

/* In phase DEFERRED: waits until there is a signal, and then starts. GPUD_OK: the phase is another
 * one. */
enum gpud_status gpud_capture_await_signal(struct gpud_capture *capture, int64_t deadline,
                                           struct gpud_error *error);

#endif
