/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Measures links between GPUs of one vendor: copies back to back, by the driver alone. */
#include "info.h"

#include "ceilings/driver.h"
#include "clock.h"

#include <math.h>
#include <string.h>

#define SIZE ((size_t)64 << 20)
#define BUDGET GPUD_SEC
#define COPIES_MAX 256
#define DEADLINE (10 * GPUD_SEC)

struct copier {
    struct raw_driver *driver;
    unsigned entered;
    raw_address source, target;
    raw_stream stream;
    char *reason;
    size_t reason_size;
};

static bool succeeded(struct copier *copier, const char *what, int result)
{
    if (result != 0)
        raw_say(copier->driver, copier->reason, copier->reason_size, what, result);
    return result == 0;
}

/* The source is made current last: its stream copies. */
static bool set_up(struct copier *copier, unsigned from, unsigned to)
{
    struct raw_driver *driver = copier->driver;
    if (!raw_enter(driver, to, copier->reason, copier->reason_size))
        return false;
    copier->entered++;
    if (!succeeded(copier, "memory on the GPU", raw_alloc(driver, &copier->target, SIZE)) ||
        !raw_enter(driver, from, copier->reason, copier->reason_size))
        return false;
    copier->entered++;
    /* Without peer access the driver copies through the host, and that copy is measured. */
    (void)raw_enable_peer(driver, to);
    return succeeded(copier, "memory on the GPU", raw_alloc(driver, &copier->source, SIZE)) &&
           succeeded(copier, "a stream", raw_stream_create(driver, &copier->stream));
}

static void tear_down(struct copier *copier)
{
    struct raw_driver *driver = copier->driver;
    if (copier->entered == 2) {
        if (copier->stream)
            raw_stream_destroy(driver, copier->stream);
        if (copier->source)
            raw_free(driver, copier->source);
        raw_leave(driver);
    }
    if (copier->entered >= 1) {
        if (copier->target)
            raw_free(driver, copier->target);
        raw_leave(driver);
    }
}

static bool copy(struct copier *copier, unsigned copies)
{
    int result = 0;
    for (unsigned i = 0; i < copies && result == 0; i++)
        result = raw_copy(copier->driver, copier->target, copier->source, SIZE, copier->stream);
    if (!succeeded(copier, "a copy", result))
        return false;
    if (raw_finish(copier->driver, copier->stream, clock_now() + DEADLINE, &result))
        return true;
    return succeeded(copier, "a copy from GPU to GPU", result);
}

/* Bytes per second over about `budget`, after copies that make mappings and raise clocks. */
static double rate(struct copier *copier, int64_t budget)
{
    if (!copy(copier, 2))
        return NAN;
    int64_t start = clock_now();
    if (!copy(copier, 2))
        return NAN;
    int64_t each = MAX((clock_now() - start) / 2, 1);
    unsigned copies = (unsigned)CLAMP(budget / each, 2, COPIES_MAX);
    start = clock_now();
    if (!copy(copier, copies))
        return NAN;
    return (double)copies * (double)SIZE * 1e9 / (double)(clock_now() - start);
}

/* The driver that copies between these GPUs; NULL: none does. */
static struct raw_driver *driver_of(const struct info_link *link, unsigned *from, unsigned *to)
{
    struct raw_driver *driver = raw_driver_of(link->from->name, from);
    return raw_driver_of(link->to->name, to) == driver ? driver : NULL;
}

static void measure(struct info_link *link, int64_t budget, struct info_report *report)
{
    unsigned from, to;
    struct copier copier = {.driver = driver_of(link, &from, &to),
                            .reason = report->measure_reason,
                            .reason_size = sizeof(report->measure_reason)};
    if (!copier.driver || !raw_open(copier.driver, copier.reason, copier.reason_size))
        return;
    if (set_up(&copier, from, to))
        link->measured = rate(&copier, budget);
    tear_down(&copier);
}

void info_measure_links(struct info_report *report)
{
    unsigned count = 0, from, to;
    for (guint i = 0; i < report->links->len; i++)
        count += driver_of(&g_array_index(report->links, struct info_link, i), &from, &to) != NULL;
    if (count == 0)
        g_strlcpy(report->measure_reason,
                  "this machine has fewer than two CUDA devices, and fewer than two HIP devices",
                  sizeof(report->measure_reason));
    for (guint i = 0; count && i < report->links->len; i++)
        measure(&g_array_index(report->links, struct info_link, i), BUDGET / count, report);
}
