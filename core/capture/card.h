/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_CARD_H
#define GPUD_CAPTURE_CARD_H

#include "capture/state.h"

/* Selects the input and sets the controls that were asked for; the card was just opened, and its
 * signal is detected then. */
enum gpud_status gpud_capture_set_up(struct gpud_capture *capture, struct gpud_error *error);

/* Switches to capture->wanted.next_input, if there is one. No buffers may exist. If the driver
 * refuses, input_refused says why, and the card stays at the input that it has. */
void gpud_capture_select_input(struct gpud_capture *capture);

/* Opens the card again, under any node, and sets it up. On failure the node may be open. */
enum gpud_status gpud_capture_reopen(struct gpud_capture *capture, struct gpud_error *error);
void gpud_capture_close_node(struct gpud_capture *capture);

/* Begins to watch for nodes, and arms the timer for the first look. */
enum gpud_status gpud_capture_watch_for_card(struct gpud_capture *capture,
                                             struct gpud_error *error);
/* The folders that exist now, before each look. False: not all, and the card may return
 * unnoticed. */
bool gpud_capture_watch_folders(const struct gpud_capture *capture);
void gpud_capture_unwatch_folders(struct gpud_capture *capture);

#endif
