/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several senders of one programme. */
#include "src/src.h"

#include "base/plugin.h"
#include "wire/codec.h"

#include <gpudirect/group.h>
#include <string.h>

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

/* === pairtime ================================================================================ */
/* By which times frames of a main and a backup sender are matched. */

/* Whether the instant is by the senders' clock, rather than by their pipelines' running time. */
static inline gboolean pair_match_has_clock(enum pair_match match)
{
    return match != PAIR_MATCH_PTS;
}

#define NETWORK "rdma://"

static struct pair_clock pair_clock_of(const struct wire_head *head)
{
    return (struct pair_clock){
        .known = TRUE, .live = head->live, .monotonic = head->monotonic, .name = head->clock};
}

static gboolean has_clock(const struct pair_clock *clock)
{
    return clock->monotonic || clock->name;
}

enum pair_match pair_match_of(const struct pair_clock *main, const struct pair_clock *backup,
                              gboolean same_host)
{
    if (!main->known && !backup->known)
        return PAIR_MATCH_NONE;
    /* The other one will probably be alike. */
    const struct pair_clock *a = main->known ? main : backup;
    const struct pair_clock *b = backup->known ? backup : main;
    if ((!a->live && !b->live) || (!has_clock(a) && !has_clock(b)))
        return PAIR_MATCH_PTS;
    if (a->name && a->name == b->name)
        return PAIR_MATCH_CLOCK;
    if (a->monotonic && b->monotonic && (a == b || same_host))
        return PAIR_MATCH_MONOTONIC;
    return PAIR_MATCH_APART;
}

gboolean pair_addresses_share_host(const gchar *main, const gchar *backup)
{
    gboolean network = g_str_has_prefix(main, NETWORK);

    if (network != g_str_has_prefix(backup, NETWORK))
        return FALSE;
    if (!network)
        return TRUE;
    /* Up to the port and the channel's name. */
    const gchar *end = strrchr(main + strlen(NETWORK), ':');
    gsize length = end ? (gsize)(end - main) + 1 : strlen(main);
    return strncmp(main, backup, length) == 0;
}

static const gchar *pair_match_text(enum pair_match match)
{
    static const gchar *const texts[] = {
        [PAIR_MATCH_NONE] = "none",           [PAIR_MATCH_CLOCK] = "clock",
        [PAIR_MATCH_MONOTONIC] = "monotonic", [PAIR_MATCH_PTS] = "pts",
        [PAIR_MATCH_APART] = "apart",
    };

    return texts[match];
}

/* === pair ==================================================================================== */
/* Frames from a main and a backup sender, over two links: each instant is handed on once. The
 * core's group does that by the times that this file gives it; without a common time one sender is
 * used at a time, the other when that one is lost. */

/* Without a common time: how often the chosen sender is looked at, and how long it may send
 * nothing. */
#define LOOK_INTERVAL (100 * GPUD_MSEC)
#define SILENCE_MAX (500 * GPUD_MSEC)

struct pair_input {
    struct input parent; /* first */
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;
    const gint *preferred; /* atomic; the element's property */
    gboolean same_host;
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void (*on_notice)(void *user, const gchar *text);
    void *user;
    gint active; /* atomic: whose frame was handed on last; -1: none yet */

    GMutex lock; /* of the next four, which threads of the group use */
    struct pair_clock clocks[2];
    enum pair_match match;
    guint chosen; /* whose frames are handed on, where both cannot be matched */
    gboolean refused;

    /* The streaming thread's. */
    gboolean refusal_reported;
    GstClockTime looked_at; /* monotonic: for warnings of the group */
    gchar warned[2][GPUD_REASON_MAX];
    gboolean connected;
    GstClockTime handed_at; /* monotonic: the last frame */
    gboolean has_origin;    /* of the time line on which both senders' frames are placed */
    GstClockTime origin;    /* a base time of the clock */
    guint64 run;
};

