/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sources of this process that pass on pictures of the same instants, or change their senders
 * together. */
#include "src/src.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* === instant ================================================================================= */
/* Which instant a group of sources passes on; the rules are in src.h. */

/* Where no source knows its frames' interval. */
#define TOLERANCE_DEFAULT G_GINT64_CONSTANT(5000000)

static void conclude(struct instant_part *part, enum instant_verdict verdict)
{
    part->verdict = verdict;
    part->state = INSTANT_EXPECTED;
}

/* Drops frames before that time. TRUE: there were some. */
static gboolean drop_older(struct instant_part *const *parts, guint count, gint64 than)
{
    gboolean dropped = FALSE;

    for (guint i = 0; i < count; i++)
        if (parts[i]->state == INSTANT_OFFERED && parts[i]->time < than) {
            conclude(parts[i], INSTANT_DROP);
            dropped = TRUE;
        }
    return dropped;
}

struct instant_outcome instant_decide(struct instant_part *const *parts, guint count,
                                      struct instant_past *past, gint64 now)
{
    struct instant_outcome outcome = {.next = INSTANT_NEVER};
    gint64 newest = INSTANT_NONE, shortest = 0;
    gboolean complete = TRUE;

    if (past->last != INSTANT_NONE)
        outcome.concluded = drop_older(parts, count, past->last + 1);
    for (guint i = 0; i < count; i++) {
        const struct instant_part *part = parts[i];
        if (part->interval > 0 && (shortest == 0 || part->interval < shortest))
            shortest = part->interval;
        if (part->state == INSTANT_OFFERED)
            newest = MAX(newest, part->time);
    }
    if (newest == INSTANT_NONE) {
        past->deadline = INSTANT_NEVER;
        return outcome;
    }
    /* A dropped frame's deadline stays: sources that never have frames of one instant would
     * otherwise drop each other's for ever. */
    for (guint i = 0; i < count; i++)
        if (parts[i]->state == INSTANT_OFFERED)
            past->deadline = MIN(past->deadline, parts[i]->arrived + parts[i]->latency);
    /* Between two frames of any source lies more than half the shortest interval. */
    gint64 tolerance = shortest ? shortest / 2 : TOLERANCE_DEFAULT;
    outcome.concluded |= drop_older(parts, count, newest - tolerance);
    for (guint i = 0; i < count; i++)
        complete &= parts[i]->state != INSTANT_EXPECTED;
    if (!complete && now < past->deadline) {
        outcome.next = past->deadline;
        return outcome;
    }
    for (guint i = 0; i < count; i++) {
        struct instant_part *part = parts[i];
        part->left_out = part->state != INSTANT_OFFERED;
        if (part->left_out)
            part->state = INSTANT_MISSING;
        else
            conclude(part, INSTANT_SEND);
    }
    past->last = newest;
    past->deadline = INSTANT_NEVER;
    outcome.concluded = outcome.went = TRUE;
    return outcome;
}

/* === group =================================================================================== */

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

static GMutex groups_lock;
static GHashTable *groups; /* by name; under groups_lock. NULL: no group was made yet */

struct group_member *group_join(const gchar *name, GstElement *element)
{
    struct group_member *member = g_new0(struct group_member, 1);

    member->element = element;
    g_mutex_lock(&groups_lock);
    if (!groups)
        groups = g_hash_table_new(g_str_hash, g_str_equal);
    struct group *group = g_hash_table_lookup(groups, name);
    if (!group) {
        group = g_new0(struct group, 1);
        group->name = g_strdup(name);
        g_mutex_init(&group->lock);
        g_cond_init(&group->decided);
        group->members = g_ptr_array_new();
        group->parts = g_ptr_array_new();
        group->past = (struct instant_past){INSTANT_NONE, INSTANT_NEVER};
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
    if (last) {
        g_ptr_array_unref(group->members);
        g_ptr_array_unref(group->parts);
        g_cond_clear(&group->decided);
        g_mutex_clear(&group->lock);
        g_free(group->name);
        g_free(group);
    }
    g_free(member);
}

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

/* Decides until there is a verdict on the member's frame. Adds to `missing` the names of members
 * that an instant is the first one to lack. Under the lock. */
static enum group_answer wait_for_verdict(struct group_member *member, GString *missing)
{
    struct group *group = member->group;

