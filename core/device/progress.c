/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/progress.h"

#include "base/clock.h"

#include <sched.h>

#define SPIN (30 * GPUD_USEC)
#define NAP_MIN (20 * GPUD_USEC)
#define NAP_MAX (200 * GPUD_USEC)

void gpud_pause(int64_t start)
{
    int64_t waited = gpud_now() - start;
    if (waited < SPIN) {
        sched_yield();
        return;
    }
    int64_t nap = waited / 8;
    nap = nap < NAP_MIN ? NAP_MIN : nap > NAP_MAX ? NAP_MAX : nap;
    nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
}