static struct pair_input *pair_of(struct input *input)
{
    return (struct pair_input *)input;
}

/* --- matching ----------------------------------------------------------------------------- */

/* The instant of a frame; called in a thread of the group. */
static uint64_t time_of(void *user, uint32_t member, const struct gpud_frame_info *info)
{
    struct pair_input *pair = user;
    struct unpack unpack = {.data = info->meta, .left = info->meta_size};
    GstClockTime running = wire_time(info->pts_ns);
    struct wire_head head;

    wire_head_unpack(&unpack, &head);
    g_mutex_lock(&pair->lock);
    pair->clocks[member] = pair_clock_of(&head);
    pair->match = pair_match_of(&pair->clocks[0], &pair->clocks[1], pair->same_host);
    enum pair_match match = pair->match;
    pair->refused |= match == PAIR_MATCH_APART;
    gboolean chosen = match != PAIR_MATCH_APART || member == pair->chosen;
    g_mutex_unlock(&pair->lock);
    if (!chosen || !GST_CLOCK_TIME_IS_VALID(running))
        return GPUD_TIME_NONE;
    if (match == PAIR_MATCH_APART)
        return monotonic_now(); /* one time line for both senders */
    return pair_match_has_clock(match) ? wire_time(head.base_time + running) : running;
}

static guint64 moved_time(guint64 said, gint64 by)
{
    GstClockTime time = wire_time(said);

    return GST_CLOCK_TIME_IS_VALID(time) ? (guint64)MAX(0, time_sum((gint64)time, by)) : said;
}

/* Puts the frame on one time line with the other sender's, so that a switch is no step. */
static void pair_place(struct input *input, struct gpud_frame_info *info, struct wire_head *head)
{
    struct pair_input *pair = pair_of(input);

    info->dropped = 0; /* each sender counts its own */
    g_mutex_lock(&pair->lock);
    enum pair_match match = pair->match;
    g_mutex_unlock(&pair->lock);
    if (match == PAIR_MATCH_APART)
        return;
    if (!pair->has_origin) {
        pair->origin = head->base_time;
        pair->run = head->run;
        pair->has_origin = TRUE;
    }
    head->run = pair->run;
    if (!pair_match_has_clock(match) || head->base_time == pair->origin)
        return;
    gint64 moved = (gint64)head->base_time - (gint64)pair->origin;
    info->pts_ns = moved_time(info->pts_ns, moved);
    info->dts_ns = moved_time(info->dts_ns, moved);
    head->base_time = pair->origin;
}

/* --- opening ------------------------------------------------------------------------------ */

static void pair_on_event(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    struct pair_input *pair = user;

    g_atomic_int_set(&pair->active, (gint)member);
    pair->on_event(pair->user, event, data);
}

static void pair_close(struct input *input)
{
    struct pair_input *pair = pair_of(input);

    gpud_group_destroy(&pair->group);
    for (guint i = 0; i < G_N_ELEMENTS(pair->receivers); i++)
        gpud_receiver_destroy(&pair->receivers[i]);
    g_mutex_clear(&pair->lock);
    g_free(pair);
}

static enum gpud_status create_receivers(struct pair_input *pair, struct gpud_context *context,
                                         const struct input_params *params,
                                         struct gpud_error *error)
{
    struct gpud_receiver_params receiver = GPUD_PARAMS_INIT(receiver);
    const gchar *const addresses[] = {params->address, params->backup_address};
    enum gpud_status status = GPUD_OK;

    receiver.name = params->name;
    receiver.device = params->device;
    receiver.slots = params->slots_set ? params->slots : 0;
    receiver.picture_slots = params->slots;
    receiver.slow_receiver = params->slow_receiver;
    receiver.require_direct = params->require_direct;
    receiver.access = params->access;
    receiver.psk_file = params->psk_file;
    receiver.max_frame_size = params->max_frame_size;
    receiver.busy_poll_ns = -1; /* threads of the group receive, and two would wait busily */
    for (guint i = 0; i < G_N_ELEMENTS(addresses) && status == GPUD_OK; i++) {
        receiver.address = addresses[i];
        status = gpud_receiver_create(context, &receiver, &pair->receivers[i], error);
    }
    return status;
}

