/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose clock a time is of: a receiver on the sender's host knows how old its frames are, also
 * where they come by a network card; one on another host, or in a container with a time of its own,
 * does not, nor does one on a host of the same boot id, and only the receiver itself gets a figure.
 * Each end reports the other's host, and how the connection is encrypted; one that is not, and
 * leaves the host, is warned about. */
#include "actor.h"
#include "support/copies.h"

#include <fcntl.h>
#include <sched.h>

#define FRAMES 20
#define SENDER_HOST "192.0.2.1"
#define RECEIVER_HOST "192.0.2.2"
#define TOLD 54321 /* ns: a latency that a receiver knows by a clock of its own */

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

enum place { HERE, BY_CARD, CONTAINER, OTHER_HOST, SNAPSHOT };

/* Of each place's connections. */
static const char *const encryption[] = {
    [HERE] = "",       [BY_CARD] = "no",
    [CONTAINER] = "",  [OTHER_HOST] = "TLS 1.3 ChaCha20-Poly1305",
    [SNAPSHOT] = "no",
};

struct board {
    enum place place;
    atomic_uint frames;
    unsigned timed;  /* of these, how many have a time of submit */
    uint64_t oldest; /* ns; of those */
    struct gpud_peer_info sender;
    struct gpud_receiver_info info;
    char encrypted_after[64]; /* as the receiver says when the connection is gone */
    atomic_uint warnings;     /* of the receiver's log */
    atomic_bool leave, refused;
};

/* A context that counts what its log says of connections that are not encrypted. */
static void count_warnings(void *user, enum gpud_log_level level, const char *area,
                           const char *line)
{
    if (level == GPUD_LOG_WARNING && strstr(line, "is not encrypted") && strstr(line, "psk-file"))
        atomic_fetch_add((atomic_uint *)user, 1);
}

static struct gpud_context *new_context(atomic_uint *warnings)
{
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    params.log = count_warnings;
    params.log_user = warnings;
    params.log_level = GPUD_LOG_WARNING;
    return GIVEN(struct gpud_context *, gpud_context_create(&params, &given, &e));
}

/* --- the receiver ----------------------------------------------------------------------------- */

static void note_sender(void *user, enum gpud_event event, const void *data)
{
    struct board *board = user;
    if (event == GPUD_EVENT_CONNECTED)
        board->sender = *(const struct gpud_peer_info *)data;
}

