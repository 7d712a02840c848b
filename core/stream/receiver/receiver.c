/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object. */
#include "stream/receiver/receiver.h"

#include "base/base.h"
#include "frame/media/media.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <fcntl.h>
#include <gpudirect/channel.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* === poll ==================================================================================== */

/* How often to check for a stalled device, which no descriptor reports. */
#define DEVICE_LOOK (250 * GPUD_MSEC)

/* While a message waits for earlier frames, and blocks the channel; or without a descriptor. */
#define PENDING_LOOK GPUD_MSEC

static bool is_open(const struct gpud_receiver_poll *poll)
{
    return atomic_load_explicit(&poll->is_open, memory_order_acquire);
}

enum gpud_status gpud_receiver_get_fd(struct gpud_receiver *receiver, int *fd,
                                      struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&receiver->lock);
    if (!is_open(&receiver->poll))
        status = gpud_loop_open(&receiver->poll.loop, error);
    if (status == GPUD_OK) {
        atomic_store_explicit(&receiver->poll.is_open, true, memory_order_release);
        *fd = receiver->poll.loop.fd;
    }
    gpud_lock_release(&receiver->lock);
    return status;
}

/* Makes it readable. In the acquiring thread, or under the receiver's lock. */
static void receiver_poll_wake(struct gpud_receiver *receiver)
{
    if (is_open(&receiver->poll))
        gpud_event_raise(receiver->poll.loop.event);
}

void gpud_receiver_rouse(struct gpud_receiver *receiver)
{
    receiver_poll_wake(receiver); /* for an acquire, which arms it again */
    if (receiver->session)
        gpud_page_rouse(&receiver->session->view.end);
}

void gpud_receiver_poll_unwatch(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    if (poll->watched >= 0)
        gpud_loop_unwatch(&poll->loop, poll->watched);
    if (poll->watched_peer >= 0)
        gpud_loop_unwatch(&poll->loop, poll->watched_peer);
    poll->watched = poll->watched_peer = -1;
}

bool gpud_receiver_poll_disarm(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    if (!is_open(poll) || !poll->is_armed)
        return false;
    bool by_channel = !gpud_loop_drain(&poll->loop) || poll->was_readable;
    poll->is_armed = false;
    receiver->unread = true; /* KICKs, at least */
    if (receiver->session) {
        gpud_page_poll_end(&receiver->session->view.end);
        atomic_store(&receiver->session->idle, false);
    }
    return by_channel;
}

/* === receiver ================================================================================ */
/* The public receiver: the loop that connects, keeps messages and frames in order, and waits. */

/* How often to check the connection: a dead sender cannot wake a thread that sleeps on shared
 * memory. */
#define SLICE (50 * GPUD_MSEC)

/* How often to look for answers to the handshake of the next session, while the copies of the last
 * frames of this one are under way. */
#define NEXT_LOOK GPUD_MSEC
#define BUSY_POLL (250 * GPUD_USEC)

/* --- creating and destroying --------------------------------------------------------------- */

static enum gpud_status receiver_read_params(struct gpud_receiver_params *own,
                                             const struct gpud_receiver_params *params,
                                             struct gpud_error *error)
{
    enum gpud_status status = gpud_sized_read(own, sizeof(*own), params,
                                              GPUD_END_OF(struct gpud_receiver_params, address),
                                              "gpud_receiver_params", error);
    if (status == GPUD_OK)
        status = gpud_route_check_params(own->slots, own->slow_receiver, own->route, error);
    if (status == GPUD_OK)
        status = gpud_route_check_params(own->picture_slots, own->slow_receiver, NULL, error);
    return status == GPUD_OK ? gpud_modifiers_check(own->modifiers, own->modifier_count, error)
                             : status;
}

static struct gpud_receiver *receiver_alloc(void)
{
    struct gpud_receiver *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    gpud_lock_init(&made->lock, GPUD_RANK_RECEIVER);
    made->poll =
        (struct gpud_receiver_poll){.loop = GPUD_LOOP_NONE, .watched = -1, .watched_peer = -1};
    made->discontinuity = true; /* of the first frame */
    made->deadline = INT64_MAX;
    made->kind = -1;
    made->last_epoch = &made->epochs;
    gpud_print(made->info.path, "none");
    return made;
}

