/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening by TCP: addresses, ports that others have, connections that are handed over, and peers
 * that connect and say nothing, too little, or too slowly, while an honest receiver connects.
 * Arguments: the names of cases, else all. */
#include "tcp.h"

#include "support/count.h"
#include "support/make.h"
#include "support/peer.h"
#include "wire/network.h"
#include "wire/tcp/kind.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* --- addresses -------------------------------------------------------------------------------- */

static void test_every_address(void)
{
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = listen_on(address_at("", "/x"), NULL);
    join_once(listener, address_of("/x"), network.host);
    join_once(listener, address6_of("/x"), network.host6);
    join_once(listener, address_at("127.0.0.9", "/x"), "127.0.0.1");
    join_once(listener, address_at("localhost", "/x"), NULL); /* of either family */
    join_once(listener, address_at("[::ffff:127.0.0.1]", ""), network.host);
}

static void test_scopes(void)
{
    struct gpud_place place;
    struct sockaddr_storage address;
    char canonical[GPUD_ADDRESS_MAX];
    WORKS(gpud_place_parse(&gpud_tcp_scheme, "tcp://[fe80::1%25lo]/cam1", &place, canonical, &e));
    CHECK(gpud_place_to_sockaddr(&place, &address), "%s is no address", place.host);
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
    CHECK_EQUAL(six->sin6_scope_id, if_nametoindex("lo"));
    CHECK_EQUAL(ntohs(six->sin6_port), 7175);
    CHECK_TEXT(place.name, "cam1");
    /* What is printed means the same. */
    struct gpud_place again;
    WORKS(gpud_place_parse(&gpud_tcp_scheme, canonical, &again, NULL, &e));
    CHECK_TEXT(again.host, place.host);
    static const char *const wrong[] = {"tcp://[fe80::1%25no-such-interface]/cam1",
                                        "tcp://[fe80::1", "tcp://[fe80::1]x", "tcp://[::1]:0/x",
                                        "tcp://[::1]:65536/x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        enum gpud_status status =
            gpud_place_parse(&gpud_tcp_scheme, wrong[i], &place, canonical, NULL);
        CHECK(status == GPUD_INVALID || (i == 0 && !gpud_place_to_sockaddr(&place, &address)),
              "%s is taken", wrong[i]);
    }
    EXPECT(GPUD_INVALID, "tcp://[fe80::1%eth0]",
           gpud_place_parse(&gpud_tcp_scheme, "tcp://[fe80::1]/cam1", &place, canonical, &e));
    struct gpud_listener *listener;
    EXPECT(GPUD_IO, "does not have that interface",
           try_to_listen("tcp://[fe80::1%no-such-if]/cam1", NULL, &listener, &e));
}

/* --- ports ------------------------------------------------------------------------------------ */

static void test_foreign_program(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(case_port)};
    struct gpud_listener *listener;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0,
          "bind: %m");
    EXPECT(GPUD_IO, "no sender of this user", try_to_listen(address_of(""), NULL, &listener, &e));

    /* A receiver is told by that program's silence, or by its words. */
    gpud_tcp_handshake_deadline = GPUD_SEC;
    expect_lost(address_of(""), "did not answer within 1 s");
    gpud_tcp_handshake_deadline = PATIENCE / 2;
    close(accept4(fd, NULL, NULL, SOCK_CLOEXEC)); /* of that one */
    static const char *const greetings[] = {"220 studio ESMTP\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                            "GPUR\x01\xff too long a reply", "HTTP/1.1 400 \r\n"};
    for (size_t i = 0; i < sizeof(greetings) / sizeof(greetings[0]); i++) {
        struct gpud_channel *channel = begin_to_connect(address_of(""), NULL);
        int other = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        write_raw(other, greetings[i], strlen(greetings[i]));
        lose(channel, GPUD_PEER, "is not a gpudirect sender");
        close(other);
    }
    close(fd);
    gpud_listener_close(&(struct gpud_listener *){listen_on(address_of(""), NULL)});
}

static void listen_as_nobody(int other)
{
    struct gpud_listener *listener;
    CHECK(getuid() != 0 || setuid(65534) == 0, "setuid: %m");
    EXPECT(GPUD_NO_ACCESS, "ports below 1024 are for root",
           try_to_listen("tcp://127.0.0.1:1023/x", NULL, &listener, &e));
    say(other, 1);
}

