/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the stateful targets share: real descriptors, good messages, and the input that mutates
 * them. */
#ifndef GPUD_TESTS_FUZZ_STATEFUL_H
#define GPUD_TESTS_FUZZ_STATEFUL_H

#include "base/base.h"
#include "device/device.h"
#include "fuzz.h"
#include "support/copies.h"
#include "support/count.h"
#include "support/encode.h"
#include "watch.h"
#include "wire/network.h"
#include "wire/tcp/tcp.h"
#include "wire/unix/unix.h"
#include "wire/wire.h"
#include "stream/receiver/receiver.h"

#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The device of the side under test. On one that signals by itself frames take other ways: such
 * targets are compiled with its name, from the same files. */
#ifndef FUZZ_DEVICE
#define FUZZ_DEVICE "host"
#endif

static inline void fuzz_quiet(void *user, enum gpud_log_level level, const char *area,
                              const char *text)
{
    if (strlen(text) < 5)
        abort();
}

static inline struct gpud_context *fuzz_context(void)
{
    struct gpud_context *context;
    struct gpud_context_params quiet = GPUD_PARAMS_INIT(quiet);
    quiet.log = fuzz_quiet;
    quiet.log_level = GPUD_LOG_DEBUG;
    if (gpud_context_create(&quiet, &context, NULL) != GPUD_OK)
        abort();
    return context;
}

/* Without the device there is nothing to try. The machine that it is looked for in is a made-up
 * one: reading the real one may take longer than an input may. */
static inline void fuzz_need_device(struct gpud_context *context)
{
    struct gpud_device *device;
    struct gpud_error error;
    setenv("HWLOC_SYNTHETIC", "numa:1 pu:1", 1);
    if (gpud_device_open(context, FUZZ_DEVICE, &device, &error) == GPUD_OK) {
        gpud_device_close(&device);
        return;
    }
    printf("skipped: %s\n", error.reason);
    fflush(stdout);
    _exit(77);
}

/* Whether frames of this device are handed over by words in the ring page. */
static inline bool fuzz_signals(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_PAGE_SIGNALS;
}

/* Whether rings lie in memory of the device that crosses processes by a handle of its own. */
static inline bool fuzz_shares(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_SHARE && !(device->caps & GPUD_CAP_CPU_ADDRESSABLE);
}

/* Memory of the device that an honest peer would offer as a ring. Called twice at most. */
static inline struct gpud_memory *fuzz_share(struct gpud_device *device, uint64_t size,
                                             enum gpud_usage usage, struct gpud_handle *handle)
{
    static struct gpud_memory *memory[2]; /* as long as the program runs */
    struct gpud_memory **made = &memory[memory[0] != NULL];
    if (gpud_memory_alloc_for(device, size, usage, made, NULL) != GPUD_OK ||
        gpud_memory_export(*made, handle, NULL) != GPUD_OK)
        abort();
    return *made;
}

static inline void fuzz_pair(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        abort();
}

/* A forged legacy handle. */
static inline struct gpud_handle fuzz_forged_handle(uint64_t size)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_CUDA_IPC, .fd = -1, .size = size, .word = {0, 1, 2, 3}};
}

/* Every descriptor that came along is closed again: at once, but for what a device still uses,
 * which goes when it is done. turn: what must be called meanwhile. */
static inline void fuzz_expect_fds(unsigned fds, void (*turn)(void))
{
    for (int64_t end = gpud_deadline(20 * GPUD_SEC); count_fds() != fds;) {
        if (gpud_now() >= end)
            abort();
        usleep(100);
        turn();
    }
}

/* Kinds of descriptors that a peer may think of; the good one is the caller's. */
static inline int fuzz_descriptor(uint32_t kind, int good)
{
    switch (kind % 8) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        return memfd_create("unsealed", MFD_CLOEXEC);
    case 2: {
        int fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd >= 0 &&
            (ftruncate(fd, 4096) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0))
            abort();
        return fd;
    }
    default:
        return fcntl(good, F_DUPFD_CLOEXEC, 3);
    }
}

