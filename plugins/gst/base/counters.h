/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The plugin's own copies and waits for one element, counted by its pools and memories, which may
 * outlive it, and added to the core's counts in the element's stats. */
#ifndef GPUD_GST_COUNTERS_H
#define GPUD_GST_COUNTERS_H

#include <glib.h>

struct counters {
    gatomicrefcount references;
    guint64 copies_cpu, copies_gpu; /* of whole pictures */
    guint64 waits_device;           /* a thread waited until a GPU was done */
    guint64 misuses;                /* detected writes to slots that were mapped for reading */
};

static inline struct counters *counters_new(void)
{
    struct counters *counters = g_new0(struct counters, 1);

    g_atomic_ref_count_init(&counters->references);
    return counters;
}

static inline struct counters *counters_ref(struct counters *counters)
{
    g_atomic_ref_count_inc(&counters->references);
    return counters;
}

static inline void counters_unref(struct counters *counters)
{
    if (counters && g_atomic_ref_count_dec(&counters->references))
        g_free(counters);
}

static inline void counter_add(guint64 *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline guint64 counter_read(const guint64 *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
