/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How many slots of one ring are out in buffers. Counting is one atomic operation; only who waits
 * takes the lock. */
#include "memory/outstanding.h"

struct ledger {
    gatomicrefcount references;
    gint count;   /* atomic */
    gint waiting; /* atomic: somebody sleeps on `changed` */
    GMutex lock;
    GCond changed;
    guint wakes; /* under lock */
};

struct ledger *ledger_new(void)
{
    struct ledger *ledger = g_new0(struct ledger, 1);
    g_atomic_ref_count_init(&ledger->references);
    g_mutex_init(&ledger->lock);
    g_cond_init(&ledger->changed);
    return ledger;
}

struct ledger *ledger_ref(struct ledger *ledger)
{
    g_atomic_ref_count_inc(&ledger->references);
    return ledger;
}

void ledger_unref(struct ledger *ledger)
{
    if (!ledger || !g_atomic_ref_count_dec(&ledger->references))
        return;
    g_cond_clear(&ledger->changed);
    g_mutex_clear(&ledger->lock);
    g_free(ledger);
}

void ledger_take(struct ledger *ledger)
{
    g_atomic_int_inc(&ledger->count);
}

void ledger_give(struct ledger *ledger)
{
    g_atomic_int_add(&ledger->count, -1);
    if (g_atomic_int_get(&ledger->waiting)) {
        g_mutex_lock(&ledger->lock);
        g_cond_broadcast(&ledger->changed);
        g_mutex_unlock(&ledger->lock);
    }
}

gint ledger_count(struct ledger *ledger)
{
    return g_atomic_int_get(&ledger->count);
}

gboolean ledger_wait_below(struct ledger *ledger, gint limit, gint64 microseconds)
{
    gint64 deadline = g_get_monotonic_time() + microseconds;
    gboolean in_time = TRUE;

    g_mutex_lock(&ledger->lock);
    guint wakes = ledger->wakes;
    g_atomic_int_inc(&ledger->waiting);
    while (in_time && wakes == ledger->wakes && ledger_count(ledger) >= limit)
        in_time = g_cond_wait_until(&ledger->changed, &ledger->lock, deadline);
    g_atomic_int_add(&ledger->waiting, -1);
    g_mutex_unlock(&ledger->lock);
    return ledger_count(ledger) < limit;
}

void ledger_wake(struct ledger *ledger)
{
    g_mutex_lock(&ledger->lock);
    ledger->wakes++;
    g_cond_broadcast(&ledger->changed);
    g_mutex_unlock(&ledger->lock);
}
