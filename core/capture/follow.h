/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_FOLLOW_H
#define GPUD_CAPTURE_FOLLOW_H

#include "capture/state.h"

/* Follows the signal, before each check for a frame. *held: it has changed, but the driver needs
 * held frames back first. */
enum gpud_status gpud_capture_keep_up(struct gpud_capture *capture, bool *held,
                                      struct gpud_error *error);

/* Without a ring, because the driver does not start without a signal: waits until it starts. */
enum gpud_status gpud_capture_await_start(struct gpud_capture *capture, int64_t deadline,
                                          struct gpud_error *error);

#endif
