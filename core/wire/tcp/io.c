/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The I/O thread, one a process: it sends what the channels have queued, receives what comes, and
 * notices when a peer is gone. It runs while there are open channels, never waits for one of them,
 * and gives each a chunk's turn.
 *
 * A vanished peer (a pulled cable, lost power) is detected by what it does not acknowledge:
 * there is always something to be acknowledged, for a silent channel sends a PING. TCP_USER_TIMEOUT
 * is not used: it would also end the connection with a process that is only stopped, whose kernel
 * acknowledges and has no more room. */
#include "wire/tcp/tcp.h"

#include "base/base.h"

#include <endian.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* How often the channels are looked at, and when a silent one sends a PING. */
#define TICK (250 * GPUD_MSEC)

/* How long a peer may acknowledge nothing. With the time until something is sent to it, and until
 * the next look, a vanished one is detected within two seconds. A packet is sent three times in
 * this time, at least. */
#define SILENCE GPUD_SEC

/* Unanswered probes of a window that is closed: the peer was stopped, and then vanished. */
#define PROBES_MAX 6

/* What the kernel may hold that is not under way: more costs fewer wakes, and is more that a sender
 * cannot take back. So many bytes as are sent in LOWAT_TIME, within bounds; at first as of a slow
 * network. */
#define LOWAT_TIME (4 * GPUD_MSEC)
#define LOWAT_MIN (64 * 1024)
#define LOWAT_MAX (4 * 1024 * 1024)

#define OUT_MAX (TCP_HEADER_SIZE + GPUD_MESSAGE_MAX + 4096)
#define IN_MAX (TCP_HEADER_SIZE + GPUD_MESSAGE_MAX + 4096)
#define RECORD_MAX (4 * TCP_CHUNK) /* that a peer may send */

/* How many bytes a read takes beyond those of a frame: enough for what follows it. */
#define AHEAD 2048

/* Received from one channel in one turn. */
#define TURN (2 * TCP_CHUNK)

struct tcp_io {
    bool can_read, can_write, has_output, shut, is_in_list;
    bool orphan; /* under the channel's lock: no references */
    int64_t linger;

    /* Being sent: whole records in `out`, the last of which has bytes of a memory behind it. */
    uint8_t out[OUT_MAX];
    size_t out_size, out_sent;
    const char *payload;
    size_t payload_size;
    bool in_call; /* under the channel's lock: the thread reads from the payload */

    /* Received: the beginning of a record; or, of a DATA or META, bytes for `target`. */
    uint8_t in[IN_MAX];
    size_t in_first, in_size;
    uint64_t left;
    char *target; /* NULL: they are of a link that has ended */
    const struct tcp_remote *target_of;

    int64_t last_sent;
    uint64_t sent, sent_before; /* bytes, in all and at the last look */
    int lowat;
    int64_t stuck_since; /* when something began to wait for an acknowledgement; 0: nothing does */
};

static struct {
    struct gpud_lock lock; /* for the next members */
    bool runs, is_joinable;
    pid_t started_by; /* a child of fork() has these variables, but no thread */
    pthread_t thread;
    int poll, event;
    struct tcp_channel *added;

    _Atomic(struct tcp_channel *) ready;
    atomic_bool asleep, is_exiting;
} io = {.lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_TCP_IO), .poll = -1, .event = -1};

static char zeros[TCP_CHUNK];       /* sent instead of memory that is gone */
static char scratch[TCP_CHUNK / 4]; /* received for links that are gone */

void gpud_io_wake(struct tcp_channel *channel)
{
    if (!channel->io || atomic_exchange(&channel->is_ready, true))
        return; /* it has ended, or the thread has not looked at it yet */
    struct tcp_channel *first = atomic_load(&io.ready);
    do
        channel->next_ready = first;
    while (!atomic_compare_exchange_weak(&io.ready, &first, channel));
    if (atomic_exchange(&io.asleep, false))
        gpud_event_raise(io.event);
}

/* === the queue =============================================================================== */

static void write_header(uint8_t *bytes, const struct tcp_header *header)
{
    uint16_t type = htole16(header->type), flags = htole16(header->flags);
    uint32_t size = htole32(header->size), link = htole32(header->link);
    uint32_t entry = htole32(header->entry);
    uint64_t offset = htole64(header->offset);
    memcpy(bytes, &type, 2);
    memcpy(bytes + 2, &flags, 2);
    memcpy(bytes + 4, &size, 4);
    memcpy(bytes + 8, &link, 4);
    memcpy(bytes + 12, &entry, 4);
    memcpy(bytes + 16, &offset, 8);
}

