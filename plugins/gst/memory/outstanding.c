/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counts the slots of one ring that buffers hold. Counting is one atomic operation; the lock is
 * only for waiting. */
#include "memory/outstanding.h"

struct outstanding {
    gatomicrefcount references;
    gint count;   /* atomic */
    gint waiting; /* atomic: threads that sleep on `changed` */
    GMutex lock;
    GCond changed;
};

struct outstanding *outstanding_new(void)
{
    struct outstanding *outstanding = g_new0(struct outstanding, 1);
    g_atomic_ref_count_init(&outstanding->references);
    g_mutex_init(&outstanding->lock);
    g_cond_init(&outstanding->changed);
    return outstanding;
}

struct outstanding *outstanding_ref(struct outstanding *outstanding)
{
    g_atomic_ref_count_inc(&outstanding->references);
    return outstanding;
}

void outstanding_unref(struct outstanding *outstanding)
{
    if (!outstanding || !g_atomic_ref_count_dec(&outstanding->references))
        return;
    g_cond_clear(&outstanding->changed);
    g_mutex_clear(&outstanding->lock);
    g_free(outstanding);
}

void outstanding_add(struct outstanding *outstanding)
{
    g_atomic_int_inc(&outstanding->count);
}

void outstanding_remove(struct outstanding *outstanding)
{
    g_atomic_int_add(&outstanding->count, -1);
    if (g_atomic_int_get(&outstanding->waiting)) {
        g_mutex_lock(&outstanding->lock);
        g_cond_broadcast(&outstanding->changed);
        g_mutex_unlock(&outstanding->lock);
    }
}

gint outstanding_count(struct outstanding *outstanding)
{
    return g_atomic_int_get(&outstanding->count);
}

gboolean outstanding_wait_below(struct outstanding *outstanding, gint limit, gint64 microseconds)
{
    gint64 deadline = g_get_monotonic_time() + microseconds;
    gboolean in_time = TRUE;

    g_mutex_lock(&outstanding->lock);
    g_atomic_int_inc(&outstanding->waiting);
    while (in_time && outstanding_count(outstanding) >= limit)
        in_time = g_cond_wait_until(&outstanding->changed, &outstanding->lock, deadline);
    g_atomic_int_add(&outstanding->waiting, -1);
    g_mutex_unlock(&outstanding->lock);
    return outstanding_count(outstanding) < limit;
}
