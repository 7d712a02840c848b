/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's thread: it accepts connections, reads their messages, offers receivers the rings of
 * each new epoch, and detects silent and dead ones. It handles no frames except waiting ones
 * (waiting.c). It takes the lock only for state that application threads use, see state.h. */
#include "stream/sender/listener.h"

#include "base/stop.h"
#include "stream/sender/delivery.h"
#include "stream/sender/epoch.h"
#include "stream/sender/handshake.h"
#include "stream/sender/newcomer.h"
#include "stream/sender/offer.h"
#include "stream/sender/receivers.h"
#include "stream/sender/room.h"
#include "stream/sender/status.h"
#include "stream/sender/waiting.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AREA "sender"
#define TURN_MAX GPUD_SEC
/* Messages of one receiver in one turn, so that a flood does not starve the others. */
#define MESSAGES_A_TURN 16
#define ACCEPTS_A_TURN 16
/* How long to wait after accepting failed, as without a free descriptor. */
#define ACCEPT_PAUSE (100 * GPUD_MSEC)

/* Call again later, after a failure that may pass. */
static void pause_accepting(struct gpud_sender *sender, const char *why)
{
    if (!sender->accept_pause)
        gpud_log_error(&sender->context->log, AREA, "%s", why); /* once for a series of failures */
    sender->accept_pause = gpud_deadline(ACCEPT_PAUSE);
}

/* Tries to get the address that another sender had. */
static void take_over(struct gpud_sender *sender)
{
    struct gpud_error error = {0};
    enum gpud_status status = gpud_listener_take_over(sender->listener, &error);
    if (status != GPUD_OK && status != GPUD_AGAIN) {
        pause_accepting(sender, error.reason);
        return;
    }
    sender->accept_pause = 0; /* also where there is nothing to take over: that is no failure */
    if (status == GPUD_OK)
        gpud_log_info(&sender->context->log, AREA, "the address is free: this sender has it now");
}

static void accept_newcomers(struct gpud_sender *sender)
{
    const struct gpud_log *log = &sender->context->log;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct gpud_error error = {0};
        struct gpud_channel *channel;
        struct gpud_peer peer;
        enum gpud_status status = gpud_listener_accept(sender->listener, &channel, &peer, &error);
        if (status == GPUD_AGAIN) {
            sender->accept_pause = 0;
            return;
        }
        if (status == GPUD_NO_ACCESS) {
            char peer_text[GPUD_PEER_TEXT_MAX];
            gpud_log_warning(log, AREA, "%s turned away: %s", gpud_peer_text(&peer, peer_text),
                             error.reason);
            atomic_fetch_add(&sender->refused, 1);
            continue;
        }
        if (status != GPUD_OK) {
            pause_accepting(sender, error.reason);
            return;
        }
        sender->accept_pause = 0;
        gpud_newcomer_add(sender, channel);
    }
}

/* Adds the network's reason for the end, or whether the process was killed. */
static void handle_end(struct gpud_link *link, const char *why)
{
    char reason[GPUD_REASON_MAX];
    bool remote = link->channel->ops->remote;
    if (gpud_peer_has_died(&link->channel->peer))
        gpud_print(reason, "was ended by a signal or killed");
    else
        gpud_print(reason, "vanished without a goodbye%s%.400s", remote ? ": " : "",
                   remote ? why : "");
    gpud_link_end(link, link->streamed ? GPUD_LOG_WARNING : GPUD_LOG_INFO, reason);
}

static void read_messages(struct gpud_link *link)
{
    static const struct gpud_error no_error;
    for (int i = 0; i < MESSAGES_A_TURN && link->state != GPUD_LINK_DEAD; i++) {
        struct gpud_message message;
        struct gpud_error error = no_error;
        enum gpud_status status = gpud_channel_receive(link->channel, &message, &error);
        if (status == GPUD_AGAIN)
            return;
        if (status == GPUD_OK) {
            gpud_link_handle(link, &message);
            gpud_message_close(&message);
        } else if (status == GPUD_CLOSED) {
            handle_end(link, error.reason);
        } else if (status == GPUD_NO_MEMORY) {
            gpud_link_refuse(link, GPUD_AGAIN, error.reason); /* a failure of this side */
        } else {
            gpud_link_end(link, GPUD_LOG_WARNING, error.reason);
        }
    }
}

