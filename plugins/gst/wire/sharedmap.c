/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/sharedmap.h"

/* A stream that has measured nothing for that long has stopped. */
#define SILENCE_MAX (1 * GST_SECOND)

/* The stream that measures for a run of a sender's pipeline. */
struct leader {
    const struct shared_part *part;
    gint64 process;
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

/* A run is only the sender's word: another process must not move this stream's times by it. */
static gboolean measures_for(const struct leader *leader, const struct shared_part *part,
                             guint64 run)
{
    return leader->run == run && leader->process == part->process;
}

/* Another stream that measures for the same run, or NULL. */
static const struct leader *find_other(const struct shared_part *part, const struct wire_head *head,
                                       const struct time_now *now)
{
    const GArray *leaders = part->map->leaders;

    for (guint i = 0; i < leaders->len; i++) {
        const struct leader *leader = &g_array_index(leaders, struct leader, i);
        if (leader->part != part && measures_for(leader, part, head->run) &&
            leader->base == now->base && now->system < leader->at + SILENCE_MAX)
            return leader;
    }
    return NULL;
}

static void remove_leaders(const struct shared_part *part, const struct wire_head *head)
{
    GArray *leaders = part->map->leaders;

    for (guint i = leaders->len; i-- > 0;) {
        const struct leader *leader = &g_array_index(leaders, struct leader, i);
        if (leader->part == part || (head && measures_for(leader, part, head->run)))
            g_array_remove_index_fast(leaders, i);
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

static void update(const struct shared_part *part, struct time_map *map,
                   const struct wire_head *head, const struct time_frame *frame,
                   const struct time_now *now, gboolean measures)
{
    if (!part->map || time_relation(head, now) == TIME_SHARED) {
        time_map_update(map, head, frame, now);
        return;
    }
    g_mutex_lock(&part->map->lock);
    const struct leader *other = find_other(part, head, now);
    if (other)
        use(map, other, now->system);
    else
        time_map_update(map, head, frame, now);
    if (!other && measures && map->anchored) {
        struct leader leader = {part, part->process, head->run, now->base, map->shift, now->system};
        remove_leaders(part, head);
        g_array_append_val(part->map->leaders, leader);
    }
    g_mutex_unlock(&part->map->lock);
}

void shared_map_update(const struct shared_part *part, struct time_map *map,
                       const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now)
{
    update(part, map, head, frame, now, TRUE);
}

void shared_map_try(const struct shared_part *part, struct time_map *copy,
                    const struct wire_head *head, const struct time_frame *frame,
                    const struct time_now *now)
{
    update(part, copy, head, frame, now, FALSE);
}

void shared_map_leave(const struct shared_part *part)
{
    if (!part->map)
        return;
    g_mutex_lock(&part->map->lock);
    remove_leaders(part, NULL);
    g_mutex_unlock(&part->map->lock);
}
