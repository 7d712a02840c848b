/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hostile receiver tries every possible violation of the protocol against a sender that serves an
 * honest receiver at the same time. Each ends its own connection, with a reason in the log;
 * the honest one loses no frame, nothing hangs, nothing is left open. */
#include "actor.h"
#include "base/base.h"
#include "support/encode.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct background background;
static struct raw raw; /* the liar */

/* These bytes and descriptors, instead of a HELLO, end the connection; the log says why. */
static void hello_at(int line, const void *bytes, size_t size, const int *fds, size_t fd_count,
                     const char *says)
{
    raw_connect(&raw, BACKGROUND_ADDRESS);
    CHECK(raw_send(raw.fd, bytes, size, fds, fd_count), "(line %d) not sent: %s", line,
          strerror(errno));
    turned_out_at(__FILE__, line, &raw, says, 3 * GPUD_SEC);
}
#define HELLO(bytes, size, fds, fd_count, says) hello_at(__LINE__, bytes, size, fds, fd_count, says)

static void turned_out_by(int line, struct gpud_message *message, const char *says)
{
    CHECK(raw_send_message(raw.fd, message), "(line %d) not sent", line);
    turned_out_at(__FILE__, line, &raw, says, 3 * GPUD_SEC);
}

/* One bent field of a good HELLO, and of a good ACCEPT. */
#define BENT_HELLO(says, ...)                  \
    do {                                       \
        struct gpud_message m;                 \
        raw_connect(&raw, BACKGROUND_ADDRESS); \
        raw_hello(&m);                         \
        __VA_ARGS__;                           \
        turned_out_by(__LINE__, &m, says);     \
    } while (0)
#define BENT_ACCEPT(says, ...)                           \
    do {                                                 \
        struct gpud_message m;                           \
        raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED); \
        raw_accept(&raw, &m);                            \
        __VA_ARGS__;                                     \
        turned_out_by(__LINE__, &m, says);               \
    } while (0)

static size_t good_hello(uint8_t bytes[GPUD_MESSAGE_MAX])
{
    struct gpud_message message;
    int fds[GPUD_MESSAGE_HANDLES];
    size_t fd_count;
    raw_hello(&message);
    return encode_message(&message, bytes, fds, &fd_count);
}

/* --- headers, lengths, truncations ------------------------------------------------------------ */

static void bent_bytes(void)
{
    static const struct {
        unsigned at;
        uint8_t by;
        const char *says;
    } bends[] = {
        {0, 1, "does not speak gpudirect's protocol"},
        {3, 128, "does not speak gpudirect's protocol"},
        {4, 1, "version 14"},
        {5, 255, "version 65293"},
        {6, 100, "malformed"},
        {8, 1, "announced"},
        {9, 31, "announced"},
        {11, 255, "announced 4278190"}, /* a lie of 4 GB */
        {16, 200, "malformed"},         /* the name's length */
        {19, 255, "malformed"},
    };
    static uint8_t hello[100000];
    size_t whole = good_hello(hello);
    for (size_t i = 0; i < sizeof(bends) / sizeof(bends[0]); i++) {
        uint8_t *byte = &hello[bends[i].at];
        *byte = (uint8_t)(*byte + bends[i].by);
        HELLO(hello, whole, NULL, 0, bends[i].says);
        *byte = (uint8_t)(*byte - bends[i].by);
    }
    for (size_t size = 1; size < whole; size += size < 20 ? 1 : 13)
        HELLO(hello, size, NULL, 0, size < 16 ? "not even a header" : "announced");
    static const size_t sizes[] = {GPUD_MESSAGE_MAX, GPUD_MESSAGE_MAX + 1, 40000, 100000};
    for (size_t i = 0; i < 4; i++)
        HELLO(hello, sizes[i], NULL, 0,
              sizes[i] > GPUD_MESSAGE_MAX ? "more than a message holds" : "announced");
    HELLO("", 0, NULL, 0, "vanished");
    /* A half-open connection: it will never say anything again. */
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_READY_SENT);
    shutdown(raw.fd, SHUT_WR);
    TURNED_OUT(&raw, "vanished");
}

