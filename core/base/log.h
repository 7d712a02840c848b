/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The log of one context. Nothing here is called once a frame, and no handle, rkey or bus address
 * is printed. */
#ifndef GPUD_BASE_LOG_H
#define GPUD_BASE_LOG_H

#include "base/error.h"

struct gpud_log {
    gpud_log_fn fn;
    void *user;
    enum gpud_log_level level;
};

/* fn NULL: stderr. level 0: what GPUDIRECT_LOG says, else warnings. */
void gpud_log_init(struct gpud_log *log, gpud_log_fn fn, void *user, enum gpud_log_level level);

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
