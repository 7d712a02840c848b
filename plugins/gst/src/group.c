/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/group.h"

#include "src/debug.h"
#include "src/instant.h"
#include "wire/timing.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

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
