/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_SETUP_H
#define GPUD_CAPTURE_SETUP_H

#include "capture/state.h"

/* Selects the input and sets the controls that were asked for; the card was just opened, and its
 * signal is detected then. */
enum gpud_status gpud_capture_set_up(struct gpud_capture *capture, struct gpud_error *error);

/* Switches to capture->next_input. No buffers may exist. If the driver refuses, input_refused says
 * why, and the card stays at the input that it has. */
void gpud_capture_select_input(struct gpud_capture *capture);

#endif