static enum gpud_status pair_open(const struct input_params *params, struct input **input,
                                  struct gpud_error *error)
{
    struct gpud_group_params group = GPUD_PARAMS_INIT(group);
    struct gpud_context *context = gpud_gst_context_get(error);
    if (!context)
        return error->status;
    struct pair_input *pair = g_new0(struct pair_input, 1);

    g_mutex_init(&pair->lock);
    pair->parent.ops = &pair_input_ops;
    pair->preferred = params->preferred;
    pair->chosen = (guint)g_atomic_int_get(params->preferred);
    pair->same_host = pair_addresses_share_host(params->address, params->backup_address);
    pair->on_event = params->on_event;
    pair->on_notice = params->on_notice;
    pair->user = params->user;
    pair->active = -1;
    group.mode = GPUD_GROUP_ANY;
    group.freeze_timeout_ns = (gint64)params->freeze_timeout;
    group.time = time_of;
    group.on_event = pair_on_event;
    group.user = pair;
    enum gpud_status status = create_receivers(pair, context, params, error);
    if (status == GPUD_OK)
        status = gpud_group_create(context, &group, pair->receivers, 2, &pair->group, error);
    if (status == GPUD_OK)
        *input = &pair->parent;
    else
        pair_close(&pair->parent);
    return status;
}

/* --- frames ------------------------------------------------------------------------------- */

static struct gpud_group_info info_of(struct pair_input *pair, guint member)
{
    struct gpud_group_info info = GPUD_INFO_INIT(info);

    gpud_group_get_info(pair->group, member, &info);
    return info;
}

static gboolean is_connected(struct pair_input *pair, guint member)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);

    /* For the group, a sender whose frames are left out delivers none. */
    gpud_receiver_get_info(pair->receivers[member], &info);
    return info.connected;
}

/* Without a common time: takes the preferred sender where the application has changed it, and the
 * other one where the chosen one is lost or silent. */
static void pair_choose(struct pair_input *pair, guint *preferred)
{
    guint wanted = (guint)g_atomic_int_get(pair->preferred);
    gboolean changed = wanted != *preferred;
    gboolean silent = pair->connected && monotonic_now() > pair->handed_at + SILENCE_MAX;

    *preferred = wanted;
    g_mutex_lock(&pair->lock);
    guint chosen = pair->chosen;
    g_mutex_unlock(&pair->lock);
    if (changed && is_connected(pair, wanted))
        chosen = wanted;
    else if ((silent || !is_connected(pair, chosen)) && is_connected(pair, 1 - chosen))
        chosen = 1 - chosen;
    else
        return;
    g_mutex_lock(&pair->lock);
    pair->chosen = chosen;
    g_mutex_unlock(&pair->lock);
    pair->handed_at = monotonic_now(); /* it gets as long */
}

static gboolean is_apart(struct pair_input *pair)
{
    g_mutex_lock(&pair->lock);
    gboolean apart = pair->match == PAIR_MATCH_APART;
    gboolean refused = pair->refused;
    g_mutex_unlock(&pair->lock);
    if (refused && !pair->refusal_reported) {
        pair->refusal_reported = TRUE;
        pair->on_notice(
            pair->user,
            "The two senders have no common clock, so their frames cannot be matched: "
            "one of them is used at a time, and a change is a step. Let both follow one "
            "clock (PTP, or common-clock=NAME), or run them on one host.");
    }
    return apart;
}

static enum gpud_status both_lost(struct pair_input *pair, struct gpud_error *error)
{
    struct gpud_group_info main = info_of(pair, 0), backup = info_of(pair, 1);

