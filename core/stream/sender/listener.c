/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's thread: it accepts newcomers, reads what they and the receivers say, and notices who
 * is silent, dead or gone. Frames do not pass here, but for those that waited (waiting.c). */
#include "base/fd.h"
#include "base/stop.h"
#include "stream/sender/sender.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AREA "sender"
#define TURN_MAX GPUD_SEC
/* Messages of one receiver in one turn: a flood must not starve the others. */
#define MESSAGES_A_TURN 16
#define ACCEPTS_A_TURN 16
/* When the system has no descriptor left for a receiver, the next try waits so long. */
#define ACCEPT_PAUSE (100 * GPUD_MSEC)

static void accept_newcomers(struct gpud_sender *sender)
{
    const struct gpud_log *log = &sender->context->log;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct gpud_error error = {0};
        struct gpud_channel *channel;
        struct gpud_peer peer;
        enum gpud_status status = gpud_listener_accept(sender->listener, &channel, &peer, &error);
        if (status == GPUD_AGAIN)
            return;
        if (status == GPUD_NO_ACCESS) {
            char who[GPUD_PEER_TEXT_MAX];
            gpud_log_warning(log, AREA, "%s turned away: %s", gpud_peer_text(&peer, who),
                             error.reason);
            sender->refused++;
            continue;
        }
        if (status != GPUD_OK) {
            if (!sender->accept_pause)
                gpud_log_error(log, AREA, "%s", error.reason); /* once: nothing will change soon */
            sender->accept_pause = gpud_deadline(ACCEPT_PAUSE);
            return;
        }
        sender->accept_pause = 0;
        gpud_newcomer_add(sender, channel);
    }
}

/* A network knows more than that the other end is closed. */
static void handle_end(struct gpud_link *link, const char *why)
{
    char reason[GPUD_REASON_MAX];
    bool remote = link->channel->ops->remote;
    gpud_print(reason, "vanished without a goodbye%s%.400s", remote ? ": " : "", remote ? why : "");
    gpud_link_kill(link, link->streamed ? GPUD_LOG_WARNING : GPUD_LOG_INFO, reason);
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
            gpud_link_refuse(link, GPUD_AGAIN, error.reason); /* not the peer's fault */
        } else {
            gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
        }
    }
}

/* No descriptor tells of a host that lost its power: who is on another one is asked, each turn. */
static void check_hosts(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->channel->ops->remote && link->state != GPUD_LINK_DEAD &&
            gpud_channel_is_dead(link->channel))
            read_messages(link);
    }
}

static void check_deadlines(struct gpud_sender *sender, int64_t now)
{
    static const char *const late[] = {
        [GPUD_LINK_OFFERED] = "did not answer the offer of a route for 5 s",
        [GPUD_LINK_CANARY] = "did not confirm the test of the link for 5 s",
    };
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->state == GPUD_LINK_DEAD || now < link->deadline)
            continue;
        if (link->state == GPUD_LINK_IDLE)
            gpud_link_offer(link);
        else
            gpud_link_kill(link, GPUD_LOG_WARNING, late[link->state]);
    }
}

/* --- telling the application --------------------------------------------------------------- */

/* What changed in a turn, gathered under the lock and told without it. */
struct changes {
    uint32_t count;
    struct {
        bool connected;
        struct gpud_peer_info peer;
    } item[2 * GPUD_RECEIVERS_MAX];
};

static void add_change(struct changes *changes, bool connected, const struct gpud_link *link)
{
    if (changes->count == 2 * GPUD_RECEIVERS_MAX)
        return;
    changes->item[changes->count].connected = connected;
    gpud_link_peer_info(link, &changes->item[changes->count].peer);
    changes->count++;
}

/* Who is new since the last turn, and who is dead; the dead leave the table. */
static void collect_changes(struct gpud_sender *sender, struct changes *changes)
{
    uint32_t kept = 0;
    changes->count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->streamed && !link->told) {
            link->told = true;
            add_change(changes, true, link);
        }
        bool ended = link->state == GPUD_LINK_LEAVING || link->state == GPUD_LINK_DEAD;
        if (ended && link->told && !link->told_end) {
            link->told_end = true;
            add_change(changes, false, link);
        }
        if (link->state == GPUD_LINK_DEAD)
            gpud_link_unref(link);
        else
            sender->links[kept++] = link;
    }
    sender->link_count = kept;
}

static void tell(const struct gpud_sender *sender, const struct changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        if (changes->item[i].connected && sender->on_connect)
            sender->on_connect(sender->user, &changes->item[i].peer);
        if (!changes->item[i].connected && sender->on_disconnect)
            sender->on_disconnect(sender->user, &changes->item[i].peer);
    }
}