/* --- the connection --------------------------------------------------------------------------- */

/* Targets that are compiled with FUZZ_NETWORK or FUZZ_TCP run between two hosts: neither side sees
 * the other's page or ring. With FUZZ_NETWORK a card's stand-in (support/copies.h) writes there,
 * with FUZZ_TCP real connections do, to this program itself, with TLS or without. */
#ifdef FUZZ_TCP
#define FUZZ_BY_TCP true
#define FUZZ_BETWEEN_HOSTS true
#define FUZZ_ROUTE_BETWEEN_HOSTS "tcp-host"
#else
#define FUZZ_BY_TCP false
#ifdef FUZZ_NETWORK
#define FUZZ_BETWEEN_HOSTS true
#else
#define FUZZ_BETWEEN_HOSTS false
#endif
#define FUZZ_ROUTE_BETWEEN_HOSTS "rdma-host"
#endif

/* The player's end. */
struct fuzz_wire {
    int fd;                       /* a Unix socket, by bytes alone; -1: by TCP */
    struct gpud_channel *channel; /* by TCP, which may have ended; else NULL */
};

/* Where both ends are connected by TCP: without TLS, and with a key that the player knows. */
struct fuzz_place {
    char text[48];
    struct sockaddr_in socket; /* the same */
    struct gpud_access_rule access;
    struct gpud_address address;
    struct gpud_listener *listener;
};
#define FUZZ_PLACES 2
static struct fuzz_place fuzz_places[FUZZ_PLACES];

/* Of this process alone, so that ports are free. */
static inline void fuzz_address(char text[48], unsigned port, const char *name)
{
    unsigned pid = (unsigned)getpid();
    snprintf(text, 48, "tcp://127.%u.%u.%u:%u/%s", (pid >> 16 & 63) | 64, pid >> 8 & 255, pid & 255,
             port, name);
}

static char fuzz_directory[] = "/tmp/gpud-fuzz-XXXXXX";

static inline int fuzz_remove(const char *path, const struct stat *st, int flag, struct FTW *place)
{
    return remove(path);
}

static inline void fuzz_remove_directory(void)
{
    nftw(fuzz_directory, fuzz_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fuzz_listen(void)
{
    static const char key[] = "the player has this key, too";
    char path[64];
    if (!mkdtemp(fuzz_directory) || setenv("XDG_RUNTIME_DIR", fuzz_directory, 1) < 0)
        abort();
    atexit(fuzz_remove_directory);
    snprintf(path, sizeof(path), "%s/key", fuzz_directory);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, key, sizeof(key) - 1) < 0 || close(fd) < 0)
        abort();
    for (unsigned i = 0; i < FUZZ_PLACES; i++) {
        struct fuzz_place *place = &fuzz_places[i];
        struct gpud_error error = {.reason = ""};
        unsigned pid = (unsigned)getpid();
        fuzz_address(place->text, 7175 + i, "fuzz");
        place->socket =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)(7175 + i))};
        place->socket.sin_addr.s_addr =
            htonl(127u << 24 | ((pid >> 16 & 63) | 64) << 16 | (pid & 0xffff));
        if (i == 0)
            place->access.allow_unauthenticated = true;
        else
            snprintf(place->access.key_file, sizeof(place->access.key_file), "%s", path);
        if (gpud_address_resolve(place->text, &place->address, &error) != GPUD_OK ||
            gpud_listener_open(&place->address, &place->access, &place->listener, &error) !=
                GPUD_OK)
            watch_fail("cannot listen: %s", error.reason);
    }
}

/* The last byte says where, and *early, whether the player lies before the connection is open. So
 * the rest of an input says the same as between other ends. */
static inline const struct fuzz_place *fuzz_choose_place(struct fuzz_input *input, bool *early)
{
    uint8_t choice = input->size ? input->data[--input->size] : 0;
    *early = choice / FUZZ_PLACES % 8 == 0;
    return &fuzz_places[choice % FUZZ_PLACES];
}

