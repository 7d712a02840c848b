/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a failed measurement ends. */
#ifndef GPUD_TOOLS_CEILINGS_FAILURE_H
#define GPUD_TOOLS_CEILINGS_FAILURE_H

#include <gpudirect/types.h>

#include <glib.h>

/* What a caller does with a failure. fail() does not return: measurements run in processes of their
 * own, and the end of the process frees everything. */
struct raw_caller {
    G_NORETURN_FUNCPTR void (*fail)(void *user, enum gpud_status status, const char *reason);
    void *user;
};

G_NORETURN void raw_fail(const struct raw_caller *caller, enum gpud_status status,
                         const char *format, ...) G_GNUC_PRINTF(3, 4);

#endif