struct gpud_receiver *gpud_receiver_make_like(struct gpud_receiver *receiver)
{
    struct gpud_receiver *made = receiver_alloc();
    if (!made)
        return NULL;
    memcpy(made, receiver, offsetof(struct gpud_receiver, own));
    made->own = (struct gpud_own_memory){receiver->own.alloc, receiver->own.user, false};
    gpud_device_ref(made->device);
    gpud_device_ref(made->host);
    gpud_lock_take(&receiver->lock);
    made->slots_wished = receiver->slots_wished;
    made->rule = receiver->rule;
    gpud_lock_release(&receiver->lock);
    return made;
}

enum gpud_status gpud_receiver_create(struct gpud_context *context,
                                      const struct gpud_receiver_params *params,
                                      struct gpud_receiver **receiver, struct gpud_error *error)
{
    struct gpud_receiver_params own;
    enum gpud_status status = receiver_read_params(&own, params, error);
    params = &own;
    if (status != GPUD_OK)
        return status;
    struct gpud_receiver *made = receiver_alloc();
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a receiver");
    made->context = context;
    made->picture_slots = params->picture_slots ? params->picture_slots : GPUD_SLOTS_DEFAULT;
    made->slots = params->slots || !params->alloc ? params->slots : made->picture_slots;
    made->busy_poll = params->busy_poll_ns ? params->busy_poll_ns : BUSY_POLL;
    made->slow_receiver = params->slow_receiver;
    made->require_direct = params->require_direct;
    made->by_lines = params->by_lines;
    made->max_frame_size = params->max_frame_size;
    made->modifier_count = params->modifier_count;
    memcpy(made->modifiers, params->modifiers ? params->modifiers : made->modifiers,
           params->modifier_count * sizeof(made->modifiers[0]));
    made->on_event = params->on_event;
    made->user = params->user;
    made->own.alloc = params->alloc;
    made->own.user = params->user;
    gpud_print(made->route, "%s", params->route ? params->route : "");
    struct gpud_endpoint self;

    status = gpud_address_resolve(params->address, &made->address, error);
    if (status == GPUD_OK)
        status = gpud_access_parse(params->access, &made->access, error);
    if (status == GPUD_OK)
        status = gpud_access_set_key(&made->access, params->psk_file, error);
    if (status == GPUD_OK)
        status = gpud_access_set_certificates(&made->access, params->tls_certificate,
                                              params->tls_key, params->tls_ca, error);
    if (status == GPUD_OK)
        status = gpud_access_check(&made->access, gpud_address_is_network(&made->address), error);
    if (status == GPUD_OK)
        status = gpud_address_open_device(context, params->device, &made->address, &made->device,
                                          made->info.device_reason, error);
    if (status == GPUD_OK) {
        gpud_endpoint_describe(&self, made->device, params->name);
        memcpy(made->name, self.name, sizeof(made->name));
        gpud_print(made->info.device, "%s", made->device->info.name);
        gpud_print(made->info.address, "%s", made->address.text);
        made->rule = made->access;
        status = gpud_device_open(context, "host", &made->host, error);
    }
    if (status == GPUD_OK)
        status = gpud_queue_create(made->device, &made->queue, error);
    if (status != GPUD_OK) {
        gpud_receiver_destroy(&made);
        return status;
    }
    gpud_log_info(&context->log, "receiver", "receiving from %s, on %s", made->address.place,
                  made->device->info.name);
    *receiver = made;
    return GPUD_OK;
}