/* Connects the player with the side under test, which sends, or receives, by *other. */
static inline void fuzz_connect(struct fuzz_wire *wire, struct gpud_channel **other,
                                bool other_sends, const struct fuzz_place *place)
{
    struct gpud_channel *receiver = NULL, *sender = NULL;
    struct gpud_error error = {.reason = ""};
    static struct gpud_message message;
    struct gpud_peer peer;
    watch_begin(WATCH_BENT, "connecting", 5 * GPUD_SEC);
    if (gpud_channel_connect(&place->address, &place->access, &receiver, &error) != GPUD_OK)
        watch_fail("cannot connect: %s", error.reason);
    while (!sender || !atomic_load(&sender->connected) || !atomic_load(&receiver->connected)) {
        if (!sender)
            gpud_listener_accept(place->listener, &sender, &peer, NULL);
        if ((!atomic_load(&receiver->connected) &&
             gpud_channel_receive(receiver, &message, &error) != GPUD_AGAIN) ||
            (sender && !atomic_load(&sender->connected) &&
             gpud_channel_receive(sender, &message, &error) != GPUD_AGAIN))
            watch_fail("not connected: %s", error.reason);
    }
    watch_end(WATCH_BENT);
    *wire = (struct fuzz_wire){.fd = -1, .channel = other_sends ? receiver : sender};
    *other = other_sends ? sender : receiver;
}

/* What comes in some moment, if it comes by TCP: the other side's answers, by threads. */
static inline void fuzz_let_come(const struct gpud_channel *channel)
{
    if (FUZZ_BY_TCP && channel)
        gpud_fd_wait(channel->fd, gpud_now() + GPUD_MSEC, NULL);
}

static inline enum gpud_status fuzz_hear(const struct fuzz_wire *wire, struct gpud_message *message)
{
    if (!FUZZ_BY_TCP)
        return gpud_socket_receive(wire->fd, message, NULL);
    return wire->channel ? gpud_channel_receive(wire->channel, message, NULL) : GPUD_CLOSED;
}

static inline void fuzz_hang_up(struct fuzz_wire *wire)
{
    gpud_fd_close(&wire->fd);
    gpud_channel_unref(&wire->channel);
}

/* A record by TCP, of which only the size is true. */
static inline void fuzz_send_record(const struct fuzz_wire *wire, const struct tcp_header *header,
                                    const void *bytes)
{
    struct tcp_channel *channel = (struct tcp_channel *)wire->channel;
    if (!channel)
        return;
    gpud_lock_take(&channel->lock);
    if (channel->phase == TCP_OPEN && !channel->ended) {
        if (!gpud_io_queue_small(channel, NULL, header, bytes))
            abort();
        gpud_io_wake(channel);
    }
    gpud_lock_release(&channel->lock);
}

static inline void fuzz_lie_in_a_record(const struct fuzz_wire *wire, struct fuzz_input *input)
{
    static uint8_t bytes[TCP_RANGE_MAX + 64];
    uint32_t kind = fuzz_number(input, 1), size = fuzz_number(input, 2);
    struct tcp_header header = {
        .type = (uint16_t)(kind & 0x80 ? kind << 8 : kind % 7),
        .flags = (uint16_t)(kind >> 4),
        .link = kind & 8 ? fuzz_number(input, 4) : 1 + kind % 2,
        .entry = fuzz_number(input, 1),
        .offset = fuzz_number(input, 2) * (kind & 0x40 ? UINT64_C(1) << 48 : 4),
    };
    header.size = kind & 0x10 ? size % 16 * 4 : size % (uint32_t)sizeof(bytes);
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)fuzz_number(input, 1);
    fuzz_send_record(wire, &header, bytes);
}

/* A player that lies before a connection is open: it bends its request or its reply, and what it
 * sends behind that is neither records nor TLS. The side under test has its own end, *other; NULL:
 * none came of it. */
