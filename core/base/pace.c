/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/pace.h"

/* After this many events a new period is settled; more events refine it. */
#define SETTLING 48

/* At most this part of a period is spent awake. Events further than that from their expected time
 * are off the pace; several of them in a row start a new pace. */
#define AWAKE_PART 32
#define OFF_PACE_MAX 3

/* Timers that wake us later than this are useless. */
#define LAG_MAX (200 * INT64_C(1000))

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Events come on a beat or after it, and the delays are independent. So an early event moves the
 * estimate at once, a late one only slightly; `cover` settles where one event in nine exceeds it.
 */
static void follow(struct gpud_pace *pace, int64_t interval, int64_t off)
{
    if (off > pace->cover)
        pace->cover += pace->cover / 2 + 1;
    else
        pace->cover -= pace->cover / 16;
    pace->period += (interval - pace->period) / (++pace->followed <= SETTLING ? 8 : 64);
    pace->due += pace->period + (off < 0 ? off / 2 : min(off, pace->cover) / 16);
    pace->off_pace = 0;
}

void gpud_pace_learn(struct gpud_pace *pace, int64_t now)
{
    int64_t interval = now - pace->last, off = now - pace->due, far = pace->period / AWAKE_PART;
    bool first = pace->last == 0;
    pace->last = now;
    if (first)
        return;
    if (far > 0 && off >= -far && off <= far) {
        follow(pace, interval, off);
        return;
    }
    /* A missing event or a pause: the next events show which. */
    if (pace->period == 0 || ++pace->off_pace >= OFF_PACE_MAX) {
        pace->period = interval;
        pace->cover = interval / AWAKE_PART; /* too long to be used until it is known */
        pace->off_pace = pace->followed = 0;
    }
    pace->due = now + pace->period;
}

bool gpud_pace_window(const struct gpud_pace *pace, int64_t limit, int64_t *from, int64_t *until)
{
    int64_t early = pace->cover / 4;
    if (pace->period == 0 || early + pace->cover > min(limit, pace->period / AWAKE_PART))
        return false;
    *from = pace->due - early - pace->lag;
    *until = pace->due + pace->cover;
    return true;
}

void gpud_pace_overslept(struct gpud_pace *pace, int64_t late)
{
    pace->lag += (min(late, LAG_MAX) - pace->lag) / 4;
}
