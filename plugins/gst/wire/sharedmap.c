/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/sharedmap.h"

/* A stream that has measured nothing for that long has stopped. */
#define SILENCE_MAX (1 * GST_SECOND)

/* The stream that measures for a run of a sender's pipeline. */
struct leader {
    gconstpointer user;
    guint64 run;       /* the sender's, see wire_head */
    GstClockTime base; /* the receiver's base time: another one after each pause */
    gint64 shift;
    GstClockTime at; /* by CLOCK_MONOTONIC */
};

struct shared_map {
    gint refs; /* atomic */
    GMutex lock;
    GArray *leaders; /* under the lock */
};

struct shared_map *shared_map_new(void)
{
    struct shared_map *shared = g_new0(struct shared_map, 1);

    shared->refs = 1;
    g_mutex_init(&shared->lock);
    shared->leaders = g_array_new(FALSE, FALSE, sizeof(struct leader));
    return shared;
}

struct shared_map *shared_map_ref(struct shared_map *shared)
{
    g_atomic_int_inc(&shared->refs);
    return shared;
}

void shared_map_unref(struct shared_map *shared)
{
    if (!shared || !g_atomic_int_dec_and_test(&shared->refs))
        return;
    g_array_unref(shared->leaders);
    g_mutex_clear(&shared->lock);
    g_free(shared);
}

/* --- under the lock ----------------------------------------------------------------------- */

/* Another stream that measures for the same run; NULL: there is none. */
static const struct leader *find_other(const struct shared_map *shared, gconstpointer user,
                                       const struct wire_head *head, const struct time_now *now)
{
    for (guint i = 0; i < shared->leaders->len; i++) {
        const struct leader *leader = &g_array_index(shared->leaders, struct leader, i);
        if (leader->user != user && leader->run == head->run && leader->base == now->base &&
            now->system < leader->at + SILENCE_MAX)
            return leader;
    }
    return NULL;
}

static void remove_leaders(struct shared_map *shared, gconstpointer user, guint64 run)
{
    for (guint i = shared->leaders->len; i-- > 0;) {
        const struct leader *leader = &g_array_index(shared->leaders, struct leader, i);
        if (leader->user == user || leader->run == run)
            g_array_remove_index_fast(shared->leaders, i);
    }
}

static void use(struct time_map *map, const struct leader *leader, GstClockTime now)
{
    map->shift = leader->shift;
    map->run = leader->run;
    map->moved = now;
    map->anchored = map->before = TRUE;
    map->drift.begun = FALSE; /* begins where this stream becomes the leader */
}

/* --- streams ------------------------------------------------------------------------------ */

static void update(struct shared_map *shared, gconstpointer user, struct time_map *map,
                   const struct wire_head *head, const struct time_frame *frame,
                   const struct time_now *now, gboolean measures)
{
    g_mutex_lock(&shared->lock);
    const struct leader *other = find_other(shared, user, head, now);
    if (other)
        use(map, other, now->system);
    else
        time_map_update(map, head, frame, now);
    if (!other && measures && map->anchored) {
        struct leader leader = {user, head->run, now->base, map->shift, now->system};
        remove_leaders(shared, user, head->run);
        g_array_append_val(shared->leaders, leader);
    }
    g_mutex_unlock(&shared->lock);
}

void shared_map_update(struct shared_map *shared, gconstpointer user, struct time_map *map,
                       const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now)
{
    if (shared && time_relation(head, now) != TIME_SHARED)
        update(shared, user, map, head, frame, now, TRUE);
    else
        time_map_update(map, head, frame, now);
}

void shared_map_try(struct shared_map *shared, gconstpointer user, struct time_map *copy,
                    const struct wire_head *head, const struct time_frame *frame,
                    const struct time_now *now)
{
    if (shared && time_relation(head, now) != TIME_SHARED)
        update(shared, user, copy, head, frame, now, FALSE);
    else
        time_map_update(copy, head, frame, now);
}

void shared_map_leave(struct shared_map *shared, gconstpointer user)
{
    if (!shared)
        return;
    g_mutex_lock(&shared->lock);
    for (guint i = shared->leaders->len; i-- > 0;)
        if (g_array_index(shared->leaders, struct leader, i).user == user)
            g_array_remove_index_fast(shared->leaders, i);
    g_mutex_unlock(&shared->lock);
}
