/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Wakes another process through an eventfd, which answers through a second one. */
#ifndef GPUD_TOOLS_CEILINGS_WAKE_H
#define GPUD_TOOLS_CEILINGS_WAKE_H

#include <stdbool.h>
#include <stdint.h>

/* Descriptors of both sides; -1: none. */
struct raw_wake {
    int ping, pong; /* eventfds */
    int page;       /* a memfd: when the ping was sent */
};

/* false: errno. Close it in either case. */
bool raw_wake_open(struct raw_wake *wake);
void raw_wake_close(struct raw_wake *wake);

/* Wakes the other process so many times, once each `period` ns, after some that are not counted.
 * false: it does not answer within 10 s, or `stopped` returned true. */
bool raw_wake_send(const struct raw_wake *wake, uint32_t count, double period,
                   bool (*stopped)(void));

/* The other process: how long each wake took, ns, `count` of them. It waits without a deadline.
 * false: errno. */
bool raw_wake_answer(const struct raw_wake *wake, uint32_t count, int64_t *latencies);

#endif
