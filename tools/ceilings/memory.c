/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory.h"

#include "clock.h"
#include "stats.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 7
#define ROUND 40000000 /* ns */
#define POOL_MAX (UINT64_C(384) << 20)

uint32_t raw_memory_buffers(uint64_t size)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t pool = cache > 0 ? 4 * (uint64_t)cache : UINT64_C(128) << 20;
    return (uint32_t)CLAMP(MIN(pool, POOL_MAX) / size, 3, 512);
}

static double copy_for_a_while(char *from, char *to, uint64_t size, uint32_t buffers)
{
    int64_t start = clock_now(), now = start;
    uint64_t copies = 0;
    while (now - start < ROUND || copies < 2) {
        uint64_t offset = copies % buffers * size;
        memcpy(to + offset, from + offset, size);
        /* Keeps the compiler from removing the copy. */
        __asm__ volatile("" : : "r"(to) : "memory");
        copies++;
        now = clock_now();
    }
    return (double)copies * 1e9 / (double)(now - start);
}

double raw_memory_copy_rate(uint64_t size)
{
    uint32_t buffers = raw_memory_buffers(size);
    char *from = malloc(size * buffers), *to = malloc(size * buffers);
    double rates[ROUNDS], rate = 0;
    if (from && to) {
        memset(from, 1, size * buffers);
        memset(to, 2, size * buffers);
        for (int i = 0; i < ROUNDS; i++)
            rates[i] = copy_for_a_while(from, to, size, buffers);
        rate = stats_median(rates, ROUNDS);
    }
    free(from);
    free(to);
    return rate;
}
