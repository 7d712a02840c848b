/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hostile receiver that comes by TCP, to a sender that serves an honest one at the same time:
 * bytes that are no records, records that lie, messages out of turn and with values that cannot be,
 * and words in the ring page. Each ends its own connection, with a reason in the log; the honest
 * one loses no frame. */
#include "actor.h"
#include "base/base.h"
#include "device/device.h"
#include "frame/frame.h"
#include "support/encode.h"
#include "wire/network.h"
#include "wire/wire.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define ENTRIES 4

static struct background background;
static uint16_t port;

/* --- by bytes alone --------------------------------------------------------------------------- */

static int dial(void)
{
    const struct gpud_request request = {.number = 1, .name = "background"};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    uint8_t bytes[GPUD_REQUEST_MAX];
    size_t size = gpud_request_write(&request, bytes);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
              send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size,
          "connect: %m");
    CHECK(recv(fd, bytes, GPUD_REPLY_SIZE, MSG_WAITALL) == GPUD_REPLY_SIZE &&
              memcmp(bytes, "GPUR\x01\x08\x01", 7) == 0,
          "no reply");
    return fd;
}

/* A record's header, with these bytes behind it. */
static void write_record(int fd, uint16_t type, uint32_t size, uint32_t link, uint64_t at,
                         const void *bytes, size_t length)
{
    struct {
        uint16_t type, flags;
        uint32_t size, link, entry;
        uint64_t at;
    } header = {htole16(type), 0, htole32(size), htole32(link), 0, htole64(at)};
    _Static_assert(sizeof(header) == 24, "as the wire has it");
    CHECK(send(fd, &header, sizeof(header), MSG_NOSIGNAL) == sizeof(header), "send: %m");
    if (length > 0)
        CHECK(send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length, "send: %m");
}

static void ended_at(int line, int fd, const char *says)
{
    if (!raw_wait_hangup(fd, 10 * GPUD_SEC) || !raw_log_says(says, 3 * GPUD_SEC)) {
        raw_log_print();
        FAIL("(line %d) no end of the lie, or the log does not say \"%s\"", line, says);
    }
    close(fd);
    raw_log_clear();
}
#define ENDED(fd, says) ended_at(__LINE__, fd, says)

static size_t good_hello(uint8_t bytes[GPUD_MESSAGE_MAX])
{
    struct gpud_message message;
    int fds[GPUD_MESSAGE_HANDLES];
    size_t count;
    raw_hello(&message);
    gpud_print(message.hello.network.card, "tcp");
    message.hello.network.ways = GPUD_NETWORK_TCP;
    return encode_message(&message, bytes, fds, &count);
}

static void wrong_records(void)
{
    static const struct {
        uint16_t type;
        uint32_t size, link;
        uint64_t at;
        const char *says;
    } lies[] = {
        {0, 0, 0, 0, "a record of an unknown type"},
        {6, 0, 0, 0, "a record of an unknown type"},
        {UINT16_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX, "a record of an unknown type"},
        {1, GPUD_MESSAGE_MAX + 1, 0, 0, "a message that is too large"},
        {1, UINT32_MAX, 0, 0, "a message that is too large"},
        {2, 4096, 1, 0, "a receiver sends no frames"},
        {3, 4096, 1, 0, "a receiver sends no frames"},
        {4, 4, 0, 0, "a link that there never was"},
        {4, 4, 77, 0, "a link that there never was"},
        {4, 4097, 1, 0, "too large a part of a page"},
        {5, 1, 0, 0, "a ping with something in it"},
    };
    uint8_t hello[GPUD_MESSAGE_MAX];
    size_t size = good_hello(hello);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        for (int after_hello = 0; after_hello < 2; after_hello++) {
            int fd = dial();
            if (after_hello)
                write_record(fd, 1, (uint32_t)size, 0, 0, hello, size);
            if (after_hello) /* the answer: the link is made */
                CHECK(recv(fd, &(char){0}, 1, 0) == 1, "no answer");
            write_record(fd, lies[i].type, lies[i].size, lies[i].link, lies[i].at, "lie", 4);
            ENDED(fd, lies[i].says);
        }
    /* And what is no record. */
    static const char http[] = "GET / HTTP/1.1\r\nHost: studio\r\nAccept: */*\r\n\r\n";
    int fd = dial();
    CHECK(send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL) > 0, "send: %m");
    ENDED(fd, "a record of an unknown type");
}