/* Checks links to other hosts each turn, because no descriptor reports a host that lost power. */
static void check_hosts(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->channel->ops->remote && link->state != GPUD_LINK_DEAD &&
            gpud_channel_is_dead(link->channel))
            read_messages(link);
    }
}

/* Describes a missed deadline of a handshake, for the log. */
static const char *late_in(enum gpud_link_state state)
{
    return state == GPUD_LINK_CANARY ? "did not confirm the test of the link for 5 s"
                                     : "did not answer the offer of a route for 5 s";
}

/* Checks the deadlines of handshakes, and makes offers that are due. */
static void look_after_links(struct gpud_sender *sender, int64_t now)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        enum gpud_link_state state = link->state;
        gpud_link_offer_if_due(link, now);
        gpud_room_raise(link, now);
        if ((state == GPUD_LINK_OFFERED || state == GPUD_LINK_CANARY) && link->state == state &&
            now >= link->deadline)
            gpud_link_end(link, GPUD_LOG_WARNING, late_in(state));
    }
}

/* Logs a format that the application has set since the last turn. */
static void log_epoch(struct gpud_sender *sender)
{
    gpud_sender_lock(sender);
    uint32_t epoch = sender->epoch;
    struct gpud_layout layout = sender->layout;
    gpud_sender_unlock(sender);
    if (epoch == sender->epoch_logged)
        return;
    sender->epoch_logged = epoch;
    gpud_log_info(&sender->context->log, AREA, "epoch %u: %ux%u %s, %" PRIu64 " bytes a frame",
                  epoch, layout.width, layout.height, layout.format, layout.size);
}

/* --- the thread ---------------------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether there is something to look at once a second: frames flow, the ring is larger than it has
 * to be, a receiver is leaving, or is on another host, or another sender has the address. Many
 * channels of a machine are idle, and cost no wake-ups. Under the lock. */
static bool needs_turns(const struct gpud_sender *sender)
{
    bool needs = sender->spare_since || sender->rate.before.sequence != sender->sequence ||
                 atomic_load(&sender->listener->stands_by);
    for (uint32_t i = 0; i < sender->link_count; i++)
        needs |=
            sender->links[i]->channel->ops->remote || sender->links[i]->state >= GPUD_LINK_LEAVING;
    return needs;
}

static int64_t next_deadline(struct gpud_sender *sender)
{
    int64_t next = gpud_newcomers_deadline(sender);
    if (sender->accept_pause && !gpud_newcomers_are_full(sender))
        next = earlier(next, sender->accept_pause);
    gpud_sender_lock(sender);
    sender->is_at_rest = !needs_turns(sender);
    if (!sender->is_at_rest)
        next = earlier(next, gpud_now() + TURN_MAX);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *link = sender->links[i];
        if (link->state < GPUD_LINK_LEAVING)
            next = earlier(next, earlier(link->deadline, link->raise_at));
        next = earlier(next, gpud_waiting_deadline(link));
    }
    gpud_sender_unlock(sender);
    return next;
}

void gpud_listener_turn(struct gpud_sender *sender)
{
    int64_t now = gpud_now();
    gpud_sender_lock(sender);
    gpud_waiting_turn(sender, now);
    gpud_sender_deliver_waiting(sender);
    gpud_sender_sample(sender, now);
    gpud_sender_unlock(sender);
    log_epoch(sender);
    look_after_links(sender, now);
    check_hosts(sender);
    gpud_links_settle(sender);
    gpud_room_shrink(sender, now);
}