void gpud_receiver_end(struct gpud_receiver *gone)
{
    gpud_switch_end(gone);
    gpud_receiver_disconnect(gone, 0, "the receiver stopped");
    gpud_await_end(&gone->waiting);
    gpud_loop_close(&gone->poll.loop);
    gpud_queue_unref(&gone->queue);
    gpud_device_close(&gone->host);
    gpud_device_close(&gone->device);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

void gpud_receiver_destroy(struct gpud_receiver **receiver)
{
    if (!receiver || !*receiver)
        return;
    struct gpud_receiver *gone = *receiver;
    struct gpud_context *context = gone->context;
    *receiver = NULL;
    gpud_receiver_end(gone);
    gpud_context_drain(context);
}

/* --- one turn of the stream ---------------------------------------------------------------- */

/* Reads messages until one has to wait for its position, or none is left. */
static enum gpud_status read_messages(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_session *session = receiver->session;
    uint32_t counted = gpud_page_messages(&session->view);
    if (counted != receiver->messages) {
        receiver->messages = counted;
        receiver->unread = true;
    }
    while (!receiver->pending && receiver->unread) {
        enum gpud_status status =
            gpud_channel_receive(receiver->channel, &receiver->message, error);
        if (status == GPUD_OK) {
            receiver->pending = true;
        } else if (status == GPUD_AGAIN) {
            receiver->unread = false;
        } else if (status == GPUD_CLOSED) {
            receiver->unread = false;
            receiver->eof = true;
            gpud_print(receiver->end, "%s", receiver->channel->ops->remote ? error->reason : "");
        } else {
            return status;
        }
    }
    return GPUD_OK;
}

/* gpud_page_reached() for the pending message. A BYE comes after every frame: one sent at exit()
 * has no position. */
static int is_reached(const struct gpud_receiver *receiver)
{
    const struct gpud_page_rx *view = &receiver->session->view;
    if (receiver->message.type == GPUD_MESSAGE_BYE)
        return !gpud_page_has_frames(view);
    return gpud_page_reached(view, receiver->message.position);
}

/* Handles the pending message if it is due. GPUD_AGAIN: no message is due. */
static enum gpud_status handle_pending(struct gpud_receiver *receiver, struct gpud_error *error)
{
    const struct gpud_page_rx *view = &receiver->session->view;
    const enum gpud_message_type type = receiver->message.type;
    bool by_death = false;
    if (!receiver->pending)
        return GPUD_AGAIN;
    if (type != GPUD_MESSAGE_GROW && type != GPUD_MESSAGE_SHRINK && type != GPUD_MESSAGE_SLOTS &&
        type != GPUD_MESSAGE_KICK) {
        int reached = is_reached(receiver);
        if (reached < 0)
            return gpud_fail(error, GPUD_PEER,
                             "the sender broke the protocol: a %s behind more frames than there "
                             "are entries",
                             gpud_message_name(type));
        /* The frames before it may be lost with their sender. The connection is checked before the
         * frames, so that all those published before its end are seen. */
        by_death = reached == 0;
        if (by_death && (gpud_page_has_frames(view) || !gpud_channel_is_dead(receiver->channel) ||
                         gpud_page_has_frames(view)))
            return GPUD_AGAIN;
    }
    receiver->pending = receiver->next.failed = false;
    if (by_death && type == GPUD_MESSAGE_EOS)
        return gpud_fail(error, GPUD_PEER,
                         "the sender vanished, and with it the last frames before the end of the "
                         "stream");
    enum gpud_status status = gpud_receiver_handle(receiver, &receiver->message, error);
    gpud_message_close(&receiver->message);
    return status;
}

uint64_t gpud_receiver_add(atomic_uint_fast64_t *word, uint64_t more)
{
    more += atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, more, memory_order_relaxed);
    return more;
}

/* Reports the latency to the sender, with the release of the last acquired frame; 0: unknown. */
static void tell_latency(const struct gpud_receiver *receiver, uint64_t latency)
{
    gpud_page_tell_latency(&receiver->session->view,
                           latency <= UINT32_MAX ? (uint32_t)latency : UINT32_MAX);
}

static void count_latency(struct gpud_link_stats *stats, uint64_t latency)
{
    static const uint32_t bounds[] = GPUD_LATENCY_BOUNDS_NS;
    size_t i = 0;
    while (i < GPUD_LATENCY_BUCKETS - 1 && latency > bounds[i])
        i++;
    stats->latency_bucket[i]++;
    stats->latency_sum_ns += latency;
    if (latency > stats->latency_max_ns)
        stats->latency_max_ns = latency;
}

/* Only the acquiring thread writes what gpud_receiver_get_info() reads, so that it needs no lock to
 * read it. */
static void tell_stats(struct gpud_receiver *receiver, int64_t now)
{
    struct gpud_link_stats *stats = &receiver->stats;
    const struct gpud_session *session = receiver->session;
    const struct gpud_receiver_info *info = &receiver->info;
    if (!gpud_page_owes_stats(&receiver->session->view, now))
        return;
    stats->frames = atomic_load_explicit(&receiver->frames, memory_order_relaxed);
    stats->corrupted = atomic_load_explicit(&receiver->corrupted, memory_order_relaxed);
    stats->copies_cpu = info->copies_cpu + atomic_load(&session->copies_cpu);
    stats->copies_gpu = info->copies_gpu + atomic_load(&session->copies_gpu);
    stats->waits_cpu = info->waits_cpu;
    stats->waits_device = info->waits_device + atomic_load(&session->waits_device);
    if (receiver->queue)
        stats->waits_device += atomic_load(&receiver->queue->waits);
    gpud_page_tell_stats(&receiver->session->view, stats, now);
}