    pair->connected = pair->has_origin = FALSE;
    *error = (struct gpud_error){.status = GPUD_PEER};
    g_snprintf(error->reason, sizeof(error->reason), "main: %.200s; backup: %.200s", main.reason,
               backup.reason);
    return GPUD_PEER;
}

static const gchar *pair_name_of(gint member)
{
    return member < 0 ? "none" : member == 0 ? "main" : "backup";
}

/* Each kind of fault of a sender is said once; the stats say it for as long as it lasts. */
static void report_warnings(struct pair_input *pair)
{
    GstClockTime now = monotonic_now();

    if (now < pair->looked_at + SILENCE_MAX)
        return;
    pair->looked_at = now;
    for (gint i = 0; i < (gint)G_N_ELEMENTS(pair->receivers); i++) {
        struct gpud_group_info info = info_of(pair, (guint)i);
        if (!info.warning[0] || strcmp(pair->warned[i], info.warning) == 0)
            continue;
        g_strlcpy(pair->warned[i], info.warning, sizeof(pair->warned[i]));
        g_autofree gchar *text =
            g_strdup_printf("The %s sender is not in step: %s", pair_name_of(i), info.warning);
        pair->on_notice(pair->user, text);
    }
}

static enum gpud_status pair_acquire(struct input *input, gint64 timeout, struct gpud_frame **frame,
                                     struct gpud_error *error)
{
    struct pair_input *pair = pair_of(input);
    struct gpud_group_request request = GPUD_PARAMS_INIT(request);
    struct gpud_group_instant instant = GPUD_INFO_INIT(instant);
    gint64 deadline = (gint64)monotonic_now() + timeout;
    guint preferred = (guint)g_atomic_int_get(pair->preferred);
    enum gpud_status status;

    do {
        gboolean apart = is_apart(pair);
        gint64 left = MAX(0, deadline - (gint64)monotonic_now());
        if (apart)
            pair_choose(pair, &preferred);
        request.preferred = (guint)g_atomic_int_get(pair->preferred);
        status = gpud_group_acquire(pair->group, &request, apart ? MIN(left, LOOK_INTERVAL) : left,
                                    &instant, error);
    } while (status == GPUD_TIMEOUT && (gint64)monotonic_now() < deadline);
    if (status == GPUD_OK) {
        *frame = instant.frames[instant.member];
        input->skip = instant.skip;
        report_warnings(pair);
        g_atomic_int_set(&pair->active, (gint)instant.member);
        pair->connected = TRUE;
        pair->handed_at = monotonic_now();
    } else if (status == GPUD_TIMEOUT && pair->connected && !is_connected(pair, 0) &&
               !is_connected(pair, 1)) {
        return both_lost(pair, error);
    }
    return status;
}

static guint pair_count_frames(struct input *input)
{
    struct pair_input *pair = pair_of(input);
    gint active = g_atomic_int_get(&pair->active);

    return active < 0 ? 0 : info_of(pair, (guint)active).held;
}

/* The receivers are the group's. */
static void pair_set_latency(struct input *input, guint64 latency)
{
}

static void pair_interrupt(struct input *input, gboolean interrupted)
{
    gpud_receiver_interrupt(pair_of(input)->receivers[0], interrupted);
}

static void pair_want_slots(struct input *input, guint slots)
{
    struct pair_input *pair = pair_of(input);

    for (guint i = 0; i < G_N_ELEMENTS(pair->receivers); i++)
        gpud_receiver_set_slots(pair->receivers[i], slots);
}

/* --- information -------------------------------------------------------------------------- */