/* A peer of an older release, or a newer one: it gets a refusal whose header it can read. */
static void other_versions(void)
{
    static const int versions[] = {GPUD_MESSAGE_VERSION - 1, GPUD_MESSAGE_VERSION + 1};
    static const enum gpud_message_type types[] = {GPUD_MESSAGE_HELLO, GPUD_MESSAGE_QUERY};
    for (int i = 0; i < 4; i++) {
        struct gpud_message message = {.type = types[i / 2]};
        uint8_t bytes[GPUD_MESSAGE_MAX];
        int fds[GPUD_MESSAGE_HANDLES];
        size_t count, size;
        char says[100];
        if (message.type == GPUD_MESSAGE_HELLO)
            raw_hello(&message);
        size = encode_message(&message, bytes, fds, &count);
        bytes[4] = (uint8_t)versions[i % 2];
        raw_connect(&raw, BACKGROUND_ADDRESS);
        CHECK(raw_send(raw.fd, bytes, size, NULL, 0), "not sent");
        CHECK(raw_receive(raw.fd, &message, 5 * GPUD_SEC) && message.type == GPUD_MESSAGE_REFUSE,
              "no REFUSE in answer to version %d", versions[i % 2]);
        gpud_print(says, "speaks version %d of the protocol, this library %d", versions[i % 2],
                   GPUD_MESSAGE_VERSION);
        CHECK(message.refuse.status == GPUD_UNSUPPORTED && strstr(message.refuse.reason, says),
              "status %u: \"%s\"", message.refuse.status, message.refuse.reason);
        TURNED_OUT(&raw, says);
    }
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void surplus_descriptors(void)
{
    uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size = good_hello(bytes);
    static int fds[253];
    static const size_t counts[] = {1, 2, 64, 65, 66, 200, 250, 253};
    for (size_t i = 0; i < 253; i++)
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        HELLO(bytes, size, fds, counts[i], "descriptors with a HELLO that has 0");
    HELLO("x", 1, fds, 253, "not even a header"); /* descriptors with nothing */
    for (size_t i = 0; i < 253; i++)
        close(fds[i]);
    for (size_t sent = 0; sent <= 3; sent += 3) {
        struct gpud_message message;
        int out[GPUD_MESSAGE_HANDLES];
        size_t count;
        raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
        raw_accept(&raw, &message);
        size = encode_message(&message, bytes, out, &count);
        out[1] = out[2] = out[0];
        CHECK(raw_send(raw.fd, bytes, size, out, sent), "not sent");
        TURNED_OUT(&raw, sent ? "3 descriptors with a ACCEPT that has 1"
                              : "0 descriptors with a ACCEPT that has 1");
    }
}

/* What is sent in the place of a ring page. */
static void accept_with(int page, const char *says)
{
    CHECK(page >= 0, "no page that is \"%s\"", says);
    BENT_ACCEPT(says, m.accept.page = encode_page(page));
    close(page);
}

static int page_memfd(int seals)
{
    int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct gpud_page)) == 0, "memfd");
    struct gpud_page_rx view;
    struct gpud_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED, "mmap");
    gpud_page_rx_init(&view, page, NULL, 4);
    munmap(page, sizeof(*page));
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0, "F_ADD_SEALS: %s", strerror(errno));
    return fd;
}

/* The page of another version says so at its start, however large it is. */
static int other_version(size_t size)
{
    const struct gpud_page_identity identity = {
        .magic = GPUD_PAGE_MAGIC, .version = 2, .entries = 4};
    int fd = raw_memfd(size, SEALS);
    CHECK(pwrite(fd, &identity, sizeof(identity), 0) == sizeof(identity), "pwrite");
    return fd;
}

