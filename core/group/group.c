/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several receivers as one: the public object, and the threads of its members. */
#include "group/group.h"

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "stream/receiver/receiver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* === member ================================================================================== */
/* A member's thread does everything that its receiver needs: connecting, handshakes, frames. So a
 * driver or a peer that takes long costs the other members nothing. */

#define AREA "group"

/* How long an acquire waits before its reason is noted. */
#define SLICE (100 * GPUD_MSEC)

/* After a failure, or while interrupted. */
#define REST (10 * GPUD_MSEC)

/* How often to look at the group: a member without room, because time alone can decide that its
 * frames are to go; one whose frame is not complete yet. */
#define LOOK (20 * GPUD_MSEC)

/* --- what a frame brings along ------------------------------------------------------------- */

static void group_link_unref(struct gpud_group_link **link)
{
    struct gpud_group_link *gone = *link;
    *link = NULL;
    if (gone && atomic_fetch_sub(&gone->references, 1) == 1)
        free(gone);
}

static void free_events(struct gpud_group_event *events)
{
    while (events) {
        struct gpud_group_event *next = events->next;
        free(events);
        events = next;
    }
}

static void group_release(struct gpud_group_item *list)
{
    while (list) {
        struct gpud_group_item *next = list->next;
        gpud_frame_release(&list->frame);
        group_link_unref(&list->link);
        free_events(list->events);
        list->events = NULL;
        atomic_store_explicit(&list->used, false, memory_order_release);
        list = next;
    }
}

/* Takes what the match has dropped. Under the lock; the list is released without it. */
static struct gpud_group_item *group_take_dropped(struct gpud_group *group)
{
    struct gpud_group_item *list = NULL, *item;
    while ((item = gpud_match_drop(&group->match))) {
        item->next = list;
        list = item;
    }
    return list;
}

static struct gpud_group_event *copy_event(const struct gpud_user_event *said)
{
    struct gpud_group_event *event = malloc(sizeof(*event) + said->size);
    if (!event)
        return NULL;
    event->next = NULL;
    event->said = *said;
    if (said->size)
        memcpy(event->data, said->data, said->size);
    event->said.data = event->data;
    return event;
}

/* Puts it in place of the one of its kind, if there is memory. */
static void keep_sticky(struct gpud_group_member *member, const struct gpud_user_event *said)
{
    struct gpud_group_event **place = &member->sticky, *event = copy_event(said), *before = NULL;
    uint32_t count = 0;
    gpud_lock_take(&member->group->lock);
    for (; *place && (*place)->said.kind != said->kind; count++)
        place = &(*place)->next;
    before = *place;
    if (event && (before || count < GPUD_GROUP_STICKY_MAX)) {
        event->next = before ? before->next : NULL;
        *place = event;
        event = NULL;
    } else {
        before = NULL;
    }
    gpud_lock_release(&member->group->lock);
    free(event);
    free(before);
}

/* Copies of all of them. */
static struct gpud_group_event *copy_sticky(struct gpud_group_member *member)
{
    struct gpud_group_event *first = NULL, **end = &first;
    gpud_lock_take(&member->group->lock);
    for (const struct gpud_group_event *at = member->sticky; at; at = at->next)
        if ((*end = copy_event(&at->said)))
            end = &(*end)->next;
    gpud_lock_release(&member->group->lock);
    return first;
}

static void keep_event(struct gpud_group_member *member, const struct gpud_user_event *said)
{
    struct gpud_group_event *event = copy_event(said);
    if (!event || member->events_count == GPUD_GROUP_EVENTS_MAX) {
        gpud_log_warning(&member->group->context->log, AREA,
                         "member %u: an event is lost, because %s", member->index,
                         event ? "too many came without a frame" : "memory is out");
        free(event);
        return;
    }
    *member->events_end = event;
    member->events_end = &event->next;
    member->events_count++;
}

static struct gpud_group_event *take_events(struct gpud_group_member *member)
{
    struct gpud_group_event *events = member->events;
    member->events = NULL;
    member->events_end = &member->events;
    member->events_count = 0;
    return events;
}

