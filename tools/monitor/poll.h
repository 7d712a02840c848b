/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A thread that asks the channels once a second, so that one that hangs holds up no page. */
#ifndef GPUD_TOOLS_MONITOR_POLL_H
#define GPUD_TOOLS_MONITOR_POLL_H

#include "channels/ask.h"

struct monitor_poll;

/* Called in the main thread, which takes the answer of channels_ask(); NULL: reason says why.
 * asked: when, by g_get_monotonic_time(). */
typedef void (*monitor_poll_done)(void *user, gint64 asked, GPtrArray *folders, const char *reason);

/* scope: must outlive it. */
struct monitor_poll *monitor_poll_start(const struct channels_scope *scope, monitor_poll_done done,
                                        void *user);

/* Waits for the question under way: a second at most. */
void monitor_poll_stop(struct monitor_poll *poll);

#endif
