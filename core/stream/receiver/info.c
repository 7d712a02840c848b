/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver's counters and latencies. */
#include "base/sized.h"
#include "stream/receiver/connect.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void gpud_receiver_get_info(struct gpud_receiver *receiver, struct gpud_receiver_info *info)
{
    uint32_t *sorted = malloc(sizeof(receiver->latency));
    size_t count = 0;
    gpud_lock_take(&receiver->lock);
    struct gpud_receiver_info now = receiver->info;
    now.frames = atomic_load(&receiver->frames);
    now.dropped = atomic_load(&receiver->dropped);
    now.corrupted = atomic_load(&receiver->corrupted);
    gpud_receiver_collect(receiver, &now);
    if (receiver->queue)
        now.waits_device += atomic_load(&receiver->queue->waits);
    if (sorted) {
        uint64_t latencies = atomic_load(&receiver->latency_count);
        count = latencies < GPUD_LATENCIES ? latencies : GPUD_LATENCIES;
        for (size_t i = 0; i < count; i++)
            sorted[i] = atomic_load_explicit(&receiver->latency[i], memory_order_relaxed);
    }
    gpud_lock_release(&receiver->lock);
    if (count) {
        qsort(sorted, count, sizeof(*sorted), compare);
        now.latency_p50_ns = sorted[count / 2];
        now.latency_p99_ns = sorted[count * 99 / 100];
        now.latency_max_ns = sorted[count - 1];
    }
    gpud_sized_copy(info, info->size, &now, sizeof(now));
    free(sorted);
}
