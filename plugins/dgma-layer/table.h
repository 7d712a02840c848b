/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hash table from handles to records. Each frame's events create and release handles, so the
 * locks are striped, and held for a few instructions only, never during a call of the driver. */

#ifndef DGMA_LAYER_TABLE_H
#define DGMA_LAYER_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct dgma_table_entry;

enum { DGMA_TABLE_STRIPES = 64 };

struct dgma_table_stripe {
    pthread_mutex_t lock;
    struct dgma_table_entry *entries;
};

struct dgma_table {
    atomic_uint count; /* 0, the common case, saves the lock */
    struct dgma_table_stripe stripes[DGMA_TABLE_STRIPES];
};

/* For a static one. */
#define DGMA_TABLE_INIT                                                                   \
    {                                                                                     \
        .stripes = { [0 ... DGMA_TABLE_STRIPES - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL} } \
    }

/* A newer record hides an older one with the same key. false: no memory */
bool dgma_table_put(struct dgma_table *table, const void *key, void *value);
void *dgma_table_get(struct dgma_table *table, const void *key);  /* NULL: unknown */
void *dgma_table_take(struct dgma_table *table, const void *key); /* get and remove */
/* Removes that record, but not a newer one with the same key. */
void dgma_table_drop(struct dgma_table *table, const void *key, const void *value);

#endif
