/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {
    [GPUD_LOG_ERROR] = "error",
    [GPUD_LOG_WARNING] = "warning",
    [GPUD_LOG_INFO] = "info",
    [GPUD_LOG_DEBUG] = "debug",
};

static void to_stderr(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    (void)user;
    fprintf(stderr, "gpudirect: %s: %s: %s\n", level_names[level], area, text);
}

static enum gpud_log_level level_of_environment(void)
{
    const char *wanted = getenv("GPUDIRECT_LOG");
    for (int level = GPUD_LOG_ERROR; wanted && level <= GPUD_LOG_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return (enum gpud_log_level)level;
    return GPUD_LOG_WARNING;
}

void gpud_log_init(struct gpud_log *log, gpud_log_fn fn, void *user, enum gpud_log_level level)
{
    log->fn = fn ? fn : to_stderr;
    log->user = user;
    log->level = level ? level : level_of_environment();
}

void gpud_log_print(const struct gpud_log *log, enum gpud_log_level level, const char *area,
                    const char *format, ...)
{
    char text[GPUD_REASON_MAX + 256]; /* a reason, and whose it is */
    va_list args;
    va_start(args, format);
    gpud_text_format(text, sizeof(text), format, args);
    va_end(args);
    log->fn(log->user, level, area, text);
}