static void count_frame(struct gpud_receiver *receiver, struct gpud_frame_info *info)
{
    if (!receiver->counting) {
        uint64_t started = gpud_page_started(&receiver->session->view);
        if (started < info->sequence)
            receiver->last_sequence = started;
        receiver->counting = true;
    }
    uint64_t gap = info->sequence - receiver->last_sequence - 1;
    receiver->last_sequence = info->sequence;
    int64_t now = gpud_now();
    if (!receiver->peer.same_clock)
        info->submitted_ns = 0;
    /* submitted_ns is the sender's claim, and may be any number. */
    uint64_t latency = info->submitted_ns ? (uint64_t)now - info->submitted_ns : 0;
    tell_latency(receiver, latency);
    gpud_pace_learn(&receiver->pace, now);

    gpud_receiver_add(&receiver->frames, 1);
    info->dropped = gpud_receiver_add(&receiver->dropped, gap);
    if (info->flags & GPUD_FRAME_CORRUPTED)
        gpud_receiver_add(&receiver->corrupted, 1);
    if (latency && latency <= UINT32_MAX) {
        count_latency(&receiver->stats, latency);
        uint64_t place = atomic_load_explicit(&receiver->latency_count, memory_order_relaxed);
        atomic_store_explicit(&receiver->latency[place % GPUD_LATENCIES], (uint32_t)latency,
                              memory_order_relaxed);
        atomic_store_explicit(&receiver->latency_count, place + 1, memory_order_release);
    }
    tell_stats(receiver, now);
    GPUD_PROBE(claim, receiver->session, info->sequence, latency);
    if (gap || receiver->discontinuity)
        info->flags |= GPUD_FRAME_DISCONTINUITY;
    receiver->discontinuity = false;
}

/* Whether the frame depends on one that this receiver does not have. Its sender leaves such frames
 * out; but one may have been claimed while those before it were taken back, or their copies failed.
 * As they are not counted as received, they are a part of the gap before the next frame. */
static bool lacks_reference(const struct gpud_receiver *receiver,
                            const struct gpud_frame_info *info)
{
    return info->flags & GPUD_FRAME_DELTA &&
           (!receiver->counting || info->sequence != receiver->last_sequence + 1);
}

/* Takes what is next in order: a frame (GPUD_OK, *frame set), a message (GPUD_OK, *frame NULL),
 * nothing (GPUD_AGAIN), or the end of the connection. Model: next.1 to next.5 in link.pml. */
static enum gpud_status take_next(struct gpud_receiver *receiver, struct gpud_frame **frame,
                                  struct gpud_error *error)
{
    struct gpud_session *session = receiver->session;
    struct gpud_rx_frame *rx;
    /* The head is read before the messages, so that those sent before these frames are counted. */
    uint32_t limit = gpud_page_head(&session->view);
    bool ahead = receiver->next.state != GPUD_RECEIVER_OFFLINE;
    enum gpud_status status =
        ahead ? gpud_receiver_look_ahead(receiver, error) : read_messages(receiver, error);
    if (status == GPUD_OK && !ahead)
        status = handle_pending(receiver, error);
    if (status != GPUD_AGAIN)
        return status;
    if (receiver->pending && !ahead)
        gpud_receiver_prepare(receiver);
    if (receiver->next.state != GPUD_RECEIVER_OFFLINE)
        limit = receiver->next.position;
    else if (receiver->pending && receiver->message.type != GPUD_MESSAGE_BYE)
        limit = receiver->message.position;

    if (session->watchdog && gpud_watchdog_is_broken(session->watchdog))
        return gpud_fail(error, GPUD_PEER,
                         "the sender announced a frame, and its device did not finish it within "
                         "%d s",
                         (int)(GPUD_WATCHDOG_TIMEOUT_SENDER / GPUD_SEC));
    status = gpud_session_next_frame(session, limit, &rx, error);
    if (status == GPUD_OK) {
        if (rx->frame.info.sequence <= receiver->last_sequence) {
            struct gpud_frame *twice = &rx->frame;
            gpud_frame_release(&twice);
            return gpud_fail(error, GPUD_PEER, "the sender broke the protocol: a frame twice");
        }
        if (lacks_reference(receiver, &rx->frame.info)) {
            struct gpud_frame *useless = &rx->frame;
            gpud_frame_release(&useless);
            return GPUD_AGAIN; /* the next call finds the next frame */
        }
        count_frame(receiver, &rx->frame.info);
        *frame = &rx->frame;
        return GPUD_OK;
    }
    if (status != GPUD_AGAIN)
        return status;
    if (receiver->eof && receiver->next.state == GPUD_RECEIVER_OFFLINE &&
        !gpud_session_has_work(session))
        return gpud_peer_has_died(&receiver->channel->peer)
                   ? gpud_fail(error, GPUD_PEER, "the sender was ended by a signal or killed")
                   : gpud_fail(error, GPUD_PEER, "the sender vanished without a goodbye%s%.400s",
                               receiver->end[0] ? ": " : "", receiver->end);
    return GPUD_AGAIN;
}

