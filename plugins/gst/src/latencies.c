/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/latencies.h"

#include <stdlib.h>
#include <string.h>

#define LATENCIES_MAX 4096

struct latencies {
    GMutex lock;
    guint64 count;                  /* of all; the last ones are kept */
    guint32 latency[LATENCIES_MAX]; /* ns */
};

struct latencies *latencies_new(void)
{
    struct latencies *latencies = g_new0(struct latencies, 1);

    g_mutex_init(&latencies->lock);
    return latencies;
}

void latencies_free(struct latencies *latencies)
{
    g_mutex_clear(&latencies->lock);
    g_free(latencies);
}

void latencies_note(struct latencies *latencies, gint64 latency)
{
    if (latency <= 0 || latency > G_MAXUINT32)
        return;
    g_mutex_lock(&latencies->lock);
    latencies->latency[latencies->count++ % LATENCIES_MAX] = (guint32)latency;
    g_mutex_unlock(&latencies->lock);
}

void latencies_clear(struct latencies *latencies)
{
    g_mutex_lock(&latencies->lock);
    latencies->count = 0;
    g_mutex_unlock(&latencies->lock);
}

static gint compare(gconstpointer a, gconstpointer b)
{
    guint32 x = *(const guint32 *)a, y = *(const guint32 *)b;

    return x < y ? -1 : x > y;
}

gboolean latencies_get(struct latencies *latencies, guint64 *p50, guint64 *p99, guint64 *max)
{
    guint32 *sorted = g_new(guint32, LATENCIES_MAX);

    g_mutex_lock(&latencies->lock);
    gsize count = (gsize)MIN(latencies->count, LATENCIES_MAX);
    memcpy(sorted, latencies->latency, count * sizeof(*sorted));
    g_mutex_unlock(&latencies->lock);
    if (count > 0) {
        qsort(sorted, count, sizeof(*sorted), compare);
        *p50 = sorted[count / 2];
        *p99 = sorted[count * 99 / 100];
        *max = sorted[count - 1];
    }
    g_free(sorted);
    return count > 0;
}
