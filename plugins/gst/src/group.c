/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sources of this process that pass on pictures of the same instants. */
#include "src/src.h"

#include "base/plugin.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === instant ================================================================================= */
/* Which instant a group of sources passes on, as a pure function of the frames that they have.
 *
 *     the newest frame decides the instant; frames within half an interval before it belong to it
 *     an older frame is dropped: no frame that is still to come can complete its instant
 *     an instant goes out when each source that is expected has a frame of it, or when a frame
 * since the last instant, also a dropped one, has waited for its source's latency: sources without
 * a frame are left out then, and not expected again before they have one */

/* Where no source knows its frames' interval. */
#define TOLERANCE_DEFAULT G_GINT64_CONSTANT(5000000)

static gboolean offers(const struct instant_part *part)
{
    return part->state == INSTANT_OFFERED;
}

static void conclude(struct instant_part *part, enum instant_verdict verdict)
{
    part->verdict = verdict;
    part->state = INSTANT_EXPECTED;
}

/* Half the shortest interval: between two frames of any source lies more than that. */
static gint64 get_tolerance(struct instant_part *const *parts, guint count)
{
    gint64 shortest = 0;

    for (guint i = 0; i < count; i++)
        if (parts[i]->interval > 0 && (shortest == 0 || parts[i]->interval < shortest))
            shortest = parts[i]->interval;
    return shortest ? shortest / 2 : TOLERANCE_DEFAULT;
}

static gint64 find_newest(struct instant_part *const *parts, guint count)
{
    gint64 newest = INSTANT_NONE;

    for (guint i = 0; i < count; i++)
        if (offers(parts[i]))
            newest = MAX(newest, parts[i]->time);
    return newest;
}

/* Drops frames before that time. TRUE: there were some. */
static gboolean drop_older(struct instant_part *const *parts, guint count, gint64 than)
{
    gboolean dropped = FALSE;

    for (guint i = 0; i < count; i++)
        if (offers(parts[i]) && parts[i]->time < than) {
            conclude(parts[i], INSTANT_DROP);
            dropped = TRUE;
        }
    return dropped;
}

static void send(struct instant_part *const *parts, guint count)
{
    for (guint i = 0; i < count; i++) {
        struct instant_part *part = parts[i];
        part->left_out = !offers(part);
        if (offers(part))
            conclude(part, INSTANT_SEND);
        else
            part->state = INSTANT_MISSING;
    }
}

static gboolean is_complete(struct instant_part *const *parts, guint count)
{
    gboolean complete = TRUE;

    for (guint i = 0; i < count; i++)
        complete &= parts[i]->state != INSTANT_EXPECTED;
    return complete;
}

/* A dropped frame's deadline stays: sources that never have frames of one instant would otherwise
 * drop each other's for ever. */
static void note_deadlines(struct instant_part *const *parts, guint count,
                           struct instant_past *past)
{
    for (guint i = 0; i < count; i++)
        if (offers(parts[i]))
            past->deadline = MIN(past->deadline, parts[i]->arrived + parts[i]->latency);
}

struct instant_outcome instant_decide(struct instant_part *const *parts, guint count,
                                      struct instant_past *past, gint64 now)
{
    struct instant_outcome outcome = {.next = INSTANT_NEVER};
    gint64 tolerance = get_tolerance(parts, count);

    if (past->last != INSTANT_NONE)
        outcome.concluded = drop_older(parts, count, past->last + 1);
    gint64 newest = find_newest(parts, count);
    if (newest == INSTANT_NONE) {
        past->deadline = INSTANT_NEVER;
        return outcome;
    }
    note_deadlines(parts, count, past);
    outcome.concluded |= drop_older(parts, count, newest - tolerance);
    if (!is_complete(parts, count) && now < past->deadline) {
        outcome.next = past->deadline;
        return outcome;
    }
    send(parts, count);
    past->last = newest;
    past->deadline = INSTANT_NEVER;
    outcome.concluded = outcome.went = TRUE;
    return outcome;
}

/* === group =================================================================================== */
/* The sources of this process with one group name pass on frames of the same instant: each offers
 * its frame, and waits until all have one, see src.h. */

