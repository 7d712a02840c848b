/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The first function that detects a fault reports it, once, with the exact cause; its callers only
 * return. */
#ifndef GPUD_BASE_ERROR_H
#define GPUD_BASE_ERROR_H

#include <gpudirect/types.h>

#define GPUD_PRINTF(string, first) __attribute__((format(printf, string, first)))

/* Fills *error (which may be NULL) and returns status. */
enum gpud_status gpud_fail(struct gpud_error *error, enum gpud_status status, const char *format,
                           ...) GPUD_PRINTF(3, 4);

/* The same for a failed external call: native is its error number, origin the kind of number. */
enum gpud_status gpud_fail_native(struct gpud_error *error, enum gpud_status status,
                                  const char *origin, long native, const char *format, ...)
    GPUD_PRINTF(5, 6);

/* The same for a failed system call: appends strerror(errno), and chooses the status by errno. */
enum gpud_status gpud_fail_errno(struct gpud_error *error, const char *format, ...)
    GPUD_PRINTF(2, 3);

/* snprintf into a fixed array, truncated silently after a whole character: for names and reasons.
 */
#define gpud_print(array, ...) ((void)gpud_print_n(array, sizeof(array), __VA_ARGS__))
int gpud_print_n(char *text, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

#endif
