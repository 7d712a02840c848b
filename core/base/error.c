/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors and logs. */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === error =================================================================================== */

static void error_fill(struct gpud_error *error, enum gpud_status status, const char *origin,
                       long native, const char *format, va_list args)
{
    error->status = status;
    error->native = native;
    error->origin = origin;
    gpud_text_format(error->reason, sizeof(error->reason), format, args);
}

enum gpud_status gpud_fail(struct gpud_error *error, enum gpud_status status, const char *format,
                           ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        error_fill(error, status, NULL, 0, format, args);
        va_end(args);
    }
    return status;
}

enum gpud_status gpud_fail_native(struct gpud_error *error, enum gpud_status status,
                                  const char *origin, long native, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        error_fill(error, status, origin, native, format, args);
        va_end(args);
    }
    return status;
}

static enum gpud_status status_of_errno(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
        return GPUD_NO_ACCESS;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
        return GPUD_NO_MEMORY;
    case ENODEV:
    case ENXIO:
        return GPUD_NO_DEVICE;
    case ECONNRESET:
    case EPIPE:
        return GPUD_PEER;
    default:
        return GPUD_IO;
    }
}

enum gpud_status gpud_fail_errno(struct gpud_error *error, const char *format, ...)
{
    int number = errno;
    enum gpud_status status = status_of_errno(number);
    if (error) {
        va_list args;
        va_start(args, format);
        error_fill(error, status, "errno", number, format, args);
        va_end(args);
        size_t used = strlen(error->reason);
        gpud_print_n(error->reason + used, sizeof(error->reason) - used, ": %s", strerror(number));
    }
    return status;
}

int gpud_print_n(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int written = gpud_text_format(text, size, format, args);
    va_end(args);
    return written;
}

const char *gpud_status_string(enum gpud_status status)
{
    static const char *const names[] = {
        [GPUD_OK] = "ok",
        [GPUD_AGAIN] = "again",
        [GPUD_TIMEOUT] = "timeout",
        [GPUD_CLOSED] = "closed",
        [GPUD_INVALID] = "invalid",
        [GPUD_UNSUPPORTED] = "unsupported",
        [GPUD_NO_DEVICE] = "no device",
        [GPUD_NO_MEMORY] = "no memory",
        [GPUD_NO_ACCESS] = "no access",
        [GPUD_PEER] = "peer",
        [GPUD_IO] = "i/o",
    };
    return (unsigned)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown status";
}

const char *gpud_version_string(void)
{
    return GPUD_VERSION;
}

/* === log ===================================================================================== */

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

void gpud_log_init(struct gpud_log *log, gpud_log_fn fn, void *user, enum gpud_log_level level)
{
    const char *wanted = level ? NULL : getenv("GPUDIRECT_LOG");
    log->fn = fn ? fn : to_stderr;
    log->user = user;
    log->level = level ? level : GPUD_LOG_WARNING;
    for (int named = GPUD_LOG_ERROR; wanted && named <= GPUD_LOG_DEBUG; named++)
        if (strcmp(wanted, level_names[named]) == 0)
            log->level = (enum gpud_log_level)named;
    log->lines_max = GPUD_LOG_LINES_MAX;
    atomic_init(&log->lines, 0);
}

static void tell_left_out(const struct gpud_log *log, uint32_t count)
{
    char text[80];
    if (count == 0)
        return;
    gpud_print(text, "%u more lines were left out: no more than %u are printed in a second", count,
               log->lines_max);
    log->fn(log->user, GPUD_LOG_WARNING, "log", text);
}

void gpud_log_finish(struct gpud_log *log)
{
    uint32_t count = (uint32_t)atomic_exchange(&log->lines, 0);
    if (count > log->lines_max)
        tell_left_out(log, count - log->lines_max);
}

bool gpud_log_count(struct gpud_log *log, int64_t now, uint32_t *left_out)
{
    uint64_t second = (uint64_t)(now / GPUD_SEC) << 32;
    uint64_t seen = atomic_load(&log->lines), next;
    uint32_t before;
    do {
        before = (uint32_t)seen;
        /* A thread that was delayed after reading the clock counts in the current second. */
        next = second > seen ? second + 1 : seen + 1;
    } while (!atomic_compare_exchange_weak(&log->lines, &seen, next));
    *left_out = second > seen && before > log->lines_max ? before - log->lines_max : 0;
    return (uint32_t)next <= log->lines_max;
}

void gpud_log_print(const struct gpud_log *log, enum gpud_log_level level, const char *area,
                    const char *format, ...)
{
    char text[GPUD_REASON_MAX + 256]; /* a reason and its subject */
    va_list args;
    if (level != GPUD_LOG_ERROR) {
        /* Callers print to a const log, but every log is part of a context, which is not const. */
        uint32_t left_out;
        bool print = gpud_log_count((struct gpud_log *)log, gpud_now(), &left_out);
        tell_left_out(log, left_out);
        if (!print)
            return;
    }
    va_start(args, format);
    gpud_text_format(text, sizeof(text), format, args);
    va_end(args);
    log->fn(log->user, level, area, text);
}
