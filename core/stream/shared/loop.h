/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A descriptor for an application's event loop, on both sides: readable when a call can make
 * progress, and created on first use. */
#ifndef GPUD_STREAM_SHARED_LOOP_H
#define GPUD_STREAM_SHARED_LOOP_H

#include "base/clock.h"
#include "base/error.h"

struct gpud_loop {
    int fd;    /* an epoll of the two below and of descriptors its side adds; -1: not open */
    int event; /* an eventfd: call now */
    int timer; /* a timerfd: call then */
};

#define GPUD_LOOP_NONE ((struct gpud_loop){-1, -1, -1})

/* Opens it readable, because pending work is not known yet. */
enum gpud_status gpud_loop_open(struct gpud_loop *loop, struct gpud_error *error);
void gpud_loop_close(struct gpud_loop *loop);

enum gpud_status gpud_loop_watch(const struct gpud_loop *loop, int fd, struct gpud_error *error);
void gpud_loop_unwatch(const struct gpud_loop *loop, int fd);

/* INT64_MAX: never. */
void gpud_loop_set_timer(const struct gpud_loop *loop, int64_t at);

/* Makes the event and the timer unreadable; false: neither was readable. */
bool gpud_loop_drain(const struct gpud_loop *loop);

#endif
