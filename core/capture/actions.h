/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_ACTIONS_H
#define GPUD_CAPTURE_ACTIONS_H

#include "capture/state.h"

/* Moves the state machine by this event, and carries out what follows. Not GPUD_OK: what was to
 * be done failed; capture->state tells what this means for the stream. */
enum gpud_status gpud_capture_report(struct gpud_capture *capture, enum gpud_capture_event event,
                                     struct gpud_error *error);

/* The same for ON_FAILED, or ON_UNPLUGGED if that is the status of this failure. Gives its status,
 * and *error the whole. */
enum gpud_status gpud_capture_report_failure(struct gpud_capture *capture,
                                             const struct gpud_error *failure,
                                             struct gpud_error *error);

/* The same for ON_METHOD_FAILED, for this reason. GPUD_OK: the stream goes on. */
enum gpud_status gpud_capture_report_method(struct gpud_capture *capture,
                                            const struct gpud_error *reason,
                                            struct gpud_error *error);

#endif
