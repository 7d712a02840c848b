/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When the next of a steady series of events is due: pictures come at a rate. Who knows it can be
 * awake in time, and spares the event the tens of microseconds that waking up takes. What does not
 * come steadily is not predicted. */
#ifndef GPUD_BASE_PACE_H
#define GPUD_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Starts zeroed. Times are those of gpud_now(), in ns. */
struct gpud_pace {
    int64_t last;      /* when the last event was; 0: there was none */
    int64_t due;       /* when the next comes at the earliest, but for a few */
    int64_t period;    /* 0: not known */
    int64_t cover;     /* how much later it comes at the latest, but for a few */
    int64_t lag;       /* how late timers wake us up, mean */
    uint32_t off_pace; /* events in a row at quite another time */
    uint32_t followed; /* events of this period */
};

/* An event came. */
void gpud_pace_learn(struct gpud_pace *pace, int64_t now);

/* Whether the next event is worth being awake for, from *from until *until: no longer than `limit`,
 * and no more than a small part of a period. false: it is not, or too little is known; the outputs
 * are not set. */
bool gpud_pace_window(const struct gpud_pace *pace, int64_t limit, int64_t *from, int64_t *until);

/* A sleep until *from ended so late. */
void gpud_pace_overslept(struct gpud_pace *pace, int64_t late);

#endif
