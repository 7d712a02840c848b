/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_WATCH_H
#define GPUD_CAPTURE_WATCH_H

#include "capture/state.h"

/* Arms timer_fd to expire after that long, and then at this interval (0: once). False: errno. */
bool gpud_capture_arm(struct gpud_capture *capture, int64_t after, int64_t every);
/* Whether it has expired; clears it. */
bool gpud_capture_is_time(struct gpud_capture *capture);
void gpud_capture_disarm(struct gpud_capture *capture);
/* Adds this descriptor to the epoll, until it is closed; -1 adds nothing. False: errno. */
bool gpud_capture_watch_too(struct gpud_capture *capture, int fd);
void gpud_capture_close_watched(struct gpud_capture *capture, int *fd);

#endif
