/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection by TCP, from looking up the name to its end, and listening. */
#include "wire/tcp/tcp.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

int64_t gpud_tcp_handshake_deadline = 5 * GPUD_SEC;

/* How long the connection to one address is waited for before the next one is tried beside it: RFC
 * 8305, 5. */
#define ATTEMPT (250 * GPUD_MSEC)

/* Of a channel that is not open yet. */
struct tcp_opening {
    int timer; /* expires at the earlier of the next two */
    int64_t deadline, next_attempt;
    struct gpud_lookup *lookup;
    struct sockaddr_storage addresses[GPUD_LOOKUP_MAX];
    size_t count, next;
    int attempts[GPUD_LOOKUP_MAX]; /* sockets that are being connected; −1: none */
    bool asks_names;               /* the request is only for the names at the port */
    struct gpud_refusal refusal;   /* the answer to it; reason 0: none yet */
    /* The request or reply to send, and what was received of the reply. */
    uint8_t out[GPUD_REQUEST_MAX], in[GPUD_REFUSAL_MAX];
    size_t out_size, out_sent, in_size;
};

/* === sockets ================================================================================= */

static socklen_t size_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* A connection that a forked child kept would not end with this process. */
static void set_up_socket(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    gpud_fd_keep_from_children(fd);
}

static void close_socket(int *fd)
{
    if (*fd >= 0)
        gpud_fd_let_children_keep(*fd);
    gpud_fd_close(fd);
}

/* events 0: no more. */
static void watch(const struct tcp_channel *channel, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};
    if (events == 0)
        epoll_ctl(channel->base.fd, EPOLL_CTL_DEL, fd, NULL);
    else if (epoll_ctl(channel->base.fd, EPOLL_CTL_MOD, fd, &event) < 0)
        epoll_ctl(channel->base.fd, EPOLL_CTL_ADD, fd, &event);
}

/* === lifetime ================================================================================ */

static void end_opening(struct tcp_channel *channel)
{
    struct tcp_opening *gone = channel->opening;
    channel->opening = NULL;
    if (!gone)
        return;
    gpud_lookup_end(&gone->lookup);
    for (size_t i = 0; i < GPUD_LOOKUP_MAX; i++)
        close_socket(&gone->attempts[i]);
    gpud_fd_close(&gone->timer);
    free(gone);
}

void gpud_tcp_channel_destroy(struct tcp_channel *channel)
{
    end_opening(channel);
    gpud_tls_end(&channel->tls);
    close_socket(&channel->fd);
    gpud_received_remove(&channel->received);
    while (channel->unread.first) {
        struct tcp_message *gone = channel->unread.first;
        channel->unread.first = gone->next;
        free(gone);
    }
    free(channel->pieces);
    free(channel->small);
    gpud_fd_close(&channel->event);
    gpud_fd_close(&channel->base.fd);
    gpud_lock_destroy(&channel->receive_lock);
    gpud_lock_destroy(&channel->lock);
    free(channel);
}

static enum gpud_status create(bool is_sender, const struct gpud_place *place,
                               const struct gpud_access_rule *access, struct tcp_channel **channel,
                               struct gpud_error *error)
{
    struct tcp_channel *made = calloc(1, sizeof(*made));
    struct tcp_opening *opening = calloc(1, sizeof(*opening));
    if (!made || !opening) {
        free(made);
        free(opening);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    }
    made->base.ops = &gpud_tcp_channel_ops;
    atomic_init(&made->base.references, 1);
    made->base.peer_fd = made->fd = -1;
    made->base.peer = (struct gpud_peer){.uid = (uid_t)-1, .foreign = true};
    gpud_print(made->base.peer.host, "%s", place->host);
    made->is_sender = is_sender;
    made->place = *place;
    if (access)
        made->access = *access;
    made->received.lock = -1;
    made->opening = opening;
    opening->next_attempt = INT64_MAX;
    for (size_t i = 0; i < GPUD_LOOKUP_MAX; i++)
        opening->attempts[i] = -1;
    gpud_lock_init(&made->lock, GPUD_RANK_TCP_CHANNEL);
    gpud_lock_init(&made->receive_lock, GPUD_RANK_TCP_RECEIVE);
    made->base.fd = epoll_create1(EPOLL_CLOEXEC);
    made->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    opening->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made->base.fd < 0 || made->event < 0 || opening->timer < 0 ||
        !gpud_fd_watch(made->base.fd, made->event) ||
        !gpud_fd_watch(made->base.fd, opening->timer)) {
        enum gpud_status status = gpud_fail_errno(error, "no descriptors for a connection");
        gpud_tcp_channel_destroy(made);
        return status;
    }
    *channel = made;
    return GPUD_OK;
}

/* === opening ================================================================================= */

static void set_timer(const struct tcp_opening *opening)
{
    bool sooner = opening->next_attempt < opening->deadline;
    struct itimerspec until = {0};
    until.it_value = gpud_timespec(sooner ? opening->next_attempt : opening->deadline);
    timerfd_settime(opening->timer, TFD_TIMER_ABSTIME, &until, NULL);
}

