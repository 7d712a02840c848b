/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A member's thread does everything that its receiver needs: connecting, handshakes, frames. So a
 * driver or a peer that takes long costs the other members nothing. */
#include "group/member.h"

#include "base/fd.h"
#include "base/log.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "stream/receiver/state.h"

#include <stdlib.h>
#include <string.h>

#define AREA "group"

/* How long an acquire waits before its reason is noted. */
#define SLICE (100 * GPUD_MSEC)
/* After a failure, or while interrupted. */
#define REST (10 * GPUD_MSEC)
/* How often to look at the group: a member without room, because time alone can decide that its
 * frames are to go; one whose frame is not complete yet. */
#define LOOK (20 * GPUD_MSEC)

/* --- what a frame brings along ------------------------------------------------------------- */

void gpud_group_link_unref(struct gpud_group_link **link)
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

void gpud_group_release(struct gpud_group_item *list)
{
    while (list) {
        struct gpud_group_item *next = list->next;
        gpud_frame_release(&list->frame);
        gpud_group_link_unref(&list->link);
        free_events(list->events);
        list->events = NULL;
        atomic_store_explicit(&list->used, false, memory_order_release);
        list = next;
    }
}

struct gpud_group_item *gpud_group_take_dropped(struct gpud_group *group)
{
    struct gpud_group_item *list = NULL, *item;
    while ((item = gpud_match_drop(&group->match))) {
        item->next = list;
        list = item;
    }
    return list;
}

static void keep_event(struct gpud_group_member *member, const struct gpud_user_event *said)
{
    struct gpud_group_event *event = malloc(sizeof(*event) + said->size);
    if (!event || member->events_count == GPUD_GROUP_EVENTS_MAX) {
        gpud_log_warning(&member->group->context->log, AREA,
                         "member %u: an event is lost, because %s", member->index,
                         event ? "too many came without a frame" : "memory is out");
        free(event);
        return;
    }
    event->next = NULL;
    event->said = *said;
    if (said->size)
        memcpy(event->data, said->data, said->size);
    event->said.data = event->data;
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
static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct gpud_group_member *member = user;
    if (event == GPUD_EVENT_CONNECTED) {
        member->peer = *(const struct gpud_peer_info *)data;
        member->connection++;
        member->renewed = true;
    } else if (event == GPUD_EVENT_FORMAT) {
        member->format = *(const struct gpud_format_event *)data;
        member->renewed = true;
        /* The sender publishes only after the handshake that goes on from here. */
        gpud_lock_take(&member->group->lock);
        gpud_match_join(&member->group->match, member->index);
        gpud_lock_release(&member->group->lock);
    } else if (event == GPUD_EVENT_USER && member->group->on_event) {
        keep_event(member, data);
    }
}

/* --- frames -------------------------------------------------------------------------------- */

static uint64_t duration_of(const struct gpud_media *media, const struct gpud_frame_info *info)
{
    uint64_t duration = gpud_media_get_duration(media, info->bytes);
    if (!duration && info->duration_ns != GPUD_TIME_NONE)
        duration = info->duration_ns;
    return duration;
}

static enum gpud_match_kind kind_of(const struct gpud_media *media)
{
    if (gpud_media_get_rate(media) > 0)
        return GPUD_MATCH_SOUND;
    return media->kind == GPUD_MEDIA_PICTURE ? GPUD_MATCH_PICTURE : GPUD_MATCH_DATA;
}

/* Once a connection. */
static void log_fault(struct gpud_group_member *member, enum gpud_match_fault fault)
{
    uint32_t bit = 1u << fault;
    if (fault == GPUD_MATCH_NO_FAULT || (member->faults & bit))
        return;
    member->faults |= bit;
    gpud_log_warning(&member->group->context->log, AREA, "member %u, of %s: %s", member->index,
                     member->receiver->address.place, gpud_match_describe(fault));
}

static bool is_due(struct gpud_group *group, int64_t *until)
{
    struct gpud_match_decision decision;
    gpud_match_decide(&group->match, &group->request, gpud_now(), &decision);
    *until = decision.until;
    return decision.verdict != GPUD_MATCH_WAIT;
}

