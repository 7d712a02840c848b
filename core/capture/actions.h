/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_ACTIONS_H
#define GPUD_CAPTURE_ACTIONS_H

#include "capture/state.h"

/* Moves the state machine by this event, and carries out what follows. why: of a failure, else
 * NULL; one with GPUD_NO_DEVICE is that the card was unplugged. Not GPUD_OK: that failure, or why
 * what was to be done failed; capture->state tells what this means for the stream. */
enum gpud_status gpud_capture_report(struct gpud_capture *capture, enum gpud_capture_event event,
                                     const struct gpud_error *why, struct gpud_error *error);

#endif