struct group_member {
    struct instant_part part;
    struct group *group;
    GstElement *element;
    const GstClock *clock; /* its pipeline's, when it offered last; compared only */
    gboolean interrupted;
    gboolean reported;       /* a message said that it is left out */
    gboolean clock_reported; /* a message said that its clock is another one */
    guint64 dropped, missed; /* relaxed atomic */
};

struct group {
    gchar *name;
    GMutex lock;
    GCond decided;
    /* Under the lock. */
    GPtrArray *members;
    GPtrArray *parts;      /* of the members, in the same order */
    const GstClock *clock; /* all times are by this one */
    struct instant_past past;
};

/* --- the groups of this process ----------------------------------------------------------- */

static GMutex groups_lock;
static GHashTable *groups; /* by name; under groups_lock. NULL: no group was made yet */

static struct group *group_new(const gchar *name)
{
    struct group *group = g_new0(struct group, 1);

    group->name = g_strdup(name);
    g_mutex_init(&group->lock);
    g_cond_init(&group->decided);
    group->members = g_ptr_array_new();
    group->parts = g_ptr_array_new();
    group->past = (struct instant_past){INSTANT_NONE, INSTANT_NEVER};
    return group;
}

static void group_free(struct group *group)
{
    g_ptr_array_unref(group->members);
    g_ptr_array_unref(group->parts);
    g_cond_clear(&group->decided);
    g_mutex_clear(&group->lock);
    g_free(group->name);
    g_free(group);
}

struct group_member *group_join(const gchar *name, GstElement *element)
{
    struct group_member *member = g_new0(struct group_member, 1);

    member->element = element;
    g_mutex_lock(&groups_lock);
    if (!groups)
        groups = g_hash_table_new(g_str_hash, g_str_equal);
    struct group *group = g_hash_table_lookup(groups, name);
    if (!group) {
        group = group_new(name);
        g_hash_table_insert(groups, group->name, group);
    }
    g_mutex_lock(&group->lock);
    member->group = group;
    g_ptr_array_add(group->members, member);
    g_ptr_array_add(group->parts, &member->part);
    g_mutex_unlock(&group->lock);
    g_mutex_unlock(&groups_lock);
    return member;
}

/* --- deciding ----------------------------------------------------------------------------- */

/* An instant goes out: adds the names of members that it is the first one to lack. Under the lock.
 */
static void note_left_out(struct group *group, GString *missing)
{
    for (guint i = 0; i < group->members->len; i++) {
        struct group_member *member = group->members->pdata[i];
        if (member->part.left_out)
            __atomic_fetch_add(&member->missed, 1, __ATOMIC_RELAXED);
        if (member->part.left_out && !member->reported)
            g_string_append_printf(missing, "%s%s", missing->len ? ", " : "",
                                   GST_OBJECT_NAME(member->element));
        member->reported = member->part.left_out;
    }
}

/* Under the lock. Adds to `missing` the names of members to report. Returns when to decide again.
 */
static gint64 decide(struct group *group, GString *missing)
{
    gint64 now = (gint64)monotonic_now();
    struct instant_outcome outcome = instant_decide(
        (struct instant_part *const *)group->parts->pdata, group->parts->len, &group->past, now);

    if (outcome.concluded)
        g_cond_broadcast(&group->decided);
    if (outcome.went)
        note_left_out(group, missing);
    return outcome.next;
}

void group_leave(struct group_member *member)
{
    struct group *group = member->group;

    g_mutex_lock(&groups_lock);
    g_mutex_lock(&group->lock);
    g_ptr_array_remove(group->members, member);
    g_ptr_array_remove(group->parts, &member->part);
    gboolean last = group->members->len == 0;
    if (last)
        g_hash_table_remove(groups, group->name);
    else
        g_cond_broadcast(&group->decided); /* the others need not wait for this one */
    g_mutex_unlock(&group->lock);
    g_mutex_unlock(&groups_lock);
    if (last)
        group_free(group);
    g_free(member);
}

static void report_missing(const struct group_member *member, const gchar *names)
{
    GST_INFO_OBJECT(member->element, "group %s: without %s", member->group->name, names);
    GstStructure *structure =
        gst_structure_new("gpudirect-group-missing", "group", G_TYPE_STRING, member->group->name,
                          "missing", G_TYPE_STRING, names, NULL);
    gst_element_post_message(member->element,
                             gst_message_new_element(GST_OBJECT(member->element), structure));
}

