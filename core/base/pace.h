/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Predicts the next of a steady series of events, such as pictures at a fixed rate, so that a
 * thread can be awake in time and save the tens of microseconds that waking up takes. Events
 * without a steady rate are not predicted. */
#ifndef GPUD_BASE_PACE_H
#define GPUD_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Starts zeroed. Times are those of gpud_now(), in ns. */
struct gpud_pace {
    int64_t last;      /* time of the last event; 0: none yet */
    int64_t due;       /* the earliest time of the next one, with few exceptions */
    int64_t period;    /* 0: unknown */
    int64_t cover;     /* how much later than `due` it may come, with few exceptions */
    int64_t lag;       /* how late timers wake us up, on average */
    uint32_t off_pace; /* events in a row far from their expected time */
    uint32_t followed; /* events with this period */
};

/* Records an event. */
void gpud_pace_learn(struct gpud_pace *pace, int64_t now);

/* Whether it pays to be awake for the next event, from *from until *until: no longer than `limit`
 * and a small part of a period. false: it does not, or too little is known; the outputs are not
 * set. */
bool gpud_pace_window(const struct gpud_pace *pace, int64_t limit, int64_t *from, int64_t *until);

/* Records how late a sleep until *from ended. */
void gpud_pace_overslept(struct gpud_pace *pace, int64_t late);

#endif