/* What is sent in the place of memory for large metas. */
static void large_metas_in(struct gpud_handle handle, const char *says)
{
    BENT_ACCEPT(says, m.accept.large_metas = handle);
    if (handle.fd >= 0)
        close(handle.fd);
}

static void wrong_large_metas(void)
{
    struct gpud_handle local = {.type = GPUD_HANDLE_LOCAL, .fd = -1, .size = 1 << 20};
    large_metas_in(encode_page(raw_memfd(1 << 20, -1)), "not sealed against shrinking");
    large_metas_in(encode_page(raw_memfd(100, SEALS)), "bytes where");
    large_metas_in(encode_page(open("/dev/zero", O_RDWR | O_CLOEXEC)), "not a memfd");
    large_metas_in(local, "for large metas is not shared memory");
}

static void wrong_pages(void)
{
    int ends[2];
    accept_with(raw_memfd(sizeof(struct gpud_page), -1), "not sealed against shrinking");
    accept_with(raw_memfd(sizeof(struct gpud_page), F_SEAL_GROW), "not sealed against shrinking");
    accept_with(raw_memfd(sizeof(struct gpud_page) - 1, SEALS), "bytes where");
    accept_with(raw_memfd(4096, SEALS), "bytes where");
    accept_with(raw_memfd(0, SEALS), "bytes where");
    accept_with(raw_memfd(sizeof(struct gpud_page), SEALS), "not a ring page");
    accept_with(other_version(62400), "version 2, and of version 6 here");
    accept_with(other_version(2 * sizeof(struct gpud_page)), "version 2, and of version 6 here");
    accept_with(open("/dev/null", O_RDWR | O_CLOEXEC), "not a memfd");
    accept_with(open("/dev/zero", O_RDWR | O_CLOEXEC), "not a memfd");
    accept_with(open("/proc/self/mem", O_RDWR | O_CLOEXEC), "not a memfd");
    accept_with(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "not a memfd");
    accept_with(open("/", O_PATH | O_CLOEXEC), "not a memfd");
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    accept_with(ends[0], "not a memfd");
    accept_with(ends[1], "not a memfd");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    accept_with(ends[0], "not a memfd");
    close(ends[1]);
    char file[] = "/dev/shm/gpud-hostile-XXXXXX"; /* a shared file that can shrink is no memfd */
    int shm = mkstemp(file);
    unlink(file);
    CHECK(shm >= 0 && ftruncate(shm, sizeof(struct gpud_page)) == 0, "mkstemp");
    accept_with(shm, "not sealed against shrinking");
    /* Good, but read-only for everybody: it may be this route's fault, so the next one is offered.
     */
    struct gpud_message message;
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
    raw_accept(&raw, &message);
    message.accept.page = encode_page(page_memfd(SEALS | F_SEAL_WRITE));
    CHECK(raw_send_message(raw.fd, &message), "not sent");
    close(message.accept.page.fd);
    CHECK(raw_log_says("map does not work: cannot map the peer's shared memory", GPUD_SEC),
          "nothing is said of it");
    do
        CHECK(raw_receive(raw.fd, &message, GPUD_SEC), "no other route is offered");
    while (gpud_message_close(&message), message.type == GPUD_MESSAGE_GROW);
    CHECK(message.type == GPUD_MESSAGE_OFFER, "a %s instead of another route",
          gpud_message_name(message.type));
    hang_up_heard(&raw);
}

/* --- values ----------------------------------------------------------------------------------- */

