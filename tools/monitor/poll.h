/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A thread that asks the channels once a second, so that one that hangs holds up no page. */
#ifndef GPUD_TOOLS_MONITOR_POLL_H
#define GPUD_TOOLS_MONITOR_POLL_H

#include "channels/ask.h"

struct monitor_poll;

/* What a question finds out. */
struct monitor_answer {
    gint64 asked;         /* when, by g_get_monotonic_time() */
    GPtrArray *folders;   /* of channels_ask(); NULL: `error` says why */
    GHashTable *expected; /* of monitor_expect_read(); NULL: nothing is, or `expect_error` */
    struct gpud_error error;
    char *expect_error; /* NULL: none */
};

/* Called in the main thread, which may take folders and expected, and sets them to NULL then. */
typedef void (*monitor_poll_done)(void *user, struct monitor_answer *answer);

/* scope, expect (files and folders of expected channels, up to a NULL; NULL: none): must outlive
 * it. What is expected and does not lie in the scope is asked, too. */
struct monitor_poll *monitor_poll_start(const struct channels_scope *scope, char *const *expect,
                                        monitor_poll_done done, void *user);

/* Waits for the question under way: a second at most. */
void monitor_poll_stop(struct monitor_poll *poll);

#endif
