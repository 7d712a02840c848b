/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From one sender to another, while frames flow. */
#include "frame/media/media.h"
#include "stream/receiver/receiver.h"

#include "base/base.h"
#include "frame/frame.h"
#include "stream/shared/shared.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
/* A second receiver, made like this one, connects beside it. Its acquires never wait, and the
 * acquire of this one calls them between the old link's frames. It waits for both links by this
 * one's loop, which watches the other's:
 *
 *     WISHED    gpud_receiver_switch() made it, in any thread
 *     COMING    it connects, and is ready for frames
 *     HELD      its first frame is here, and the application does not admit it yet
 *     LEAVING   the frames of the old link that came before that one are handed on first
 *     over      the two receivers exchange their links, and the second one ends, with the old link
 *
 * What the new sender says before its first frame is told with it. */
/* clang-format on */

#define AREA "receiver"

/* How often to ask an application that does not admit the new sender yet: nothing tells when it
 * would. */
#define LOOK GPUD_MSEC

/* Steps of the handshake, or newer frames, in one call: the old link's frames must not wait. */
#define STEPS_A_CALL 8

/* Events that a sender may send before its first frame, and their bytes. */
#define EVENTS_MAX 1024
#define EVENT_BYTES_MAX (1 << 20)

struct switch_event {
    struct switch_event *next;
    struct gpud_user_event said;
    uint8_t data[];
};

struct gpud_switch {
    struct gpud_receiver *from, *to;
    int64_t timeout, deadline; /* INT64_MAX: none */
    enum gpud_status (*admit)(void *user, const struct gpud_media *media, struct gpud_error *error);
    struct gpud_frame *first; /* of the new sender; NULL: not here yet */
    bool watched;             /* by the loop of `from` */
    bool unfinished;          /* `to` has more steps, which its loop does not report */
    bool leaving;             /* `left` frames of the old link are still to be handed on */
    uint32_t left;
    struct gpud_error
        unusable; /* why the new sender's frames are unusable; GPUD_OK: they are usable */
    struct gpud_error ended; /* how the old link has ended meanwhile; GPUD_OK: it has not */
    struct switch_event *events, **events_end;
    uint32_t event_count;
    size_t event_bytes;
};

/* === events ================================================================================== */

static void keep_event(struct gpud_switch *own, const struct gpud_user_event *said)
{
    own->event_count++;
    own->event_bytes += said->size;
    if (own->event_count > EVENTS_MAX || own->event_bytes > EVENT_BYTES_MAX) {
        gpud_fail(&own->unusable, GPUD_PEER, "%s sent %d events, or %d bytes of them, and no frame",
                  own->to->address.text, EVENTS_MAX, EVENT_BYTES_MAX);
        return;
    }
    struct switch_event *event = malloc(sizeof(*event) + said->size);
    if (!event) {
        gpud_fail(&own->unusable, GPUD_NO_MEMORY, "out of memory for an event of the new sender");
        return;
    }
    event->next = NULL;
    event->said = *said;
    if (said->size)
        memcpy(event->data, said->data, said->size);
    event->said.data = event->data;
    *own->events_end = event;
    own->events_end = &event->next;
}

/* The new link's, whose format and peer are in its receiver. */
static void switch_on_event(void *user, enum gpud_event event, const void *data)
{
    struct gpud_switch *own = user;
    int before = own->from->kind;
    if (event == GPUD_EVENT_USER) {
        keep_event(own, data);
    } else if (event == GPUD_EVENT_FORMAT) {
        gpud_frame_release(&own->first); /* of the format before */
        enum gpud_media_kind kind = ((const struct gpud_format_event *)data)->media.kind;
        if (before >= 0 && before != (int)kind)
            gpud_fail(&own->unusable, GPUD_UNSUPPORTED,
                      "%s sends %s, and this receiver gets %s: switch to a sender of the same",
                      own->to->address.text, gpud_media_find_kind(kind)->name,
                      gpud_media_find_kind((uint32_t)before)->name);
    }
}

/* === making ================================================================================== */

static void switch_destroy(struct gpud_switch *gone)
{
    if (!gone)
        return;
    gpud_frame_release(&gone->first);
    if (gone->watched)
        gpud_loop_unwatch(&gone->from->poll.loop, gone->to->poll.loop.fd);
    if (gone->to)
        gpud_receiver_end(gone->to);
    while (gone->events) {
        struct switch_event *next = gone->events->next;
        free(gone->events);
        gone->events = next;
    }
    free(gone);
}

