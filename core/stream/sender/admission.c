/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/sender/admission.h"

/* Whether one more is within the limit. */
static bool count(struct gpud_connects *connects, uint32_t limit, int64_t now)
{
    if (now - connects->since >= GPUD_SEC) {
        connects->since = now;
        connects->count = 0;
    }
    if (connects->count <= limit)
        connects->count++;
    return connects->count <= limit;
}

/* The process's, or else the one that was begun longest ago. */
static struct gpud_connects *find(struct gpud_admission *admission, int64_t key)
{
    struct gpud_connects *oldest = &admission->process[0];
    for (int i = 0; i < GPUD_RECEIVERS_MAX; i++) {
        struct gpud_connects *process = &admission->process[i];
        if (process->since && process->key == key)
            return process;
        if (process->since < oldest->since)
            oldest = process;
    }
    *oldest = (struct gpud_connects){.key = key};
    return oldest;
}

bool gpud_admission_count(struct gpud_admission *admission, int64_t key, int64_t now, bool *told)
{
    struct gpud_connects *process = find(admission, key);
    *told = process->since && now - process->since < GPUD_SEC &&
            process->count > GPUD_CONNECTS_A_PROCESS;
    /* Each is asked: whoever is over its own limit does not use up that of all. */
    return count(process, key ? GPUD_CONNECTS_A_PROCESS : GPUD_CONNECTS, now) &&
           count(&admission->all, GPUD_CONNECTS, now);
}