static void bent_bytes(void)
{
    static const struct {
        unsigned at;
        uint8_t by;
        const char *says;
    } bends[] = {
        {0, 1, "does not speak gpudirect's protocol"},
        {3, 128, "does not speak gpudirect's protocol"},
        {4, 1, "version"},
        {5, 255, "version"},
        {6, 100, "malformed"},
        {8, 1, "announced"},
        {11, 255, "announced 4278190"},
        {16, 200, "malformed"},
        {19, 255, "malformed"},
    };
    static uint8_t hello[GPUD_MESSAGE_MAX];
    size_t whole = good_hello(hello);
    for (size_t i = 0; i < sizeof(bends) / sizeof(bends[0]); i++) {
        uint8_t *byte = &hello[bends[i].at];
        *byte = (uint8_t)(*byte + bends[i].by);
        int fd = dial();
        write_record(fd, 1, (uint32_t)whole, 0, 0, hello, whole);
        ENDED(fd, bends[i].says);
        *byte = (uint8_t)(*byte - bends[i].by);
    }
    for (size_t size = 0; size < whole; size += size < 20 ? 1 : 37) {
        int fd = dial();
        write_record(fd, 1, (uint32_t)size, 0, 0, hello, size);
        ENDED(fd, size < 16 ? "not even a header" : "announced");
    }
    for (size_t size = 0; size < whole; size += 53) { /* the rest never comes */
        int fd = dial();
        write_record(fd, 1, (uint32_t)whole, 0, 0, hello, size);
        shutdown(fd, SHUT_WR);
        ENDED(fd, "vanished without a goodbye");
    }
}

/* --- by the library's own end ----------------------------------------------------------------- */

enum step { CONNECTED, OFFERED, ACCEPTED, CANARY_GOT, READY_SENT, STEPS };

static struct liar {
    struct gpud_channel *channel;
    struct gpud_context *context;
    struct gpud_device *device;
    struct gpud_remote *remote;
    struct gpud_ring ring;
    struct gpud_page_rx view;
    struct gpud_handle page;
    struct gpud_offer offer;
    uint64_t nonce;
} liar;

static void await_message(struct gpud_message *message, enum gpud_message_type type)
{
    int64_t deadline = gpud_deadline(20 * GPUD_SEC);
    struct gpud_error error = {.reason = ""};
    enum gpud_status status;
    for (;;) {
        while ((status = gpud_channel_receive(liar.channel, message, &error)) == GPUD_AGAIN)
            CHECK(gpud_channel_wait(liar.channel, deadline, NULL) == GPUD_OK, "no %s comes",
                  gpud_message_name(type));
        CHECK(status == GPUD_OK, "no %s but: %s", gpud_message_name(type), error.reason);
        if (message->type == type)
            return;
        CHECK(message->type == GPUD_MESSAGE_SLOTS || message->type == GPUD_MESSAGE_KICK ||
                  message->type == GPUD_MESSAGE_HELLO,
              "a %s for a %s", gpud_message_name(message->type), gpud_message_name(type));
    }
}

static void say_to_sender(struct gpud_message *message)
{
    WORKS(gpud_channel_send(liar.channel, message, &e));
}

static void make_hello(struct gpud_message *message)
{
    raw_hello(message);
    liar.channel->ops->remote->describe(liar.channel, liar.device, &message->hello.network);
    message->hello.token = 1;
}

