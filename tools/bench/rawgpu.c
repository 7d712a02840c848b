/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench/rawgpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPIN_NS 1000000

static const struct raw_driver *const drivers[] = {&raw_cuda, &raw_hip};

/* "cuda" is cuda:0. */
static bool parse(const char *device, const char *prefix, unsigned *gpu)
{
    size_t length = strlen(prefix);
    char *end;
    if (strncmp(device, prefix, length) != 0)
        return false;
    const char *rest = device + length;
    *gpu = 0;
    if (!*rest)
        return true;
    if (rest[0] != ':' || rest[1] < '0' || rest[1] > '9')
        return false;
    unsigned long ordinal = strtoul(rest + 1, &end, 10);
    *gpu = (unsigned)ordinal;
    return !*end && ordinal < RAW_GPUS_MAX;
}

const struct raw_driver *raw_driver_of(const char *device, unsigned *gpu)
{
    unsigned parsed;
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        if (!parse(device, drivers[i]->prefix, &parsed))
            continue;
        if (gpu)
            *gpu = parsed;
        return drivers[i];
    }
    return NULL;
}

void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result)
{
    const char *name = driver->error_name(result);
    snprintf(reason, size, "%s: %s (%d)", what, name ? name : "an unknown error", result);
}

bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size)
{
    char what[32];
    int result = driver->enter(gpu);
    snprintf(what, sizeof(what), "%s:%u", driver->prefix, gpu);
    if (result != 0)
        raw_say(driver, reason, size, what, result);
    return result == 0;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result)
{
    int64_t start = now(), time = start;
    while ((*result = driver->stream_query(stream)) == driver->not_ready && time < deadline) {
        if (time - start > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        time = now();
    }
    return *result == 0;
}
