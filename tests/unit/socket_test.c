/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages with descriptors: they arrive, unexpected ones are closed, and a process without free
 * descriptors reports that. */
#include "base/base.h"
#include "support/check.h"
#include "support/count.h"
#include "support/encode.h"
#include "support/run.h"
#include "wire/unix/unix.h"

#define MEMORIES 5

static int ends[2];

/* An ACCEPT with a page and so many memories: as many descriptors, and one. */
static void send_accept(void)
{
    static struct gpud_message message;
    memset(&message, 0, sizeof(message));
    message.type = GPUD_MESSAGE_ACCEPT;
    message.accept.page = encode_page(ends[0]);
    message.accept.ring.memories = MEMORIES;
    for (int i = 0; i < MEMORIES; i++)
        message.accept.ring.handle[i] =
            (struct gpud_handle){.type = GPUD_HANDLE_MEMFD, .fd = ends[0]};
    WORKS(gpud_socket_send(ends[0], &message, &e));
}

static void test_arrival(void)
{
    struct gpud_message message;
    unsigned before = count_fds();
    CHECK(gpud_socket_receive(ends[1], &message, NULL) == GPUD_AGAIN, "a message from nowhere");
    send_accept();
    WORKS(gpud_socket_receive(ends[1], &message, &e));
    CHECK(message.accept.ring.memories == MEMORIES && count_fds() == before + MEMORIES + 1,
          "%u descriptors came", count_fds() - before);
    gpud_message_close(&message);
    CHECK_EQUAL(count_fds(), before);
}

/* A message of each type that can bring descriptors, and of one that cannot, with every number of
 * them but the right one. */
static void test_counts(void)
{
    static const enum gpud_message_type types[] = {GPUD_MESSAGE_OFFER, GPUD_MESSAGE_ACCEPT,
                                                   GPUD_MESSAGE_GROW, GPUD_MESSAGE_READY};
    static struct gpud_message message;
    static uint8_t bytes[GPUD_MESSAGE_MAX];
    int fds[MEMORIES + 4], of_message[GPUD_MESSAGE_HANDLES];
    unsigned before = count_fds();
    for (size_t i = 0; i < MEMORIES + 4; i++)
        fds[i] = ends[0];
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        memset(&message, 0, sizeof(message));
        message.type = types[i];
        struct gpud_ring_description *const rings[] = {&message.offer.ring, &message.accept.ring,
                                                       &message.grow, &message.grow};
        struct gpud_ring_description *ring = rings[i];
        if (types[i] == GPUD_MESSAGE_ACCEPT)
            message.accept.page = encode_page(ends[0]);
        ring->memories = types[i] == GPUD_MESSAGE_READY ? 0 : MEMORIES;
        for (uint32_t k = 0; k < ring->memories; k++)
            ring->handle[k] = encode_page(ends[0]);
        size_t right, size = encode_message(&message, bytes, of_message, &right);
        for (size_t count = 0; count < MEMORIES + 4; count++) {
            struct gpud_error error = {.reason = ""};
            CHECK(encode_send(ends[0], bytes, size, fds, count), "not sent");
            enum gpud_status status = gpud_socket_receive(ends[1], &message, &error);
            CHECK(status == (count == right ? GPUD_OK : GPUD_PEER), "%zu descriptors with a %s: %s",
                  count, gpud_message_name(types[i]), error.reason);
            if (status == GPUD_OK)
                gpud_message_close(&message);
            else
                CHECK_SAYS(error.reason, "descriptors with a");
            CHECK_EQUAL(count_fds(), before);
        }
    }
}

int main(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
          "socketpair: %s", strerror(errno));
    SAY("descriptors arrive");
    test_arrival();
    SAY("and find room for none of them, for one, … for all but one");
    unsigned before = count_fds();
    for (unsigned room = 0; room <= MEMORIES; room++) {
        struct gpud_message message;
        struct gpud_error error = {.reason = ""};
        char says[64];
        send_accept();
        /* The lowest number that no descriptor has: all below are taken. */
        int first_free = dup(0);
        CHECK(first_free >= 0 && close(first_free) == 0, "dup: %s", strerror(errno));
        rlim_t small = (rlim_t)first_free + room, limit = set_limit(RLIMIT_NOFILE, small);
        enum gpud_status status = gpud_socket_receive(ends[1], &message, &error);
        set_limit(RLIMIT_NOFILE, limit);
        CHECK(status == GPUD_NO_MEMORY, "room for %u of %u descriptors gives \"%s\": %s", room,
              MEMORIES + 1, gpud_status_string(status), error.reason);
        gpud_print(says, "this process may have %u; raise its limit (ulimit -n)", (unsigned)small);
        CHECK_SAYS(error.reason, says);
        CHECK(!strstr(error.reason, "peer"), "\"%s\"", error.reason);
        CHECK_EQUAL(count_fds(), before);
    }
    /* Nothing is wrong with the connection. */
    test_arrival();
    SAY("and are too many, which is reported as the peer's");
    static char bytes[GPUD_MESSAGE_MAX + 2];
    int fds[253];
    for (size_t i = 0; i < 253; i++)
        fds[i] = ends[0];
    for (int large = 0; large < 2; large++) {
        struct gpud_message message;
        CHECK(encode_send(ends[0], bytes, large ? sizeof(bytes) : 16, fds, 253), "not sent");
        EXPECT(GPUD_PEER, large ? "more than a message holds" : "does not speak",
               gpud_socket_receive(ends[1], &message, &e));
        CHECK_EQUAL(count_fds(), before);
    }
    test_counts();
    return 0;
}