static void bent_values(void)
{
    struct gpud_message message;
    static const uint32_t entries[] = {0, 3, 5, 65, UINT32_MAX};
    for (size_t i = 0; i < 5; i++)
        BENT_ACCEPT(entries[i] == 3 || entries[i] == 5 ? "its ring page has 4" : "entries",
                    m.accept.entries = entries[i]);
    BENT_ACCEPT("used before", atomic_store(&raw.page->receiver.claimed, 1));
    /* A ring where there should be none. */
    BENT_ACCEPT("sent a ring although ours is used", m.accept.ring.memories = 1;
                m.accept.ring.handle[0] =
                    (struct gpud_handle){.type = GPUD_HANDLE_LOCAL, .fd = -1, .size = 1 << 20});
    /* Another epoch's answers are not for us: then nothing comes, and that has its end. */
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
    raw_accept(&raw, &message);
    message.accept.epoch += 1000;
    CHECK(raw_send_message(raw.fd, &message), "not sent");
    CHECK(raw_receive(raw.fd, &message, 300 * GPUD_MSEC) == false,
          "an answer to a forged epoch was taken");
    hang_up_heard(&raw);

    static const struct {
        uint32_t slots;
        uint8_t slow;
    } hellos[] = {{65, 0}, {UINT32_MAX, 0}, {4, 4}, {4, 255}};
    for (size_t i = 0; i < 4; i++)
        BENT_HELLO("requests something that does not exist", m.hello.slots = hellos[i].slots;
                   m.hello.slow_receiver = hellos[i].slow);
    BENT_HELLO("different machines", memset(m.hello.host, 0xee, 16));
    /* What is printed of it is harmless. */
    BENT_HELLO("?]0;evil??name", strcpy(m.hello.name, "\x1b]0;evil\x07\nname");
               m.hello.slots = GPUD_SLOTS_MAX + 1);
}

static void out_of_turn(void)
{
    struct gpud_message message;
    for (int step = RAW_CONNECTED; step <= RAW_READY_SENT; step++) {
        if (step == RAW_HELLO_SENT || step == RAW_HELLO_GOT)
            continue; /* the sender is at "offered" already */
        for (int type = GPUD_MESSAGE_HELLO; type <= GPUD_MESSAGE_KICK; type++) {
            bool sender_waits = step == RAW_OFFERED;
            bool canary = step == RAW_ACCEPTED || step == RAW_CANARY_GOT;
            if ((step == RAW_CONNECTED &&
                 (type == GPUD_MESSAGE_HELLO || type == GPUD_MESSAGE_QUERY)) ||
                type == GPUD_MESSAGE_BYE || (type == GPUD_MESSAGE_KICK && step != RAW_CONNECTED) ||
                (sender_waits && (type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY)) ||
                (canary && type == GPUD_MESSAGE_READY) ||
                ((sender_waits || canary) && type == GPUD_MESSAGE_REFUSE))
                continue; /* in turn, or overtaken */
            raw_open(&raw, BACKGROUND_ADDRESS, (enum raw_step)step);
            memset(&message, 0, sizeof(message));
            if (type == GPUD_MESSAGE_ACCEPT)
                raw_accept(&raw, &message);
            if (type == GPUD_MESSAGE_LINKS)
                message.links.count = 1;
            message.type = (enum gpud_message_type)type;
            CHECK(raw_send_message(raw.fd, &message), "not sent");
            char says[64];
            snprintf(says, sizeof(says), "an unexpected %s",
                     gpud_message_name((enum gpud_message_type)type));
            TURNED_OUT(&raw, says);
        }
    }
    /* A REFUSE of everything ends in a refusal, not in a loop. */
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
    for (int i = 0; i < 5; i++) {
        message = (struct gpud_message){.type = GPUD_MESSAGE_REFUSE};
        message.refuse.epoch = raw.offer.epoch;
        strcpy(message.refuse.reason, "I do not like it");
        raw_send_message(raw.fd, &message);
    }
    TURNED_OUT(&raw, "I do not like it");
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"bent headers, lies about lengths, truncations", bent_bytes},
        {"other releases", other_versions},
        {"surplus and missing descriptors", surplus_descriptors},
        {"ring pages that are none", wrong_pages},
        {"no memory for large metas", wrong_large_metas},
        {"values that cannot be", bent_values},
        {"messages out of turn", out_of_turn},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
