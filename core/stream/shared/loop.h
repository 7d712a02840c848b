/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What both sides show to an event loop of the application's: one descriptor, readable when it is
 * worth a call, made when it is first asked for. */
#ifndef GPUD_STREAM_SHARED_LOOP_H
#define GPUD_STREAM_SHARED_LOOP_H

#include "base/clock.h"
#include "base/error.h"

struct gpud_loop {
    int fd;    /* an epoll of the two below, and of what its side adds; -1: not asked for */
    int event; /* an eventfd: look now */
    int timer; /* look then */
};

#define GPUD_LOOP_NONE ((struct gpud_loop){-1, -1, -1})

/* Readable at once: what there is to do is not known yet. */
enum gpud_status gpud_loop_open(struct gpud_loop *loop, struct gpud_error *error);
void gpud_loop_close(struct gpud_loop *loop);

enum gpud_status gpud_loop_watch(const struct gpud_loop *loop, int fd, struct gpud_error *error);
void gpud_loop_unwatch(const struct gpud_loop *loop, int fd);

/* INT64_MAX: never. */
void gpud_loop_set_timer(const struct gpud_loop *loop, int64_t at);

/* Neither the event nor the timer is readable any more. */
void gpud_loop_drain(const struct gpud_loop *loop);

#endif