/* In place of the receiver's own. */
static void member_on_event(void *user, enum gpud_event event, const void *data)
{
    struct gpud_group_member *member = user;
    struct gpud_group_event *gone = NULL;
    if (event == GPUD_EVENT_CONNECTED) {
        member->peer = *(const struct gpud_peer_info *)data;
        member->connection++;
        member->renewed = true;
        gpud_lock_take(&member->group->lock);
        gone = member->sticky;
        member->sticky = NULL;
        gpud_lock_release(&member->group->lock);
        free_events(gone);
    } else if (event == GPUD_EVENT_FORMAT) {
        member->format = *(const struct gpud_format_event *)data;
        member->renewed = true;
        /* The sender publishes only after the handshake that goes on from here. */
        gpud_lock_take(&member->group->lock);
        gpud_match_join(&member->group->match, member->index);
        gpud_lock_release(&member->group->lock);
    } else if (event == GPUD_EVENT_USER && member->group->on_event) {
        const struct gpud_user_event *said = data;
        if (said->kind & GPUD_EVENT_STICKY && member->group->match.mode == GPUD_GROUP_ANY)
            keep_sticky(member, said);
        keep_event(member, said);
    }
}

/* --- frames -------------------------------------------------------------------------------- */

/* Wakes the application's thread if it has something to do now. Under the lock. */
static void group_wake(struct gpud_group *group)
{
    struct gpud_match_decision decision;
    if (!group->waits && !group->armed)
        return;
    gpud_match_decide(&group->match, &group->request, gpud_now(), &decision);
    if (decision.verdict == GPUD_MATCH_WAIT && decision.until >= group->waits_until)
        return;
    if (group->armed)
        gpud_event_raise(group->loop.event);
    group->armed = false;
    pthread_cond_signal(&group->due);
}

static struct gpud_group_item *new_item(struct gpud_group_member *member)
{
    for (uint32_t i = 0; i < GPUD_GROUP_ITEMS; i++)
        if (!atomic_load_explicit(&member->items[i].used, memory_order_acquire)) {
            atomic_store_explicit(&member->items[i].used, true, memory_order_relaxed);
            return &member->items[i];
        }
    return NULL;
}

/* false: there is no memory for what the frame brings along. */
static bool renew_link(struct gpud_group_member *member)
{
    struct gpud_group_link *made = malloc(sizeof(*made));
    if (!made)
        return false;
    atomic_init(&made->references, 1);
    made->connection = member->connection;
    made->peer = member->peer;
    made->format = member->format;
    group_link_unref(&member->link);
    member->faults = 0;
    member->link = made;
    member->renewed = false;
    gpud_lock_take(&member->group->lock);
    gpud_match_renew(&member->group->match, member->index);
    gpud_lock_release(&member->group->lock);
    return true;
}

static void drop_frame(struct gpud_group_member *member, struct gpud_frame *frame, const char *why)
{
    struct gpud_group *group = member->group;
    gpud_frame_release(&frame);
    gpud_lock_take(&group->lock);
    gpud_print(member->reason, "%s", why);
    member->frames++;
    member->untimed++;
    gpud_lock_release(&group->lock);
}

/* How many frames the group may hold: the sender and the application need a slot each. */
static uint32_t room_of(const struct gpud_receiver *receiver)
{
    uint32_t slots = receiver->info.slots ? receiver->info.slots : receiver->slots;
    return slots > 3 ? slots - 2 : 1;
}

/* Waits for the bytes: a frame that its sender or a device never finishes must not be taken for the
 * instant's, because another member has a whole one. */
static void await_bytes(struct gpud_group_member *member, struct gpud_frame *frame)
{
    int64_t deadline = gpud_deadline(GPUD_WATCHDOG_TIMEOUT);
    enum gpud_status status = GPUD_TIMEOUT;
    while (status == GPUD_TIMEOUT && gpud_now() < deadline) {
        gpud_lock_take(&member->group->lock);
        bool stopping = member->group->stopping;
        gpud_lock_release(&member->group->lock);
        if (stopping)
            break;
        status = frame->ops->wait_host(frame, gpud_deadline(LOOK), NULL);
    }
    if (status != GPUD_OK)
        __atomic_fetch_or(&frame->info.flags, GPUD_FRAME_CORRUPTED, __ATOMIC_RELAXED);
}