static void *run(void *arg)
{
    struct gpud_sender *sender = arg;
    struct pollfd fds[2 + 2 * GPUD_RECEIVERS_MAX + GPUD_NEWCOMERS_MAX];
    struct gpud_link *links[GPUD_RECEIVERS_MAX];

    while (!atomic_load(&sender->stopping)) {
        uint32_t count = sender->link_count, newcomers = sender->newcomer_count;
        bool pause = sender->accept_pause > gpud_now() || gpud_newcomers_are_full(sender);
        fds[0] = (struct pollfd){.fd = sender->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = pause ? -1 : sender->listener->fd, .events = POLLIN};
        struct pollfd *at_link = fds + 2, *at_newcomer = fds + 2 + 2 * count;
        for (uint32_t i = 0; i < count; i++) {
            links[i] = sender->links[i];
            at_link[2 * i] = (struct pollfd){.fd = links[i]->channel->fd, .events = POLLIN};
            at_link[2 * i + 1] =
                (struct pollfd){.fd = links[i]->channel->peer_fd, .events = POLLIN};
        }
        for (uint32_t i = 0; i < newcomers; i++)
            at_newcomer[i] =
                (struct pollfd){.fd = gpud_newcomer_fd(&sender->newcomers[i]), .events = POLLIN};
        struct timespec wait = gpud_time_left(next_deadline(sender));
        ppoll(fds, 2 + 2 * count + newcomers, &wait, NULL);

        if (fds[0].revents) {
            uint64_t ignored;
            ssize_t got = read(sender->wake, &ignored, sizeof(ignored));
            (void)got; /* non-blocking; the count does not matter */
        }
        for (uint32_t i = 0; i < count; i++) {
            bool has_ended = at_link[2 * i + 1].revents && gpud_channel_is_dead(links[i]->channel);
            if (at_link[2 * i].revents || has_ended)
                read_messages(links[i]);
        }
        gpud_newcomers_read(sender, at_newcomer, newcomers);
        /* Each turn, because an event may come just before the other sender lets go. */
        if (!pause && atomic_load(&sender->listener->stands_by))
            take_over(sender);
        else if (fds[1].revents || (!pause && sender->accept_pause))
            accept_newcomers(sender);
        gpud_listener_turn(sender);
    }
    return NULL;
}

enum gpud_status gpud_sender_listen(struct gpud_sender *sender, const struct gpud_address *address,
                                    const struct gpud_access_rule *access, bool standby,
                                    struct gpud_error *error)
{
    if (!sender->listener) {
        enum gpud_status status =
            standby ? gpud_listener_stand_by(address, access, &sender->listener, error)
                    : gpud_listener_open(address, access, &sender->listener, error);
        if (status != GPUD_OK)
            return status;
        if (sender->listener->note[0])
            gpud_log_info(&sender->context->log, AREA, "%s", sender->listener->note);
    }
    sender->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (sender->wake < 0)
        return gpud_fail_errno(error, "cannot create an eventfd");
    sender->retired.wake = sender->wake;
    int failed = pthread_create(&sender->thread, NULL, run, sender);
    if (failed)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start the sender's thread: raise the limits of this "
                                "process's memory (ulimit -v) or threads (ulimit -u)");
    sender->thread_runs = true;
    return GPUD_OK;
}

static void stop_thread(struct gpud_sender *sender)
{
    if (!sender->thread_runs)
        return;
    atomic_store(&sender->stopping, true);
    gpud_sender_wake_listener(sender);
    pthread_join(sender->thread, NULL);
    sender->thread_runs = false;
}

struct gpud_listener *gpud_sender_take_listener(struct gpud_sender *sender)
{
    stop_thread(sender);
    struct gpud_listener *listener = sender->listener;
    sender->listener = NULL;
    return listener;
}

void gpud_sender_stop_listening(struct gpud_sender *sender)
{
    stop_thread(sender);
    gpud_sender_lock(sender);
    sender->retired.wake = -1; /* from here on transports are freed at once */
    struct gpud_transport *retired = gpud_retired_take(&sender->retired);
    gpud_sender_unlock(sender);
    gpud_retired_destroy(retired);
    gpud_newcomers_close(sender);
    gpud_listener_close(&sender->listener);
    gpud_fd_close(&sender->wake);
}