static void test_privileged(void)
{
    int other, first = 0;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    if (!file || fscanf(file, "%d", &first) != 1 || first < 1024) {
        SAY("every user may have every port here");
        return;
    }
    fclose(file);
    CHECK(chmod(getenv("XDG_RUNTIME_DIR"), 0755) == 0 && mkdir(path_of("nobody"), 0700) == 0 &&
              (getuid() != 0 || chown(path_of("nobody"), 65534, 65534) == 0) &&
              setenv("XDG_RUNTIME_DIR", path_of("nobody"), 1) == 0,
          "a folder of another user: %m");
    pid_t child = run_apart(listen_as_nobody, &other);
    hear(other);
    await_end(child);
}

/* --- handing over ----------------------------------------------------------------------------- */

/* Greets each that connects; to a word it says how many descriptors it has, to 0 it ends. */
static void serve_until_told(int other, const char *name)
{
    struct gpud_channel *channel;
    struct gpud_peer peer;
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address_of(name), NULL);
    say(other, 1);
    for (;;) {
        while (gpud_fd_wait(other, gpud_now() + 2 * GPUD_MSEC, NULL) != GPUD_OK)
            if (gpud_listener_accept(listener, &channel, &peer, NULL) == GPUD_OK) {
                if (!gpud_channel_is_dead(channel)) /* as with a pipe for a connection */
                    greet(channel, 1);
                lose(channel, GPUD_CLOSED, "");
            }
        if (hear(other) == 0)
            return;
        await_single_thread();
        say(other, count_fds());
    }
}

static void serve_holder(int other)
{
    serve_until_told(other, "/cam1");
}

static void serve_other(int other)
{
    serve_until_told(other, "/cam2");
}

/* The abstract socket where that process takes connections over. */
static void find_own(pid_t pid, struct sockaddr_un *name, socklen_t *size)
{
    char line[512], wanted[64];
    snprintf(wanted, sizeof(wanted), "@gpudirect-tcp-%u-%u", geteuid(), 1 + (unsigned)pid % 65535);
    FILE *file = fopen("/proc/net/unix", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof(line), file))
        found = strstr(line, wanted) != NULL;
    CHECK(found, "there is no socket %s", wanted);
    fclose(file);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path + 1, wanted + 1, strlen(wanted) - 1);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(wanted));
}

static void send_lie(const struct sockaddr_un *name, socklen_t size, const void *bytes,
                     size_t length, const int *fds, size_t count)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_name = (void *)(uintptr_t)name,
                             .msg_namelen = size,
                             .msg_iov = &part,
                             .msg_iovlen = 1};
    if (count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && sendmsg(fd, &message, 0) >= 0, "sendmsg: %m");
    close(fd);
}

static void send_lies(const struct sockaddr_un *name, socklen_t size)
{
    uint8_t request[64];
    size_t length = make_request(request, 1, "cam2");
    int pipes[2], pair[2];
    CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "pipe: %m");
    const int many[] = {pipes[0], pipes[1], pair[0], pipes[0], pipes[1], pair[0]};
    for (size_t count = 0; count <= 6; count++) {
        send_lie(name, size, "", 0, many, count);
        send_lie(name, size, "lies", 4, many, count);
        send_lie(name, size, request, length, many, count); /* the first one is a pipe */
    }
    close(pipes[0]);
    close(pipes[1]);
    close(pair[0]);
    close(pair[1]);
}

/* A process that sends anything but a connection there changes nothing, and leaks nothing. */
static void test_handing_over(void)
{
    int first, second;
    struct sockaddr_un name;
    socklen_t size;
    pid_t holder = run_apart(serve_holder, &first);
    hear(first);
    pid_t served = run_apart(serve_other, &second);
    hear(second);
    find_own(served, &name, &size);
    uint64_t before = 0;
    if (geteuid() == 0) { /* one whom it does not trust; before this process has threads */
        pid_t child = fork();
        if (child == 0) {
            CHECK(setuid(65534) == 0, "setuid: %m");
            for (int turn = 0; turn < 3; turn++)
                send_lies(&name, size);
            _exit(0);
        }
        await_end(child);
    }
    for (int turn = 0; turn < 3; turn++) {
        send_lies(&name, size);
        struct gpud_channel *channel = connect_to(address_of("/cam2")); /* handed over */
        expect_greeting(channel, 1);
        gpud_channel_unref(&channel);
        say(second, 1);
        uint64_t now = hear(second);
        CHECK(turn == 0 || !COUNTS_LEFT || now == before, "%u descriptors, then %u",
              (unsigned)before, (unsigned)now);
        before = now;
    }
    say(first, 0);
    say(second, 0);
    await_end(holder);
    await_end(served);
}