/* Ends a channel that is not open yet. */
static void end_locked(struct tcp_channel *channel, const struct gpud_error *why)
{
    channel->end = *why;
    channel->phase = TCP_ENDED;
    if (!channel->opening->asks_names) /* its answer is still to be read */
        end_opening(channel);
    gpud_tls_end(&channel->tls);
    close_socket(&channel->fd);
    gpud_event_raise(channel->event);
}

static void time_out(struct tcp_channel *channel)
{
    struct gpud_error why;
    int seconds = (int)(gpud_tcp_handshake_deadline / GPUD_SEC);
    if (channel->phase == TCP_LOOKING_UP)
        gpud_fail(&why, GPUD_CLOSED, "looking up the address of the host \"%s\" takes too long",
                  channel->place.host);
    else if (channel->phase == TCP_PROVING)
        gpud_fail(&why, GPUD_CLOSED, "%s did not prove within %d s who it is: is it stopped?",
                  channel->where, seconds);
    else
        gpud_fail(&why, GPUD_CLOSED,
                  "%s did not answer within %d s: is the sender stopped, the network between "
                  "broken, or the port closed by a firewall?",
                  channel->where, seconds);
    end_locked(channel, &why);
}

/* The channel is open for messages: the I/O thread has the socket. */
static void open_locked(struct tcp_channel *channel)
{
    struct gpud_error why;
    char text[sizeof(channel->base.encryption)] = "no";
    if (channel->tls)
        gpud_tls_describe(channel->tls, text, sizeof(text));
    gpud_print(channel->base.encryption, "%s", text);
    watch(channel, channel->fd, 0);
    if (gpud_io_add(channel, &why) != GPUD_OK) {
        end_locked(channel, &why);
        return;
    }
    channel->phase = TCP_OPEN;
    end_opening(channel);
    if (!channel->is_sender)
        gpud_received_note(&channel->received, channel->where);
    atomic_store(&channel->base.connected, true);
    gpud_event_raise(channel->event);
}

