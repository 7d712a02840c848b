/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/sharedmap.h"
#include "wire/signedtime.h"

/* A stream that has measured nothing for that long has stopped. */
#define SILENCE_MAX (1 * GST_SECOND)

/* The stream that measures for a run of a sender's pipeline, or is the one that is late. */
struct leader {
    const struct shared_part *part;
    gint64 process;
    guint64 run;       /* the sender's, see wire_head */
    GstClockTime base; /* the receiver's base time: another one after each pause */
    gint64 shift;      /* as time_map has it */
    gint64 mapped;     /* of the frame that had the delay, as timeline has both */
    gint64 delay;
    GstClockTime at; /* by CLOCK_MONOTONIC */
};

struct shared_map {
    gint refs; /* atomic */
    GMutex lock;
    GArray *measuring, *late; /* leaders; under the lock */
    gint late_count;          /* atomic */
};

struct shared_map *shared_map_new(void)
{
    struct shared_map *shared = g_new0(struct shared_map, 1);

    shared->refs = 1;
    g_mutex_init(&shared->lock);
    shared->measuring = g_array_new(FALSE, FALSE, sizeof(struct leader));
    shared->late = g_array_new(FALSE, FALSE, sizeof(struct leader));
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
    g_array_unref(shared->measuring);
    g_array_unref(shared->late);
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

/* Another stream that leads the same run, or NULL. */
static const struct leader *find_other(const GArray *leaders, const struct shared_part *part,
                                       const struct wire_head *head, const struct time_now *now)
{
    for (guint i = 0; i < leaders->len; i++) {
        const struct leader *leader = &g_array_index(leaders, struct leader, i);
        if (leader->part != part && measures_for(leader, part, head->run) &&
            leader->base == now->base && now->system < leader->at + SILENCE_MAX)
            return leader;
    }
    return NULL;
}

static void remove_leaders(GArray *leaders, const struct shared_part *part,
                           const struct wire_head *head)
{
    for (guint i = leaders->len; i-- > 0;) {
        const struct leader *leader = &g_array_index(leaders, struct leader, i);
        if (leader->part == part || (head && measures_for(leader, part, head->run)))
            g_array_remove_index_fast(leaders, i);
    }
}

static struct leader leader_of(const struct shared_part *part, const struct wire_head *head,
                               const struct time_now *now)
{
    return (struct leader){.part = part,
                           .process = part->process,
                           .run = head->run,
                           .base = now->base,
                           .at = now->system};
}

static void use(struct time_map *map, const struct leader *leader, GstClockTime now)
{
    map->shift = leader->shift;
    map->run = leader->run;
    map->moved = now;
    map->anchored = map->before = TRUE;
    map->drift.begun = FALSE; /* begins where this stream becomes the leader */
}

/* FALSE: no other stream is late, or this one is much later than it. */
static gboolean follow(const struct leader *other, struct timeline *line)
{
    if (!other)
        return FALSE;
    gint64 since = time_difference(line->mapped, other->mapped);
    gint64 delay = timeline_catch_up(line, other->delay, since);
    if (time_difference(line->delay, delay) > timeline_late_max(line))
        return FALSE;
    timeline_delay(line, delay);
    return TRUE;
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
    const struct leader *other = find_other(part->map->measuring, part, head, now);
    if (other)
        use(map, other, now->system);
    else
        time_map_update(map, head, frame, now);
    if (!other && measures && map->anchored) {
        struct leader leader = leader_of(part, head, now);
        leader.shift = map->shift;
        remove_leaders(part->map->measuring, part, head);
        g_array_append_val(part->map->measuring, leader);
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

GstClockTime shared_map_delay(const struct shared_part *part, const struct wire_head *head,
                              const struct time_now *now, struct timeline *line)
{
    struct shared_map *map = part->map;

    if (!map || !head->live || (!line->out_of_step && !g_atomic_int_get(&map->late_count)))
        return (GstClockTime)line->last;
    g_mutex_lock(&map->lock);
    if (!follow(find_other(map->late, part, head, now), line)) {
        struct leader leader = leader_of(part, head, now);
        leader.mapped = line->mapped;
        leader.delay = line->delay;
        remove_leaders(map->late, part, head);
        if (line->out_of_step)
            g_array_append_val(map->late, leader);
        g_atomic_int_set(&map->late_count, (gint)map->late->len);
    }
    g_mutex_unlock(&map->lock);
    return (GstClockTime)line->last;
}

void shared_map_leave(const struct shared_part *part)
{
    if (!part->map)
        return;
    g_mutex_lock(&part->map->lock);
    remove_leaders(part->map->measuring, part, NULL);
    remove_leaders(part->map->late, part, NULL);
    g_atomic_int_set(&part->map->late_count, (gint)part->map->late->len);
    g_mutex_unlock(&part->map->lock);
}