void gpud_switch_end(struct gpud_receiver *receiver)
{
    switch_destroy(atomic_exchange(&receiver->wish, NULL));
    switch_destroy(receiver->switching);
    receiver->switching = NULL;
}

/* New keys are kept for later switches. Of the rule, only the part for this kind of address
 * counts. */
static enum gpud_status choose_access(const struct gpud_switch_params *params,
                                      struct gpud_receiver *to, struct gpud_error *error)
{
    struct gpud_access_rule *rule = &to->rule;
    bool network = gpud_address_is_network(&to->address);
    enum gpud_status status = GPUD_OK;
    if (params->psk_file || params->tls_certificate || params->tls_key || params->tls_ca) {
        status = gpud_access_set_key(rule, params->psk_file, error);
        if (status == GPUD_OK)
            status = gpud_access_set_certificates(rule, params->tls_certificate, params->tls_key,
                                                  params->tls_ca, error);
        if (status == GPUD_OK && !network)
            status = gpud_access_check(rule, false, error); /* says that they are for others */
    }
    if (status != GPUD_OK)
        return status;
    to->access = *rule;
    if (network)
        to->access.kind = GPUD_ACCESS_USER;
    else
        to->access.key_file[0] = to->access.tls_certificate[0] = to->access.tls_key[0] =
            to->access.tls_ca[0] = '\0';
    return gpud_access_check(&to->access, network, error);
}