static void receive_frames(struct board *board)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = new_context(&board->warnings);
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = "hosts", .on_event = note_sender, .user = board);
    while (!atomic_load(&board->leave)) {
        struct gpud_frame *frame;
        if (gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, NULL) != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        if (board->place != OTHER_HOST)
            gpud_receiver_set_latency(receiver, TOLD);
        gpud_frame_release(&frame);
        uint64_t age = (uint64_t)gpud_test_now() - info.submitted_ns;
        board->timed += info.submitted_ns != 0;
        if (info.submitted_ns && age > board->oldest)
            board->oldest = age;
        board->info.size = sizeof(board->info);
        gpud_receiver_get_info(receiver, &board->info);
        atomic_fetch_add(&board->frames, 1);
    }
    struct gpud_receiver_info after = GPUD_INFO_INIT(after);
    do { /* the sender is gone, which the next call may not notice yet */
        struct gpud_frame *frame;
        if (gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, NULL) == GPUD_OK)
            gpud_frame_release(&frame);
        gpud_receiver_get_info(receiver, &after);
    } while (after.connected);
    memcpy(board->encrypted_after, after.encrypted, sizeof(after.encrypted));
    gpud_receiver_destroy(&receiver);
}

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* Gives children a time namespace an hour ahead, which not every system allows. */
static bool enter_container(void)
{
    char map[32];
    snprintf(map, sizeof(map), "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0)
        return false;
    return write_file("/proc/self/uid_map", map) &&
           write_file("/proc/self/timens_offsets", "monotonic 3600 0\n");
}

static void receive_in_container(struct board *board)
{
    int state;
    if (!enter_container()) {
        atomic_store(&board->refused, true);
        return;
    }
    int64_t before = gpud_test_now();
    pid_t child = fork();
    if (child == 0) {
        test_alarm(100); /* not inherited */
        CHECK(gpud_test_now() - before > 3000 * GPUD_SEC, "the time is the same");
        receive_frames(board);
        _exit(0);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0,
          "the receiver in the container failed");
}

/* --- the sender ------------------------------------------------------------------------------- */

static struct gpud_peer_info told; /* before the first frame is sent */

static void note_receiver(void *user, const struct gpud_peer_info *peer)
{
    told = *peer;
    atomic_store((atomic_bool *)user, true);
}

static void check_known(const struct board *board, const struct gpud_link_info *link)
{
    CHECK(board->sender.same_clock && told.same_clock, "two clocks on one host");
    CHECK(board->timed == FRAMES && board->oldest < 60 * (uint64_t)GPUD_SEC,
          "%u frames have a time, the oldest is %llu ns old", board->timed,
          (unsigned long long)board->oldest);
    CHECK(board->info.latency_p50_ns > 0 && board->info.latency_max_ns > 0, "no latency");
    CHECK(link->latency_ns > 0 && link->latency_ns != TOLD, "the sender knows of %llu ns",
          (unsigned long long)link->latency_ns);
    CHECK(!board->sender.host[0] && !told.host[0] && !link->host[0],
          "\"%s\" and \"%s\" for one host", board->sender.host, told.host);
}

/* As gpudirect-info does. */
static void check_listed(const struct gpud_link_info *own)
{
    AUTO(gpud_channel_list_destroy) struct gpud_channel_list *channels = NULL;
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    WORKS(gpud_channel_list_create("hosts", 10 * GPUD_SEC, &channels, NULL, NULL, &e));
    WORKS(gpud_channel_list_get_info(channels, 0, &info, &e));
    CHECK_EQUAL(info.links, 1);
    const struct gpud_link_info *link = info.link[0];
    CHECK(strcmp(link->encrypted, own->encrypted) == 0, "listed as encrypted: \"%s\"",
          link->encrypted);
    CHECK(strcmp(link->host, own->host) == 0 && (link->latency_ns == 0) == (own->latency_ns == 0),
          "listed as a receiver on \"%s\" with a latency of %llu ns", link->host,
          (unsigned long long)link->latency_ns);
}

static void check_unknown(const struct board *board, const struct gpud_link_info *link)
{
    CHECK(!board->sender.same_clock && !told.same_clock, "one clock on two hosts");
    CHECK_EQUAL(board->timed, 0);
    CHECK(board->info.latency_p50_ns == 0 && board->info.latency_p99_ns == 0 &&
              board->info.latency_max_ns == 0,
          "a latency of %llu ns", (unsigned long long)board->info.latency_p50_ns);
    CHECK_EQUAL(link->latency_ns, board->place == OTHER_HOST ? 0 : TOLD);
    bool other = board->place != CONTAINER;
    CHECK(strcmp(board->sender.host, other ? SENDER_HOST : "") == 0, "a sender on \"%s\"",
          board->sender.host);
    CHECK(strcmp(told.host, other ? RECEIVER_HOST : "") == 0 && strcmp(link->host, told.host) == 0,
          "a receiver on \"%s\" and \"%s\"", told.host, link->host);
    CHECK((told.pid == 0) == other && (board->sender.pid == 0) == other, "processes %lld and %lld",
          (long long)told.pid, (long long)board->sender.pid);
}

static void check_encryption(const struct board *board, const struct gpud_link_info *link,
                             unsigned warnings)
{
    const char *expected = encryption[board->place];
    CHECK(strcmp(link->encrypted, expected) == 0, "the sender says \"%s\"", link->encrypted);
    CHECK(strcmp(board->info.encrypted, expected) == 0, "the receiver says \"%s\"",
          board->info.encrypted);
    CHECK(!board->encrypted_after[0], "and without a connection \"%s\"", board->encrypted_after);
    unsigned wanted = board->place == SNAPSHOT;
    CHECK(warnings == wanted && atomic_load(&board->warnings) == wanted,
          "%u and %u warnings about it, not %u", warnings, atomic_load(&board->warnings), wanted);
}

/* false: this system allows no such receiver. */
static bool send_to(enum place place, const char *path)
{
    int fd;
    atomic_bool connected = false;
    atomic_uint warnings = 0;
    struct gpud_link_info link = GPUD_INFO_INIT(link);
    AUTO(gpud_context_destroy) struct gpud_context *context = new_context(&warnings);
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = "hosts", .on_connect = note_receiver, .user = &connected);
    struct gpud_layout layout = CONFIGURE(sender, "UYVY", 64, 32);

    struct board *board = peer_board_make(sizeof(*board), &fd);
    board->place = place;
    pid_t pid = peer_spawn("--receiver", fd);
    PEER_UNTIL("a receiver", 30000, atomic_load(&connected) || atomic_load(&board->refused));
    bool refused = atomic_load(&board->refused);
    for (unsigned i = 1; i <= FRAMES && !refused; i++) {
        SEND_LENT(sender, &layout, i);
        PEER_UNTIL("the frame", 10000, atomic_load(&board->frames) == i);
    }
    gpud_sender_list_links(sender, &link, 1);
    if (!refused)
        check_listed(&link);
    gpud_sender_destroy(&sender);
    atomic_store(&board->leave, true);
    spawned_await_end(pid, 0);
    if (!refused) {
        check_encryption(board, &link, atomic_load(&warnings));
        CHECK(strcmp(told.path, path) == 0, "by %s", told.path);
        if (place == HERE || place == BY_CARD)
            check_known(board, &link);
        else
            check_unknown(board, &link);
    }
    return !refused;
}

int main(int argc, char **argv)
{
    struct board *board = peer_board_open("--receiver", argc, argv, sizeof(*board));
    if (board) {
        if (board->place == BY_CARD)
            copies_install();
        else if (board->place == OTHER_HOST)
            copies_install_hosts(RECEIVER_HOST, SENDER_HOST);
        else if (board->place == SNAPSHOT) /* with the sender's boot id */
            copies_install_hosts(SENDER_HOST, SENDER_HOST);
        if (encryption[board->place][0])
            copies_set_encryption(encryption[board->place]);
        if (board->place == CONTAINER)
            receive_in_container(board);
        else
            receive_frames(board);
        exit(0);
    }
    test_alarm(110);
    runtime_make();
    CASE("two processes of one host", send_to(HERE, "map"));
    SAY("a container with a time of its own%s",
        send_to(CONTAINER, "map") ? "" : ": none can be made here");
    copies_install();
    copies_set_encryption(encryption[BY_CARD]);
    SAY("one host, by its network card");
    send_to(BY_CARD, "rdma-host");
    copies_install_hosts(SENDER_HOST, RECEIVER_HOST);
    copies_set_encryption(encryption[OTHER_HOST]);
    CASE("two hosts", send_to(OTHER_HOST, "rdma-host"));
    copies_set_encryption(encryption[SNAPSHOT]);
    CASE("two that were made of one snapshot", send_to(SNAPSHOT, "rdma-host"));
    return runtime_done();
}
