/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Records of a connection by TCP (core/wire/tcp/tcp.h), behind an honest opening, to a sender or to
 * a receiver with a link. A second reader of the same bytes, below, says what has to come of them:
 * what lies in the slots, the large metas and the peer's half of the page, and whether the peer
 * lied. A connection that is not over takes a good record behind all that. */
#include "base/base.h"
#include "device/device.h"
#include "frame/frame.h"
#include "fuzz.h"
#include "stateful.h"
#include "support/encode.h"
#include "watch.h"
#include "wire/network.h"
#include "wire/tcp/tcp.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SLOT 4096
#define SLOTS 2 /* of a memory */
#define MEMORIES 2
#define METAS 4096
#define OUT_MAX (256 * 1024)
#define PEER_NUMBER 77 /* the player's of the link */
#define MARK 4711      /* an EVENT of this kind */

/* --- the second reader ------------------------------------------------------------------------ */

struct reader {
    bool is_sender, lied, has_ended; /* has_ended: the link */
    uint64_t left;                   /* bytes of a DATA or META that are still to come */
    char *to;                        /* where; NULL: nowhere */
    uint8_t head[24 + GPUD_MESSAGE_MAX];
    size_t have;
    unsigned messages;
    char slots[MEMORIES * SLOTS * SLOT], metas[METAS];
    char half[sizeof(struct gpud_page)];
    size_t half_size;
};

static uint64_t number_at(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    while (size--)
        value = value << 8 | bytes[size];
    return value;
}

/* Whether the head is whole and was dealt with. */
static bool read_head(struct reader *reader)
{
    uint64_t type = number_at(reader->head, 2), size = number_at(reader->head + 4, 4);
    uint64_t link = number_at(reader->head + 8, 4), entry = number_at(reader->head + 12, 4);
    uint64_t at = number_at(reader->head + 16, 8);
    uint64_t room = type == 2 ? SLOT : METAS;
    if (type < 1 || type > 5 || (type == 1 && size > GPUD_MESSAGE_MAX) ||
        (type == 4 && size > 4096) || (type == 5 && size > 0) ||
        ((type == 2 || type == 3) && (reader->is_sender || size < 1 || size > 1024 * 1024)) ||
        (type >= 2 && type <= 4 && link != 1)) {
        reader->lied = true;
        return true;
    }
    if ((type == 1 || type == 4) && reader->have < 24 + size)
        return false;
    if (type == 1)
        reader->messages++;
    if (reader->has_ended || type == 1 || type == 5) {
        reader->left = type == 2 || type == 3 ? size : 0;
        reader->to = NULL;
    } else if (type == 4) {
        reader->lied =
            at % 4 || size % 4 || at > reader->half_size || size > reader->half_size - at;
        if (!reader->lied)
            memcpy(reader->half + at, reader->head + 24, size);
    } else {
        reader->lied = at > room || size > room - at || (type == 2 && entry >= MEMORIES * SLOTS);
        reader->left = size;
        reader->to = type == 2 ? reader->slots + entry * SLOT + at : reader->metas + at;
    }
    reader->have = 0;
    return true;
}

static void read_bytes(struct reader *reader, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size && !reader->lied;) {
        if (reader->left > 0) {
            size_t part = size - i < reader->left ? size - i : reader->left;
            if (reader->to) {
                memcpy(reader->to, bytes + i, part);
                reader->to += part;
            }
            reader->left -= part;
            i += part;
            continue;
        }
        reader->head[reader->have++] = bytes[i++];
        if (reader->have >= 24)
            read_head(reader);
    }
}

/* --- the side under test ---------------------------------------------------------------------- */

static struct {
    struct gpud_listener *listener; /* where it sends */
    int listening;                  /* where the player sends */
    char sends_at[64], receives_from[64];
    char *areas[MEMORIES]; /* slots between pages without access */
    struct gpud_memory memory[MEMORIES];
    struct gpud_ring ring;
    unsigned fds;
} fixed;

