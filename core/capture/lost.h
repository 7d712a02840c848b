/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_LOST_H
#define GPUD_CAPTURE_LOST_H

#include "capture/state.h"

/* Opens the card again, under any node. */
enum gpud_status gpud_capture_reopen(struct gpud_capture *capture, struct gpud_error *error);
/* Ends the wait for a card that has returned. */
void gpud_capture_note_return(struct gpud_capture *capture);

void gpud_capture_end_wait(struct gpud_capture *capture);

#endif
