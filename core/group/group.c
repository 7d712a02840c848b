/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public group: how it is made, what it waits for, how frames and events are handed on. */
#include "base/fd.h"
#include "base/log.h"
#include "base/sized.h"
#include "frame/frame.h"
#include "group/member.h"
#include "stream/receiver/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AREA "group"

/* --- creating and destroying --------------------------------------------------------------- */

static enum gpud_status check_history(const struct gpud_receiver *receiver, uint32_t member,
                                      uint32_t history, struct gpud_error *error)
{
    uint32_t slots = receiver->slots ? receiver->slots : receiver->picture_slots;
    if (history == 0 || history + 2 <= slots)
        return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID,
                     "a history of %u frames needs %u slots, and receiver %u, of %s, has %u: the "
                     "sender and the application need one each",
                     history, history + 2, member, receiver->address.place, slots);
}

static enum gpud_status check_freeze(const struct gpud_group_params *params,
                                     const struct gpud_receiver *receiver, struct gpud_error *error)
{
    if (params->freeze_timeout_ns == 0)
        return GPUD_OK;
    if (params->mode != GPUD_GROUP_ANY)
        return gpud_fail(error, GPUD_INVALID,
                         "a freeze timeout is for the mode ANY of a group, where another member "
                         "can be taken");
    return gpud_freeze_check_device(receiver->device, error);
}

static enum gpud_status check_params(const struct gpud_group_params *params,
                                     struct gpud_receiver *const *receivers, uint32_t count,
                                     struct gpud_error *error)
{
    if (count < 1 || count > GPUD_GROUP_MEMBERS_MAX)
        return gpud_fail(error, GPUD_INVALID, "a group of %u: 1 to %d members are possible", count,
                         GPUD_GROUP_MEMBERS_MAX);
    if (params->mode != GPUD_GROUP_ALL && params->mode != GPUD_GROUP_ANY)
        return gpud_fail(error, GPUD_INVALID, "the mode %d of a group is not known here",
                         (int)params->mode);
    if (params->tolerance_ns < 0 || params->latency_ns < 0 || params->freeze_timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID,
                         "a group's tolerance, latency or freeze timeout is negative");
    if (params->tolerance_ns > INT64_MAX / 16 || params->latency_ns > INT64_MAX / 16)
        return gpud_fail(error, GPUD_INVALID, "a group's tolerance or latency is of many years");
    if (params->history > GPUD_SLOTS_MAX - 2)
        return gpud_fail(error, GPUD_INVALID, "a history of %u frames: %d are possible",
                         params->history, GPUD_SLOTS_MAX - 2);
    for (uint32_t i = 0; i < count; i++) {
        if (!receivers[i])
            return gpud_fail(error, GPUD_INVALID, "receiver %u of the group is NULL", i);
        enum gpud_status status = check_history(receivers[i], i, params->history, error);
        if (status == GPUD_OK)
            status = check_freeze(params, receivers[i], error);
        if (status != GPUD_OK)
            return status;
    }
    return GPUD_OK;
}

enum gpud_status gpud_group_create(struct gpud_context *context,
                                   const struct gpud_group_params *params,
                                   struct gpud_receiver *const *receivers, uint32_t count,
                                   struct gpud_group **group, struct gpud_error *error)
{
    struct gpud_group_params own;
    enum gpud_status status =
        gpud_sized_read(&own, sizeof(own), params, GPUD_END_OF(struct gpud_group_params, mode),
                        "gpud_group_params", error);
    if (status == GPUD_OK)
        status = check_params(&own, receivers, count, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_group *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a group");
    made->context = context;
    made->time = own.time;
    made->on_event = own.on_event;
    made->user = own.user;
    made->count = count;
    made->freeze_timeout = own.freeze_timeout_ns;
    made->loop = GPUD_LOOP_NONE;
    made->last_member = count;
    made->match.mode = own.mode;
    made->match.count = count;
    made->match.history = own.history;
    made->match.wanted_tolerance = own.tolerance_ns;
    made->match.wanted_latency = own.latency_ns;
    gpud_lock_init(&made->lock, GPUD_RANK_GROUP);
    gpud_cond_init(&made->due);
    gpud_cond_init(&made->room);
    status = gpud_loop_open(&made->loop, error);
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        made->members[i].group = made;
        made->members[i].index = i;
        status = gpud_group_member_join(&made->members[i], receivers[i], error);
    }
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++)
        status = gpud_group_member_start(&made->members[i], error);
    if (status != GPUD_OK) {
        gpud_group_destroy(&made);
        return status;
    }
    *group = made;
    return GPUD_OK;
}

