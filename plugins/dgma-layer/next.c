/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "next.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cl_icd_dispatch dgma_next;

void dgma_log(const char *format, ...)
{
    const char *wanted = getenv("GPUDIRECT_DGMA_LOG");
    if (!wanted || strcmp(wanted, "0") == 0)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "gpudirect-dgma: %s\n", line);
}
