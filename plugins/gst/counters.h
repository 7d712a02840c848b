/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the plugin itself copied and waited for, on behalf of one element: counted by its pools and
 * memories, which may outlive it, and shown in its stats beside what the core counts. */
#ifndef GPUD_GST_COUNTERS_H
#define GPUD_GST_COUNTERS_H

#include <glib.h>

struct tally {
    gatomicrefcount references;
    guint64 copies_cpu, copies_gpu; /* of whole pictures */
    guint64 waits_device;           /* a thread waited until a GPU was done */
};

static inline struct tally *tally_new(void)
{
    struct tally *tally = g_new0(struct tally, 1);

    g_atomic_ref_count_init(&tally->references);
    return tally;
}

static inline struct tally *tally_ref(struct tally *tally)
{
    g_atomic_ref_count_inc(&tally->references);
    return tally;
}

static inline void tally_unref(struct tally *tally)
{
    if (tally && g_atomic_ref_count_dec(&tally->references))
        g_free(tally);
}

static inline void tally_count(guint64 *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline guint64 tally_read(const guint64 *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