static struct tcp_header read_header(const uint8_t *bytes)
{
    struct tcp_header header;
    memcpy(&header.type, bytes, 2);
    memcpy(&header.flags, bytes + 2, 2);
    memcpy(&header.size, bytes + 4, 4);
    memcpy(&header.link, bytes + 8, 4);
    memcpy(&header.entry, bytes + 12, 4);
    memcpy(&header.offset, bytes + 16, 8);
    header.type = le16toh(header.type);
    header.flags = le16toh(header.flags);
    header.size = le32toh(header.size);
    header.link = le32toh(header.link);
    header.entry = le32toh(header.entry);
    header.offset = le64toh(header.offset);
    return header;
}

static struct tcp_piece *piece_at(const struct tcp_channel *channel, uint32_t i)
{
    return &channel->pieces[(channel->piece_first + i) % channel->piece_room];
}

static struct tcp_piece *add_piece(struct tcp_channel *channel)
{
    if (channel->piece_count == channel->piece_room) {
        uint32_t room = channel->piece_room ? 2 * channel->piece_room : 32;
        struct tcp_piece *pieces = malloc(room * sizeof(*pieces));
        if (!pieces)
            return NULL;
        for (uint32_t i = 0; i < channel->piece_count; i++)
            pieces[i] = *piece_at(channel, i);
        free(channel->pieces);
        channel->pieces = pieces;
        channel->piece_room = room;
        channel->piece_first = 0;
    }
    return piece_at(channel, channel->piece_count++);
}

/* Copies bytes out of the ring of small records, from its beginning. */
static void peek_small(const struct tcp_channel *channel, uint8_t *bytes, size_t size)
{
    size_t first = channel->small_room - channel->small_first;
    if (first > size)
        first = size;
    memcpy(bytes, channel->small + channel->small_first, first);
    memcpy(bytes + first, channel->small, size - first);
}

static void take_small(struct tcp_channel *channel, size_t size)
{
    channel->small_first = (channel->small_first + size) % channel->small_room;
    channel->small_count -= size;
}

static void put_small(struct tcp_channel *channel, const void *bytes, size_t size)
{
    size_t at = (channel->small_first + channel->small_count) % channel->small_room;
    size_t first = channel->small_room - at;
    if (first > size)
        first = size;
    if (first > 0)
        memcpy(channel->small + at, bytes, first);
    if (size > first)
        memcpy(channel->small, (const char *)bytes + first, size - first);
    channel->small_count += size;
}

static bool make_room(struct tcp_channel *channel, size_t size)
{
    size_t room = channel->small_room ? channel->small_room : 4096;
    while (room < channel->small_count + size)
        room *= 2;
    if (room == channel->small_room)
        return true;
    uint8_t *small = malloc(room);
    if (!small)
        return false;
    if (channel->small_count)
        peek_small(channel, small, channel->small_count);
    free(channel->small);
    channel->small = small;
    channel->small_room = room;
    channel->small_first = 0;
    return true;
}

bool gpud_io_queue_small(struct tcp_channel *channel, struct tcp_remote *remote,
                         const struct tcp_header *header, const void *bytes)
{
    uint8_t start[TCP_HEADER_SIZE];
    struct tcp_piece *last =
        channel->piece_count ? piece_at(channel, channel->piece_count - 1) : NULL;
    size_t size = sizeof(start) + header->size;
    if (!make_room(channel, size))
        return false;
    if (!last || last->type != TCP_RANGE || last->remote != remote || last->is_dropped) {
        last = add_piece(channel);
        if (!last)
            return false;
        *last = (struct tcp_piece){.remote = remote, .type = TCP_RANGE};
    }
    write_header(start, header);
    put_small(channel, start, sizeof(start));
    put_small(channel, bytes, header->size);
    last->size += size;
    channel->unsent += header->type == TCP_MESSAGE;
    return true;
}