static void release_all(struct gpud_group *group)
{
    struct gpud_group_item *list = NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        struct gpud_match_member *m = &group->match.members[i];
        for (uint32_t k = 0; k < m->count; k++) {
            struct gpud_group_item *item = m->entries[k].what;
            item->next = list;
            list = item;
        }
        gpud_group_link_unref(&group->reported[i]);
    }
    gpud_group_release(list);
}

void gpud_group_destroy(struct gpud_group **group)
{
    if (!group || !*group)
        return;
    struct gpud_group *gone = *group;
    *group = NULL;
    gpud_lock_take(&gone->lock);
    gone->stopping = true;
    pthread_cond_broadcast(&gone->room);
    gpud_lock_release(&gone->lock);
    for (uint32_t i = 0; i < gone->count; i++)
        gpud_group_member_stop(&gone->members[i]);
    for (uint32_t i = 0; i < gone->count; i++)
        gpud_group_member_leave(&gone->members[i]);
    release_all(gone);
    gpud_loop_close(&gone->loop);
    pthread_cond_destroy(&gone->due);
    pthread_cond_destroy(&gone->room);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

/* --- handing on ---------------------------------------------------------------------------- */

/* What is handed on, while the lock is released. */
struct handed {
    struct gpud_frame *frames[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_group_link *links[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_group_event *events[GPUD_GROUP_MEMBERS_MAX];
    struct gpud_group_item *dropped;
};

static bool is_discontinuous(const struct gpud_match_decision *decision)
{
    return decision->gap || decision->new_line;
}

/* In mode ANY a frame that is known to be broken by now gives way to another member's. */
static bool is_spoiled(const struct gpud_group *group, struct gpud_match_decision *decision)
{
    struct gpud_match_entry *entry = decision->entries[decision->member];
    const struct gpud_group_item *item = entry->what;
    if (group->match.mode != GPUD_GROUP_ANY || entry->corrupted ||
        !item->frame->ops->is_poisoned(item->frame))
        return false;
    entry->corrupted = true;
    return true;
}

/* The frame's own flag is about its sender's frames, not about the group's. */
static void set_discontinuity(struct gpud_frame *frame, bool discontinuity)
{
    if (discontinuity)
        __atomic_fetch_or(&frame->info.flags, GPUD_FRAME_DISCONTINUITY, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&frame->info.flags, ~(uint32_t)GPUD_FRAME_DISCONTINUITY,
                           __ATOMIC_RELAXED);
}

static void note_handed(struct gpud_group *group, const struct gpud_match_decision *decision)
{
    group->instants++;
    group->discontinuities += is_discontinuous(decision);
    if (group->match.mode == GPUD_GROUP_ALL) {
        for (uint32_t i = 0; i < group->count; i++)
            group->members[i].handed_on += decision->entries[i] != NULL;
        group->incomplete += decision->missing > 0;
        return;
    }
    group->members[decision->member].handed_on++;
    if (group->last_member < group->count && group->last_member != decision->member) {
        group->switches++;
        gpud_log_info(&group->context->log, AREA, "member %u instead of %u at %" PRIu64 " ns%s",
                      decision->member, group->last_member, decision->time,
                      is_discontinuous(decision) ? ", not in step" : "");
    }
    group->last_member = decision->member;
}

/* Moves the frames out. The group keeps a hold on those that stay for the history. Under the lock.
 */
static void take_out(struct gpud_group *group, struct gpud_match_decision *decision,
                     struct handed *handed)
{
    struct gpud_group_item *items[GPUD_GROUP_MEMBERS_MAX] = {NULL};
    bool again = group->request.select == GPUD_GROUP_AT;
    if (group->match.mode == GPUD_GROUP_ANY) {
        struct gpud_match_entry *only = decision->entries[decision->member];
        if (!again && only->kind != GPUD_MATCH_SOUND)
            decision->time = only->time;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        bool taken =
            decision->entries[i] && (group->match.mode == GPUD_GROUP_ALL || i == decision->member);
        if (!taken)
            continue;
        struct gpud_group_item *item = items[i] = decision->entries[i]->what;
        handed->frames[i] = item->frame;
        handed->links[i] = item->link;
        atomic_fetch_add(&item->link->references, 1);
        handed->events[i] = item->events;
        item->events = NULL;
        if (group->match.mode == GPUD_GROUP_ANY && !again)
            set_discontinuity(item->frame, is_discontinuous(decision));
    }
    handed->dropped = gpud_group_take_dropped(group);
    for (uint32_t i = 0; i < group->count; i++) {
        if (!items[i])
            continue;
        bool moved = false;
        for (struct gpud_group_item *item = handed->dropped; item; item = item->next)
            if (item == items[i]) {
                item->frame = NULL;
                moved = true;
            }
        if (!moved)
            gpud_frame_ref(handed->frames[i]);
    }
}

static void report(struct gpud_group *group, uint32_t member, struct handed *handed)
{
    bool any = group->match.mode == GPUD_GROUP_ANY;
    struct gpud_group_link **before = &group->reported[any ? 0 : member];
    struct gpud_group_link *link = handed->links[member];
    bool other = any && group->reported_member != member;
    if (group->on_event && (!*before || other || (*before)->connection != link->connection))
        group->on_event(group->user, member, GPUD_EVENT_CONNECTED, &link->peer);
    if (group->on_event && *before != link)
        group->on_event(group->user, member, GPUD_EVENT_FORMAT, &link->format);
    gpud_group_link_unref(before);
    *before = link;
    handed->links[member] = NULL;
    group->reported_member = member;
    while (handed->events[member]) {
        struct gpud_group_event *event = handed->events[member];
        handed->events[member] = event->next;
        group->on_event(group->user, member, GPUD_EVENT_USER, &event->said);
        free(event);
    }
}

static void fill(struct gpud_group *group, const struct gpud_match_decision *decision,
                 struct handed *handed, struct gpud_group_instant *instant)
{
    struct gpud_group_instant filled = {
        .time_ns = decision->time,
        .discontinuity = is_discontinuous(decision),
        .member = decision->member,
        .missing = group->match.mode == GPUD_GROUP_ALL ? decision->missing : 0,
        .skip = decision->skip,
    };
    for (uint32_t i = 0; i < group->count; i++) {
        filled.frames[i] = handed->frames[i];
        filled.states[i] = decision->states[i];
        if (handed->frames[i])
            report(group, i, handed);
    }
    gpud_group_release(handed->dropped);
    gpud_sized_copy(instant, instant->size, &filled, sizeof(filled));
}

/* --- waiting ------------------------------------------------------------------------------- */

static enum gpud_status read_request(const struct gpud_group *group,
                                     const struct gpud_group_request *from,
                                     struct gpud_match_request *request, struct gpud_error *error)
{
    struct gpud_group_request own = {.size = sizeof(own)};
    enum gpud_status status = GPUD_OK;
    if (from)
        status =
            gpud_sized_read(&own, sizeof(own), from, GPUD_END_OF(struct gpud_group_request, select),
                            "gpud_group_request", error);
    if (status != GPUD_OK)
        return status;
    if (own.select < GPUD_GROUP_NEXT || own.select > GPUD_GROUP_AT)
        return gpud_fail(error, GPUD_INVALID, "the selection %d of a group is not known here",
                         (int)own.select);
    if (own.preferred >= group->count)
        return gpud_fail(error, GPUD_INVALID, "member %u is preferred, and there are %u",
                         own.preferred, group->count);
    *request = (struct gpud_match_request){own.select, own.preferred, own.time_ns};
    return GPUD_OK;
}

static bool is_interrupted(const struct gpud_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (atomic_load_explicit(&group->members[i].receiver->interrupted, memory_order_relaxed))
            return true;
    return false;
}

static enum gpud_status timed_out(const struct gpud_group *group, struct gpud_error *error)
{
    char text[GPUD_REASON_MAX] = "";
    size_t used = 0, share = (sizeof(text) - 64) / group->count;
    for (uint32_t i = 0; i < group->count && used < sizeof(text) - 1; i++) {
        const char *reason = group->members[i].reason;
        used += (size_t)gpud_print_n(text + used, sizeof(text) - used, "%smember %u: %.*s",
                                     i ? "; " : "", i, share > 16 ? (int)share - 14 : 2,
                                     reason[0] ? reason : "no frame for a further instant");
    }
    return gpud_fail(error, GPUD_TIMEOUT, "no instant in time; %s", text);
}

static enum gpud_status gone(const struct gpud_group *group, struct gpud_error *error)
{
    const struct gpud_match_entry *oldest = NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct gpud_match_member *m = &group->match.members[i];
        if (m->count && (!oldest || m->entries[0].time < oldest->time))
            oldest = &m->entries[0];
    }
    if (!oldest)
        return gpud_fail(error, GPUD_INVALID,
                         "no member keeps frames: give the group a history to read at a time");
    return gpud_fail(error, GPUD_INVALID,
                     "no member has a frame at %" PRIu64
                     " ns; the oldest that is kept is at %" PRIu64 " ns",
                     group->request.time, oldest->time);
}

/* Under the lock, which is dropped while waiting. */
static enum gpud_status decide(struct gpud_group *group, int64_t deadline,
                               struct gpud_match_decision *decision, struct gpud_error *error)
{
    for (;;) {
        int64_t now = gpud_now();
        if (is_interrupted(group))
            return gpud_fail(error, GPUD_AGAIN, "interrupted");
        gpud_match_decide(&group->match, &group->request, now, decision);
        if (decision->verdict == GPUD_MATCH_GONE)
            return gone(group, error);
        if (decision->verdict == GPUD_MATCH_CLOSED) {
            group->match.at_end = false;
            return gpud_fail(error, GPUD_CLOSED,
                             "the last member that delivered frames ended its "
                             "stream");
        }
        if (decision->verdict == GPUD_MATCH_TAKE) {
            if (is_spoiled(group, decision))
                continue;
            return GPUD_OK;
        }
        group->waits_until = decision->until;
        if (now >= deadline) {
            group->armed = true;
            gpud_loop_set_timer(&group->loop, decision->until);
            return timed_out(group, error);
        }
        group->waits = true;
        gpud_lock_wait_until(&group->lock, &group->due,
                             decision->until < deadline ? decision->until : deadline);
        group->waits = false;
    }
}

enum gpud_status gpud_group_acquire(struct gpud_group *group,
                                    const struct gpud_group_request *request, int64_t timeout_ns,
                                    struct gpud_group_instant *instant, struct gpud_error *error)
{
    struct gpud_match_request wanted;
    struct gpud_match_decision decision;
    struct handed handed = {.dropped = NULL};
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (instant->size < GPUD_END_OF(struct gpud_group_instant, states))
        return gpud_fail(error, GPUD_INVALID,
                         "gpud_group_instant.size is not set: use GPUD_INFO_INIT");
    enum gpud_status status = read_request(group, request, &wanted, error);
    if (status != GPUD_OK)
        return status;

    gpud_lock_take(&group->lock);
    group->request = wanted;
    if (group->armed || timeout_ns == 0)
        gpud_loop_drain(&group->loop);
    group->armed = false;
    status = decide(group, gpud_deadline(timeout_ns), &decision, error);
    if (status == GPUD_OK) {
        if (wanted.select != GPUD_GROUP_AT) {
            gpud_match_commit(&group->match, &wanted, &decision);
            note_handed(group, &decision);
        }
        take_out(group, &decision, &handed);
        pthread_cond_broadcast(&group->room);
    }
    gpud_lock_release(&group->lock);
    if (status == GPUD_OK)
        fill(group, &decision, &handed, instant);
    return status;
}

void gpud_group_get_info(struct gpud_group *group, uint32_t member, struct gpud_group_info *info)
{
    gpud_lock_take(&group->lock);
    struct gpud_group_info now = {
        .fd = group->loop.fd,
        .members = group->count,
        .tolerance_ns = gpud_match_tolerance(&group->match),
        .latency_ns = gpud_match_latency(&group->match),
        .instants = group->instants,
        .incomplete = group->incomplete,
        .discontinuities = group->discontinuities,
        .switches = group->switches,
    };
    if (member < group->count) {
        const struct gpud_match_member *m = &group->match.members[member];
        const struct gpud_group_member *own = &group->members[member];
        now.connected = m->delivers;
        now.held = m->count;
        now.room = m->room;
        now.frames = own->frames;
        now.handed_on = own->handed_on;
        now.untimed = own->untimed;
        now.missed = m->missed;
        now.behind_ns = m->behind;
        now.offset_ns = m->offset;
        now.frozen = m->frozen;
        now.ignored = m->ignored;
        gpud_print(now.warning, "%s", gpud_match_describe(m->fault));
        gpud_print(now.reason, "%s", m->delivers ? "" : own->reason);
    }
    gpud_lock_release(&group->lock);
    gpud_sized_copy(info, info->size, &now, sizeof(now));
}
