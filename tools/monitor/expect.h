/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels that are expected: files with an address a line. */
#ifndef GPUD_TOOLS_MONITOR_EXPECT_H
#define GPUD_TOOLS_MONITOR_EXPECT_H

#include <glib.h>

/* paths: files, and folders of such files, up to a NULL. Returns a set of addresses; NULL: *error
 * says what is wrong, and on which line. To be freed with g_hash_table_unref(). */
GHashTable *monitor_expect_read(char *const *paths, GError **error);

#endif