bool gpud_io_queue_large(struct tcp_channel *channel, struct tcp_remote *remote,
                         enum tcp_record type, uint32_t entry, uint64_t offset, const void *data,
                         uint64_t size)
{
    struct tcp_piece *piece = add_piece(channel);
    if (!piece)
        return false;
    *piece = (struct tcp_piece){
        .remote = remote,
        .type = type,
        .data = data,
        .size = size,
        .offset = offset,
        .entry = entry,
    };
    channel->large_count += size;
    return true;
}

bool gpud_io_has_pieces(const struct tcp_channel *channel, const struct tcp_remote *remote)
{
    if (channel->sending == remote)
        return true;
    for (uint32_t i = 0; i < channel->piece_count; i++)
        if (piece_at(channel, i)->remote == remote)
            return true;
    return false;
}

void gpud_io_drop(struct tcp_channel *channel, const struct tcp_remote *remote)
{
    while (channel->sending == remote && channel->io && channel->io->in_call) {
        gpud_lock_release(&channel->lock);
        gpud_nap(GPUD_MSEC / 10); /* for less than it takes to send a chunk */
        gpud_lock_take(&channel->lock);
    }
    if (channel->sending == remote && channel->io)
        channel->io->payload = zeros;
    if (channel->sending == remote)
        channel->sending = NULL;
    for (uint32_t i = 0; i < channel->piece_count; i++) {
        struct tcp_piece *piece = piece_at(channel, i);
        if (piece->remote != remote)
            continue;
        channel->large_count -= piece->type == TCP_RANGE ? 0 : piece->size;
        piece->remote = NULL;
        piece->is_dropped = true;
    }
}

void gpud_io_forget(struct tcp_channel *channel, const struct tcp_remote *remote)
{
    if (channel->io && channel->io->target_of == remote) {
        channel->io->target = NULL;
        channel->io->target_of = NULL;
    }
}

/* === the end of a channel ==================================================================== */

static void clear_queues(struct tcp_channel *channel)
{
    channel->unsent = 0;
    channel->piece_count = 0;
    channel->small_count = 0;
    channel->large_count = 0;
    channel->sending = NULL;
}

/* The connection is over: threads that wait for it find out. With receive_lock. */
static void end_channel(struct tcp_channel *channel, const struct gpud_error *why)
{
    gpud_lock_take(&channel->lock);
    if (!channel->ended) {
        channel->ended = true;
        channel->end = *why;
        clear_queues(channel);
        channel->io->payload_size = channel->io->out_size = channel->io->out_sent = 0;
        channel->io->has_output = false;
        gpud_received_remove(&channel->received);
        for (struct tcp_remote *one = channel->remotes; one; one = one->next)
            gpud_remote_wake(one);
        gpud_event_raise(channel->event);
    }
    gpud_lock_release(&channel->lock);
}

static void end_for(struct tcp_channel *channel, enum gpud_status status, const char *reason)
{
    struct gpud_error why;
    gpud_fail(&why, status, "%s", reason);
    end_channel(channel, &why);
}

static void break_off(struct tcp_channel *channel, const char *what)
{
    struct gpud_error why;
    gpud_fail(&why, GPUD_PEER, "%s broke the protocol: %s", channel->where, what);
    end_channel(channel, &why);
}

static void end_by_errno(struct tcp_channel *channel, int number)
{
    struct gpud_error why;
    if (number == ECONNRESET || number == EPIPE)
        gpud_fail_native(&why, GPUD_CLOSED, "errno", number, "%s cut the connection",
                         channel->where);
    else
        gpud_fail_native(&why, GPUD_CLOSED, "errno", number, "the connection with %s broke: %s",
                         channel->where, strerror(number));
    end_channel(channel, &why);
}

/* === sending ================================================================================= */