static void member_take_frame(struct gpud_group_member *member, struct gpud_frame *frame)
{
    struct gpud_group *group = member->group;
    struct gpud_frame_info info = {.size = sizeof(info)};
    if (group->match.mode == GPUD_GROUP_ANY)
        await_bytes(member, frame);
    gpud_frame_get_info(frame, &info);
    uint64_t time = group->time ? group->time(group->user, member->index, &info) : info.pts_ns;
    if (time == GPUD_TIME_NONE) {
        drop_frame(member, frame, "its frames have no time");
        return;
    }
    struct gpud_group_item *item = new_item(member);
    if (!item || (member->renewed && !renew_link(member))) {
        if (item)
            atomic_store(&item->used, false);
        drop_frame(member, frame, "there is no memory for a frame's format");
        return;
    }
    item->frame = frame;
    item->link = member->link;
    atomic_fetch_add(&item->link->references, 1);
    item->events = take_events(member);
    const struct gpud_media *media = &member->link->format.media;
    bool frozen = group->freeze_timeout && media->kind == GPUD_MEDIA_PICTURE &&
                  gpud_freeze_note(&member->freeze, frame, time, group->freeze_timeout);
    uint32_t rate = gpud_media_get_rate(media);
    uint64_t duration = gpud_media_get_duration(media, info.bytes);
    if (!duration && info.duration_ns != GPUD_TIME_NONE)
        duration = info.duration_ns;
    struct gpud_match_entry entry = {
        .kind = rate > 0                            ? GPUD_MATCH_SOUND
                : media->kind == GPUD_MEDIA_PICTURE ? GPUD_MATCH_PICTURE
                                                    : GPUD_MATCH_DATA,
        .time = time,
        .duration = duration,
        .rate = rate,
        .gap = info.flags & GPUD_FRAME_DISCONTINUITY,
        .delta = info.flags & GPUD_FRAME_DELTA,
        .arrival = gpud_now(),
        .what = item,
        .corrupted = info.flags & GPUD_FRAME_CORRUPTED,
        .frozen = frozen,
    };
    gpud_lock_take(&group->lock);
    member->frames++;
    member->reason[0] = '\0';
    group->match.members[member->index].room = room_of(member->receiver);
    gpud_match_add(&group->match, member->index, entry);
    enum gpud_match_fault fault = group->match.members[member->index].fault;
    struct gpud_group_item *dropped = group_take_dropped(group);
    group_wake(group);
    gpud_lock_release(&group->lock);
    group_release(dropped);
    if (fault == GPUD_MATCH_NO_FAULT || member->faults & 1u << fault)
        return;
    member->faults |= 1u << fault; /* logged once a connection */
    gpud_log_warning(&group->context->log, AREA, "member %u, of %s: %s", member->index,
                     member->receiver->address.place, gpud_match_describe(fault));
}

/* --- the thread ---------------------------------------------------------------------------- */

static void member_rest(struct gpud_group *group)
{
    gpud_lock_take(&group->lock);
    if (!group->stopping)
        gpud_lock_wait_until(&group->lock, &group->room, gpud_deadline(REST));
    gpud_lock_release(&group->lock);
}

/* The receiver gave no frame. */
static void note_failure(struct gpud_group_member *member, enum gpud_status status,
                         const struct gpud_error *error)
{
    struct gpud_group *group = member->group;
    struct gpud_group_item *dropped = NULL;
    gpud_lock_take(&group->lock);
    gpud_print(member->reason, "%s", error->reason);
    if (status != GPUD_TIMEOUT) {
        gpud_match_leave(&group->match, member->index, status == GPUD_CLOSED);
        dropped = group_take_dropped(group);
        group_wake(group);
    }
    gpud_lock_release(&group->lock);
    group_release(dropped);
    if (status == GPUD_TIMEOUT)
        return;
    free_events(take_events(member)); /* no frame follows them */
    member_rest(group);
}

/* false: the group ends. */
static bool wait_for_room(struct gpud_group_member *member)
{
    struct gpud_group *group = member->group;
    gpud_lock_take(&group->lock);
    while (!group->stopping && !gpud_match_has_room(&group->match, member->index, gpud_now()))
        gpud_lock_wait_until(&group->lock, &group->room, gpud_deadline(LOOK));
    bool goes_on = !group->stopping;
    gpud_lock_release(&group->lock);
    return goes_on;
}

static void *member_run(void *arg)
{
    struct gpud_group_member *member = arg;
    while (wait_for_room(member)) {
        struct gpud_frame *frame;
        struct gpud_error error;
        enum gpud_status status = gpud_receiver_acquire(member->receiver, SLICE, &frame, &error);
        if (status == GPUD_OK)
            member_take_frame(member, frame);
        else if (status == GPUD_AGAIN)
            member_rest(member->group);
        else
            note_failure(member, status, &error);
    }
    return NULL;
}