/* --- waiting ------------------------------------------------------------------------------- */

/* Until when to sleep before checking that the sender lives and its device works. */
static int64_t slice_until(const struct gpud_session *session, int64_t deadline)
{
    int64_t ask_after = session->view.end.carrier->ask_after;
    int64_t slice = gpud_now() + (ask_after && !session->watchdog ? ask_after : SLICE);
    return slice < deadline ? slice : deadline;
}

static bool has_something(void *arg)
{
    struct gpud_receiver *receiver = arg;
    const struct gpud_page_rx *view = &receiver->session->view;
    if (gpud_session_has_work(receiver->session) ||
        gpud_page_messages(view) != receiver->messages ||
        atomic_load_explicit(&receiver->interrupted, memory_order_relaxed) ||
        atomic_load_explicit(&receiver->wish, memory_order_relaxed))
        return true;
    /* Whether a message is due, or the next session: a void entry, or one taken back, can make
     * them.
     */
    if (receiver->next.state != GPUD_RECEIVER_OFFLINE)
        return gpud_page_reached(view, receiver->next.position) != 0;
    return receiver->pending && is_reached(receiver) != 0;
}

/* How long to stay awake for an announced frame, which usually follows within microseconds. */
#define ANNOUNCED_MAX (100 * GPUD_USEC)

static void sleep_until(struct gpud_receiver *receiver, int64_t deadline)
{
    struct gpud_page_rx *view = &receiver->session->view;
    gpud_page_sleep(&view->end, has_something, receiver, deadline);
    int64_t until = gpud_now() + ANNOUNCED_MAX;
    while (!has_something(receiver) && gpud_page_is_announced(view) && gpud_now() < until)
        sched_yield();
}

/* Spins around the time when the next frame of a steady stream is due. If none comes, the caller
 * sleeps. false: something else ended the sleep until then, and to spin would take what is left of
 * the period. */
static bool wait_for_due(struct gpud_receiver *receiver, int64_t deadline)
{
    int64_t from, until;
    if (!gpud_pace_window(&receiver->pace, receiver->busy_poll, &from, &until) || until > deadline)
        return true;
    if (gpud_now() < from) {
        sleep_until(receiver, from);
        int64_t late = gpud_now() - from;
        if (late < 0)
            return false;
        gpud_pace_overslept(&receiver->pace, late);
    }
    gpud_poll(has_something, receiver, until);
    return true;
}

static bool has_test_frame(void *arg)
{
    struct gpud_receiver *receiver = arg;
    return gpud_session_has_work(receiver->session) ||
           atomic_load_explicit(&receiver->interrupted, memory_order_relaxed) ||
           atomic_load_explicit(&receiver->wish, memory_order_relaxed);
}

/* Whether a device waits for the peer, or may begin to: for the bytes of a held frame. */
static bool may_stall(const struct gpud_session *session)
{
    if (!session || !session->watchdog)
        return false;
    bool may = !gpud_watchdog_is_idle(session->watchdog);
    for (uint32_t i = 0; i < session->entries; i++)
        may |= atomic_load(&session->view.held[i]);
    return may;
}