/* Takes what is to be sent next. */
static void build_locked(struct tcp_channel *channel, struct tcp_io *own)
{
    own->out_size = own->out_sent = 0;
    while (channel->piece_count > 0) {
        struct tcp_piece *piece = piece_at(channel, 0);
        if (piece->is_dropped) {
            if (piece->type == TCP_RANGE)
                take_small(channel, piece->size);
            piece->size = 0;
        } else if (piece->type == TCP_RANGE) {
            uint8_t start[TCP_HEADER_SIZE];
            peek_small(channel, start, sizeof(start));
            struct tcp_header header = read_header(start);
            size_t size = sizeof(start) + header.size;
            if (own->out_size + size > OUT_MAX)
                return;
            channel->unsent -= header.type == TCP_MESSAGE;
            peek_small(channel, own->out + own->out_size, size);
            take_small(channel, size);
            own->out_size += size;
            piece->size -= size;
        } else {
            size_t size = piece->size < TCP_CHUNK ? piece->size : TCP_CHUNK;
            struct tcp_header header = {
                .type = (uint16_t)piece->type,
                .size = (uint32_t)size,
                .link = piece->remote->peer_number,
                .entry = piece->entry,
                .offset = piece->offset,
            };
            if (own->out_size + TCP_HEADER_SIZE > OUT_MAX)
                return;
            write_header(own->out + own->out_size, &header);
            own->out_size += TCP_HEADER_SIZE;
            own->payload = piece->data;
            own->payload_size = size;
            channel->sending = piece->remote;
            piece->data += size;
            piece->offset += size;
            piece->size -= size;
            channel->large_count -= size;
        }
        if (piece->size == 0) {
            channel->piece_first = (channel->piece_first + 1) % channel->piece_room;
            channel->piece_count--;
        }
        if (own->payload_size > 0)
            return;
    }
}