/* Without descriptors a connection waits, the sender hears why, and then takes it. */
static void test_no_descriptors(void)
{
    struct rlimit limit, none;
    struct gpud_channel *channel = NULL;
    struct gpud_peer peer;
    uint8_t request[64];
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = listen_on(address_of("/cam1"), NULL);
    int fd = connect_raw(request, make_request(request, 1, "cam1"));
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit: %m");
    none = limit;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit: %m");
    WORKS(gpud_fd_wait(listener->fd, gpud_deadline(PATIENCE), NULL));
    EXPECT(GPUD_IO, "descriptors left", gpud_listener_accept(listener, &channel, &peer, &e));
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit: %m");
    channel = accept_one(listener);
    gpud_channel_unref(&channel);
    close(fd);
}

/* --- a flood ---------------------------------------------------------------------------------- */

#define FLOOD 10000

static size_t flood_request_size;
static uint8_t flood_request[64];

/* Connects from another address of this host, so often at once that the oldest connections are
 * replaced all the time. */
static void flood(int other)
{
    struct rlimit limit;
    struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(case_port);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit: %m");
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int *fds = calloc(FLOOD, sizeof(int));
    unsigned most = limit.rlim_cur > FLOOD + 64 ? FLOOD : (unsigned)limit.rlim_cur - 64;
    for (unsigned long i = 0;; i++) {
        int *fd = &fds[i % most], on = 1;
        if (i >= most)
            close(*fd);
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(*fd >= 0, "socket: %m");
        setsockopt(*fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
        CHECK(bind(*fd, (const struct sockaddr *)&from, sizeof(from)) == 0, "bind: %m");
        CHECK(connect(*fd, (const struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINPROGRESS ||
                  errno == EADDRNOTAVAIL,
              "connect: %m");
        if (flood_request_size)
            send(*fd, flood_request, flood_request_size, MSG_NOSIGNAL);
        if (i == FLOOD)
            say(other, i);
    }
}

/* Until the receiver has a frame of the sender. */
static int64_t time_to_receive(struct gpud_context *context, struct gpud_sender *sender,
                               const struct gpud_layout *layout)
{
    int64_t begun = gpud_now();
    struct gpud_frame *frame = NULL;
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = address_of("/cam1"), .psk_file = path_of("key"));
    while (!frame) {
        struct gpud_error error = {.reason = ""};
        SEND_LENT(sender, layout, 1);
        enum gpud_status status = gpud_receiver_acquire(receiver, 2 * GPUD_MSEC, &frame, &error);
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s", error.reason);
        CHECK(gpud_now() - begun < PATIENCE, "the flood keeps an honest receiver out");
    }
    int64_t took = gpud_now() - begun;
    gpud_frame_release(&frame);
    gpud_receiver_destroy(&receiver);
    return took;
}

static void test_flood(void)
{
    int other;
    make_key(path_of("key"), "a key of both ends");
    pid_t child;
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_layout layout = LAYOUT("UYVY", 64, 16, 0);
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = address_of("/cam1"), .psk_file = path_of("key"), .slots = 4,
                   .slow_receiver = GPUD_SLOW_DROP_NEWEST); /* this thread receives, too */
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    int64_t alone = time_to_receive(context, sender, &layout), worst = 0;
    child = run_apart(flood, &other);
    hear(other);
    for (int i = 0; i < 5; i++) {
        int64_t took = time_to_receive(context, sender, &layout);
        worst = took > worst ? took : worst;
    }
    CHECK(kill(child, 0) == 0 && waitpid(child, NULL, WNOHANG) == 0, "the flood ended");
    SAY("a receiver connects within %lld ms, and within %lld ms beside %d half-open connections",
        (long long)(alone / GPUD_MSEC), (long long)(worst / GPUD_MSEC), FLOOD);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* The same from those who ask for the channel, and do not prove who they are. */
static void test_flood_of_requests(void)
{
    flood_request_size = make_request(flood_request, 2, "cam1");
    test_flood();
}

/* --- slowly ----------------------------------------------------------------------------------- */

/* A byte now and then: of the request, and of the proof. Others connect meanwhile. */
static void test_slow(void)
{
    struct gpud_access_rule key;
    static const uint8_t hello[5] = {0x16, 0x03, 0x01, 0x02, 0x00}; /* of 512 bytes */
    uint8_t request[64];
    size_t size = make_request(request, 2, "cam1");
    make_key(path_of("key"), "a key of both ends");
    key = with_key(path_of("key"));
    network.access = &key;
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address_of("/cam1"), NULL);
    int asking = connect_raw(request, 1);
    for (size_t i = 1; i < size - 1; i++) {
        join_once(listener, address_of("/cam1"), network.host);
        send(asking, request + i, 1, MSG_NOSIGNAL);
        gpud_nap(250 * GPUD_MSEC);
    }
    expect_raw_end(asking, 0);

    gpud_tcp_handshake_deadline = GPUD_SEC;
    int proving = connect_raw(request, size);
    struct gpud_channel *channel = accept_one(listener);
    gpud_tcp_handshake_deadline = PATIENCE / 2;
    for (int i = 0; !gpud_channel_is_dead(channel); i++) {
        CHECK(i < 1000, "a slow proof has no deadline");
        send(proving, i < 5 ? &hello[i] : hello + 2, 1, MSG_NOSIGNAL);
        join_once(listener, address_of("/cam1"), network.host);
        gpud_nap(50 * GPUD_MSEC);
    }
    lose(channel, GPUD_CLOSED, "did not prove within");
    expect_raw_end(proving, 8);
}

/* A malformed request is answered, and its sender is not admitted. */
static void test_malformed(void)
{
    static const struct {
        const char *bytes;
        uint8_t size, reason;
    } lies[] = {
        {"GET / HTTP/1.1\r\nHost: studio\r\nAccept: */*\r\n\r\n", 45, 4},
        {"GPUR\x02\x08\x01\x00", 8, 3},
        {"GPUR\x01\x07\x01\x00", 8, 4},
        {"GPUR\x01\xff\x01\x00", 8, 4},
        {"GPUR\x01\x08\x04\x00", 8, 4}, /* there is no such proof */
        {"GPUR\x01\x0b\x01\x00"
         "/ab",
         11, 4},
        {"GPUR\x01\x0b\x01\x00"
         "a\0b",
         11, 4},
        {"GPUR\x01\x0b\x01\x00"
         "cam",
         11, 1},
    };
    uint8_t answer[256];
    struct gpud_channel *channel;
    struct gpud_peer peer;
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address_of("/cam1"), NULL);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        int fd = connect_raw(lies[i].bytes, lies[i].size);
        while (gpud_fd_wait(fd, gpud_now() + GPUD_MSEC, NULL) != GPUD_OK)
            CHECK(gpud_listener_accept(listener, &channel, &peer, NULL) != GPUD_OK, "let in");
        read_raw(fd, answer, 8);
        CHECK(memcmp(answer, "GPUR\x01", 5) == 0, "no answer to the lie %zu", i);
        CHECK_EQUAL(answer[6], lies[i].reason);
        expect_raw_end(fd, GPUD_REFUSAL_MAX);
    }
    join_once(listener, address_of("/cam1"), network.host);
}

int main(int argc, char **argv)
{
    static const struct network_case cases[] = {
        {"every-address", test_every_address},
        {"scopes", test_scopes},
        {"foreign-program", test_foreign_program},
        {"privileged", test_privileged},
        {"handing-over", test_handing_over},
        {"malformed", test_malformed},
        {"slow", test_slow},
        {"no-descriptors", test_no_descriptors},
        {"flood", test_flood},
        {"flood-of-requests", test_flood_of_requests},
        {NULL},
    };
    tcp_begin();
    run_cases(cases, argc, argv);
    return tcp_done();
}