static void pair_get_info(struct input *input, struct input_info *info)
{
    struct pair_input *pair = pair_of(input);
    gint active = g_atomic_int_get(&pair->active);
    struct gpud_group_info group = info_of(pair, 0);

    *info = (struct input_info){.frames = group.instants, .hold = (guint64)group.latency_ns};
    for (guint i = 0; i < G_N_ELEMENTS(pair->receivers); i++) {
        struct gpud_receiver_info from = GPUD_INFO_INIT(from);
        gpud_receiver_get_info(pair->receivers[i], &from);
        info->connected |= from.connected;
        info->corrupted += from.corrupted;
        info->connects += from.connects;
        info->disconnects += from.disconnects;
        info->copies_cpu += from.copies_cpu;
        info->copies_gpu += from.copies_gpu;
        info->waits_cpu += from.waits_cpu;
        info->waits_device += from.waits_device;
        info->kicks += from.kicks;
        if ((gint)i != MAX(active, 0))
            continue;
        info->latency_p50 = from.latency_p50_ns;
        info->latency_p99 = from.latency_p99_ns;
        info->latency_max = from.latency_max_ns;
        info->slots = from.slots;
        info->slots_max = from.slots_max;
        g_strlcpy(info->path, from.path, sizeof(info->path));
        g_strlcpy(info->fallback_reason, from.fallback_reason, sizeof(info->fallback_reason));
    }
}

static void add_member(struct pair_input *pair, guint member, GstStructure *stats)
{
    struct gpud_receiver_info receiver = GPUD_INFO_INIT(receiver);
    struct gpud_group_info info = info_of(pair, member);
    const gchar *name = pair_name_of((gint)member);

    gpud_receiver_get_info(pair->receivers[member], &receiver);
    GstStructure *one = gst_structure_new(
        name, "connected", G_TYPE_BOOLEAN, (gboolean)receiver.connected, "active-path",
        G_TYPE_STRING, receiver.path, "frames", G_TYPE_UINT64, info.frames, "handed-on",
        G_TYPE_UINT64, info.handed_on, "missed", G_TYPE_UINT64, info.missed, "unmatched",
        G_TYPE_UINT64, info.untimed, "connects", G_TYPE_UINT64, receiver.connects, "behind",
        G_TYPE_INT64, info.behind_ns, "offset", G_TYPE_INT64, info.offset_ns, "frozen",
        G_TYPE_BOOLEAN, (gboolean)info.frozen, "reason", G_TYPE_STRING, info.reason, "late",
        G_TYPE_UINT64, info.late, "ignored", G_TYPE_UINT64, info.ignored, "warning", G_TYPE_STRING,
        info.warning, NULL);
    gst_structure_set(stats, name, GST_TYPE_STRUCTURE, one, NULL);
    gst_structure_free(one);
}

static void pair_add_stats(struct input *input, GstStructure *stats)
{
    struct pair_input *pair = pair_of(input);
    struct gpud_group_info info = info_of(pair, 0);

    g_mutex_lock(&pair->lock);
    const gchar *match = pair_match_text(pair->match);
    g_mutex_unlock(&pair->lock);
    gst_structure_set(stats, "active", G_TYPE_STRING, pair_name_of(g_atomic_int_get(&pair->active)),
                      "matched-by", G_TYPE_STRING, match, "switches", G_TYPE_UINT64, info.switches,
                      "discontinuities", G_TYPE_UINT64, info.discontinuities, NULL);
    add_member(pair, 0, stats);
    add_member(pair, 1, stats);
}

static const gchar *pair_get_active(struct input *input)
{
    return pair_name_of(g_atomic_int_get(&pair_of(input)->active));
}

const struct input_ops pair_input_ops = {
    .kind = INPUT_PAIR,
    .what = "the senders",
    .open = pair_open,
    .close = pair_close,
    .acquire = pair_acquire,
    .count_frames = pair_count_frames,
    .set_latency = pair_set_latency,
    .interrupt = pair_interrupt,
    .want_slots = pair_want_slots,
    .get_info = pair_get_info,
    .place = pair_place,
    .add_stats = pair_add_stats,
    .get_active = pair_get_active,
};
