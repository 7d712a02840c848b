/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/arrivals.h"

void arrivals_see(struct arrivals *arrivals, guint waiting, GstClockTime now)
{
    waiting = MIN(waiting, GPUD_SLOTS_MAX);
    while (arrivals->count < waiting)
        arrivals->seen[(arrivals->first + arrivals->count++) % GPUD_SLOTS_MAX] = now;
}

GstClockTime arrivals_take(struct arrivals *arrivals, GstClockTime now)
{
    if (arrivals->count == 0)
        return now;
    GstClockTime seen = arrivals->seen[arrivals->first];
    arrivals->first = (arrivals->first + 1) % GPUD_SLOTS_MAX;
    arrivals->count--;
    return MIN(seen, now);
}

void arrivals_clear(struct arrivals *arrivals)
{
    arrivals->count = 0;
}
