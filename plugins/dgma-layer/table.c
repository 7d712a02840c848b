/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "table.h"

#include <stdint.h>
#include <stdlib.h>

struct dgma_table_entry {
    const void *key;
    void *value;
    struct dgma_table_entry *next;
};

static struct dgma_table_stripe *stripe_of(struct dgma_table *table, const void *key)
{
    uint64_t bits = (uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u;
    return &table->stripes[bits >> 58];
}

bool dgma_table_put(struct dgma_table *table, const void *key, void *value)
{
    struct dgma_table_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    struct dgma_table_stripe *stripe = stripe_of(table, key);
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
    struct dgma_table_stripe *stripe = stripe_of(table, key);
    pthread_mutex_lock(&stripe->lock);
    struct dgma_table_entry *entry = stripe->entries;
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
    struct dgma_table_stripe *stripe = stripe_of(table, key);
    pthread_mutex_lock(&stripe->lock);
    struct dgma_table_entry **at = &stripe->entries;
    while (*at && ((*at)->key != key || (only && (*at)->value != only)))
        at = &(*at)->next;
    struct dgma_table_entry *entry = *at;
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