/* A good answer to the offer. */
static void make_accept(struct gpud_message *message)
{
    const struct gpud_remote_ops *ops = liar.channel->ops->remote;
    struct gpud_layout layout = background.layout;
    if (!liar.remote) {
        gpud_ring_init(&liar.ring, liar.device, GPUD_USAGE_TARGET, layout.size, ENTRIES);
        WORKS(gpud_ring_grow(&liar.ring, &e));
        WORKS(ops->create(liar.channel, &liar.remote, &liar.page, &e));
        WORKS(ops->attach(liar.remote, &liar.offer.page, &e));
        gpud_page_rx_init(&liar.view, liar.remote->page, liar.remote, ENTRIES);
    }
    *message = (struct gpud_message){.type = GPUD_MESSAGE_ACCEPT};
    message->accept.epoch = liar.offer.epoch;
    message->accept.entries = ENTRIES;
    message->accept.page = liar.page;
    WORKS(ops->expose(liar.remote, &liar.ring, &message->accept.ring, &e));
}

static void open_liar(enum step to)
{
    static struct gpud_message message;
    struct gpud_access_rule access = {.allow_unauthenticated = true};
    struct gpud_address address;
    char text[64];
    snprintf(text, sizeof(text), "tcp://127.0.0.1:%u/background", port);
    liar = (struct liar){.context = NEW_CONTEXT()};
    liar.device = OPEN_DEVICE(liar.context, "host");
    WORKS(gpud_address_resolve(text, &address, &e));
    WORKS(gpud_channel_connect(&address, &access, &liar.channel, &e));
    int64_t deadline = gpud_deadline(20 * GPUD_SEC);
    while (!atomic_load(&liar.channel->connected)) {
        EXPECT(GPUD_AGAIN, "",
               (gpud_fail(&e, GPUD_AGAIN, "not connected"),
                gpud_channel_receive(liar.channel, &message, &e)));
        CHECK(gpud_now() < deadline, "no connection");
    }
    if (to < OFFERED)
        return;
    make_hello(&message);
    say_to_sender(&message);
    await_message(&message, GPUD_MESSAGE_OFFER);
    liar.offer = message.offer;
    CHECK_TEXT(liar.offer.route, "tcp-host");
    if (to < ACCEPTED)
        return;
    make_accept(&message);
    say_to_sender(&message);
    if (to < CANARY_GOT)
        return;
    await_message(&message, GPUD_MESSAGE_CANARY);
    if (to < READY_SENT)
        return;
    say_to_sender(&(struct gpud_message){.type = GPUD_MESSAGE_READY, .epoch = liar.offer.epoch});
}

static void close_liar(void)
{
    if (liar.remote)
        liar.remote->ops->destroy(liar.remote);
    gpud_channel_unref(&liar.channel);
    gpud_ring_finish(&liar.ring);
    gpud_device_close(&liar.device);
    gpud_context_destroy(&liar.context);
}

static void caught_at(int line, const char *says)
{
    static struct gpud_message message;
    int64_t deadline = gpud_deadline(10 * GPUD_SEC);
    while (!gpud_channel_is_dead(liar.channel) && gpud_now() < deadline)
        if (gpud_channel_receive(liar.channel, &message, NULL) == GPUD_AGAIN)
            gpud_channel_wait(liar.channel, gpud_now() + GPUD_MSEC, NULL);
    if (!gpud_channel_is_dead(liar.channel) || !raw_log_says(says, 3 * GPUD_SEC)) {
        raw_log_print();
        FAIL("(line %d) the lie goes on, or the log does not say \"%s\"", line, says);
    }
    close_liar();
    raw_log_clear();
}
#define CAUGHT(says) caught_at(__LINE__, says)

#define BENT_ACCEPT(says, ...)        \
    do {                              \
        static struct gpud_message m; \
        open_liar(OFFERED);           \
        make_accept(&m);              \
        __VA_ARGS__;                  \
        say_to_sender(&m);            \
        CAUGHT(says);                 \
    } while (0)