    while (!member->interrupted) {
        struct instant_outcome outcome =
            instant_decide((struct instant_part *const *)group->parts->pdata, group->parts->len,
                           &group->past, (gint64)monotonic_now());
        if (outcome.concluded)
            g_cond_broadcast(&group->decided);
        for (guint i = 0; outcome.went && i < group->members->len; i++) {
            struct group_member *one = group->members->pdata[i];
            if (one->part.left_out)
                __atomic_fetch_add(&one->missed, 1, __ATOMIC_RELAXED);
            if (one->part.left_out && !one->reported)
                g_string_append_printf(missing, "%s%s", missing->len ? ", " : "",
                                       GST_OBJECT_NAME(one->element));
            one->reported = one->part.left_out;
        }
        if (member->part.verdict != INSTANT_HOLD)
            break;
        g_cond_wait_until(&group->decided, &group->lock, outcome.next / GST_USECOND + 1);
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
    struct instant_part *part = &member->part;
    enum group_answer answer = GROUP_SEND;

    g_autoptr(GString) missing = g_string_new(NULL);
    GST_OBJECT_LOCK(element);
    const GstClock *clock = GST_ELEMENT_CLOCK(element);
    gint64 time = (gint64)(frame->running + element->base_time);
    GST_OBJECT_UNLOCK(element);
    g_mutex_lock(&group->lock);
    gboolean shared = take_clock(member, clock);
    if (shared && frame->running <= frame->now + frame->latency) {
        /* Frames that queued while this thread was held arrived at their interval, and now at the
         * latest. */
        gint64 arrived = (gint64)frame->acquired;
        if (!frame->waited && part->arrived != 0 && time >= part->time)
            arrived = MIN(arrived, part->arrived + (time - part->time));
        *part = (struct instant_part){
            .state = INSTANT_OFFERED,
            .time = time,
            .interval = GST_CLOCK_TIME_IS_VALID(frame->interval) ? (gint64)frame->interval : 0,
            .arrived = arrived,
            .latency = (gint64)frame->latency,
            .verdict = INSTANT_HOLD,
        };
        answer = wait_for_verdict(member, missing);
    } else {
        part->state = INSTANT_MISSING;
        g_cond_broadcast(&group->decided);
    }
    g_mutex_unlock(&group->lock);
    if (!shared && !member->clock_reported) {
        GST_ELEMENT_WARNING(element, CORE, CLOCK,
                            ("The pipelines of group \"%s\" have different clocks: this source is "
                             "not held in step. Give them one clock.",
                             group->name),
                            (NULL));
        member->clock_reported = TRUE;
    }
    if (missing->len > 0) {
        GST_INFO_OBJECT(element, "group %s: without %s", group->name, missing->str);
        GstStructure *structure =
            gst_structure_new("gpudirect-group-missing", "group", G_TYPE_STRING, group->name,
                              "missing", G_TYPE_STRING, missing->str, NULL);
        gst_element_post_message(element, gst_message_new_element(GST_OBJECT(element), structure));
    }
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

/* === gate ==================================================================================== */

/* For streams that are slower than the channel's own to come, or have no frames now. */
#define GATE_WAIT (500 * GST_MSECOND)

struct gate {
    gint references; /* atomic */
    gint64 timeout;
    GMutex lock;
    /* Under the lock. */
    guint expected, arrived;
    gboolean needs_main, is_closed;
    GstClockTime opens_at; /* monotonic; GST_CLOCK_TIME_NONE: not known yet */
};

struct gate *gate_new(guint expected, gboolean needs_main, gint64 timeout)
{
    struct gate *gate = g_new0(struct gate, 1);

    gate->references = 1;
    g_mutex_init(&gate->lock);
    gate->expected = expected;
    gate->needs_main = needs_main;
    gate->timeout = timeout;
    gate->opens_at = GST_CLOCK_TIME_NONE;
    return gate;
}

struct gate *gate_ref(struct gate *gate)
{
    if (gate)
        g_atomic_int_inc(&gate->references);
    return gate;
}

void gate_unref(struct gate *gate)
{
    if (!gate || !g_atomic_int_dec_and_test(&gate->references))
        return;
    g_mutex_clear(&gate->lock);
    g_free(gate);
}

gint64 gate_get_timeout(const struct gate *gate)
{
    return gate->timeout;
}

void gate_arrive(struct gate *gate, gboolean main)
{
    g_mutex_lock(&gate->lock);
    gate->arrived++;
    if ((main || !gate->needs_main) && !GST_CLOCK_TIME_IS_VALID(gate->opens_at))
        gate->opens_at = monotonic_now() + GATE_WAIT;
    g_mutex_unlock(&gate->lock);
}

void gate_close(struct gate *gate)
{
    g_mutex_lock(&gate->lock);
    gate->is_closed = TRUE;
    g_mutex_unlock(&gate->lock);
}

enum gate_state gate_get_state(struct gate *gate)
{
    g_mutex_lock(&gate->lock);
    gboolean opens = gate->arrived >= gate->expected || monotonic_now() >= gate->opens_at;
    enum gate_state state = gate->is_closed ? GATE_CLOSED : opens ? GATE_OPEN : GATE_WAITS;
    g_mutex_unlock(&gate->lock);
    return state;
}
