/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The log of one context. Nothing here is called once a frame, and no handle, rkey or bus address
 * is printed. */
#ifndef GPUD_BASE_LOG_H
#define GPUD_BASE_LOG_H

#include "base/error.h"
#include <stdatomic.h>

/* The rate limit, because a peer can cause any number of lines. Errors are exempt: each ends
 * something. */
#define GPUD_LOG_LINES_MAX 100 /* in a second of the clock */

struct gpud_log {
    gpud_log_fn fn;
    void *user;
    enum gpud_log_level level;
    uint32_t lines_max;
    _Atomic uint64_t lines; /* the last second that had any, and in the lower half how many */
};

/* fn NULL: stderr. level 0: GPUDIRECT_LOG's level, or else warnings. */
void gpud_log_init(struct gpud_log *log, gpud_log_fn fn, void *user, enum gpud_log_level level);

/* Logs how many lines were left out, if that was not logged yet. */
void gpud_log_finish(struct gpud_log *log);

/* Counts a line at that time, in ns. true: it may be printed. *left_out: how many lines of an
 * earlier second were not, which the caller is to log. Thread-safe. */
bool gpud_log_count(struct gpud_log *log, int64_t now, uint32_t *left_out);

void gpud_log_print(const struct gpud_log *log, enum gpud_log_level level, const char *area,
                    const char *format, ...) GPUD_PRINTF(4, 5);

#define gpud_log_at(log, at, ...)                 \
    do {                                          \
        if ((at) <= (log)->level)                 \
            gpud_log_print(log, at, __VA_ARGS__); \
    } while (0)
#define gpud_log_error(log, ...) gpud_log_at(log, GPUD_LOG_ERROR, __VA_ARGS__)
#define gpud_log_warning(log, ...) gpud_log_at(log, GPUD_LOG_WARNING, __VA_ARGS__)
#define gpud_log_info(log, ...) gpud_log_at(log, GPUD_LOG_INFO, __VA_ARGS__)
#define gpud_log_debug(log, ...) gpud_log_at(log, GPUD_LOG_DEBUG, __VA_ARGS__)

#endif