/* Call when an acquire finds nothing: arms the application's loop. */
static void arm_poll(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    struct gpud_session *session = receiver->session;
    const struct gpud_channel *channel = receiver->channel;
    int64_t look = receiver->deadline;
    if (!is_open(poll))
        return;
    poll->is_armed = true;
    /* While the next session is prepared the channel is watched for answers alone. */
    enum gpud_receiver_state next = receiver->next.state;
    bool waits_for_frames =
        receiver->pending || next == GPUD_RECEIVER_TESTING || next == GPUD_RECEIVER_STREAMING;
    if (waits_for_frames) {
        gpud_receiver_poll_unwatch(receiver);
    } else if (channel) {
        if (poll->watched < 0 && gpud_loop_watch(&poll->loop, channel->fd, NULL) == GPUD_OK)
            poll->watched = channel->fd;
        if (poll->watched_peer < 0 && channel->peer_fd >= 0 &&
            gpud_loop_watch(&poll->loop, channel->peer_fd, NULL) == GPUD_OK)
            poll->watched_peer = channel->peer_fd;
    }
    if (receiver->state == GPUD_RECEIVER_OFFLINE) {
        look = receiver->retry;
    } else {
        /* An event of this side: a slot to upload into is free. The session may outlive the
         * receiver. */
        if (session && atomic_load(&session->wake) < 0)
            atomic_store(&session->wake, fcntl(poll->loop.event, F_DUPFD_CLOEXEC, 3));
        bool no_descriptor = session && atomic_load(&session->wake) < 0;
        if (no_descriptor || waits_for_frames || (channel && poll->watched < 0))
            look = gpud_now() + PENDING_LOOK;
        else if (look == INT64_MAX && may_stall(session))
            look = gpud_now() + DEVICE_LOOK;
    }
    gpud_loop_set_timer(&poll->loop, gpud_switch_look(receiver, look));
    bool streaming = receiver->state == GPUD_RECEIVER_STREAMING;
    bool by_page = streaming || receiver->state == GPUD_RECEIVER_TESTING;
    if (by_page) { /* asks the sender to announce frames in the page over the channel */
        atomic_store(&session->idle, true);
        gpud_page_poll_begin(&session->view.end);
        if (gpud_page_flush_pending_wake(&session->view.end))
            atomic_fetch_add_explicit(&session->kicks, 1, memory_order_relaxed);
    }
    if (atomic_load(&receiver->interrupted) || atomic_load(&receiver->wish))
        gpud_event_raise(poll->loop.event);
    /* Once more after asking. */
    if (by_page && (streaming ? has_something(receiver) : has_test_frame(receiver)))
        receiver_poll_wake(receiver);
    /* An edge-triggered loop does not see what was left unread, but every rise of the event. */
    struct pollfd loop = {.fd = poll->loop.fd, .events = POLLIN};
    poll->was_readable = ppoll(&loop, 1, &(struct timespec){0}, NULL) == 1;
    if (poll->was_readable)
        receiver_poll_wake(receiver);
}

/* As an application's loop does. */
static void wait_by_loop(struct gpud_receiver *receiver, int64_t deadline)
{
    struct pollfd loop = {.fd = receiver->poll.loop.fd, .events = POLLIN};
    arm_poll(receiver);
    struct timespec left = gpud_time_left(deadline);
    ppoll(&loop, 1, &left, NULL);
}

/* A stream without frames for so long is idle. */
#define IDLE GPUD_SEC

/* Model (tests/model): idle.1 to idle.4 in wakeup.pml. */
static void wait_for_frames(struct gpud_receiver *receiver, int64_t deadline)
{
    struct gpud_session *session = receiver->session;
    if (receiver->next.state != GPUD_RECEIVER_OFFLINE) {
        /* Answers come over the channel, and the last frames of this session over its page. */
        int64_t look = gpud_now() + NEXT_LOOK;
        gpud_page_sleep(&session->view.end, has_something, receiver,
                        look < deadline ? look : deadline);
        return;
    }
    if (gpud_spin(&receiver->spin, has_something, receiver))
        return;

    int64_t start = gpud_now();
    gpud_lock_take(&receiver->lock);
    receiver->info.waits_cpu++;
    gpud_lock_release(&receiver->lock);
    int fd;
    if (start - receiver->pace.last > IDLE && !session->view.end.remote &&
        gpud_receiver_get_fd(receiver, &fd, NULL) == GPUD_OK) {
        /* Until the connection has something to read: many idle channels cost no wake-ups. The
         * futex is faster, but has to be left now and then to see whether the sender lives. */
        wait_by_loop(receiver, deadline);
        return;
    }
    int64_t slice = slice_until(session, deadline);
    atomic_store(&session->idle, true);
    if (gpud_page_flush_pending_wake(&session->view.end))
        atomic_fetch_add_explicit(&session->kicks, 1, memory_order_relaxed);
    if (wait_for_due(receiver, slice) && !has_something(receiver))
        sleep_until(receiver, slice);
    atomic_store(&session->idle, false);
    int64_t end = gpud_now();
    gpud_spin_learn(&receiver->spin, end - start);

    /* A spurious wake-up may be the end of the connection. */
    if ((end >= slice || !has_something(receiver)) && gpud_channel_is_dead(receiver->channel))
        receiver->unread = true;
}