static ssize_t put(struct tcp_channel *channel, struct tcp_io *own, struct gpud_error *error)
{
    struct iovec parts[] = {
        {.iov_base = own->out + own->out_sent, .iov_len = own->out_size - own->out_sent},
        {.iov_base = (void *)(uintptr_t)own->payload, .iov_len = own->payload_size},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (channel->tls)
        return gpud_tls_send(channel->tls, parts, 2, error);
    return sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Threads that wait for this side's memory, or for room, look again. */
static void tell_sent_locked(struct tcp_channel *channel)
{
    channel->sending = NULL;
    for (struct tcp_remote *one = channel->remotes; channel->large_count < TCP_ROOM && one;
         one = one->next)
        if (one->wants_room) {
            one->wants_room = false;
            gpud_remote_wake(one);
        }
}

static void send_some(struct tcp_channel *channel, struct tcp_io *own)
{
    struct gpud_error why;
    size_t sent = 0;
    while (own->can_write && sent < TCP_CHUNK) {
        gpud_lock_take(&channel->lock);
        if (own->out_sent == own->out_size && own->payload_size == 0)
            build_locked(channel, own);
        bool some = own->out_sent < own->out_size || own->payload_size > 0 ||
                    (channel->tls && gpud_tls_is_behind(channel->tls));
        own->in_call = some;
        own->has_output = some;
        gpud_lock_release(&channel->lock);
        if (!some)
            return;
        ssize_t done = put(channel, own, &why);
        int number = errno;
        gpud_lock_take(&channel->lock);
        own->in_call = false;
        if (done > 0) {
            size_t out = own->out_size - own->out_sent;
            size_t of_out = (size_t)done < out ? (size_t)done : out;
            own->out_sent += of_out;
            own->payload += (size_t)done - of_out;
            own->payload_size -= (size_t)done - of_out;
            sent += (size_t)done;
            own->sent += (size_t)done;
        }
        if (done > 0 && own->payload_size == 0)
            tell_sent_locked(channel);
        gpud_lock_release(&channel->lock);
        if (done >= 0) {
            own->last_sent = gpud_now();
        } else if (done < 0 && number == EINTR) {
            continue;
        } else if (done < 0 && (number == EAGAIN || number == EWOULDBLOCK)) {
            own->can_write = false;
        } else {
            /* What the peer has said before it closed is still read; then the end. */
            own->can_write = false;
            own->has_output = false;
            own->can_read = true;
            if (number == EPROTO) {
                gpud_lock_take(&channel->receive_lock);
                end_channel(channel, &why);
                gpud_lock_release(&channel->receive_lock);
            }
        }
    }
}

/* === receiving =============================================================================== */

static struct tcp_remote *find_remote(const struct tcp_channel *channel, uint32_t number)
{
    struct tcp_remote *one = channel->remotes;
    while (one && one->number != number)
        one = one->next;
    return one;
}

static bool take_message(struct tcp_channel *channel, const uint8_t *bytes, size_t size)
{
    struct tcp_message *message = malloc(sizeof(*message) + size);
    if (!message) {
        end_for(channel, GPUD_NO_MEMORY, "out of memory for a message");
        return false;
    }
    message->next = NULL;
    message->size = size;
    memcpy(message->bytes, bytes, size);
    gpud_lock_take(&channel->lock);
    struct tcp_messages *unread = &channel->unread;
    *(unread->first ? &unread->last->next : &unread->first) = message;
    unread->last = message;
    unread->count++;
    gpud_event_raise(channel->event);
    gpud_lock_release(&channel->lock);
    return true;
}

/* Whether the record is whole, or its bytes have their place; handles it. false also after a
 * violation, which has ended the channel. */
static bool take_record(struct tcp_channel *channel, struct tcp_io *own)
{
    const uint8_t *bytes = own->in + own->in_first;
    if (own->in_size < TCP_HEADER_SIZE)
        return false;
    struct tcp_header header = read_header(bytes);
    struct tcp_remote *remote = find_remote(channel, header.link);
    const char *violation = NULL;
    bool is_inline = header.type == TCP_MESSAGE || header.type == TCP_RANGE;
    bool is_large = header.type == TCP_DATA || header.type == TCP_META;
    if (!is_inline && !is_large && header.type != TCP_PING)
        violation = "a record of an unknown type";
    else if (header.type == TCP_MESSAGE && header.size > GPUD_MESSAGE_MAX)
        violation = "a message that is too large";
    else if (header.type == TCP_RANGE && header.size > TCP_RANGE_MAX)
        violation = "too large a part of a page";
    else if (header.type == TCP_PING && header.size > 0)
        violation = "a ping with something in it";
    else if (is_large && (channel->is_sender || header.size == 0 || header.size > RECORD_MAX))
        violation = channel->is_sender ? "a receiver sends no frames" : "an impossible size";
    else if (header.type != TCP_MESSAGE && header.type != TCP_PING && !remote &&
             (header.link == 0 || header.link > channel->remote_count))
        violation = "a link that there never was";
    if (!violation && is_inline && own->in_size < TCP_HEADER_SIZE + header.size)
        return false;
    size_t taken = TCP_HEADER_SIZE + (is_inline ? header.size : 0);
    bytes += TCP_HEADER_SIZE;
    if (!violation && header.type == TCP_MESSAGE) {
        if (!take_message(channel, bytes, header.size))
            return false;
    } else if (!violation && header.type == TCP_RANGE && remote) {
        if (!gpud_remote_store(remote, &header, bytes))
            violation = "a part outside the page";
    } else if (!violation && is_large) {
        own->target = NULL;
        own->target_of = remote;
        own->left = header.size;
        if (remote && !gpud_remote_find_place(remote, &header, &own->target))
            violation = "bytes outside its slots";
    }
    if (violation) {
        break_off(channel, violation);
        return false;
    }
    own->in_first += taken;
    own->in_size -= taken;
    return true;
}

/* Bytes of a DATA or META have come, from `in` or the socket. */
static void take_bytes(struct tcp_io *own, size_t size)
{
    own->left -= size;
    if (own->target)
        own->target += size;
    if (own->left == 0)
        own->target_of = NULL;
}

static ssize_t get(struct tcp_channel *channel, struct tcp_io *own, struct gpud_error *error)
{
    if (own->left > 0) { /* `in` is empty */
        size_t size = own->left;
        char *to = own->target;
        if (!to) {
            to = scratch;
            size = size < sizeof(scratch) ? size : sizeof(scratch);
        }
        if (channel->tls)
            return gpud_tls_receive(channel->tls, to, size, error);
        struct iovec parts[] = {
            {.iov_base = to, .iov_len = size},
            {.iov_base = own->in, .iov_len = size == own->left ? AHEAD : 0},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        return recvmsg(channel->fd, &message, MSG_DONTWAIT);
    }
    memmove(own->in, own->in + own->in_first, own->in_size);
    own->in_first = 0;
    size_t size = AHEAD;
    if (own->in_size >= TCP_HEADER_SIZE)
        size += read_header(own->in).size; /* at most a message's: it was checked */
    if (size > IN_MAX - own->in_size)
        size = IN_MAX - own->in_size;
    if (channel->tls)
        return gpud_tls_receive(channel->tls, own->in + own->in_size, size, error);
    return recv(channel->fd, own->in + own->in_size, size, MSG_DONTWAIT);
}

static bool is_paused(struct tcp_channel *channel)
{
    gpud_lock_take(&channel->lock);
    bool is = channel->unread.count >= TCP_UNREAD_MAX && !channel->hung_up;
    gpud_lock_release(&channel->lock);
    return is;
}

/* With receive_lock. */
static void receive_some(struct tcp_channel *channel, struct tcp_io *own)
{
    struct gpud_error why;
    size_t received = 0;
    while (own->can_read && !channel->ended && received < TURN) {
        if (own->left > 0 && own->in_size > 0) {
            size_t size = own->in_size < own->left ? own->in_size : own->left;
            if (own->target)
                memcpy(own->target, own->in + own->in_first, size);
            own->in_first += size;
            own->in_size -= size;
            take_bytes(own, size);
            continue;
        }
        if (own->left == 0) {
            if (is_paused(channel))
                return;
            if (take_record(channel, own))
                continue;
            if (channel->ended)
                return;
        }
        ssize_t got = get(channel, own, &why);
        if (got > 0) {
            received += (size_t)got;
            size_t of_target = (size_t)got < own->left ? (size_t)got : own->left;
            if (own->left > 0) {
                take_bytes(own, of_target);
                own->in_first = 0;
                own->in_size = (size_t)got - of_target;
            } else {
                own->in_size += (size_t)got;
            }
        } else if (got == 0) {
            gpud_fail(&why, GPUD_CLOSED, "%s closed the connection", channel->where);
            end_channel(channel, &why);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            own->can_read = false;
        } else if (errno == EPROTO) {
            end_channel(channel, &why);
        } else if (errno != EINTR) {
            end_by_errno(channel, errno);
        }
    }
}

/* === the thread ============================================================================== */

/* Fits TCP_NOTSENT_LOWAT to what was sent since the last look. */
static void fit_lowat(const struct tcp_channel *channel, struct tcp_io *own)
{
    uint64_t bytes = (own->sent - own->sent_before) / (TICK / LOWAT_TIME);
    int lowat = bytes < LOWAT_MIN ? LOWAT_MIN : bytes > LOWAT_MAX ? LOWAT_MAX : (int)bytes;
    own->sent_before = own->sent;
    if (lowat < own->lowat / 2 || lowat > own->lowat + own->lowat / 4) {
        setsockopt(channel->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof(lowat));
        own->lowat = lowat;
    }
}

/* Whether the peer has vanished; makes a PING due for a silent channel. */
static void look_after(struct tcp_channel *channel, struct tcp_io *own, int64_t now)
{
    struct tcp_info info;
    struct gpud_error why;
    socklen_t size = sizeof(info);
    fit_lowat(channel, own);
    if (getsockopt(channel->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return;
    int64_t acknowledged = now - info.tcpi_last_ack_recv * GPUD_MSEC;
    /* What cannot leave this host, whose interface is down, is not unacknowledged, but unsent
     * though the peer has room for it. */
    bool held_back = info.tcpi_notsent_bytes > 0 && info.tcpi_snd_wnd >= info.tcpi_snd_mss;
    if (info.tcpi_unacked == 0 && !held_back)
        own->stuck_since = 0;
    else if (own->stuck_since == 0 || acknowledged > own->stuck_since)
        own->stuck_since = now;
    if ((own->stuck_since && now - own->stuck_since >= SILENCE) || info.tcpi_probes >= PROBES_MAX) {
        gpud_fail(&why, GPUD_CLOSED,
                  "%s does not answer any more: its host is down, or the network between broken",
                  channel->where);
        gpud_lock_take(&channel->receive_lock);
        end_channel(channel, &why);
        gpud_lock_release(&channel->receive_lock);
    } else if (info.tcpi_unacked == 0 && now - own->last_sent >= TICK && !own->has_output) {
        static const struct tcp_header ping = {.type = TCP_PING};
        gpud_lock_take(&channel->lock);
        /* Only into an empty queue: it delays no data, and data need no PING. */
        if (channel->piece_count == 0 && !channel->ended)
            own->has_output = gpud_io_queue_small(channel, NULL, &ping, NULL);
        gpud_lock_release(&channel->lock);
    }
}

/* Ends a channel that was hung up once all is sent, or it took too long. queued: something is still
 * to be sent that send_some() has not seen. */
static void finish(struct tcp_channel *channel, struct tcp_io *own, bool queued, int64_t now)
{
    if (own->linger == 0)
        own->linger = now + TCP_LINGER;
    if (!own->has_output && !queued && !own->shut) {
        if (channel->tls)
            gpud_tls_shut_down(channel->tls);
        shutdown(channel->fd, SHUT_WR);
        own->shut = true; /* closing with something unread would lose what is under way */
    }
    if (now >= own->linger) {
        gpud_lock_take(&channel->receive_lock);
        end_for(channel, GPUD_CLOSED, "this side hung up");
        gpud_lock_release(&channel->receive_lock);
    }
}

/* A turn of the channel. *more: it has something to do at once. false: it is over. */
static bool turn(struct tcp_channel *channel, int64_t now, bool *more)
{
    struct tcp_io *own = channel->io;
    send_some(channel, own);
    gpud_lock_take(&channel->receive_lock);
    receive_some(channel, own);
    own->has_output |= channel->tls && gpud_tls_is_behind(channel->tls);
    gpud_lock_release(&channel->receive_lock);
    gpud_lock_take(&channel->lock);
    /* At the end of the process what was queued is sent; the application reads no more. */
    bool hung_up = channel->hung_up || own->orphan || atomic_load(&io.is_exiting);
    bool ended = channel->ended;
    bool queued = channel->piece_count > 0;
    bool paused = channel->unread.count >= TCP_UNREAD_MAX && !hung_up;
    while (hung_up && channel->unread.first) { /* no one will read them */
        struct tcp_message *gone = channel->unread.first;
        channel->unread.first = gone->next;
        channel->unread.count--;
        free(gone);
    }
    gpud_lock_release(&channel->lock);
    if (hung_up && !ended)
        finish(channel, own, queued, now);
    *more |= (own->can_write && own->has_output) || (own->can_read && !paused && !ended);
    return !ended;
}

static void take_ready(void)
{
    struct tcp_channel *next = atomic_exchange(&io.ready, NULL);
    while (next) {
        struct tcp_channel *one = next;
        next = one->next_ready;
        atomic_store(&one->is_ready, false);
        one->io->has_output = true;
    }
}

/* The channel is over: nothing here uses it any more. */
static void let_go(struct tcp_channel *channel)
{
    epoll_ctl(io.poll, EPOLL_CTL_DEL, channel->fd, NULL);
    gpud_fd_let_children_keep(channel->fd);
    gpud_lock_take(&channel->receive_lock);
    gpud_lock_take(&channel->lock);
    take_ready(); /* it may be among those, and is not from now on */
    gpud_tls_end(&channel->tls);
    gpud_fd_close(&channel->fd);
    bool orphan = channel->io->orphan;
    free(channel->io);
    channel->io = NULL;
    /* From here on a thread that has the lock may free the channel: it is released last. */
    gpud_lock_release(&channel->receive_lock);
    gpud_lock_release(&channel->lock);
    if (orphan)
        gpud_tcp_channel_destroy(channel);
}

/* Waits for the sockets, other threads, or the time to look after the channels. */
static void await_work(bool more, int64_t until)
{
    struct epoll_event events[64];
    int64_t left = until - gpud_now();
    bool at_once = more || left <= 0;
    atomic_store(&io.asleep, !at_once);
    at_once |= atomic_load(&io.ready) != NULL;
    int count = epoll_wait(io.poll, events, 64, at_once ? 0 : (int)(left / GPUD_MSEC) + 1);
    atomic_store(&io.asleep, false);
    for (int i = 0; i < count; i++) {
        struct tcp_channel *channel = events[i].data.ptr;
        if (!channel) {
            gpud_event_drain(io.event);
            continue;
        }
        /* TLS may wait for either to do the other. */
        channel->io->can_read |= channel->tls || !(events[i].events & EPOLLOUT) ||
                                 events[i].events & ~(uint32_t)EPOLLOUT;
        channel->io->can_write |= channel->tls || events[i].events & (EPOLLOUT | EPOLLERR);
    }
}

static void *io_run(void *arg)
{
    struct tcp_channel *channels = NULL;
    int64_t tick = 0;
    bool more = false;
    for (;;) {
        gpud_lock_take(&io.lock);
        while (io.added) {
            struct tcp_channel *one = io.added;
            io.added = one->next;
            one->next = channels;
            channels = one;
            more = true;
        }
        bool over = !channels;
        if (over)
            io.runs = false;
        gpud_lock_release(&io.lock);
        if (over)
            return NULL;
        await_work(more, tick);
        take_ready();
        int64_t now = gpud_now();
        bool looks = now >= tick;
        if (looks)
            tick = now + TICK;
        more = false;
        for (struct tcp_channel **link = &channels; *link;) {
            struct tcp_channel *one = *link;
            if (looks && !one->ended)
                look_after(one, one->io, now);
            if (turn(one, now, &more)) {
                link = &one->next;
                continue;
            }
            *link = one->next;
            let_go(one);
        }
    }
}

/* At the end of the process: what was said last is sent, for TCP_LINGER at most. */
static void await_thread(void)
{
    gpud_lock_take(&io.lock);
    bool join = io.is_joinable && io.started_by == getpid();
    io.is_joinable = io.is_joinable && !join; /* it may be called again */
    atomic_store(&io.is_exiting, true);
    gpud_lock_release(&io.lock);
    if (!join)
        return;
    gpud_event_raise(io.event);
    pthread_join(io.thread, NULL);
}

/* Behind OpenSSL's own handler, which is registered first and so is called last: once more when
 * there is OpenSSL, which connections without TLS do not load. */
static void await_at_exit_locked(void)
{
    static bool is_registered, is_behind;
    bool has_openssl =
        gpud_library_is_loaded(&gpud_library_openssl) && gpud_openssl_open(NULL) == GPUD_OK;
    if (has_openssl && !is_behind) {
        OPENSSL_init_ssl(0, NULL);
        is_registered = is_behind = atexit(await_thread) == 0;
    }
    is_registered = is_registered || atexit(await_thread) == 0;
}

static enum gpud_status start_locked(struct gpud_error *error)
{
    sigset_t all, before;
    if (io.runs)
        return GPUD_OK;
    if (io.poll < 0) {
        struct epoll_event wakes = {.events = EPOLLIN};
        io.poll = epoll_create1(EPOLL_CLOEXEC);
        io.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (io.poll < 0 || io.event < 0 ||
            epoll_ctl(io.poll, EPOLL_CTL_ADD, io.event, &wakes) < 0) {
            enum gpud_status status = gpud_fail_errno(error, "no descriptors for connections");
            gpud_fd_close(&io.poll);
            gpud_fd_close(&io.event);
            return status;
        }
    }
    if (io.is_joinable)
        pthread_join(io.thread, NULL); /* it is already returning */
    sigfillset(&all); /* OpenSSL's writes may raise SIGPIPE, and signals are the application's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&io.thread, NULL, io_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    io.is_joinable = io.runs = failed == 0;
    if (failed)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start the thread for connections");
    return GPUD_OK;
}

enum gpud_status gpud_io_add(struct tcp_channel *channel, struct gpud_error *error)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = channel,
    };
    channel->io = calloc(1, sizeof(*channel->io));
    if (!channel->io)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    channel->io->can_read = channel->io->can_write = channel->io->has_output = true;
    channel->io->last_sent = gpud_now();
    gpud_lock_take(&io.lock);
    if (io.started_by != getpid()) { /* what a parent had is not ours */
        gpud_fd_close(&io.poll);
        gpud_fd_close(&io.event);
        io.runs = io.is_joinable = false;
        io.added = NULL;
        atomic_store(&io.ready, NULL);
        io.started_by = getpid();
    }
    channel->next = io.added;
    io.added = channel; /* before the thread starts, which ends when it has none */
    await_at_exit_locked();
    enum gpud_status status = start_locked(error);
    if (status == GPUD_OK && epoll_ctl(io.poll, EPOLL_CTL_ADD, channel->fd, &event) < 0)
        status = gpud_fail_errno(error, "no descriptor to poll");
    if (status != GPUD_OK)
        io.added = channel->next;
    gpud_lock_release(&io.lock);
    if (status != GPUD_OK) {
        free(channel->io);
        channel->io = NULL;
        return status;
    }
    if (atomic_exchange(&io.asleep, false))
        gpud_event_raise(io.event);
    return GPUD_OK;
}

void gpud_io_leave(struct tcp_channel *channel)
{
    gpud_lock_take(&channel->lock);
    bool owned = channel->io && io.started_by == getpid();
    if (owned) {
        channel->io->orphan = true;
        gpud_io_wake(channel);
    }
    gpud_lock_release(&channel->lock);
    if (!owned)
        gpud_tcp_channel_destroy(channel);
}