static void prove(struct tcp_channel *channel)
{
    struct gpud_error why;
    bool wants_write = false;
    enum gpud_status status = GPUD_OK;
    char first;
    /* A receiver that says nothing costs a sender no more than a socket. */
    if (!channel->tls && channel->is_sender &&
        recv(channel->fd, &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT) < 0 &&
        (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        status = GPUD_AGAIN;
    else if (!channel->tls)
        status = gpud_tls_begin(&channel->tls, channel->fd, channel->is_sender, &channel->access,
                                channel->place.name, channel->place.host, channel->where, &why);
    if (status == GPUD_OK)
        status = gpud_tls_handshake(channel->tls, &wants_write, &why);
    if (status == GPUD_OK)
        open_locked(channel);
    else if (status == GPUD_AGAIN)
        watch(channel, channel->fd, wants_write ? EPOLLOUT : EPOLLIN);
    else
        end_locked(channel, &why);
}

/* Request and reply are exchanged. */
static void begin_proof(struct tcp_channel *channel)
{
    if (gpud_tls_proof(&channel->access) == TCP_PROOF_NONE) {
        open_locked(channel);
        return;
    }
    channel->phase = TCP_PROVING;
    prove(channel);
}

/* false: not all is sent yet, or the channel has ended. */
static bool send_out(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    struct gpud_error why;
    while (opening->out_sent < opening->out_size) {
        ssize_t put = send(channel->fd, opening->out + opening->out_sent,
                           opening->out_size - opening->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            watch(channel, channel->fd, EPOLLOUT);
            return false;
        }
        if (put < 0) {
            int number = errno;
            gpud_fail_native(&why, GPUD_CLOSED, "errno", number, "%s cut the connection: %s",
                             channel->where, strerror(number));
            end_locked(channel, &why);
            return false;
        }
        opening->out_sent += (size_t)put;
    }
    watch(channel, channel->fd, EPOLLIN);
    return true;
}

static void handle_reply(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    struct gpud_error why;
    uint32_t number;
    enum gpud_status status = gpud_reply_read(opening->in, opening->in_size, &number, &why);
    if (opening->in_size == GPUD_REPLY_SIZE && status == GPUD_OK &&
        number == (uint32_t)gpud_tls_proof(&channel->access) && !opening->asks_names) {
        begin_proof(channel);
        return;
    }
    struct gpud_refusal refusal;
    status = gpud_refusal_read(opening->in, opening->in_size, &refusal, &why);
    if (status == GPUD_OK) {
        gpud_refusal_explain(&refusal, &channel->place, &why);
        opening->refusal = refusal;
    } else {
        gpud_fail(&why, GPUD_PEER, "the program that listens on %s is not a gpudirect sender",
                  channel->where);
    }
    end_locked(channel, &why);
}

/* The receiver's: sends the request, and awaits its answer. */
static void ask(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    struct gpud_error why;
    if (!send_out(channel))
        return;
    for (;;) {
        size_t size =
            opening->in_size < GPUD_REPLY_SIZE ? GPUD_REPLY_SIZE : gpud_request_length(opening->in);
        if (size > sizeof(opening->in) || size == opening->in_size) {
            handle_reply(channel);
            return;
        }
        ssize_t got = recv(channel->fd, opening->in + opening->in_size, size - opening->in_size, 0);
        if (got > 0) {
            opening->in_size += (size_t)got;
            continue;
        }
        if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        gpud_fail(&why, GPUD_CLOSED,
                  "%s closed the connection before it answered: is another program there, or too "
                  "many that connect?",
                  channel->where);
        end_locked(channel, &why);
        return;
    }
}

/* The socket is connected. */
static void begin_to_ask(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    struct gpud_request wanted = {
        .number = opening->asks_names ? 0 : (uint32_t)gpud_tls_proof(&channel->access)};
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    getpeername(channel->fd, (struct sockaddr *)&peer, &size);
    channel->base.peer.own_address = gpud_network_is_own(&peer);
    gpud_print(wanted.name, "%s", channel->place.name);
    opening->out_size = gpud_request_write(&wanted, opening->out);
    opening->next_attempt = INT64_MAX;
    set_timer(opening);
    channel->phase = TCP_ASKING;
    ask(channel);
}

/* --- to one of the addresses ---------------------------------------------------------------- */

static void explain_connect(struct tcp_channel *channel, int number, struct gpud_error *why)
{
    switch (number) {
    case ECONNREFUSED:
        gpud_fail_native(why, GPUD_CLOSED, "errno", number,
                         "no sender listens on %s: is it running there, and is the port right?",
                         channel->where);
        break;
    case ENETUNREACH:
    case EHOSTUNREACH:
        gpud_fail_native(why, GPUD_CLOSED, "errno", number,
                         "cannot connect to %s: no route leads there, or a firewall refuses it "
                         "(ip route get ADDRESS)",
                         channel->where);
        break;
    case ETIMEDOUT:
        gpud_fail_native(why, GPUD_CLOSED, "errno", number,
                         "cannot connect to %s: no host has this address, or the host is down "
                         "(ping it), or a firewall drops what comes to the port",
                         channel->where);
        break;
    case EINVAL:
        gpud_fail_native(why, GPUD_CLOSED, "errno", number,
                         "cannot connect to %s: this host does not have that interface (ip link)",
                         channel->where);
        break;
    default:
        gpud_fail_native(why, GPUD_CLOSED, "errno", number, "cannot connect to %s: %s",
                         channel->where, strerror(number));
    }
}

/* Begins to connect to the next address; a failure is only noted. */
static void try_next(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    size_t i = opening->next++;
    const struct sockaddr_storage *address = &opening->addresses[i];
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        gpud_fail_errno(&channel->end, "no descriptor to connect to %s", channel->where);
        return;
    }
    set_up_socket(fd);
    if (connect(fd, (const struct sockaddr *)address, size_of(address)) < 0 &&
        errno != EINPROGRESS) {
        explain_connect(channel, errno, &channel->end);
        close_socket(&fd);
        return;
    }
    opening->attempts[i] = fd;
    watch(channel, fd, EPOLLOUT);
}

static void connect_on(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    for (;;) {
        size_t pending = 0;
        for (size_t i = 0; i < opening->next; i++) {
            struct pollfd poller = {.fd = opening->attempts[i], .events = POLLOUT};
            int number = 0;
            socklen_t size = sizeof(number);
            if (poller.fd < 0)
                continue;
            if (poll(&poller, 1, 0) <= 0) {
                pending++;
                continue;
            }
            if (getsockopt(poller.fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0)
                number = errno;
            if (number) {
                explain_connect(channel, number, &channel->end);
                close_socket(&opening->attempts[i]);
                continue;
            }
            channel->fd = poller.fd;
            opening->attempts[i] = -1;
            for (size_t j = 0; j < opening->next; j++)
                close_socket(&opening->attempts[j]);
            begin_to_ask(channel);
            return;
        }
        bool more = opening->next < opening->count;
        if (!more && pending == 0) {
            struct gpud_error why = channel->end;
            end_locked(channel, &why);
            return;
        }
        if (!more || (pending > 0 && gpud_now() < opening->next_attempt))
            return;
        try_next(channel);
        opening->next_attempt = opening->next < opening->count ? gpud_deadline(ATTEMPT) : INT64_MAX;
        set_timer(opening);
    }
}

static void drive_locked(struct tcp_channel *channel)
{
    struct tcp_opening *opening = channel->opening;
    struct gpud_error why;
    if (channel->phase >= TCP_OPEN)
        return;
    if (channel->phase == TCP_LOOKING_UP) {
        enum gpud_status status =
            gpud_lookup_get(opening->lookup, opening->addresses, &opening->count, &why);
        if (status == GPUD_OK)
            channel->phase = TCP_CONNECTING;
        else if (status != GPUD_AGAIN)
            end_locked(channel, &why);
    }
    if (channel->phase == TCP_CONNECTING)
        connect_on(channel);
    else if (channel->phase == TCP_ASKING && !channel->is_sender)
        ask(channel);
    else if (channel->phase == TCP_ASKING && send_out(channel))
        begin_proof(channel);
    else if (channel->phase == TCP_PROVING)
        prove(channel);
    if (channel->phase < TCP_OPEN && gpud_now() >= channel->opening->deadline)
        time_out(channel);
}

/* Begins to connect; the channel is not connected yet. */
static enum gpud_status begin(struct tcp_channel *channel, struct gpud_error *error)
{
    struct tcp_opening *opening = channel->opening;
    opening->deadline = gpud_deadline(gpud_tcp_handshake_deadline);
    set_timer(opening);
    if (!gpud_place_to_sockaddr(&channel->place, &opening->addresses[0]))
        return gpud_lookup_begin(&gpud_tcp_scheme, &channel->place, channel->event,
                                 &opening->lookup, error);
    opening->count = 1;
    gpud_lock_take(&channel->lock);
    channel->phase = TCP_CONNECTING;
    drive_locked(channel); /* receiving reports a failure, now or later */
    gpud_lock_release(&channel->lock);
    return GPUD_OK;
}

/* === channel ================================================================================= */

static enum gpud_status connect_to(const struct gpud_address *address,
                                   const struct gpud_access_rule *access,
                                   struct gpud_channel **channel, struct gpud_peer *peer,
                                   struct gpud_error *error)
{
    struct gpud_place place;
    struct tcp_channel *made;
    enum gpud_status status =
        gpud_place_parse(&gpud_tcp_scheme, address->text, &place, NULL, error);
    if (status == GPUD_OK && gpud_place_is_wildcard(&place))
        status =
            gpud_fail(error, GPUD_INVALID,
                      "%s means every address, to listen on: give the sender's own", place.host);
    /* First, so that a wrong file is reported though no sender is there. */
    if (status == GPUD_OK)
        status = gpud_tls_check(access, false, error);
    if (status == GPUD_OK)
        status = create(false, &place, access, &made, error);
    if (status != GPUD_OK)
        return status;
    *peer = made->base.peer;
    gpud_print(made->where, "%s", address->place);
    status = begin(made, error);
    if (status == GPUD_OK)
        *channel = &made->base;
    else
        gpud_tcp_channel_destroy(made);
    return status;
}

static enum gpud_status send_message(struct gpud_channel *base, struct gpud_message *message,
                                     struct gpud_error *error)
{
    struct tcp_channel *channel = (struct tcp_channel *)base;
    uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size;
    if (!gpud_message_can_travel(message))
        return gpud_fail(error, GPUD_INVALID,
                         "a %s with memory of this host cannot be sent to another one",
                         gpud_message_name(message->type));
    enum gpud_status status = gpud_message_encode(message, bytes, sizeof(bytes), &size, error);
    if (status != GPUD_OK)
        return status;
    struct tcp_header header = {.type = TCP_MESSAGE, .size = (uint32_t)size};
    gpud_lock_take(&channel->lock);
    drive_locked(channel);
    if (channel->hung_up)
        status = gpud_fail(error, GPUD_PEER, "this side hung up");
    else if (channel->phase == TCP_ENDED || channel->ended)
        status = gpud_fail(error, GPUD_PEER, "%s", channel->end.reason);
    else if (channel->unsent >= TCP_UNSENT_MAX)
        status = gpud_fail(error, GPUD_AGAIN, "%s reads nothing", channel->where);
    else if (!gpud_io_queue_small(channel, NULL, &header, bytes))
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a message");
    else
        gpud_io_wake(channel);
    gpud_lock_release(&channel->lock);
    return status;
}

/* The status that callers distinguish, with the reason. */
static enum gpud_status report_end(const struct tcp_channel *channel, struct gpud_error *error)
{
    enum gpud_status status = channel->end.status;
    if (status != GPUD_NO_ACCESS && status != GPUD_UNSUPPORTED && status != GPUD_PEER)
        status = GPUD_CLOSED;
    if (error) {
        *error = channel->end;
        error->status = status;
    }
    return status;
}

static enum gpud_status take_message(struct tcp_channel *channel, struct gpud_message *message,
                                     struct gpud_error *error)
{
    struct tcp_messages *unread = &channel->unread;
    struct tcp_message *one = unread->first;
    unread->first = one->next;
    if (unread->count-- == TCP_UNREAD_MAX / 2)
        gpud_io_wake(channel); /* the socket may be read again */
    enum gpud_status status = gpud_message_decode(message, one->bytes, one->size, error);
    free(one);
    if (status == GPUD_OK && !gpud_message_can_travel(message))
        status = gpud_fail(error, GPUD_PEER, "the peer sent a %s with memory of its own host",
                           gpud_message_name(message->type));
    return status;
}

/* The caller sees the channel connected before it gets the first message. */
static enum gpud_status receive_message(struct gpud_channel *base, struct gpud_message *message,
                                        struct gpud_error *error)
{
    struct tcp_channel *channel = (struct tcp_channel *)base;
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&channel->lock);
    bool was_open = channel->phase == TCP_OPEN;
    if (channel->phase < TCP_OPEN) { /* the end stays readable */
        gpud_event_drain(channel->event);
        drive_locked(channel);
    }
    if (channel->hung_up) {
        status = gpud_fail(error, GPUD_CLOSED, "this side hung up");
    } else if (channel->phase == TCP_ENDED) {
        status = report_end(channel, error);
    } else if (was_open && channel->unread.first) {
        status = take_message(channel, message, error);
    } else if (was_open && channel->ended) {
        status = report_end(channel, error);
    } else if (was_open) {
        gpud_event_drain(channel->event); /* before the look: the I/O thread sets it and raises */
        if (atomic_exchange(&channel->kicked, false)) {
            message->type = GPUD_MESSAGE_KICK;
            message->position = 0;
            status = GPUD_OK;
        }
    }
    gpud_lock_release(&channel->lock);
    return status;
}

static bool is_dead(const struct gpud_channel *base)
{
    struct tcp_channel *channel = (struct tcp_channel *)base;
    gpud_lock_take(&channel->lock);
    drive_locked(channel);
    bool dead = channel->phase == TCP_ENDED || channel->hung_up || channel->ended;
    gpud_lock_release(&channel->lock);
    return dead;
}

static void hang_up(struct gpud_channel *base)
{
    struct tcp_channel *channel = (struct tcp_channel *)base;
    struct gpud_error why;
    gpud_lock_take(&channel->lock);
    if (channel->phase < TCP_OPEN) {
        gpud_fail(&why, GPUD_CLOSED, "this side hung up");
        end_locked(channel, &why);
    }
    channel->hung_up = true;
    gpud_io_wake(channel);
    gpud_event_raise(channel->event);
    gpud_lock_release(&channel->lock);
}

static void close_channel(struct gpud_channel *base)
{
    gpud_io_leave((struct tcp_channel *)base);
}

/* === listening =============================================================================== */
/* Processes of one user share a port, too (wire/network.h): the one that has it reads the request,
 * and hands the connection itself to the process that sends the channel, over a Unix socket. So a
 * firewall needs to open one port for all of them. That socket is an abstract one, of the network
 * namespace, as the port is. */

#define BACKLOG 4096

/* Connections whose request has not come. The oldest makes room for one more. */
#define PENDING_MAX 256
#define PENDING_DEADLINE (2 * GPUD_SEC)
#define ACCEPTS 64

struct tcp_pending {
    struct tcp_pending *next;
    int fd;
    int64_t deadline;
    uint8_t bytes[GPUD_REQUEST_MAX];
    size_t size;
};

struct tcp_hub {
    struct gpud_hub base; /* first */
    int fd, own;          /* listening; where the holder sends connections. −1: not */
    int timer;            /* while there are pending ones */
    struct tcp_pending *first, *last;
    uint32_t count;
};

struct tcp_listener {
    struct gpud_hub_listener hub; /* first */
    struct gpud_access_rule access;
};

static enum gpud_status hub_open(struct gpud_hub *base, struct gpud_error *error)
{
    struct tcp_hub *hub = (struct tcp_hub *)base;
    hub->fd = hub->own = -1;
    base->events = epoll_create1(EPOLL_CLOEXEC);
    hub->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (base->events < 0 || hub->timer < 0 || !gpud_fd_watch(base->events, hub->timer))
        return gpud_fail_errno(error, "no descriptors to listen");
    return GPUD_OK;
}

static void drop(struct tcp_pending *pending)
{
    close_socket(&pending->fd);
    free(pending);
}

static void hub_close(struct gpud_hub *base)
{
    struct tcp_hub *hub = (struct tcp_hub *)base;
    while (hub->first) {
        struct tcp_pending *gone = hub->first;
        hub->first = gone->next;
        drop(gone);
    }
    close_socket(&hub->fd);
    gpud_fd_close(&hub->own);
    gpud_fd_close(&hub->timer);
    gpud_fd_close(&base->events);
}

static socklen_t own_name(uint16_t number, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = gpud_print_n(name->sun_path + 1, sizeof(name->sun_path) - 1, "gpudirect-tcp-%u-%u",
                              (unsigned)geteuid(), number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int listen_on_own(struct tcp_hub *hub)
{
    struct sockaddr_un name;
    int on = 1, number = EADDRINUSE;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    for (uint32_t i = 0; number == EADDRINUSE && i < UINT16_MAX; i++) {
        uint16_t own = (uint16_t)(1 + ((uint32_t)getpid() + i) % UINT16_MAX);
        socklen_t size = own_name(own, &name);
        number = bind(fd, (const struct sockaddr *)&name, size) == 0 ? 0 : errno;
        hub->base.port.own_number = own;
    }
    if (number == 0 && (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
                        !gpud_fd_watch(hub->base.events, fd)))
        number = errno;
    if (number)
        gpud_fd_close(&fd);
    hub->own = fd;
    return number;
}

static int hub_listen(struct gpud_hub *base, bool own)
{
    struct tcp_hub *hub = (struct tcp_hub *)base;
    int on = 1, off = 0;
    if (own)
        return listen_on_own(hub);
    int fd = socket(base->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    gpud_fd_keep_from_children(fd); /* else a child would keep the port */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (base->address.ss_family == AF_INET6) /* [::] is every address, of IPv4 too */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, (const struct sockaddr *)&base->address, size_of(&base->address)) < 0 ||
        listen(fd, BACKLOG) < 0 || !gpud_fd_watch(base->events, fd)) {
        int number = errno;
        close_socket(&fd);
        return number;
    }
    hub->fd = fd;
    return 0;
}

static bool hub_listens(const struct gpud_hub *base, bool own)
{
    const struct tcp_hub *hub = (const struct tcp_hub *)base;
    return (own ? hub->own : hub->fd) >= 0;
}

static enum gpud_status hub_explain(int number, const char *where, struct gpud_error *error)
{
    if (number == EADDRNOTAVAIL)
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot listen on %s: it is not an address of this host (ip "
                                "address)",
                                where);
    if (number == EACCES)
        return gpud_fail_native(error, GPUD_NO_ACCESS, "errno", number,
                                "cannot listen on %s: ports below 1024 are for root", where);
    if (number == EINVAL)
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot listen on %s: this host does not have that interface (ip "
                                "link)",
                                where);
    errno = number;
    return gpud_fail_errno(error, "cannot listen on %s", where);
}

static void hub_refuse(void *connection, const struct gpud_refusal *refusal)
{
    struct tcp_pending *pending = connection;
    uint8_t bytes[GPUD_REFUSAL_MAX];
    if (refusal)
        send(pending->fd, bytes, gpud_refusal_write(refusal, bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    drop(pending);
}

/* Hands the connection to another process of this user. */
static bool hub_redirect(struct gpud_hub *hub, const struct gpud_incoming *incoming,
                         uint16_t number, struct gpud_refusal *refusal)
{
    struct tcp_pending *pending = incoming->connection;
    struct sockaddr_un name;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = pending->bytes, .iov_len = pending->size};
    struct msghdr message = {
        .msg_name = &name,
        .msg_namelen = own_name(number, &name),
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &pending->fd, sizeof(int));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool sent = fd >= 0 && sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    gpud_fd_close(&fd);
    if (sent)
        drop(pending);
    refusal->reason = GPUD_REFUSAL_BUSY;
    return sent;
}

static int64_t hub_find_host(const void *connection)
{
    const struct tcp_pending *pending = connection;
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    struct gpud_peer peer = {.pid = 0};
    getpeername(pending->fd, (struct sockaddr *)&address, &size);
    gpud_sockaddr_print_host((const struct sockaddr *)&address, peer.host, sizeof(peer.host));
    return gpud_peer_key(&peer);
}

/* The next connection from the process that has the port. */
static struct tcp_pending *take_handed(const struct tcp_hub *hub, bool *more)
{
    struct tcp_pending *pending = calloc(1, sizeof(*pending));
    union {
        char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iovlen = 1, .msg_control = control.bytes};
    struct ucred who = {.uid = (uid_t)-1};
    *more = false;
    if (!pending)
        return NULL;
    struct iovec part = {.iov_base = pending->bytes, .iov_len = sizeof(pending->bytes)};
    message.msg_iov = &part;
    message.msg_controllen = sizeof(control.bytes);
    pending->fd = -1;
    ssize_t got = recvmsg(hub->own, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    *more = got >= 0;
    for (struct cmsghdr *one = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL; one;
         one = CMSG_NXTHDR(&message, one)) {
        size_t size = one->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; one->cmsg_type == SCM_RIGHTS && at < size; at += sizeof(int)) {
            gpud_fd_close(&pending->fd); /* a stranger's may be several */
            memcpy(&pending->fd, CMSG_DATA(one) + at, sizeof(int));
        }
        if (one->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(one), sizeof(who));
    }
    pending->size = got > 0 ? (size_t)got : 0;
    if (pending->fd >= 0)
        set_up_socket(pending->fd);
    if (pending->fd >= 0 && (who.uid == geteuid() || who.uid == 0))
        return pending;
    drop(pending);
    return NULL;
}

static void unlink_pending(struct tcp_hub *hub, struct tcp_pending *gone)
{
    struct tcp_pending **link = &hub->first, *before = NULL;
    while (*link != gone) {
        before = *link;
        link = &before->next;
    }
    *link = gone->next;
    if (hub->last == gone)
        hub->last = before;
    hub->count--;
    epoll_ctl(hub->base.events, EPOLL_CTL_DEL, gone->fd, NULL);
}

/* Reads a request, and not a byte more: what follows is TLS's. */
static void read_request(struct tcp_hub *hub, struct tcp_pending *pending)
{
    for (;;) {
        size_t size =
            pending->size < GPUD_REPLY_SIZE ? GPUD_REPLY_SIZE : gpud_request_length(pending->bytes);
        if (size > sizeof(pending->bytes) || size == pending->size) {
            unlink_pending(hub, pending);
            gpud_hub_enqueue(&hub->base, pending, 0, pending->bytes, pending->size);
            return;
        }
        ssize_t got = recv(pending->fd, pending->bytes + pending->size, size - pending->size, 0);
        if (got > 0) {
            pending->size += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            unlink_pending(hub, pending);
            drop(pending);
            return;
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void accept_some(struct tcp_hub *hub, int64_t now)
{
    for (int i = 0; hub->fd >= 0 && i < ACCEPTS; i++) {
        int fd = accept4(hub->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        /* Where no descriptor or memory is left, the connection stays in the kernel's queue. */
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            hub->base.failed = errno;
        if (fd < 0)
            return;
        struct tcp_pending *made = calloc(1, sizeof(*made));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = made};
        if (!made || epoll_ctl(hub->base.events, EPOLL_CTL_ADD, fd, &event) < 0) {
            gpud_fd_close(&fd);
            free(made);
            return;
        }
        set_up_socket(fd);
        made->fd = fd;
        made->deadline = now + PENDING_DEADLINE;
        *(hub->first ? &hub->last->next : &hub->first) = made;
        hub->last = made;
        if (++hub->count > PENDING_MAX) {
            struct tcp_pending *oldest = hub->first;
            unlink_pending(hub, oldest);
            drop(oldest);
        }
    }
}

static void hub_take(struct gpud_hub *base)
{
    struct tcp_hub *hub = (struct tcp_hub *)base;
    struct epoll_event events[ACCEPTS];
    struct itimerspec until = {0};
    int64_t now = gpud_now();
    int count = epoll_wait(base->events, events, ACCEPTS, 0);
    base->failed = 0;
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr)
            read_request(hub, events[i].data.ptr);
    bool more = hub->own >= 0;
    for (int i = 0; more && i < ACCEPTS; i++) {
        struct tcp_pending *handed = take_handed(hub, &more);
        if (handed)
            gpud_hub_enqueue(base, handed, 0, handed->bytes, handed->size);
    }
    accept_some(hub, now);
    while (hub->first && now >= hub->first->deadline) {
        struct tcp_pending *late = hub->first;
        unlink_pending(hub, late);
        drop(late);
    }
    gpud_event_drain(hub->timer);
    if (hub->first)
        until.it_value = gpud_timespec(hub->first->deadline);
    timerfd_settime(hub->timer, TFD_TIMER_ABSTIME, &until, NULL);
}

static const struct gpud_hub_ops hub_ops = {
    .scheme = &gpud_tcp_scheme,
    .size = sizeof(struct tcp_hub),
    .open = hub_open,
    .close = hub_close,
    .listen = hub_listen,
    .listens = hub_listens,
    .explain = hub_explain,
    .take = hub_take,
    .redirect = hub_redirect,
    .refuse = hub_refuse,
    .find_host = hub_find_host,
};

static void unlisten(struct gpud_listener *base)
{
    struct tcp_listener *listener = (struct tcp_listener *)base;
    gpud_hub_unlisten(&listener->hub);
    free(listener);
}

static enum gpud_status listen_on(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error)
{
    struct sockaddr_storage bound;
    struct tcp_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", address->place);
    struct gpud_place *place = &made->hub.place;
    made->hub.base.ops = &gpud_tcp_channel_ops;
    made->hub.base.fd = made->hub.event = -1;
    gpud_print(made->hub.where, "%s", address->place);
    if (access)
        made->access = *access;
    made->hub.base.encrypts = gpud_tls_proof(access) != TCP_PROOF_NONE;
    enum gpud_status status =
        gpud_place_parse(&gpud_tcp_scheme, made->hub.where, place, NULL, error);
    if (status == GPUD_OK && !gpud_place_to_sockaddr(place, &bound))
        status = gpud_fail(error, GPUD_INVALID,
                           "cannot listen on the name \"%s\": give an address of this host, or "
                           "tcp://:%u/NAME for all of them",
                           place->host, place->port);
    if (status == GPUD_OK)
        status = gpud_tls_check(access, true, error);
    if (status == GPUD_OK)
        status = gpud_auth_may_listen((const struct sockaddr *)&bound,
                                      gpud_tls_proof(access) != TCP_PROOF_NONE,
                                      access && access->allow_unauthenticated, error);
    if (status == GPUD_OK)
        status = gpud_hub_listen(&made->hub, &hub_ops, &bound, error);
    if (status == GPUD_OK)
        *listener = &made->hub.base;
    else
        unlisten(&made->hub.base);
    return status;
}

/* The receiver proves who it is in another way than the sender wants. */
static enum gpud_status refuse_proof(enum tcp_proof wanted, uint32_t given,
                                     struct tcp_pending *pending, struct gpud_error *error)
{
    struct gpud_refusal refusal = {.reason = GPUD_REFUSAL_PROOF};
    static const char *const names[] = {
        [TCP_PROOF_NONE] = "none",
        [TCP_PROOF_KEY] = "key",
        [TCP_PROOF_CERTIFICATE] = "certificate",
    };
    gpud_print(refusal.names, "%s", names[wanted]);
    if (given > TCP_PROOF_CERTIFICATE)
        refusal = (struct gpud_refusal){.reason = GPUD_REFUSAL_MALFORMED};
    hub_refuse(pending, &refusal);
    if (given > TCP_PROOF_CERTIFICATE)
        return gpud_fail(error, GPUD_NO_ACCESS, "its request is malformed");
    if (wanted == TCP_PROOF_NONE)
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "it wants this sender to prove who it is: set psk-file here, too, to a "
                         "copy of that one's, or tls-certificate, tls-key and tls-ca");
    return gpud_fail(error, GPUD_NO_ACCESS,
                     "it comes with %s%s, and this sender wants a %s: set %s there, too",
                     given == TCP_PROOF_NONE ? "neither a key nor a certificate" : "a ",
                     given == TCP_PROOF_NONE ? "" : names[given], names[wanted],
                     wanted == TCP_PROOF_KEY ? "psk-file" : "tls-certificate, tls-key and tls-ca");
}

static enum gpud_status accept_one(struct gpud_listener *base, struct gpud_channel **channel,
                                   struct gpud_peer *peer, struct gpud_error *error)
{
    struct tcp_listener *listener = (struct tcp_listener *)base;
    struct gpud_refusal unable = {.reason = GPUD_REFUSAL_UNABLE};
    struct sockaddr_storage address = {0};
    struct gpud_incoming incoming;
    struct tcp_channel *made;
    socklen_t size = sizeof(address);
    enum gpud_status status = gpud_hub_look(&listener->hub, channel, peer, error);
    if (status != GPUD_OK || *channel)
        return status;
    status = gpud_hub_next(&listener->hub, &incoming, NULL, NULL, error);
    if (status != GPUD_OK)
        return status;
    struct tcp_pending *pending = incoming.connection;
    enum tcp_proof wanted = gpud_tls_proof(&listener->access);
    *peer = (struct gpud_peer){.uid = (uid_t)-1, .foreign = true};
    getpeername(pending->fd, (struct sockaddr *)&address, &size);
    gpud_sockaddr_print_host((const struct sockaddr *)&address, peer->host, sizeof(peer->host));
    peer->own_address = gpud_network_is_own(&address);
    if (incoming.request.number != (uint32_t)wanted)
        return refuse_proof(wanted, incoming.request.number, pending, error);
    status = create(true, &listener->hub.place, &listener->access, &made, error);
    if (status != GPUD_OK) {
        hub_refuse(pending, &unable);
        return status;
    }
    made->base.peer = *peer;
    gpud_print(made->where, "the receiver at %s", peer->host);
    gpud_print(made->place.name, "%s", incoming.request.name);
    made->fd = pending->fd;
    free(pending);
    made->opening->deadline = gpud_deadline(gpud_tcp_handshake_deadline);
    made->opening->out_size = gpud_reply_write((uint32_t)wanted, made->opening->out);
    set_timer(made->opening);
    gpud_lock_take(&made->lock);
    made->phase = TCP_ASKING;
    drive_locked(made);
    gpud_lock_release(&made->lock);
    *channel = &made->base;
    return GPUD_OK;
}

const struct gpud_channel_ops gpud_tcp_channel_ops = {
    .listen = listen_on,
    .unlisten = unlisten,
    .accept = accept_one,
    .connect = connect_to,
    .send = send_message,
    .receive = receive_message,
    .is_dead = is_dead,
    .hang_up = hang_up,
    .close = close_channel,
    .tell = gpud_hub_tell,
    .remote = &gpud_tcp_remote_ops,
};

/* === names =================================================================================== */

enum gpud_status gpud_tcp_ask_names(const struct gpud_place *place, const char *port,
                                    int64_t deadline, char *names, size_t size,
                                    struct gpud_error *error)
{
    struct gpud_message message;
    struct tcp_channel *channel;
    enum gpud_status status = create(false, place, NULL, &channel, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_channel *base = &channel->base;
    gpud_print(channel->where, "%s", port);
    channel->opening->asks_names = true;
    status = begin(channel, error);
    while (status == GPUD_OK) {
        status = receive_message(base, &message, error);
        if (status != GPUD_AGAIN)
            break;
        status = gpud_channel_wait(base, deadline, NULL);
        if (status != GPUD_OK)
            status = gpud_fail(error, GPUD_CLOSED, "no answer came from %s in time", port);
    }
    /* The refusal of the request is the answer. */
    if (channel->opening && channel->opening->refusal.reason == GPUD_REFUSAL_NAMES) {
        gpud_print_n(names, size, "%s", channel->opening->refusal.names);
        status = GPUD_OK;
    }
    gpud_channel_unref(&base);
    return status;
}

void gpud_tcp_hint(const char *place, char *hint, size_t size)
{
    hint[0] = '\0';
}