/* Waits until the connection is readable, or for the next try to connect. */
static void wait_for_sender(struct gpud_receiver *receiver, int64_t deadline)
{
    if (receiver->state == GPUD_RECEIVER_OFFLINE) {
        int64_t until = receiver->retry < deadline ? receiver->retry : deadline;
        while (gpud_now() < until && !atomic_load(&receiver->interrupted) &&
               !atomic_load(&receiver->wish)) {
            int64_t left = until - gpud_now();
            struct timespec nap = gpud_timespec(left < 20 * GPUD_MSEC ? left : 20 * GPUD_MSEC);
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        }
        return;
    }
    if (receiver->deadline < deadline)
        deadline = receiver->deadline;
    if (receiver->state == GPUD_RECEIVER_TESTING) {
        gpud_page_sleep(&receiver->session->view.end, has_test_frame, receiver,
                        slice_until(receiver->session, deadline));
        return;
    }
    gpud_channel_wait(receiver->channel, deadline, &receiver->interrupted);
}

static enum gpud_status timed_out(const struct gpud_receiver *receiver, struct gpud_error *error)
{
    char hint[GPUD_REASON_MAX];
    switch (receiver->state) {
    case GPUD_RECEIVER_OFFLINE:
        if (receiver->failure.status != GPUD_OK)
            return gpud_fail(error, GPUD_TIMEOUT, "no connection on %s: %s",
                             receiver->address.place, receiver->failure.reason);
        gpud_address_hint(&receiver->address, hint, sizeof(hint));
        return gpud_fail(error, GPUD_TIMEOUT, "no sender listens on %s%s%s",
                         receiver->address.place, hint[0] ? "; " : "", hint);
    case GPUD_RECEIVER_CONNECTING:
        return gpud_fail(error, GPUD_TIMEOUT, "%s has not answered yet%s", receiver->address.place,
                         gpud_address_get_host(receiver->address.text)
                             ? ": is its host up, and does a firewall drop what comes to the port?"
                             : "");
    case GPUD_RECEIVER_STREAMING:
        return gpud_fail(error, GPUD_TIMEOUT, "connected to %s, but no frame came",
                         receiver->peer.name);
    case GPUD_RECEIVER_IDLE:
        return gpud_fail(error, GPUD_TIMEOUT, "connected to %s, which has no format yet",
                         receiver->peer.name);
    default:
        return gpud_fail(error, GPUD_TIMEOUT, "the handshake with the sender is not finished yet");
    }
}

enum gpud_status gpud_receiver_acquire(struct gpud_receiver *receiver, int64_t timeout_ns,
                                       struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    /* 0: not known yet. Reading the clock costs as much as taking a frame that is there. */
    int64_t deadline = receiver->state == GPUD_RECEIVER_STREAMING ? 0 : gpud_deadline(timeout_ns);
    for (;;) {
        struct gpud_error why = {0};
        struct gpud_frame *got = NULL;
        bool by_channel = gpud_receiver_poll_disarm(receiver);
        if (atomic_load_explicit(&receiver->interrupted, memory_order_relaxed)) {
            if (is_open(&receiver->poll)) { /* it is readable again only once it is woken */
                gpud_receiver_poll_unwatch(receiver);
                gpud_loop_drain(&receiver->poll.loop);
            }
            if (atomic_load(&receiver->interrupted))
                return gpud_fail(error, GPUD_AGAIN, "interrupted");
        }

        bool switching = gpud_receiver_is_switching(receiver), streaming = false;
        enum gpud_status status = GPUD_AGAIN;
        if (switching)
            status = gpud_switch_step(receiver, &got, &why);
        if (status == GPUD_AGAIN) { /* the turn of the link, which a switch leaves alone so far */
            streaming = receiver->state == GPUD_RECEIVER_STREAMING;
            status =
                streaming ? take_next(receiver, &got, &why) : gpud_receiver_step(receiver, &why);
        }
        if (got) {
            if (switching)
                gpud_switch_note_old(receiver, GPUD_OK, NULL);
            *frame = got;
            GPUD_STOP_POINT("receiver: frame handed out");
            return GPUD_OK;
        }
        if (!deadline)
            deadline = gpud_deadline(timeout_ns);
        if (status == GPUD_AGAIN && by_channel && receiver->channel &&
            gpud_channel_is_dead(receiver->channel)) {
            receiver->unread = true;
            continue;
        }
        if (status == GPUD_OK && gpud_now() < deadline)
            continue; /* a message; the deadline also bounds a flood of them */
        bool failed = status != GPUD_OK && status != GPUD_AGAIN;
        if (failed && gpud_process_is_ending())
            return gpud_fail(error, GPUD_CLOSED,
                             "this process is ending, and said goodbye to the sender");
        if (failed && streaming && status != GPUD_CLOSED)
            gpud_receiver_disconnect(receiver, gpud_receiver_retry_in(receiver, status),
                                     why.reason);
        if (switching && status != GPUD_OK && gpud_switch_note_old(receiver, status, &why))
            continue;
        if (failed)
            return gpud_fail_native(error, status, why.origin, why.native, "%s", why.reason);
        if (gpud_now() >= deadline) {
            arm_poll(receiver);
            return timed_out(receiver, error);
        }
        if (receiver->switching)
            wait_by_loop(receiver, gpud_switch_look(receiver, deadline));
        else if (streaming)
            wait_for_frames(receiver, deadline);
        else
            wait_for_sender(receiver, deadline);
    }
}

