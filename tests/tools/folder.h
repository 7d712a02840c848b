/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Of programs that tests start, and people by hand: a private folder for the socket of their link,
 * which goes with the process also where that fails, or ends by SIGINT or SIGTERM. */
#ifndef GPUD_TESTS_FOLDER_H
#define GPUD_TESTS_FOLDER_H

#include <glib.h>
#include <gpudirect/gpudirect.h>

/* Ends the process with a reason. */
G_NORETURN void die(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* Ends the process unless the call has succeeded. */
void must(const char *what, enum gpud_status status, const struct gpud_error *error);

/* Before other threads start. Returns an address in the folder. */
const char *folder_open(void);
void folder_remove(void);

#endif
