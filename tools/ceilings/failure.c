/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

void raw_fail(const struct raw_caller *caller, enum gpud_status status, const char *format, ...)
{
    char reason[GPUD_REASON_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    caller->fail(caller->user, status, reason);
}