uint32_t gpud_receiver_count_frames(struct gpud_receiver *receiver)
{
    if (receiver->state != GPUD_RECEIVER_STREAMING || !gpud_session_has_work(receiver->session))
        return 0;
    return gpud_page_count_waiting(&receiver->session->view);
}

void gpud_receiver_interrupt(struct gpud_receiver *receiver, bool interrupted)
{
    atomic_store(&receiver->interrupted, interrupted);
    gpud_lock_take(&receiver->lock);
    gpud_receiver_rouse(receiver);
    if (receiver->on_interrupt)
        receiver->on_interrupt(receiver->on_interrupt_user);
    gpud_lock_release(&receiver->lock);
}

void gpud_receiver_set_slots(struct gpud_receiver *receiver, uint32_t slots)
{
    gpud_lock_take(&receiver->lock);
    receiver->slots_wished = slots < GPUD_SLOTS_MAX ? slots : GPUD_SLOTS_MAX;
    gpud_receiver_ask_for_slots(receiver);
    gpud_lock_release(&receiver->lock);
}

void gpud_receiver_request_key(struct gpud_receiver *receiver,
                               const struct gpud_key_request *request)
{
    struct gpud_key_request own;
    if (gpud_sized_read(&own, sizeof(own), request, GPUD_END_OF(struct gpud_key_request, time_ns),
                        "gpud_key_request", NULL) != GPUD_OK)
        return;
    gpud_lock_take(&receiver->lock);
    if (receiver->session)
        gpud_page_request_key(&receiver->session->view, &own);
    gpud_lock_release(&receiver->lock);
}

void gpud_receiver_set_latency(struct gpud_receiver *receiver, uint64_t latency_ns)
{
    if (receiver->state != GPUD_RECEIVER_STREAMING || receiver->peer.same_clock)
        return;
    tell_latency(receiver, latency_ns);
    if (latency_ns && latency_ns <= UINT32_MAX)
        count_latency(&receiver->stats, latency_ns);
    tell_stats(receiver, gpud_now());
}

/* === info ==================================================================================== */
/* A receiver's counters and latencies. */

static int info_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

void gpud_receiver_get_info(struct gpud_receiver *receiver, struct gpud_receiver_info *info)
{
    uint32_t *sorted = malloc(sizeof(receiver->latency));
    size_t count = 0;
    gpud_lock_take(&receiver->lock);
    struct gpud_receiver_info now = receiver->info;
    now.frames = atomic_load(&receiver->frames);
    now.dropped = atomic_load(&receiver->dropped);
    now.corrupted = atomic_load(&receiver->corrupted);
    gpud_receiver_collect(receiver, &now);
    if (receiver->queue)
        now.waits_device += atomic_load(&receiver->queue->waits);
    if (sorted) {
        uint64_t latencies = atomic_load(&receiver->latency_count);
        count = latencies < GPUD_LATENCIES ? latencies : GPUD_LATENCIES;
        for (size_t i = 0; i < count; i++)
            sorted[i] = atomic_load_explicit(&receiver->latency[i], memory_order_relaxed);
    }
    gpud_lock_release(&receiver->lock);
    if (count) {
        qsort(sorted, count, sizeof(*sorted), info_compare);
        now.latency_p50_ns = sorted[count / 2];
        now.latency_p99_ns = sorted[count * 99 / 100];
        now.latency_max_ns = sorted[count - 1];
    }
    gpud_sized_copy(info, info->size, &now, sizeof(now));
    free(sorted);
}
