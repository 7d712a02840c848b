/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text of others, and text in arrays: UTF-8 throughout. */
#ifndef GPUD_BASE_TEXT_H
#define GPUD_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Makes what somebody else wrote fit for a log, a terminal and an interface that takes UTF-8 only:
 * every byte becomes a '?' that is not part of a valid character, or is part of a control character
 * (C0, DEL, C1), of a separator of lines, or of one that turns the direction of what follows. The
 * size stays. */
void gpud_text_clean(char *text, size_t size);

/* How much of a text that was cut after `length` bytes ends with a whole character: less than
 * `length` by three at most. What is not UTF-8 there stays. */
size_t gpud_text_whole(const char *text, size_t length);

/* vsnprintf, which never leaves a part of a character at the end of what it cut. */
int gpud_text_format(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
