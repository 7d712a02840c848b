/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hash table from handles to records. Handles come and go with every frame's events, so the locks
 * are striped and held for a few instructions only, never across a call of the driver. */

#include <pthread.h>
#include <stdlib.h>

#include "disguise.h"

enum { STRIPES = 64 };

struct entry {
    const void *key;
    void *value;
    struct entry *next;
};

struct stripe {
    pthread_mutex_t lock;
    struct entry *entries;
};

struct dgma_table {
    atomic_uint count; /* lets the common case, nothing of ours, leave without a lock */
    struct stripe stripes[STRIPES];
};

#define STRIPES_INIT                                              \
    {                                                             \
        [0 ... STRIPES - 1] = { PTHREAD_MUTEX_INITIALIZER, NULL } \
    }

struct dgma_table dgma_buffers = {.stripes = STRIPES_INIT};
struct dgma_table dgma_events = {.stripes = STRIPES_INIT};
struct dgma_table dgma_devices = {.stripes = STRIPES_INIT};
struct dgma_table dgma_kernels = {.stripes = STRIPES_INIT};
struct dgma_table dgma_card_table = {.stripes = STRIPES_INIT};
struct dgma_table dgma_context_cards = {.stripes = STRIPES_INIT};
struct dgma_table dgma_queue_cards = {.stripes = STRIPES_INIT};
struct dgma_table dgma_program_cards = {.stripes = STRIPES_INIT};

static struct stripe *stripe_of(struct dgma_table *table, const void *key)
{
    uint64_t bits = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    return &table->stripes[bits >> 58];
}

bool dgma_table_put(struct dgma_table *table, const void *key, void *value)
{
    struct entry *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    struct stripe *stripe = stripe_of(table, key);
    entry->key = key;
    entry->value = value;
    pthread_mutex_lock(&stripe->lock);
    entry->next = stripe->entries;
    stripe->entries = entry;
    pthread_mutex_unlock(&stripe->lock);
    atomic_fetch_add(&table->count, 1);
    return true;
}

void *dgma_table_get(struct dgma_table *table, const void *key)
{
    if (atomic_load(&table->count) == 0)
        return NULL;
    struct stripe *stripe = stripe_of(table, key);
    pthread_mutex_lock(&stripe->lock);
    struct entry *entry = stripe->entries;
    while (entry && entry->key != key)
        entry = entry->next;
    void *value = entry ? entry->value : NULL;
    pthread_mutex_unlock(&stripe->lock);
    return value;
}

/* `only`: just the entry with this value; NULL: the newest one. */
static void *take(struct dgma_table *table, const void *key, const void *only)
{
    if (atomic_load(&table->count) == 0)
        return NULL;
    struct stripe *stripe = stripe_of(table, key);
    pthread_mutex_lock(&stripe->lock);
    struct entry **at = &stripe->entries;
    while (*at && ((*at)->key != key || (only && (*at)->value != only)))
        at = &(*at)->next;
    struct entry *entry = *at;
    if (entry)
        *at = entry->next;
    pthread_mutex_unlock(&stripe->lock);
    if (!entry)
        return NULL;
    void *value = entry->value;
    free(entry);
    atomic_fetch_sub(&table->count, 1);
    return value;
}

void *dgma_table_take(struct dgma_table *table, const void *key)
{
    return take(table, key, NULL);
}

void dgma_table_drop(struct dgma_table *table, const void *key, const void *value)
{
    take(table, key, value);
}
