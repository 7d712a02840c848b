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

/* The process's entry, or else the oldest one. */
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

bool gpud_admission_count(struct gpud_admission *admission, int64_t key, int64_t now,
                          bool *already_logged)
{
    struct gpud_connects *process = find(admission, key);
    *already_logged = process->since && now - process->since < GPUD_SEC &&
                      process->count > GPUD_CONNECTS_A_PROCESS;
    /* In this order, so that a process over its own limit does not use up the common one. */
    return count(process, key ? GPUD_CONNECTS_A_PROCESS : GPUD_CONNECTS, now) &&
           count(&admission->all, GPUD_CONNECTS, now);
}

uint32_t gpud_admission_connects(const struct gpud_admission *admission, int64_t key)
{
    for (int i = 0; i < GPUD_RECEIVERS_MAX; i++)
        if (admission->process[i].since && admission->process[i].key == key)
            return admission->process[i].count;
    return 0;
}

/* Each handshake uses up a share of a second; a burst may run ahead of time. */
#define SHARE (GPUD_SEC / GPUD_HANDSHAKES)

int64_t gpud_admission_next_handshake(const struct gpud_admission *admission)
{
    return admission->handshakes_until - (GPUD_HANDSHAKES_AT_ONCE - 1) * SHARE;
}

void gpud_admission_count_handshake(struct gpud_admission *admission, int64_t now)
{
    int64_t from = admission->handshakes_until > now ? admission->handshakes_until : now;
    admission->handshakes_until = from + SHARE;
}
