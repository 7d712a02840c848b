/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/receiver/poll.h"

#include "base/fd.h"

#include <fcntl.h>

/* How often to check for a stalled device, which no descriptor reports. */
#define DEVICE_LOOK (250 * GPUD_MSEC)
/* While a message waits for earlier frames, and blocks the channel; or without a descriptor. */
#define PENDING_LOOK GPUD_MSEC

void gpud_receiver_poll_init(struct gpud_receiver *receiver)
{
    receiver->poll =
        (struct gpud_receiver_poll){.loop = GPUD_LOOP_NONE, .watched = -1, .watched_peer = -1};
}

void gpud_receiver_poll_finish(struct gpud_receiver *receiver)
{
    gpud_loop_close(&receiver->poll.loop);
}

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

void gpud_receiver_poll_wake(struct gpud_receiver *receiver)
{
    if (is_open(&receiver->poll))
        gpud_event_raise(receiver->poll.loop.event);
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

static void watch_channel(struct gpud_receiver_poll *poll, const struct gpud_channel *channel)
{
    if (poll->watched < 0 && gpud_loop_watch(&poll->loop, channel->fd, NULL) == GPUD_OK)
        poll->watched = channel->fd;
    if (poll->watched_peer < 0 && channel->peer_fd >= 0 &&
        gpud_loop_watch(&poll->loop, channel->peer_fd, NULL) == GPUD_OK)
        poll->watched_peer = channel->peer_fd;
}

void gpud_receiver_poll_rest(struct gpud_receiver *receiver)
{
    if (!is_open(&receiver->poll))
        return;
    gpud_receiver_poll_unwatch(receiver);
    gpud_loop_drain(&receiver->poll.loop);
}

/* Watches for an event of this side: a slot to upload into is free. The session may outlive the
 * receiver. false: no descriptor is left. */
static bool watch_session(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    if (session && atomic_load(&session->wake) < 0)
        atomic_store(&session->wake, fcntl(receiver->poll.loop.event, F_DUPFD_CLOEXEC, 3));
    return !session || atomic_load(&session->wake) >= 0;
}

/* Asks the sender to announce frames in the page over the channel. */
static void sleep_on_page(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    atomic_store(&session->idle, true);
    gpud_page_poll_begin(&session->view.end);
    if (gpud_page_flush_pending_wake(&session->view.end))
        atomic_fetch_add_explicit(&session->kicks, 1, memory_order_relaxed);
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

bool gpud_receiver_poll_arm(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    int64_t look = receiver->deadline;
    if (!is_open(poll))
        return false;
    poll->is_armed = true;
    /* While the next session is prepared the channel is watched for answers alone. */
    enum gpud_receiver_state next = receiver->next.state;
    bool waits_for_frames =
        receiver->pending || next == GPUD_RECEIVER_TESTING || next == GPUD_RECEIVER_STREAMING;
    if (receiver->channel && !waits_for_frames)
        watch_channel(poll, receiver->channel);
    if (waits_for_frames)
        gpud_receiver_poll_unwatch(receiver);
    if (receiver->state == GPUD_RECEIVER_OFFLINE)
        look = receiver->retry;
    else if (!watch_session(receiver) || waits_for_frames ||
             (receiver->channel && poll->watched < 0))
        look = gpud_now() + PENDING_LOOK;
    else if (look == INT64_MAX && may_stall(receiver->session))
        look = gpud_now() + DEVICE_LOOK;
    gpud_loop_set_timer(&poll->loop, look);
    bool by_page =
        receiver->state == GPUD_RECEIVER_TESTING || receiver->state == GPUD_RECEIVER_STREAMING;
    if (by_page)
        sleep_on_page(receiver);
    if (atomic_load(&receiver->interrupted))
        gpud_event_raise(poll->loop.event);
    return by_page;
}

bool gpud_receiver_poll_disarm(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    if (!is_open(poll) || !poll->is_armed)
        return false;
    bool by_channel = !gpud_loop_drain(&poll->loop);
    poll->is_armed = false;
    receiver->unread = true; /* KICKs, at least */
    if (receiver->session) {
        gpud_page_poll_end(&receiver->session->view.end);
        atomic_store(&receiver->session->idle, false);
    }
    return by_channel;
}