static inline void fuzz_lie_early(struct gpud_channel **other, bool other_sends,
                                  const struct fuzz_place *place, struct fuzz_input *input)
{
    const struct gpud_request request = {.number = (uint32_t)gpud_tls_proof(&place->access),
                                         .name = "fuzz"};
    uint8_t bytes[GPUD_REQUEST_MAX + 256];
    struct fuzz_place own = *place; /* where the player listens */
    socklen_t length = sizeof(own.socket);
    struct gpud_error error = {.reason = ""};
    struct gpud_peer peer;
    size_t size =
        other_sends ? gpud_request_write(&request, bytes) : gpud_reply_write(request.number, bytes);
    for (uint32_t bends = fuzz_number(input, 1) & 3; bends > 0; bends--)
        bytes[fuzz_number(input, 1) % size] ^= (uint8_t)fuzz_number(input, 1);
    while (input->size && size < sizeof(bytes))
        bytes[size++] = (uint8_t)fuzz_number(input, 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), listening = -1;
    *other = NULL;
    watch_begin(WATCH_BENT, "a lie before the connection", 5 * GPUD_SEC);
    if (!other_sends) {
        listening = fd;
        own.socket.sin_port = 0;
        if (bind(listening, (const struct sockaddr *)&own.socket, length) < 0 ||
            listen(listening, 1) < 0 ||
            getsockname(listening, (struct sockaddr *)&own.socket, &length) < 0)
            abort();
        fuzz_address(own.text, ntohs(own.socket.sin_port), "fuzz");
        if (gpud_address_resolve(own.text, &own.address, &error) != GPUD_OK ||
            gpud_channel_connect(&own.address, &own.access, other, &error) != GPUD_OK)
            watch_fail("cannot connect: %s", error.reason);
        fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        close(listening);
    } else if (connect(fd, (const struct sockaddr *)&own.socket, length) < 0) {
        abort();
    }
    if (fd < 0 || send(fd, bytes, size, MSG_NOSIGNAL) < 0)
        abort();
    shutdown(fd, SHUT_WR);
    while (!*other && recv(fd, bytes, 1, MSG_DONTWAIT) < 0)
        gpud_listener_accept(place->listener, other, &peer, NULL);
    if (!*other) /* it was refused; what the hub has of it goes */
        gpud_listener_accept(place->listener, other, &peer, NULL);
    close(fd);
    watch_end(WATCH_BENT);
}

/* --- the player's messages -------------------------------------------------------------------- */

/* Sends a good message, bent where the input says, with descriptors of the kinds that it says; good
 * stands in for those that the message has not. */
