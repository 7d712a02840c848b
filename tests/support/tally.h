/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a receiver of numbered instants counts while senders are killed, and the table of it. */
#ifndef GPUD_TESTS_TALLY_H
#define GPUD_TESTS_TALLY_H

#include <stdint.h>
#include <stdio.h>

/* Zeroed: no instant yet. */
struct tally {
    uint64_t last; /* instant */
    int64_t last_at;
    int64_t longest, latest; /* ns: between two instants; after one was due */
    uint64_t lost, repeated;
};

static inline void tally_take(struct tally *tally, uint64_t instant, int64_t due, int64_t now)
{
    if (tally->last) {
        tally->repeated += instant <= tally->last;
        tally->lost += instant > tally->last ? instant - tally->last - 1 : 0;
        if (now - tally->last_at > tally->longest)
            tally->longest = now - tally->last_at;
    }
    if (now - due > tally->latest)
        tally->latest = now - due;
    tally->last = instant;
    tally->last_at = now;
}

static inline void tally_print_header(void)
{
    printf("%6s  %-28s %5s %5s %9s %9s %11s %11s\n", "rate", "what", "times", "lost", "repeated",
           "switches", "longest gap", "latest");
    fflush(stdout);
}

/* switches: from one sender to the other. The times are measured anew from here on. */
static inline void tally_print(struct tally *tally, double rate, const char *what, unsigned times,
                               uint64_t switches)
{
    printf("%6.2f  %-28s %5u %5llu %9llu %9llu %8.1f ms %8.1f ms\n", rate, what, times,
           (unsigned long long)tally->lost, (unsigned long long)tally->repeated,
           (unsigned long long)switches, (double)tally->longest / 1e6, (double)tally->latest / 1e6);
    fflush(stdout);
    tally->longest = tally->latest = 0;
}

/* The same row of numbers in each run. */
static inline unsigned tally_random_below(unsigned limit)
{
    static uint32_t state = 4711;
    state = state * 1664525 + 1013904223;
    return (state >> 8) % limit;
}

#endif