/* Wakes the application's thread, which looks whether a member is interrupted. Under the receiver's
 * lock. */
static void on_interrupt(void *user)
{
    struct gpud_group *group = user;
    gpud_lock_take(&group->lock);
    gpud_event_raise(group->loop.event);
    pthread_cond_signal(&group->due);
    gpud_lock_release(&group->lock);
}

/* Takes the receiver over. GPUD_INVALID: it is in a group already. */
static enum gpud_status group_member_join(struct gpud_group_member *member,
                                          struct gpud_receiver *receiver, struct gpud_error *error)
{
    gpud_lock_take(&receiver->lock);
    bool is_free = !receiver->on_interrupt;
    if (is_free) {
        receiver->on_interrupt = on_interrupt;
        receiver->on_interrupt_user = member->group;
    }
    gpud_lock_release(&receiver->lock);
    if (!is_free)
        return gpud_fail(error, GPUD_INVALID, "receiver %u, of %s, is in a group already",
                         member->index, receiver->address.place);
    member->receiver = receiver;
    member->on_event = receiver->on_event;
    member->user = receiver->user;
    receiver->on_event = member_on_event;
    receiver->user = member;
    member->events_end = &member->events;
    gpud_print(member->reason, "not connected yet");
    /* It may be connected already: what it was told then is not told again. */
    if (receiver->reported_format) {
        member_on_event(member, GPUD_EVENT_FORMAT, receiver->reported_format);
        member_on_event(member, GPUD_EVENT_CONNECTED, &receiver->peer);
    }
    member->group->match.members[member->index].room = room_of(receiver);
    return GPUD_OK;
}

/* === group =================================================================================== */
/* The public group: how it is made, what it waits for, how frames and events are handed on. */

/* --- creating and destroying --------------------------------------------------------------- */

static enum gpud_status group_check_params(const struct gpud_group_params *params,
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
        const struct gpud_receiver *receiver = receivers[i];
        if (!receiver)
            return gpud_fail(error, GPUD_INVALID, "receiver %u of the group is NULL", i);
        uint32_t slots = receiver->slots ? receiver->slots : receiver->picture_slots;
        if (params->history && params->history + 2 > slots)
            return gpud_fail(
                error, GPUD_INVALID,
                "a history of %u frames needs %u slots, and receiver %u, of %s, has %u: the "
                "sender and the application need one each",
                params->history, params->history + 2, i, receiver->address.place, slots);
        if (params->freeze_timeout_ns == 0)
            continue;
        if (params->mode != GPUD_GROUP_ANY)
            return gpud_fail(error, GPUD_INVALID,
                             "a freeze timeout is for the mode ANY of a group, where another "
                             "member can be taken");
        enum gpud_status status = gpud_freeze_check_device(receiver->device, error);
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
        status = group_check_params(&own, receivers, count, error);
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
        status = group_member_join(&made->members[i], receivers[i], error);
    }
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_group_member *member = &made->members[i];
        int failed = pthread_create(&member->thread, NULL, member_run, member);
        if (failed)
            status = gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                      "cannot start a member's thread: raise the limits of this "
                                      "process's memory (ulimit -v) or threads (ulimit -u)");
        member->runs = failed == 0;
    }
    if (status != GPUD_OK) {
        gpud_group_destroy(&made);
        return status;
    }
    *group = made;
    return GPUD_OK;
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
    for (uint32_t i = 0; i < gone->count; i++) { /* their threads end: nothing waits yet */
        struct gpud_group_member *member = &gone->members[i];
        if (!member->receiver)
            continue;
        member->was_interrupted = atomic_load(&member->receiver->interrupted);
        gpud_receiver_interrupt(member->receiver, true);
    }
    for (uint32_t i = 0; i < gone->count; i++) {
        struct gpud_group_member *member = &gone->members[i];
        struct gpud_receiver *receiver = member->receiver;
        if (!receiver)
            continue;
        if (member->runs)
            pthread_join(member->thread, NULL);
        receiver->on_event = member->on_event;
        receiver->user = member->user;
        gpud_lock_take(&receiver->lock);
        receiver->on_interrupt = NULL;
        gpud_lock_release(&receiver->lock);
        gpud_receiver_interrupt(receiver, member->was_interrupted);
        group_link_unref(&member->link);
        free_events(member->events);
        free_events(member->sticky);
    }
    struct gpud_group_item *list = NULL;
    for (uint32_t i = 0; i < gone->count; i++) {
        struct gpud_match_member *m = &gone->match.members[i];
        for (uint32_t k = 0; k < m->count; k++) {
            struct gpud_group_item *item = m->entries[k].what;
            item->next = list;
            list = item;
        }
        group_link_unref(&gone->reported[i]);
    }
    group_release(list);
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
        /* The frame's own flag is about its sender's frames, not about the group's. */
        uint32_t *flags = &item->frame->info.flags, flag = GPUD_FRAME_DISCONTINUITY;
        if (group->match.mode == GPUD_GROUP_ANY && !again && is_discontinuous(decision))
            __atomic_fetch_or(flags, flag, __ATOMIC_RELAXED);
        else if (group->match.mode == GPUD_GROUP_ANY && !again)
            __atomic_fetch_and(flags, ~flag, __ATOMIC_RELAXED);
    }
    handed->dropped = group_take_dropped(group);
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