static void bent_values(void)
{
    static const uint32_t entries[] = {0, 3, 5, 65, UINT32_MAX};
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        BENT_ACCEPT("entries", m.accept.entries = entries[i]);
    BENT_ACCEPT("cannot write the peer's ring page", m.accept.page.size++);
    BENT_ACCEPT("cannot write the peer's ring page", m.accept.page.word[0] = 0);
    BENT_ACCEPT("cannot write the peer's ring page", m.accept.page.word[0] = UINT64_MAX);
    BENT_ACCEPT("ring", m.accept.ring.memories = 0);
    BENT_ACCEPT("ring", m.accept.ring.slots_per_memory = UINT32_MAX);
    BENT_ACCEPT("ring", m.accept.ring.slot_size = UINT64_MAX);
    BENT_ACCEPT("ring", m.accept.ring.slot_size = 16);
    BENT_ACCEPT("ring", m.accept.ring.handle[0].size = 16);
    BENT_ACCEPT("for large metas", m.accept.large_metas = (struct gpud_handle){
                                       .type = GPUD_HANDLE_NETWORK, .fd = -1, .size = 1});
}

static void out_of_turn(void)
{
    static struct gpud_message message;
    for (int step = CONNECTED; step < STEPS; step++)
        for (int type = GPUD_MESSAGE_HELLO; type <= GPUD_MESSAGE_KICK; type++) {
            bool canary = step == ACCEPTED || step == CANARY_GOT;
            if ((step == CONNECTED && (type == GPUD_MESSAGE_HELLO || type == GPUD_MESSAGE_QUERY)) ||
                type == GPUD_MESSAGE_BYE || (type == GPUD_MESSAGE_KICK && step != CONNECTED) ||
                (step == OFFERED && (type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY)) ||
                (canary && type == GPUD_MESSAGE_READY) ||
                ((step == OFFERED || canary) && type == GPUD_MESSAGE_REFUSE))
                continue; /* in turn, or overtaken */
            char says[64];
            open_liar((enum step)step);
            memset(&message, 0, sizeof(message));
            message.type = (enum gpud_message_type)type;
            if (type == GPUD_MESSAGE_LINKS)
                message.links.count = 1;
            if (type == GPUD_MESSAGE_ACCEPT && step > CONNECTED)
                make_accept(&message);
            say_to_sender(&message);
            snprintf(says, sizeof(says), "an unexpected %s",
                     gpud_message_name((enum gpud_message_type)type));
            CAUGHT(says);
        }
}

/* Words of the receiver's half, which are sent as an honest side sends its own. */
static void forged_words(void)
{
    for (int lie = 0; lie < 5; lie++) {
        open_liar(READY_SENT);
        struct gpud_receiver_half *half = &liar.remote->page->receiver;
        const struct gpud_page_carrier *carrier = liar.remote->ops->carrier;
        static const uint32_t more[] = {5, 1, (uint32_t)-2, INT32_MAX, UINT32_MAX};
        for (int i = 0; i < GPUD_PAGE_ENTRIES; i++)
            atomic_store(&half->given_back[i], lie % 2 ? UINT32_MAX : (uint32_t)i);
        atomic_fetch_add(&half->returned, more[lie]);
        carrier->publish(&liar.view.end, 0, sizeof(*half));
        carrier->notify(&liar.view.end);
        CAUGHT("broke the protocol: it ");
    }
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"records that lie, and bytes that are none", wrong_records},
        {"bent headers, lies about lengths, truncations", bent_bytes},
        {"values that cannot be", bent_values},
        {"messages out of turn", out_of_turn},
        {"words in the ring page", forged_words},
    };
    char address[64];
    if (!getenv("GPUD_TEST_ADDRESS")) {
        snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", find_free_port());
        setenv("GPUD_TEST_ADDRESS", address, 1);
    }
    port = (uint16_t)atoi(strrchr(getenv("GPUD_TEST_ADDRESS"), ':') + 1);
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