struct side {
    bool is_sender;
    int player;
    struct gpud_channel *channel;
    struct gpud_remote *remote;
    struct gpud_error end; /* OK: it lives */
    unsigned messages;
    bool marked;
    char own[sizeof(struct gpud_page)]; /* its half of the page, as it was */
    struct reader reader;
    uint8_t out[OUT_MAX];
    size_t size;
};

static uint16_t listen_raw(int *fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (const struct sockaddr *)&address, size) < 0 || listen(*fd, 4) < 0 ||
        getsockname(*fd, (struct sockaddr *)&address, &size) < 0)
        abort();
    return ntohs(address.sin_port);
}

static void prepare(void)
{
    static const struct gpud_access_rule everybody = {.allow_unauthenticated = true};
    struct gpud_address address;
    char directory[] = "/tmp/gpud-fuzz-XXXXXX";
    int fd;
    if (!mkdtemp(directory) || setenv("XDG_RUNTIME_DIR", directory, 1) < 0)
        abort();
    watch_start();
    gpud_print(fixed.receives_from, "tcp://127.0.0.1:%u/fuzz", listen_raw(&fixed.listening));
    gpud_print(fixed.sends_at, "tcp://127.0.0.1:%u/fuzz", listen_raw(&fd));
    close(fd);
    struct gpud_error error;
    if (gpud_address_resolve(fixed.sends_at, &address, &error) != GPUD_OK ||
        gpud_listener_open(&address, &everybody, &fixed.listener, &error) != GPUD_OK)
        watch_fail("cannot listen: %s", error.reason);
    fixed.ring =
        (struct gpud_ring){.slot_size = SLOT, .slots_per_memory = SLOTS, .memories = MEMORIES};
    for (int i = 0; i < MEMORIES; i++) {
        char *area = mmap(NULL, (SLOTS + 2) * SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (area == MAP_FAILED || mprotect(area + SLOT, SLOTS * SLOT, PROT_READ | PROT_WRITE) < 0)
            abort();
        fixed.areas[i] = area + SLOT;
        fixed.memory[i] = (struct gpud_memory){.size = SLOTS * SLOT, .host = fixed.areas[i]};
        fixed.ring.memory[i] = &fixed.memory[i];
    }
}

static void receive(struct side *side)
{
    static struct gpud_message message;
    struct tcp_channel *channel = (struct tcp_channel *)side->channel;
    char bytes[4096];
    while (recv(side->player, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ; /* what the side says is not the matter here */
    while (side->end.status == GPUD_OK) {
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_channel_receive(side->channel, &message, &error);
        if (status == GPUD_AGAIN)
            return;
        /* A bad message is one, too. */
        gpud_lock_take(&channel->lock);
        bool is_end =
            status != GPUD_OK && channel->ended && strcmp(error.reason, channel->end.reason) == 0;
        gpud_lock_release(&channel->lock);
        if (is_end) {
            side->end = error;
            return;
        }
        side->messages++;
        if (status != GPUD_OK)
            continue;
        side->marked |= message.type == GPUD_MESSAGE_EVENT && message.event.kind == MARK;
        gpud_message_close(&message);
    }
}

/* Sends what has been written, which both readers get. */
static void flush(struct side *side)
{
    size_t sent = 0;
    read_bytes(&side->reader, side->out, side->size);
    while (sent < side->size && side->end.status == GPUD_OK) {
        ssize_t put =
            send(side->player, side->out + sent, side->size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put > 0)
            sent += (size_t)put;
        receive(side);
    }
    side->size = 0;
}

static void write_out(struct side *side, const void *bytes, size_t size)
{
    if (side->size + size > sizeof(side->out))
        flush(side);
    memcpy(side->out + side->size, bytes, size);
    side->size += size;
}

static void write_record(struct side *side, uint32_t type, uint32_t flags, uint32_t size,
                         uint32_t link, uint32_t entry, uint64_t at)
{
    uint8_t bytes[24];
    for (int i = 0; i < 2; i++) {
        bytes[i] = (uint8_t)(type >> 8 * i);
        bytes[2 + i] = (uint8_t)(flags >> 8 * i);
    }
    for (int i = 0; i < 4; i++) {
        bytes[4 + i] = (uint8_t)(size >> 8 * i);
        bytes[8 + i] = (uint8_t)(link >> 8 * i);
        bytes[12 + i] = (uint8_t)(entry >> 8 * i);
    }
    for (int i = 0; i < 8; i++)
        bytes[16 + i] = (uint8_t)(at >> 8 * i);
    write_out(side, bytes, sizeof(bytes));
}

static void open_side(struct side *side)
{
    static const struct gpud_access_rule everybody = {.allow_unauthenticated = true};
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct gpud_address address;
    struct gpud_peer peer;
    struct linger at_once = {.l_onoff = 1};
    uint8_t bytes[GPUD_REQUEST_MAX];
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    watch_begin(WATCH_BENT, "connecting", 0);
    if (side->is_sender) {
        struct gpud_request request = {.number = TCP_PROOF_NONE, .name = "fuzz"};
        size_t size = gpud_request_write(&request, bytes);
        to.sin_port = htons((uint16_t)atoi(strrchr(fixed.sends_at, ':') + 1));
        side->player = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(side->player, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
            send(side->player, bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
            watch_fail("cannot connect");
        while (gpud_listener_accept(fixed.listener, &side->channel, &peer, NULL) == GPUD_AGAIN)
            gpud_fd_wait(fixed.listener->fd, gpud_now() + GPUD_MSEC, NULL);
        if (recv(side->player, bytes, GPUD_REPLY_SIZE, MSG_WAITALL) != GPUD_REPLY_SIZE)
            watch_fail("no reply");
    } else {
        if (gpud_address_resolve(fixed.receives_from, &address, NULL) != GPUD_OK ||
            gpud_channel_connect(&address, &everybody, &side->channel, NULL) != GPUD_OK)
            abort();
        side->player = accept4(fixed.listening, NULL, NULL, SOCK_CLOEXEC);
        size_t size = gpud_reply_write(TCP_PROOF_NONE, bytes);
        if (send(side->player, bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
            watch_fail("cannot reply");
        read(side->player, bytes, sizeof(bytes)); /* its request */
    }
    setsockopt(side->player, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    while (!atomic_load(&side->channel->connected)) {
        receive(side);
        if (side->end.status != GPUD_OK)
            watch_fail("not connected: %s", side->end.reason);
    }
    watch_end(WATCH_BENT);
}

static void open_link(struct side *side)
{
    const struct gpud_remote_ops *ops = side->channel->ops->remote;
    size_t own =
        side->is_sender ? sizeof(struct gpud_sender_half) : sizeof(struct gpud_receiver_half);
    struct gpud_handle page, metas = {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = METAS},
                             theirs = {.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = own};
    struct gpud_ring_description ring;
    void *memory;
    theirs.word[0] = PEER_NUMBER;
    if (ops->create(side->channel, &side->remote, &page, NULL) != GPUD_OK ||
        ops->attach(side->remote, &theirs, NULL) != GPUD_OK || page.word[0] != 1)
        abort();
    if (side->is_sender) {
        ring = (struct gpud_ring_description){
            .slot_size = SLOT, .slots_per_memory = SLOTS, .memories = MEMORIES};
        for (int i = 0; i < MEMORIES; i++)
            ring.handle[i] =
                (struct gpud_handle){.type = GPUD_HANDLE_NETWORK, .fd = -1, .size = SLOTS * SLOT};
        if (ops->attach_ring(side->remote, &ring, MEMORIES * SLOTS, SLOT, NULL) != GPUD_OK)
            abort();
    } else if (ops->expose(side->remote, &fixed.ring, &ring, NULL) != GPUD_OK) {
        abort();
    }
    if (ops->share_metas(side->remote, METAS, &metas, &memory, NULL) != GPUD_OK)
        abort();
    for (int i = 0; i < MEMORIES; i++)
        memset(fixed.areas[i], 0, SLOTS * SLOT);
    struct gpud_page *half = side->remote->page;
    memcpy(side->own, side->is_sender ? (void *)&half->sender : (void *)&half->receiver, own);
    side->reader.is_sender = side->is_sender;
    side->reader.half_size = sizeof(*half) - own;
    memcpy(side->reader.half, side->is_sender ? (void *)&half->receiver : (void *)&half->sender,
           sizeof(*half) - own);
}

/* What has come has its place, and nothing else has. */
static void check_memory(struct side *side)
{
    const struct tcp_remote *remote = (const struct tcp_remote *)side->remote;
    struct gpud_page *page = side->remote->page;
    void *own = side->is_sender ? (void *)&page->sender : (void *)&page->receiver;
    void *theirs = side->is_sender ? (void *)&page->receiver : (void *)&page->sender;
    size_t own_size = sizeof(*page) - side->reader.half_size;
    if (memcmp(own, side->own, own_size) != 0)
        watch_fail("a peer has written this side's half of the page");
    if (memcmp(theirs, side->reader.half, side->reader.half_size) != 0)
        watch_fail("the peer's half is not what it said");
    for (int i = 0; i < MEMORIES; i++)
        if (memcmp(fixed.areas[i], side->reader.slots + i * SLOTS * SLOT, SLOTS * SLOT) != 0)
            watch_fail("the slots are not what the peer said");
    if (memcmp(remote->metas, side->reader.metas, METAS) != 0)
        watch_fail("the large metas are not what the peer said");
}

/* --- sentences -------------------------------------------------------------------------------- */

/* A good message, behind the record that is under way. */
static void write_mark(struct side *side)
{
    static const uint8_t zeros[4096];
    static struct gpud_message message;
    uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size;
    message = (struct gpud_message){.type = GPUD_MESSAGE_EVENT, .event.kind = MARK};
    if (gpud_message_encode(&message, bytes, sizeof(bytes), &size, NULL) != GPUD_OK)
        abort();
    flush(side);
    while (!side->reader.lied && (side->reader.left > 0 || side->reader.have > 0)) {
        uint64_t left = side->reader.left > 0 ? side->reader.left : 1;
        write_out(side, zeros, left < sizeof(zeros) ? left : sizeof(zeros));
        flush(side);
    }
    write_record(side, TCP_MESSAGE, 0, (uint32_t)size, 0, 0, 0);
    write_out(side, bytes, size);
}

/* Until the mark has come, or the end. */
static void await_mark(struct side *side)
{
    flush(side);
    watch_begin(WATCH_BENT, "a good message, or the end", WATCH_PATIENCE * GPUD_MSEC);
    for (receive(side); !side->marked && side->end.status == GPUD_OK; receive(side))
        gpud_fd_wait(side->channel->fd, gpud_now() + 10 * GPUD_MSEC, NULL);
    watch_end(WATCH_BENT);
    if (side->reader.lied != (side->end.status != GPUD_OK))
        watch_fail("%s", side->reader.lied ? "a lie is taken" : side->end.reason);
    if (side->reader.lied &&
        (side->end.status != GPUD_PEER || !strstr(side->end.reason, "broke the protocol: ")))
        watch_fail("a lie ends with \"%s\"", side->end.reason);
    if (side->messages != side->reader.messages)
        watch_fail("%u messages of %u have come", side->messages, side->reader.messages);
}

static uint32_t choose_size(struct fuzz_input *input)
{
    static const uint32_t sizes[] = {0,
                                     1,
                                     4,
                                     8,
                                     24,
                                     2048,
                                     4092,
                                     4096,
                                     4097,
                                     4100,
                                     65536,
                                     262144,
                                     GPUD_MESSAGE_MAX,
                                     GPUD_MESSAGE_MAX + 1,
                                     1024 * 1024,
                                     1024 * 1024 + 1,
                                     UINT32_MAX};
    uint32_t choice = fuzz_number(input, 1);
    return choice < 128 ? choice % 64 * 4 : sizes[choice % (sizeof(sizes) / sizeof(sizes[0]))];
}

/* A record whose fields are mostly likely, and so many bytes as it says, or fewer. */
static void say(struct side *side, struct fuzz_input *input)
{
    static const uint64_t places[] = {0, 4, 2048, 4092, 4096, 8192, UINT64_MAX - 3, UINT64_MAX};
    uint8_t bytes[512];
    uint32_t kind = fuzz_number(input, 1), type = kind & 7;
    uint32_t size = choose_size(input), flags = kind >> 3 & 3;
    uint32_t link = kind & 0x80 ? fuzz_number(input, 1) : 1, entry = fuzz_number(input, 1) % 6;
    uint32_t choice = fuzz_number(input, 1);
    uint64_t at = choice < 128 ? choice * 4 : places[choice % 8];
    if (kind & 0x40)
        at += fuzz_number(input, 2);
    write_record(side, type, flags, size, link, entry, at);
    memset(bytes, (int)fuzz_number(input, 1), sizeof(bytes));
    for (uint32_t left = size < 70000 ? size : 512; left > 0;) {
        uint32_t part = left < sizeof(bytes) ? left : sizeof(bytes);
        bytes[0]++;
        write_out(side, bytes, part);
        left -= part;
    }
}

static void nothing(void)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct side side;
    static char frame[SLOT];
    struct fuzz_input input = {data, size};
    bool first = !fixed.listener;
    if (first)
        prepare();
    memset(&side, 0, sizeof(side));
    uint32_t role = fuzz_number(&input, 1);
    side.is_sender = role & 1;
    open_side(&side);
    open_link(&side);
    struct gpud_memory memory = {.size = sizeof(frame), .host = frame};
    for (unsigned turns = 0; input.size && turns < 100 && side.end.status == GPUD_OK; turns++) {
        uint32_t turn = fuzz_number(&input, 1);
        switch (turn % 8) {
        case 0:
        case 1:
        case 2:
        case 3:
            say(&side, &input);
            break;
        case 4: /* bytes as they are */
            for (uint32_t left = fuzz_number(&input, 1); left > 0 && input.size; left--)
                write_out(&side, &(uint8_t){(uint8_t)fuzz_number(&input, 1)}, 1);
            break;
        case 5: /* a part of a record stays alone */
            flush(&side);
            break;
        case 6: /* the side itself sends something meanwhile */
            if (side.is_sender && side.remote)
                side.remote->ops->write(side.remote, turn >> 6, 0, &memory, 0, sizeof(frame), NULL);
            break;
        case 7: /* its link ends: what still comes for it goes nowhere */
            if (turn < 0xe0 || !side.remote)
                break;
            write_mark(&side);
            await_mark(&side);
            if (side.end.status != GPUD_OK)
                break;
            side.marked = false;
            check_memory(&side);
            side.remote->ops->destroy(side.remote);
            side.remote = NULL;
            side.reader.has_ended = true;
            break;
        }
    }
    if (role & 2) {
        write_mark(&side);
        await_mark(&side);
    } else { /* an end in the middle of a record, or behind one */
        flush(&side);
        shutdown(side.player, SHUT_WR);
        watch_begin(WATCH_BENT, "the end", WATCH_PATIENCE * GPUD_MSEC);
        for (receive(&side); side.end.status == GPUD_OK; receive(&side))
            gpud_fd_wait(side.channel->fd, gpud_now() + 10 * GPUD_MSEC, NULL);
        watch_end(WATCH_BENT);
        if (strstr(side.end.reason, side.reader.lied ? "broke the protocol: " : "connection") ==
            NULL)
            watch_fail("it ends with \"%s\"", side.end.reason);
    }
    if (side.remote)
        check_memory(&side);
    watch_begin(WATCH_BENT, "closing", GPUD_SEC);
    if (side.remote)
        side.remote->ops->destroy(side.remote);
    close(side.player);
    gpud_channel_unref(&side.channel);
    watch_end(WATCH_BENT);
    if (first) /* the thread's own descriptors stay */
        usleep(100000);
    if (first)
        fixed.fds = count_fds();
    fuzz_expect_fds(fixed.fds, nothing);
    return 0;
}
