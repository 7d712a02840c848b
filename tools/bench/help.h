/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The text around the options in --help, and messages about a wrong command line. */
#ifndef GPUD_TOOLS_BENCH_HELP_H
#define GPUD_TOOLS_BENCH_HELP_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

extern const char bench_help_summary[], bench_help_description[];

/* What --route accepts, from the library's own list; to be freed with g_free(). */
gchar *bench_help_route(void);

/* Prints the mistake in the command line and returns false. */
bool bench_usage_error(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* Copies an option's value; false: it is too long. */
bool bench_usage_text(char *field, size_t size, const char *option, const char *value);

#endif