/* Frees the events. */
static void tell_events(const struct gpud_group *group, uint32_t member, enum gpud_event as,
                        struct gpud_group_event *events)
{
    for (const struct gpud_group_event *at = events; at; at = at->next)
        group->on_event(group->user, member, as, &at->said);
    free_events(events);
}

/* Tells what is new of each frame's connection, format and events, and fills in the instant. */
static void group_fill(struct gpud_group *group, const struct gpud_match_decision *decision,
                       struct handed *handed, struct gpud_group_instant *instant)
{
    bool any = group->match.mode == GPUD_GROUP_ANY;
    struct gpud_group_instant filled = {
        .time_ns = decision->time,
        .discontinuity = is_discontinuous(decision),
        .member = decision->member,
        .missing = any ? 0 : decision->missing,
        .skip = decision->skip,
    };
    for (uint32_t i = 0; i < group->count; i++) {
        filled.frames[i] = handed->frames[i];
        filled.states[i] = decision->states[i];
        if (!handed->frames[i])
            continue;
        struct gpud_group_link **before = &group->reported[any ? 0 : i], *link = handed->links[i];
        bool other = any && group->reported_member != i;
        if (group->on_event && (!*before || other || (*before)->connection != link->connection))
            group->on_event(group->user, i, GPUD_EVENT_CONNECTED, &link->peer);
        if (group->on_event && *before != link)
            group->on_event(group->user, i, GPUD_EVENT_FORMAT, &link->format);
        if (group->on_event && any && *before != link)
            tell_events(group, i, GPUD_EVENT_REPEATED, copy_sticky(&group->members[i]));
        group_link_unref(before);
        *before = link;
        group->reported_member = i;
        tell_events(group, i, GPUD_EVENT_USER, handed->events[i]);
    }
    group_release(handed->dropped);
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

/* Passes over frames that are of no use, and asks their sender for one that is. Drops the lock
 * meanwhile. */
static void skip(struct gpud_group *group, const struct gpud_match_decision *decision)
{
    const struct gpud_key_request request = {
        .size = sizeof(request), .at_once = true, .all_headers = true, .time_ns = GPUD_TIME_NONE};
    bool asks = gpud_match_skip(&group->match, decision);
    struct gpud_group_item *dropped = group_take_dropped(group);
    pthread_cond_broadcast(&group->room);
    gpud_lock_release(&group->lock);
    group_release(dropped);
    if (asks)
        gpud_receiver_request_key(group->members[decision->member].receiver, &request);
    gpud_lock_take(&group->lock);
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
            struct gpud_match_entry *entry = decision->entries[decision->member];
            const struct gpud_group_item *item = entry->what;
            if (group->match.mode != GPUD_GROUP_ANY || entry->corrupted ||
                !item->frame->ops->is_poisoned(item->frame))
                return GPUD_OK;
            /* A frame that is known to be broken by now gives way to another member's. */
            entry->corrupted = true;
            continue;
        }
        if (decision->verdict == GPUD_MATCH_SKIP) {
            skip(group, decision);
            continue;
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
        group_fill(group, &decision, &handed, instant);
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
        now.late = m->late;
        gpud_print(now.warning, "%s", gpud_match_describe(m->fault));
        gpud_print(now.reason, "%s", m->delivers ? "" : own->reason);
    }
    gpud_lock_release(&group->lock);
    gpud_sized_copy(info, info->size, &now, sizeof(now));
}
