/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame that is handed over while the application writes it: from its first submission until its
 * last line, its release, or a new format. There is one at a time, so that frames stay in order. */
#ifndef GPUD_STREAM_SENDER_LINES_H
#define GPUD_STREAM_SENDER_LINES_H

#include "stream/sender/delivery.h"

/* After gpud_deliver() by lines; under the lock. */
void gpud_lines_begin(struct gpud_sender *sender, struct gpud_slot *slot);

/* So many rows are valid; all: the frame is whole. Without the lock. */
enum gpud_status gpud_lines_advance(struct gpud_sender *sender, struct gpud_frame *frame,
                                    uint32_t lines, struct gpud_error *error);

/* The frame, if there is one, is lost; under the lock. */
void gpud_lines_give_up(struct gpud_sender *sender);

#endif