static inline void fuzz_send(const struct fuzz_wire *wire, struct gpud_message *message,
                             struct fuzz_input *input, int good)
{
    uint8_t bytes[GPUD_MESSAGE_MAX + 16];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t count, size = encode_message(message, bytes, fds, &count);
    uint32_t bends = fuzz_number(input, 1);
    for (uint32_t i = 0; i < (bends & 7); i++) {
        uint32_t at = fuzz_number(input, 2) % (uint32_t)size;
        bytes[at] ^= (uint8_t)fuzz_number(input, 1);
    }
    if (bends & 8) /* another length; the header keeps what it says, or follows */
        size = fuzz_number(input, 2) % sizeof(bytes);
    if (bends & 16)
        memcpy(bytes + 8, &(uint32_t){(uint32_t)size}, 4);
    if (FUZZ_BY_TCP) {
        struct tcp_header header = {.type = TCP_MESSAGE, .size = (uint32_t)size};
        fuzz_send_record(wire, &header, bytes);
        return;
    }
    for (size_t i = count; i < 8; i++)
        fds[i] = good;
    if (bends & 32)
        count = fuzz_number(input, 1) % 8;
    for (size_t i = 0; i < count; i++) {
        fds[i] = fuzz_descriptor(bends & 64 ? fuzz_number(input, 1) : 7, fds[i]);
        if (fds[i] < 0)
            abort();
    }
    encode_send(wire->fd, bytes, size, fds, count);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

enum fuzz_halves { FUZZ_BOTH_HALVES, FUZZ_RECEIVER_HALF, FUZZ_SENDER_HALF };

/* Bends a word of a page, in the halves that the player can write. */
static inline void fuzz_scribble(struct gpud_page *page, enum fuzz_halves halves,
                                 struct fuzz_input *input)
{
    uint32_t at = fuzz_number(input, 2), by = fuzz_number(input, 1);
    if (halves != FUZZ_BOTH_HALVES)
        at = (at & 0x5fff & ~0x2000u) | (halves == FUZZ_SENDER_HALF ? 0x2000 : 0);
    bool sender = at & 0x2000;
    size_t words = at & 0x8000 ? sizeof(*page) / 4
                   : sender    ? offsetof(struct gpud_sender_half, ready) / 4
                               : offsetof(struct gpud_receiver_half, release) / 4;
    uint32_t *half = sender ? (void *)&page->sender : (void *)&page->receiver;
    if (at & 0x8000)
        half = (void *)page;
    half[at % words] += at & 0x4000 ? by : by << 24 | by;
}

/* --- the player's page and ring, between two hosts ---------------------------------------------
 */

struct fuzz_network {
    struct gpud_channel *channel; /* of FUZZ_NETWORK: unconnected, and not the one of messages */
    struct gpud_remote *remote;   /* NULL: closed */
    struct gpud_handle page;      /* the player's, for the other side to write */
    struct gpud_page *theirs;     /* of which the player may write its half. FUZZ_TCP: its own */
};

/* Before the first sender or receiver is made, and after watch_start(). */
static inline void fuzz_network_prepare(void)
{
    if (FUZZ_BY_TCP)
        fuzz_listen();
    else if (FUZZ_BETWEEN_HOSTS)
        copies_install();
}

static inline void fuzz_network_close(struct fuzz_network *network)
{
    if (!network->remote)
        return;
    network->remote->ops->destroy(network->remote);
    if (!FUZZ_BY_TCP)
        gpud_memory_unmap_pages(network->theirs, sizeof(*network->theirs));
    gpud_channel_unref(&network->channel);
    *network = (struct fuzz_network){.remote = NULL};
}

/* With nothing that was there before. false: the connection has ended. */
static inline bool fuzz_network_open(struct fuzz_network *network, const struct fuzz_wire *wire)
{
    struct gpud_peer peer = {.pid = getpid()};
    int ends[2];
    fuzz_network_close(network);
    if (FUZZ_BY_TCP && !wire->channel)
        return false;
    if (FUZZ_BY_TCP) {
        network->channel = gpud_channel_ref(wire->channel);
    } else {
        fuzz_pair(ends);
        if (gpud_unix_channel_create(ends[0], &peer, &network->channel, NULL) != GPUD_OK)
            abort();
        close(ends[1]);
    }
    if (network->channel->ops->remote->create(network->channel, &network->remote, &network->page,
                                              NULL) == GPUD_OK)
        return true;
    if (!FUZZ_BY_TCP)
        abort();
    gpud_channel_unref(&network->channel);
    network->remote = NULL;
    return false;
}

/* The other side's page, out of its message. */
static inline void fuzz_network_attach(struct fuzz_network *network, const struct gpud_handle *page)
{
    void *mapped;
    if (network->theirs)
        return;
    if (network->remote->ops->attach(network->remote, page, NULL) != GPUD_OK)
        abort(); /* an honest side's page is good */
    network->theirs = network->remote->page;
    if (FUZZ_BY_TCP)
        return;
    if (gpud_memfd_map(page->fd, sizeof(*network->theirs), true, &mapped, NULL) != GPUD_OK)
        abort();
    network->theirs = mapped;
}

/* Bends a word of the player's half, as the other side sees it; by TCP, or sends a record of the
 * input's. */
static inline void fuzz_network_lie(struct fuzz_network *network, const struct fuzz_wire *wire,
                                    struct gpud_page_end *end, enum fuzz_halves half,
                                    struct fuzz_input *input)
{
    const struct gpud_page_carrier *carrier;
    if (FUZZ_BY_TCP && fuzz_number(input, 1) & 1) {
        fuzz_lie_in_a_record(wire, input);
        return;
    }
    if (!network->theirs)
        return;
    fuzz_scribble(network->theirs, half, input);
    if (!FUZZ_BY_TCP)
        return;
    carrier = network->remote->ops->carrier;
    carrier->publish(end, 0,
                     half == FUZZ_SENDER_HALF ? sizeof(struct gpud_sender_half)
                                              : sizeof(struct gpud_receiver_half));
    carrier->notify(end);
}

/* An endpoint on another host than this. */
static inline void fuzz_network_describe(struct gpud_device *device, struct gpud_endpoint *self)
{
    if (!FUZZ_BETWEEN_HOSTS)
        return;
    const struct gpud_channel_ops *ops = FUZZ_BY_TCP ? &gpud_tcp_channel_ops : gpud_unix_channel;
    ops->remote->describe(NULL, device, &self->network);
    self->host[0] ^= 1;
}

/* --- an honest link beside -------------------------------------------------------------------- */

/* By TCP each frame of it has to come, whatever the player does meanwhile. */
struct fuzz_beside {
    struct gpud_receiver *receiver;
    uint32_t sent;            /* whole frames, each with its number in its first bytes */
    uint32_t lost;            /* frames that the sender itself gave up */
    uint32_t frames, dropped; /* as the receiver sees them */
};

/* The state that receiver_connect() leaves (core/stream/receiver/join.c). */
static inline void fuzz_join(struct gpud_receiver *receiver, struct gpud_channel *channel)
{
    receiver->channel = channel;
    receiver->state = FUZZ_BY_TCP ? GPUD_RECEIVER_CONNECTING : GPUD_RECEIVER_HELLO;
    receiver->deadline = gpud_deadline(FUZZ_BY_TCP ? 20 * GPUD_SEC : GPUD_SEC);
    if (!receiver->queue && gpud_queue_create(receiver->device, &receiver->queue, NULL) != GPUD_OK)
        abort();
}

/* The next whole frame is to be sent. */
static inline void fuzz_beside_number(const struct fuzz_beside *beside, struct gpud_frame *frame)
{
    void *data;
    if (gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, NULL) != GPUD_OK)
        abort();
    memcpy(data, &beside->sent, sizeof(beside->sent));
    gpud_frame_unmap(frame);
}