/* --- the thread ---------------------------------------------------------------------------- */

static int64_t next_deadline(const struct gpud_sender *sender)
{
    int64_t next = gpud_now() + TURN_MAX;
    if (sender->accept_pause && sender->accept_pause < next)
        next = sender->accept_pause;
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->state != GPUD_LINK_DEAD && sender->links[i]->deadline < next)
            next = sender->links[i]->deadline;
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (gpud_waiting_deadline(sender->links[i]) < next)
            next = gpud_waiting_deadline(sender->links[i]);
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        if (sender->newcomers[i].deadline < next)
            next = sender->newcomers[i].deadline;
    return next;
}

static void *run(void *arg)
{
    struct gpud_sender *sender = arg;
    struct pollfd fds[2 + GPUD_RECEIVERS_MAX + GPUD_NEWCOMERS_MAX];
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    struct changes changes;

    while (!atomic_load(&sender->stopping)) {
        gpud_sender_lock(sender);
        uint32_t count = sender->link_count, newcomers = sender->newcomer_count;
        fds[0] = (struct pollfd){.fd = sender->wake, .events = POLLIN};
        bool pause = sender->accept_pause > gpud_now();
        fds[1] = (struct pollfd){.fd = pause ? -1 : sender->listener->fd, .events = POLLIN};
        for (uint32_t i = 0; i < count; i++) {
            links[i] = sender->links[i]; /* only this thread takes links out of the table */
            fds[2 + i] = (struct pollfd){.fd = links[i]->channel->fd, .events = POLLIN};
        }
        for (uint32_t i = 0; i < newcomers; i++)
            fds[2 + count + i] =
                (struct pollfd){.fd = sender->newcomers[i].channel->fd, .events = POLLIN};
        int64_t deadline = next_deadline(sender);
        gpud_sender_unlock(sender);

        struct timespec wait = gpud_time_left(deadline);
        ppoll(fds, 2 + count + newcomers, &wait, NULL);

        gpud_sender_lock(sender);
        if (fds[0].revents) {
            uint64_t ignored;
            ssize_t got = read(sender->wake, &ignored, sizeof(ignored));
            (void)got; /* non-blocking; what it counts does not matter */
        }
        for (uint32_t i = 0; i < count; i++)
            if (fds[2 + i].revents)
                read_messages(links[i]);
        gpud_newcomers_read(sender, fds + 2 + count, newcomers);
        if (fds[1].revents)
            accept_newcomers(sender);
        gpud_waiting_turn(sender, gpud_now());
        check_deadlines(sender, gpud_now());
        check_hosts(sender);
        gpud_sender_sample(sender, gpud_now());
        collect_changes(sender, &changes);
        struct gpud_transport *retired = gpud_retired_take(&sender->retired);
        gpud_sender_unlock(sender);
        gpud_retired_destroy(retired);
        tell(sender, &changes);
    }
    return NULL;
}

enum gpud_status gpud_sender_listen(struct gpud_sender *sender, const struct gpud_address *address,
                                    const struct gpud_access_rule *access, struct gpud_error *error)
{
    enum gpud_status status = gpud_listener_open(address, access, &sender->listener, error);
    if (status != GPUD_OK)
        return status;
    if (sender->listener->note[0])
        gpud_log_info(&sender->context->log, AREA, "%s", sender->listener->note);
    sender->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (sender->wake < 0)
        return gpud_fail_errno(error, "cannot create an eventfd");
    sender->retired.wake = sender->wake;
    int failed = pthread_create(&sender->thread, NULL, run, sender);
    if (failed)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start the sender's thread");
    sender->thread_runs = true;
    return GPUD_OK;
}

void gpud_sender_wake_listener(const struct gpud_sender *sender)
{
    gpud_event_raise(sender->wake);
}

void gpud_sender_stop_listening(struct gpud_sender *sender)
{
    if (sender->thread_runs) {
        atomic_store(&sender->stopping, true);
        gpud_sender_wake_listener(sender);
        pthread_join(sender->thread, NULL);
        sender->thread_runs = false;
    }
    gpud_sender_lock(sender);
    sender->retired.wake = -1; /* from here on they are taken apart where they end */
    struct gpud_transport *retired = gpud_retired_take(&sender->retired);
    gpud_sender_unlock(sender);
    gpud_retired_destroy(retired);
    gpud_newcomers_close(sender);
    gpud_listener_close(&sender->listener);
    gpud_fd_close(&sender->wake);
}
