/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Measures links between CUDA devices: copies back to back, by the driver alone. */
#include "info.h"

#include "bench/rawcuda.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define SIZE ((size_t)64 << 20)
#define BUDGET GPUD_SEC
#define COPIES_MAX 256
#define DEADLINE (10 * GPUD_SEC)

struct copier {
    const struct raw_cuda *cu;
    raw_context from, to;
    unsigned entered;
    raw_address source, target;
    raw_stream stream;
    char *reason;
    size_t reason_size;
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * GPUD_SEC + t.tv_nsec;
}

static bool succeeded(struct copier *copier, const char *what, int result)
{
    if (result != 0)
        raw_cuda_say(copier->reason, copier->reason_size, what, result);
    return result == 0;
}

/* The source's context is made current last: its stream copies. */
static bool set_up(struct copier *copier, unsigned from, unsigned to)
{
    const struct raw_cuda *cu = copier->cu;
    if (!raw_cuda_enter(cu, to, &copier->to, copier->reason, copier->reason_size))
        return false;
    copier->entered++;
    if (!succeeded(copier, "cuMemAlloc", cu->alloc(&copier->target, SIZE)) ||
        !raw_cuda_enter(cu, from, &copier->from, copier->reason, copier->reason_size))
        return false;
    copier->entered++;
    /* Without peer access the driver copies through the host, and that is measured. */
    (void)cu->enable_peer(copier->to, 0);
    return succeeded(copier, "cuMemAlloc", cu->alloc(&copier->source, SIZE)) &&
           succeeded(copier, "cuStreamCreate",
                     cu->stream_create(&copier->stream, RAW_STREAM_NON_BLOCKING));
}

static void tear_down(struct copier *copier)
{
    const struct raw_cuda *cu = copier->cu;
    if (copier->entered == 2) {
        if (copier->stream)
            cu->stream_destroy(copier->stream);
        if (copier->source)
            cu->free(copier->source);
        raw_cuda_leave(cu);
    }
    if (copier->entered >= 1) {
        if (copier->target)
            cu->free(copier->target);
        raw_cuda_leave(cu);
    }
}

static bool copy(struct copier *copier, unsigned copies)
{
    int result = 0;
    for (unsigned i = 0; i < copies && result == 0; i++)
        result = copier->cu->copy(copier->target, copier->source, SIZE, copier->stream);
    if (!succeeded(copier, "cuMemcpyAsync", result))
        return false;
    if (raw_cuda_finish(copier->cu, copier->stream, now() + DEADLINE, &result))
        return true;
    return succeeded(copier, "a copy from GPU to GPU", result);
}

/* Bytes per second over about `budget`, after copies that make mappings and raise clocks. */
static double rate(struct copier *copier, int64_t budget)
{
    if (!copy(copier, 2))
        return NAN;
    int64_t start = now();
    if (!copy(copier, 2))
        return NAN;
    int64_t each = MAX((now() - start) / 2, 1);
    unsigned copies = (unsigned)CLAMP(budget / each, 2, COPIES_MAX);
    start = now();
    if (!copy(copier, copies))
        return NAN;
    return (double)copies * (double)SIZE * 1e9 / (double)(now() - start);
}

static bool is_measurable(const struct info_link *link)
{
    return raw_cuda_ordinal(link->from->name) >= 0 && raw_cuda_ordinal(link->to->name) >= 0;
}

static void release_context(const struct raw_cuda *cu, const char *device)
{
    int number;
    if (cu->device_get(&number, raw_cuda_ordinal(device)) == 0)
        cu->context_release(number);
}

static void measure(const struct raw_cuda *cu, struct info_link *link, int64_t budget,
                    struct info_report *report)
{
    struct copier copier = {
        .cu = cu, .reason = report->measure_reason, .reason_size = sizeof(report->measure_reason)};
    if (set_up(&copier, (unsigned)raw_cuda_ordinal(link->from->name),
               (unsigned)raw_cuda_ordinal(link->to->name)))
        link->measured = rate(&copier, budget);
    tear_down(&copier);
    if (copier.entered >= 1)
        release_context(cu, link->to->name);
    if (copier.entered == 2)
        release_context(cu, link->from->name);
}

void info_measure_links(struct info_report *report)
{
    unsigned count = 0;
    for (guint i = 0; i < report->links->len; i++)
        count += is_measurable(&g_array_index(report->links, struct info_link, i));
    if (count == 0) {
        g_strlcpy(report->measure_reason, "this machine has no two CUDA devices to copy between",
                  sizeof(report->measure_reason));
        return;
    }
    const struct raw_cuda *cu =
        raw_cuda_open(report->measure_reason, sizeof(report->measure_reason));
    for (guint i = 0; cu && i < report->links->len; i++) {
        struct info_link *link = &g_array_index(report->links, struct info_link, i);
        if (is_measurable(link))
            measure(cu, link, BUDGET / count, report);
    }
}