/* Takes what comes within the time, up to the last frame that was sent. */
static inline void fuzz_beside_take(struct fuzz_beside *beside, int64_t timeout)
{
    struct gpud_error error = {.reason = ""};
    struct gpud_frame *frame;
    void *data;
    do {
        enum gpud_status status = gpud_receiver_acquire(beside->receiver, timeout, &frame, &error);
        if (status == GPUD_TIMEOUT)
            return;
        if (status != GPUD_OK)
            watch_fail("an honest link beside the player's ends: %s", error.reason);
        struct gpud_frame_info info = GPUD_INFO_INIT(info);
        uint32_t number;
        gpud_frame_get_info(frame, &info);
        if (gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, &error) != GPUD_OK)
            watch_fail("an honest link's frame cannot be read: %s", error.reason);
        memcpy(&number, data, sizeof(number));
        gpud_frame_unmap(frame);
        gpud_frame_release(&frame);
        beside->dropped = (uint32_t)info.dropped;
        if (number != beside->frames || info.flags & GPUD_FRAME_CORRUPTED ||
            beside->dropped > beside->lost)
            watch_fail("an honest link beside the player's gets frame %u as %u, flags %#x, with %u "
                       "dropped of %u",
                       number, beside->frames, info.flags, beside->dropped, beside->lost);
        beside->frames++;
    } while (beside->frames < beside->sent);
}

#endif