enum gpud_status gpud_receiver_switch(struct gpud_receiver *receiver,
                                      const struct gpud_switch_params *params,
                                      struct gpud_error *error)
{
    struct gpud_switch_params own;
    enum gpud_status status =
        gpud_sized_read(&own, sizeof(own), params, GPUD_END_OF(struct gpud_switch_params, address),
                        "gpud_switch_params", error);
    if (status == GPUD_OK && own.timeout_ns < 0)
        status = gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (status != GPUD_OK)
        return status;
    struct gpud_switch *made = calloc(1, sizeof(*made));
    if (made)
        made->to = gpud_receiver_make_like(receiver);
    if (!made || !made->to) {
        free(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for another link");
    }
    made->from = receiver;
    made->events_end = &made->events;
    made->admit = own.admit;
    made->timeout = own.timeout_ns ? own.timeout_ns : INT64_MAX;
    made->to->on_event = switch_on_event;
    made->to->user = made;
    status = gpud_address_resolve(own.address, &made->to->address, error);
    if (status == GPUD_OK)
        status = choose_access(&own, made->to, error);
    gpud_lock_take(&receiver->lock);
    if (status == GPUD_OK && receiver->on_interrupt)
        status = gpud_fail(error, GPUD_INVALID,
                           "a receiver in a group stays with its sender: make another group");
    if (status == GPUD_OK) {
        receiver->rule = made->to->rule;
        made = atomic_exchange(&receiver->wish, made);
        gpud_receiver_rouse(receiver);
    }
    gpud_lock_release(&receiver->lock);
    switch_destroy(made);
    return status;
}

/* === over ==================================================================================== */

/* Exchanges the links of the two receivers. */
static void exchange_links(struct gpud_receiver *receiver, struct gpud_receiver *to)
{
    size_t begin = offsetof(struct gpud_receiver, address);
    size_t size = GPUD_END_OF(struct gpud_receiver, stats) - begin;
    uint8_t *a = (uint8_t *)receiver + begin, *b = (uint8_t *)to + begin;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* This receiver's link is the new one from here on; the other receiver ends the old one. */
static void take_over(struct gpud_receiver *receiver, struct gpud_receiver *to)
{
    struct gpud_receiver_info *info = &receiver->info, *theirs = &to->info;
    int wake = atomic_load(&to->session->wake);
    gpud_receiver_poll_disarm(to);
    gpud_receiver_poll_unwatch(to);
    gpud_receiver_poll_unwatch(receiver);
    /* The session's events, which other threads raise, are for this receiver's loop from here on.
     */
    if (wake >= 0)
        dup3(receiver->poll.loop.event, wake, O_CLOEXEC);
    gpud_lock_take(&receiver->lock);
    gpud_receiver_collect(receiver, info);
    info->waits_device += receiver->queue ? atomic_load(&receiver->queue->waits) : 0;
    exchange_links(receiver, to);
    info->connects++;
    info->disconnects += info->connected;
    info->switches++;
    info->connected = true;
    info->slots = theirs->slots;
    info->slots_max = theirs->slots_max;
    gpud_print(info->path, "%s", theirs->path);
    gpud_print(info->fallback_reason, "%s", theirs->fallback_reason);
    info->degraded = theirs->degraded;
    gpud_print(info->whole_reason, "%s", theirs->whole_reason);
    gpud_print(info->encrypted, "%s", theirs->encrypted);
    gpud_print(info->address, "%s", receiver->address.text);
    receiver->peer.id = info->connects;
    receiver->kind = to->kind;
    if (!receiver->peer.same_clock) /* latencies counted so far are another sender's */
        receiver->latency_count = 0;
    gpud_receiver_ask_for_slots(receiver);
    gpud_lock_release(&receiver->lock);
    theirs->connected = false; /* so the end below is not counted as losing the new sender */
    gpud_receiver_disconnect(to, 0, "the receiver switched to another sender");
}

static void switch_tell(const struct gpud_receiver *receiver, enum gpud_event event,
                        const void *data)
{
    if (receiver->on_event)
        receiver->on_event(receiver->user, event, data);
}

/* The new sender's first frame is the next one, with all that was said before it. */
static struct gpud_frame *finish(struct gpud_receiver *receiver)
{
    struct gpud_switch *own = receiver->switching;
    struct gpud_frame *frame = own->first;
    struct gpud_switch_event told = {receiver->address.text, GPUD_OK, ""};
    own->first = NULL;
    receiver->switching = NULL;
    take_over(receiver, own->to);
    gpud_log_info(&receiver->context->log, AREA, "switched to %s", receiver->address.text);

    gpud_receiver_add(&receiver->frames, 1);
    if (frame->info.flags & GPUD_FRAME_CORRUPTED)
        gpud_receiver_add(&receiver->corrupted, 1);
    frame->info.flags |= GPUD_FRAME_DISCONTINUITY;
    frame->info.dropped = gpud_receiver_add(&receiver->dropped, frame->info.dropped);
    switch_tell(receiver, GPUD_EVENT_SWITCHED, &told);
    switch_tell(receiver, GPUD_EVENT_FORMAT, receiver->reported_format);
    switch_tell(receiver, GPUD_EVENT_CONNECTED, &receiver->peer);
    for (struct switch_event *event = own->events; event; event = event->next)
        switch_tell(receiver, GPUD_EVENT_USER, &event->said);
    switch_destroy(own);
    return frame;
}

/* It stays with its sender. GPUD_AGAIN, or how that one has ended meanwhile. */
static enum gpud_status give_up(struct gpud_receiver *receiver, const struct gpud_error *why,
                                struct gpud_error *error)
{
    struct gpud_switch *own = receiver->switching;
    struct gpud_error ended = own->ended;
    const char *address = own->to->address.text;
    struct gpud_switch_event told = {address, why->status, why->reason};
    receiver->switching = NULL;
    gpud_log_warning(&receiver->context->log, AREA, "it stays with %s: no switch to %s: %s",
                     receiver->address.text, address, why->reason);
    switch_tell(receiver, GPUD_EVENT_SWITCHED, &told);
    switch_destroy(own);
    if (ended.status == GPUD_OK)
        return GPUD_AGAIN;
    if (error)
        *error = ended;
    return ended.status;
}

/* === on the way ============================================================================== */

/* From here on what happens on the new link makes this receiver's loop readable. */
static void watch(struct gpud_switch *own)
{
    int fd;
    enum gpud_status status = gpud_receiver_get_fd(own->from, &fd, &own->unusable);
    if (status == GPUD_OK)
        status = gpud_receiver_get_fd(own->to, &fd, &own->unusable);
    if (status == GPUD_OK)
        status = gpud_loop_watch(&own->from->poll.loop, fd, &own->unusable);
    own->watched = status == GPUD_OK;
}

static void take_wish(struct gpud_receiver *receiver)
{
    struct gpud_switch *wish = atomic_exchange(&receiver->wish, NULL);
    if (!wish)
        return;
    switch_destroy(receiver->switching);
    const struct gpud_address *to = &wish->to->address, *now = &receiver->address;
    bool same = to->ops == now->ops && strcmp(to->place, now->place) == 0;
    receiver->switching = same ? NULL : wish;
    wish->deadline = gpud_deadline(wish->timeout);
    if (same)
        switch_destroy(wish);
    else
        watch(wish);
}

/* Whether one of several attempts may still succeed. */
static bool may_come(enum gpud_status status)
{
    return status == GPUD_TIMEOUT || status == GPUD_AGAIN || status == GPUD_PEER ||
           status == GPUD_CLOSED;
}

/* Of data, those after the first frame may depend on it, or be of its time. */
static bool begins_with_first(const struct gpud_receiver *to)
{
    return to->kind == GPUD_MEDIA_DATA || to->kind == GPUD_MEDIA_ANCILLARY;
}

/* The new link's next steps, until its newest frame is here (GPUD_OK): what waits for others, or
 * for this thread, must not make the new stream begin behind the old one. */
static enum gpud_status step_new(struct gpud_switch *own, struct gpud_error *why)
{
    enum gpud_status status = GPUD_OK;
    own->unfinished = true;
    for (int steps = 0; steps < STEPS_A_CALL; steps++) {
        enum gpud_receiver_state before = own->to->state;
        struct gpud_frame *frame = NULL;
        if (own->first && begins_with_first(own->to))
            break;
        if (before == GPUD_RECEIVER_STREAMING && gpud_channel_is_dead(own->to->channel))
            own->to->unread = true; /* an acquire that does not wait does not look */
        status = gpud_receiver_acquire(own->to, 0, &frame, why);
        if (own->unusable.status != GPUD_OK || (status != GPUD_OK && !may_come(status))) {
            gpud_frame_release(&frame);
            if (own->unusable.status != GPUD_OK)
                *why = own->unusable;
            return why->status;
        }
        if (frame || status == GPUD_PEER || status == GPUD_CLOSED) {
            gpud_frame_release(&own->first);
            own->first = frame;
        } else if (own->to->state == before && gpud_receiver_count_frames(own->to) == 0) {
            own->unfinished = status != GPUD_TIMEOUT; /* else its loop is armed */
            break;
        }
    }
    return own->first ? GPUD_OK : status;
}

enum gpud_status gpud_switch_step(struct gpud_receiver *receiver, struct gpud_frame **frame,
                                  struct gpud_error *error)
{
    struct gpud_error why = {.status = GPUD_TIMEOUT};
    take_wish(receiver);
    struct gpud_switch *own = receiver->switching;
    if (!own)
        return GPUD_AGAIN;
    if (!own->leaving) {
        own->left = gpud_receiver_count_frames(receiver); /* before newer ones of the new link */
        enum gpud_status status = step_new(own, &why);
        bool here = status == GPUD_OK;
        if (here && own->admit)
            status = own->admit(receiver->user, &own->to->reported_format->media, &why);
        bool fails = here ? status != GPUD_OK && status != GPUD_AGAIN
                          : own->unusable.status != GPUD_OK || !may_come(status);
        if (fails)
            return give_up(receiver, &why, error);
        if (status != GPUD_OK && gpud_now() >= own->deadline) {
            struct gpud_error late;
            gpud_fail(&late, GPUD_TIMEOUT, "no frame of %s within %lld ms: %.300s",
                      own->to->address.text, (long long)(own->timeout / GPUD_MSEC),
                      here ? "it was there, and waited for others" : why.reason);
            return give_up(receiver, &late, error);
        }
        if (status != GPUD_OK)
            return GPUD_AGAIN;
        own->leaving = true;
    }
    if (own->left > 0)
        return GPUD_AGAIN;
    *frame = finish(receiver);
    return GPUD_OK;
}

bool gpud_switch_note_old(struct gpud_receiver *receiver, enum gpud_status status,
                          const struct gpud_error *why)
{
    struct gpud_switch *own = receiver->switching;
    if (!own)
        return false;
    if (status == GPUD_OK) {
        own->left -= own->leaving && own->left > 0;
        own->ended.status = GPUD_OK;
        return false;
    }
    own->left = 0; /* the frames that were left are lost, or incomplete */
    if (status == GPUD_AGAIN)
        return own->leaving;
    if (!may_come(status) && status != GPUD_UNSUPPORTED && status != GPUD_NO_ACCESS)
        return false;
    own->ended = *why;
    return true;
}

int64_t gpud_switch_look(const struct gpud_receiver *receiver, int64_t deadline)
{
    const struct gpud_switch *own = receiver->switching;
    if (!own || own->leaving)
        return deadline;
    int64_t look = own->first ? gpud_now() + LOOK : own->unfinished ? gpud_now() : own->deadline;
    return look < deadline ? look : deadline;
}