void gpud_group_wake(struct gpud_group *group)
{
    int64_t until;
    if ((!group->waits && !group->armed) || (!is_due(group, &until) && until >= group->waits_until))
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
    gpud_group_link_unref(&member->link);
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

static bool is_stopping(struct gpud_group *group)
{
    gpud_lock_take(&group->lock);
    bool stopping = group->stopping;
    gpud_lock_release(&group->lock);
    return stopping;
}

/* Waits for the bytes: a frame that its sender or a device never finishes must not be taken for the
 * instant's, because another member has a whole one. */
static void await_bytes(struct gpud_group_member *member, struct gpud_frame *frame)
{
    int64_t deadline = gpud_deadline(GPUD_WATCHDOG_TIMEOUT);
    enum gpud_status status = GPUD_TIMEOUT;
    while (status == GPUD_TIMEOUT && gpud_now() < deadline && !is_stopping(member->group))
        status = frame->ops->wait_host(frame, gpud_deadline(LOOK), NULL);
    if (status != GPUD_OK)
        __atomic_fetch_or(&frame->info.flags, GPUD_FRAME_CORRUPTED, __ATOMIC_RELAXED);
}

static void take_frame(struct gpud_group_member *member, struct gpud_frame *frame)
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
    bool frozen = group->freeze_timeout && member->link->format.media.kind == GPUD_MEDIA_PICTURE &&
                  gpud_freeze_note(&member->freeze, frame, time, group->freeze_timeout);
    const struct gpud_media *media = &member->link->format.media;
    struct gpud_match_entry entry = {
        .kind = kind_of(media),
        .time = time,
        .duration = duration_of(media, &info),
        .rate = gpud_media_get_rate(media),
        .gap = info.flags & GPUD_FRAME_DISCONTINUITY,
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
    struct gpud_group_item *dropped = gpud_group_take_dropped(group);
    gpud_group_wake(group);
    gpud_lock_release(&group->lock);
    gpud_group_release(dropped);
    log_fault(member, fault);
}

/* --- the thread ---------------------------------------------------------------------------- */

static void rest(struct gpud_group *group)
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
        dropped = gpud_group_take_dropped(group);
        gpud_group_wake(group);
    }
    gpud_lock_release(&group->lock);
    gpud_group_release(dropped);
    if (status == GPUD_TIMEOUT)
        return;
    free_events(take_events(member)); /* no frame follows them */
    rest(group);
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

static void *run(void *arg)
{
    struct gpud_group_member *member = arg;
    while (wait_for_room(member)) {
        struct gpud_frame *frame;
        struct gpud_error error;
        enum gpud_status status = gpud_receiver_acquire(member->receiver, SLICE, &frame, &error);
        if (status == GPUD_OK)
            take_frame(member, frame);
        else if (status == GPUD_AGAIN)
            rest(member->group);
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

enum gpud_status gpud_group_member_join(struct gpud_group_member *member,
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
    receiver->on_event = on_event;
    receiver->user = member;
    member->events_end = &member->events;
    gpud_print(member->reason, "not connected yet");
    /* It may be connected already: what it was told then is not told again. */
    if (receiver->reported_format) {
        on_event(member, GPUD_EVENT_FORMAT, receiver->reported_format);
        on_event(member, GPUD_EVENT_CONNECTED, &receiver->peer);
    }
    member->group->match.members[member->index].room = room_of(receiver);
    return GPUD_OK;
}

enum gpud_status gpud_group_member_start(struct gpud_group_member *member, struct gpud_error *error)
{
    int failed = pthread_create(&member->thread, NULL, run, member);
    if (failed)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start a member's thread: raise the limits of this "
                                "process's memory (ulimit -v) or threads (ulimit -u)");
    member->runs = true;
    return GPUD_OK;
}

void gpud_group_member_stop(struct gpud_group_member *member)
{
    if (!member->receiver)
        return;
    member->was_interrupted = atomic_load(&member->receiver->interrupted);
    gpud_receiver_interrupt(member->receiver, true);
}

void gpud_group_member_leave(struct gpud_group_member *member)
{
    struct gpud_receiver *receiver = member->receiver;
    if (!receiver)
        return;
    if (member->runs)
        pthread_join(member->thread, NULL);
    receiver->on_event = member->on_event;
    receiver->user = member->user;
    gpud_lock_take(&receiver->lock);
    receiver->on_interrupt = NULL;
    gpud_lock_release(&receiver->lock);
    gpud_receiver_interrupt(receiver, member->was_interrupted);
    gpud_group_link_unref(&member->link);
    free_events(member->events);
}
