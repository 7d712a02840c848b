/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/names.h"

struct names {
    guint taken; /* under lock; those below, too */
    guint64 left_out;
};

static GMutex lock;
static GHashTable *accounts; /* by address */
static struct names shared;

struct names *names_of(const gchar *address)
{
    g_mutex_lock(&lock);
    if (!accounts)
        accounts = g_hash_table_new(g_str_hash, g_str_equal);
    struct names *names = g_hash_table_lookup(accounts, address);
    if (!names) {
        names = g_new0(struct names, 1);
        g_hash_table_insert(accounts, g_strdup(address), names);
    }
    g_mutex_unlock(&lock);
    return names;
}

gboolean names_take(struct names *names, const gchar *name)
{
    struct names *account = names ? names : &shared;

    if (g_quark_try_string(name))
        return TRUE;
    g_mutex_lock(&lock);
    gboolean affordable = account->taken < NAMES_MAX;
    if (affordable) {
        account->taken++;
        /* From GStreamer 1.26 on structures create no quarks for their names: without this one, the
         * same name would be charged each time. */
        g_quark_from_string(name);
    } else {
        account->left_out++;
    }
    g_mutex_unlock(&lock);
    return affordable;
}

guint64 names_count_left_out(struct names *names)
{
    g_mutex_lock(&lock);
    guint64 count = (names ? names : &shared)->left_out;
    g_mutex_unlock(&lock);
    return count;
}
