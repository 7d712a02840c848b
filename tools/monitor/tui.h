/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The model on a terminal. */
#ifndef GPUD_TOOLS_MONITOR_TUI_H
#define GPUD_TOOLS_MONITOR_TUI_H

#include "monitor/model.h"

struct monitor_tui;

/* quit: called in the main thread at "q". NULL: this is no terminal. */
struct monitor_tui *monitor_tui_new(struct monitor_model *model, void (*quit)(void *user),
                                    void *user);
/* Leaves the terminal as it was. */
void monitor_tui_free(struct monitor_tui *tui);

/* After a change of the model. */
void monitor_tui_draw(struct monitor_tui *tui);

#endif
