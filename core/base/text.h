/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Untrusted text, and text in arrays: UTF-8 throughout. */
#ifndef GPUD_BASE_TEXT_H
#define GPUD_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Makes untrusted text safe for logs, terminals and interfaces that need UTF-8: replaces every byte
 * of an invalid, control (C0, DEL, C1), line separator or direction-changing character by '?'. The
 * size is unchanged. */
void gpud_text_clean(char *text, size_t size);

/* The length, at most three bytes less, at which a text that was cut after `length` bytes ends with
 * a whole character. Invalid UTF-8 is kept. */
size_t gpud_text_whole(const char *text, size_t length);

/* vsnprintf that truncates only after a whole character. */
int gpud_text_format(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