/* --- offering ----------------------------------------------------------------------------- */

/* Whether the times of all members are by this clock. Under the lock. */
static gboolean take_clock(struct group_member *member, const GstClock *clock)
{
    struct group *group = member->group;

    member->clock = clock;
    for (guint i = 0; i < group->members->len; i++) {
        const struct group_member *other = group->members->pdata[i];
        if (other->clock && other->clock != clock)
            return FALSE;
    }
    if (group->clock != clock)
        group->past.last = INSTANT_NONE;
    group->clock = clock;
    return TRUE;
}

static void report_clock(struct group_member *member)
{
    if (!member->clock_reported)
        GST_ELEMENT_WARNING(member->element, CORE, CLOCK,
                            ("The pipelines of group \"%s\" have different clocks: this source is "
                             "not held in step. Give them one clock.",
                             member->group->name),
                            (NULL));
    member->clock_reported = TRUE;
}

/* Frames that queued while this thread was held arrived at their interval, and now at the latest.
 */
static gint64 arrival_of(const struct instant_part *before, const struct group_frame *frame,
                         gint64 time)
{
    gint64 acquired = (gint64)frame->acquired;

    if (frame->waited || before->arrived == 0 || time < before->time)
        return acquired;
    return MIN(acquired, before->arrived + (time - before->time));
}

static void offer(struct group_member *member, const struct group_frame *frame, gint64 time)
{
    struct instant_part *part = &member->part;

    *part = (struct instant_part){
        .state = INSTANT_OFFERED,
        .time = time,
        .interval = GST_CLOCK_TIME_IS_VALID(frame->interval) ? (gint64)frame->interval : 0,
        .arrived = arrival_of(part, frame, time),
        .latency = (gint64)frame->latency,
        .verdict = INSTANT_HOLD,
    };
}

/* Under the lock. */
static enum group_answer wait_for_verdict(struct group_member *member, GString *missing)
{
    struct group *group = member->group;

    while (!member->interrupted) {
        gint64 next = decide(group, missing);
        if (member->part.verdict != INSTANT_HOLD)
            break;
        g_cond_wait_until(&group->decided, &group->lock, next / GST_USECOND + 1);
    }
    if (member->part.verdict == INSTANT_SEND)
        return GROUP_SEND;
    __atomic_fetch_add(&member->dropped, 1, __ATOMIC_RELAXED);
    if (member->part.verdict == INSTANT_DROP)
        return GROUP_DROP;
    member->part.state = INSTANT_EXPECTED;
    return GROUP_INTERRUPTED;
}

enum group_answer group_offer(struct group_member *member, const struct group_frame *frame)
{
    GstElement *element = member->element;
    struct group *group = member->group;
    enum group_answer answer = GROUP_SEND;

    GString *missing = g_string_new(NULL);
    GST_OBJECT_LOCK(element);
    const GstClock *clock = GST_ELEMENT_CLOCK(element);
    gint64 time = (gint64)(frame->running + element->base_time);
    GST_OBJECT_UNLOCK(element);
    g_mutex_lock(&group->lock);
    gboolean shared = take_clock(member, clock);
    if (shared && frame->running <= frame->now + frame->latency) {
        offer(member, frame, time);
        answer = wait_for_verdict(member, missing);
    } else {
        member->part.state = INSTANT_MISSING;
        g_cond_broadcast(&group->decided);
    }
    g_mutex_unlock(&group->lock);
    if (!shared)
        report_clock(member);
    if (missing->len > 0)
        report_missing(member, missing->str);
    g_string_free(missing, TRUE);
    return answer;
}

void group_interrupt(struct group_member *member, gboolean interrupted)
{
    g_mutex_lock(&member->group->lock);
    member->interrupted = interrupted;
    if (interrupted)
        member->clock = NULL; /* it may have another one afterwards */
    g_cond_broadcast(&member->group->decided);
    g_mutex_unlock(&member->group->lock);
}

void group_get_counts(const struct group_member *member, guint64 *dropped, guint64 *missed)
{
    *dropped = __atomic_load_n(&member->dropped, __ATOMIC_RELAXED);
    *missed = __atomic_load_n(&member->missed, __ATOMIC_RELAXED);
}
