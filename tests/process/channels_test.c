/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listing channels: all are found, also those on other paths; those that are stopped, hang or lie
 * are listed with a reason, and delay no query; and queries do not disturb a stream. With the
 * argument `events`: new, closed and reformatted channels cause events in their directory. */
#include "actor.h"
#include "stream/sender/sender.h"
#include "support/encode.h"
#include "wire/unix/unix.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define PATIENCE (20 * GPUD_SEC)

static struct background background;

/* --- asking ----------------------------------------------------------------------------------- */

struct asked {
    uint32_t count;
    struct gpud_channel_info info[8];
    struct gpud_link_info link[8][GPUD_RECEIVERS_MAX];
    char directory[128];
};
static struct asked asked;

static void ask(const char *address, int64_t timeout)
{
    AUTO(gpud_channel_list_destroy) struct gpud_channel_list *channels = NULL;
    gpud_test_nap(5); /* or a fast machine asks too often */
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    WORKS(gpud_channel_list_create(address, timeout, &channels, &asked.count, &search, &e));
    CHECK(asked.count <= 8, "%u channels", asked.count);
    snprintf(asked.directory, sizeof(asked.directory), "%s", search.directory);
    for (size_t i = 0; i < asked.count; i++) {
        memset(&asked.info[i], 0xcc, sizeof(asked.info[i]));
        asked.info[i].size = sizeof(asked.info[i]);
        WORKS(gpud_channel_list_get_info(channels, i, &asked.info[i], &e));
        size_t links = asked.info[i].links;
        for (size_t j = 0; j < links; j++) {
            asked.link[i][j] = *asked.info[i].link[j];
            CHECK_EQUAL(asked.link[i][j].size, sizeof(asked.link[i][j]));
        }
        if (!asked.info[i].answered)
            CHECK(links == 0 && strlen(asked.info[i].reason) > 10,
                  "no answer and no reason: \"%s\"", asked.info[i].reason);
    }
}

static const struct gpud_channel_info *find(const char *address)
{
    for (size_t i = 0; i < asked.count; i++)
        if (strcmp(asked.info[i].address, address) == 0)
            return &asked.info[i];
    return NULL;
}

static const struct gpud_channel_info *expect(const char *address)
{
    ask(NULL, PATIENCE);
    const struct gpud_channel_info *info = find(address);
    CHECK(info, "%s is not listed", address);
    return info;
}

static void expect_silence(const char *address, const char *says)
{
    const struct gpud_channel_info *info = find(address);
    CHECK(info, "%s is not listed", address);
    CHECK(!info->answered && strstr(info->reason, says), "%s: \"%s\", which does not say \"%s\"",
          address, info->reason, says);
}

/* --- a stream --------------------------------------------------------------------------------- */

/* Under an emulator the kernel reports the emulator's name. */
static const char *program(void)
{
    static char name[17];
    FILE *file = fopen("/proc/self/comm", "re");
    CHECK(file && fscanf(file, "%16[^\n]", name) == 1, "no /proc/self/comm");
    fclose(file);
    return name;
}

static void a_stream(void)
{
    const struct gpud_channel_info *info;
    PEER_UNTIL("the rate is known", 30000,
               (info = expect(BACKGROUND_ADDRESS), info->answered && info->rate > 0));
    CHECK_EQUAL(asked.count, 1);
    CHECK(strstr(asked.directory, getenv("XDG_RUNTIME_DIR")), "looked in %s", asked.directory);
    CHECK(info->pid == getpid() && strcmp(info->program, program()) == 0,
          "sent by process %lld (%s)", (long long)info->pid, info->program);
    const struct gpud_layout *layout = &info->media.picture.layout;
    CHECK(info->configured && !info->ended && info->epoch == 1 &&
              gpud_layout_equal(layout, &background.layout),
          "epoch %u, %s %ux%u", info->epoch, layout->format, layout->width, layout->height);
    CHECK_EQUAL(info->media.picture.rate.num, 25);
    CHECK(strcmp(info->device, "host") == 0 && info->slots == 4 &&
              info->slow_receiver == GPUD_SLOW_BLOCK,
          "on %s, %u slots, policy %d", info->device, info->slots, info->slow_receiver);
    CHECK(info->rate < 2000 && info->age_ns < 30 * (uint64_t)GPUD_SEC, "%g frames/s, %llu ns old",
          info->rate, (unsigned long long)info->age_ns);
    CHECK_EQUAL(info->links, 1);
    const struct gpud_link_info *link = &asked.link[0][0];
    CHECK(link->pid == background.honest.pid && strcmp(link->path, "map") == 0 &&
              link->phase == GPUD_PHASE_STREAMING && strcmp(link->device, "host") == 0,
          "process %lld by %s, phase %d", (long long)link->pid, link->path, link->phase);
    CHECK(link->latency_ns > 0 && link->latency_ns < 30 * (uint64_t)GPUD_SEC && link->dropped == 0,
          "latency %llu", (unsigned long long)link->latency_ns);
    uint64_t frames = info->frames, delivered = link->delivered;
    PEER_UNTIL("it goes on", 10000,
               (info = expect(BACKGROUND_ADDRESS),
                info->frames > frames && asked.link[0][0].delivered > delivered));
    const struct gpud_link_stats *stats = &asked.link[0][0].stats;
    uint64_t timed = 0;
    for (int i = 0; i < GPUD_LATENCY_BUCKETS; i++)
        timed += stats->latency_bucket[i];
    CHECK(timed > 0 && stats->frames > 0 && timed <= asked.link[0][0].delivered + 4 &&
              stats->latency_max_ns > 0 && stats->latency_sum_ns >= stats->latency_max_ns &&
              stats->corrupted == 0,
          "%llu latencies, %llu ns in all", (unsigned long long)timed,
          (unsigned long long)stats->latency_sum_ns);
    /* The sender says the same of its receivers. */
    struct gpud_link_info own = GPUD_INFO_INIT(own);
    CHECK_EQUAL(gpud_sender_list_links(background.sender, &own, 1), 1);
    CHECK(own.pid == link->pid && own.id == link->id && own.delivered >= delivered,
          "the sender's own list");
    CHECK_EQUAL(gpud_sender_list_links(background.sender, NULL, 0), 1);
}

static uint64_t frames_taken(struct gpud_sender *sender)
{
    struct gpud_link_info link = GPUD_INFO_INIT(link);
    CHECK_EQUAL(gpud_sender_list_links(sender, &link, 1), 1);
    return link.stats.frames;
}

/* A receiver's counters go on with its next ring page, also before its first frame. */
static void a_new_format(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = "formats");
    struct gpud_layout layout = LAYOUT("UYVY", 320, 180, 0);
    struct peer_orders orders = {.address = "formats"};
    struct peer peer;
    uint64_t number = 0;
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    peer_start(&peer, &orders);
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    PEER_UNTIL("frames are counted", 30000,
               (SEND_LENT(sender, &layout, ++number), number >= 5) && frames_taken(sender) >= 5);
    uint64_t taken = frames_taken(sender);
    layout = CONFIGURE(sender, "UYVY", 640, 360);
    int64_t end = gpud_test_now() + GPUD_SEC / 2; /* the new page is made meanwhile */
    while (gpud_test_now() < end)
        CHECK(frames_taken(sender) >= taken, "the receiver's counters went back");
    PEER_UNTIL("they go on", 30000,
               (SEND_LENT(sender, &layout, ++number), frames_taken(sender) > taken + 2));
    PEER_LEAVE(&peer);
    gpud_sender_destroy(&sender);
}

/* A program of an older release has a smaller struct. */
static void a_smaller_info(void)
{
    struct gpud_channel_list *channels;
    struct gpud_channel_info info;
    size_t size = offsetof(struct gpud_channel_info, program);
    WORKS(gpud_channel_list_create(BACKGROUND_ADDRESS, PATIENCE, &channels, NULL, NULL, &e));
    memset(&info, 0xcc, sizeof(info));
    info.size = size;
    WORKS(gpud_channel_list_get_info(channels, 0, &info, &e));
    CHECK(info.size == size && info.pid == getpid() && (uint8_t)info.program[0] == 0xcc,
          "written beyond its size");
    info.size = 0;
    EXPECT(GPUD_INVALID, "size is not set", gpud_channel_list_get_info(channels, 0, &info, &e));
    EXPECT(GPUD_INVALID, "channel 1 of 1", gpud_channel_list_get_info(channels, 1, &info, &e));
    gpud_channel_list_destroy(&channels);
    EXPECT(GPUD_INVALID, "negative", gpud_channel_list_create(NULL, -1, &channels, NULL, NULL, &e));
}

/* More often than the limit per process and second. */
static void connect_often(void)
{
    for (int i = 0; i < 2 * GPUD_CONNECTS_A_PROCESS; i++) {
        int fd = raw_dial(BACKGROUND_ADDRESS);
        CHECK(fd >= 0, "connect: %s", strerror(errno));
        close(fd);
    }
}

/* Queries are not counted as receivers. */
static void queries_leave_no_trace(void)
{
    struct gpud_sender_info before = GPUD_INFO_INIT(before), after = GPUD_INFO_INIT(after);
    gpud_sender_get_info(background.sender, &before);
    raw_log_clear();
    for (int i = 0; i < 100; i++)
        CHECK(expect(BACKGROUND_ADDRESS)->answered, "no answer: %s",
              find(BACKGROUND_ADDRESS)->reason);
    gpud_sender_get_info(background.sender, &after);
    CHECK(after.connects == before.connects && after.refused == before.refused &&
              after.disconnects == before.disconnects && after.receivers == 1 &&
              after.dropped == before.dropped,
          "%llu connects, %llu refused", (unsigned long long)after.connects,
          (unsigned long long)after.refused);
    CHECK_EQUAL(raw_log_lines(), 0);
    /* A question behind too many connections is turned away as a receiver is. */
    PEER_UNTIL("one question too many", 30000,
               (connect_often(), !expect(BACKGROUND_ADDRESS)->answered));
    CHECK(raw_log_says("connects too often", GPUD_SEC), "it is not logged");
    PEER_UNTIL("there is room again", 30000, expect(BACKGROUND_ADDRESS)->answered);
}

/* --- elsewhere -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/gpudirect-channels-XXXXXX";

static void sign_path(char path[256], const char *target)
{
    int used = snprintf(path, 256, "%s/gpudirect/.unix", getenv("XDG_RUNTIME_DIR"));
    for (; *target; target++)
        used += snprintf(path + used, 256 - (size_t)used, "%s",
                         *target == '/'   ? "!"
                         : *target == '!' ? "=1"
                         : *target == '=' ? "=0"
                                          : (char[]){*target, 0});
}

static bool has_sign(const char *address)
{
    char path[256];
    struct stat st;
    sign_path(path, address + strlen("unix:"));
    return lstat(path, &st) == 0;
}

static void start_sender(struct peer *peer, const char *address)
{
    struct peer_orders orders = {.sends = true, .width = 64, .height = 64};
    snprintf(orders.address, sizeof(orders.address), "%s", address);
    peer_start(peer, &orders);
    PEER_UNTIL("a sender", 20000, atomic_load(&peer->board->ready));
}

static void elsewhere(void)
{
    char address[108];
    struct peer peer;
    CHECK(mkdtemp(folder), "a folder");
    snprintf(address, sizeof(address), "unix:%s/a=strange!name", folder);
    start_sender(&peer, address);
    const struct gpud_channel_info *info = expect(address);
    CHECK(info->answered && info->pid == peer.pid && asked.count == 2, "%s: %s", address,
          info->reason);
    PEER_FINISH(&peer);
    CHECK(!has_sign(address), "it left its sign");
    ask(NULL, PATIENCE);
    CHECK(asked.count == 1 && !find(address), "one that is gone is listed");

    /* One that was killed: the query that gets no answer removes its entry. */
    peer_forget(&peer);
    start_sender(&peer, address);
    peer_kill(&peer);
    CHECK(has_sign(address), "there is no sign");
    ask(NULL, PATIENCE);
    CHECK(!find(address) && !has_sign(address), "the sign of a dead one stays");
    /* And the next sender creates it again. */
    peer_forget(&peer);
    start_sender(&peer, address);
    CHECK(expect(address)->answered, "no answer");
    PEER_LEAVE(&peer);
}

/* Entries that no sender made are ignored. */
static void forged_signs(void)
{
    char path[256], target[128], wanted[140];
    snprintf(path, sizeof(path), "%s/gpudirect/.unix!bent", getenv("XDG_RUNTIME_DIR"));
    snprintf(target, sizeof(target), "%s/gpudirect/" BACKGROUND_ADDRESS, getenv("XDG_RUNTIME_DIR"));
    CHECK(symlink(target, path) == 0, "symlink: %s", strerror(errno));
    ask(NULL, PATIENCE);
    CHECK_EQUAL(asked.count, 1);
    unlink(path);
    if (geteuid() != 0)
        return;
    /* Another user's socket is not even connected to. */
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof(name.sun_path), "%s/other", folder);
    snprintf(wanted, sizeof(wanted), "unix:%s", name.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(fd, 8) == 0 &&
              chown(name.sun_path, 65534, 65534) == 0,
          "a socket of another user");
    sign_path(path, name.sun_path);
    CHECK(symlink(name.sun_path, path) == 0, "symlink: %s", strerror(errno));
    ask(NULL, PATIENCE);
    expect_silence(wanted, "belongs to user 65534, not 0");
    CHECK(accept(fd, NULL, NULL) < 0 && errno == EAGAIN, "it was connected to");
    close(fd);
    unlink(path);
    unlink(name.sun_path);
}

/* --- those that do not answer ----------------------------------------------------------------- */

static void a_stopped_one(void)
{
    AUTO(peer_forget) struct peer peer;
    int state;
    start_sender(&peer, "stopped");
    CHECK(kill(peer.pid, SIGSTOP) == 0 && waitpid(peer.pid, &state, WUNTRACED) == peer.pid &&
              WIFSTOPPED(state),
          "it does not stop");
    for (int i = 0; i < 100; i++)
        ask(NULL, PATIENCE); /* and its queue of connections does not fill up */
    expect_silence("stopped", "is stopped (kill -CONT");
    CHECK(find("stopped")->pid == peer.pid, "not by process %d", (int)peer.pid);
    CHECK(find(BACKGROUND_ADDRESS)->answered, "the other: %s", find(BACKGROUND_ADDRESS)->reason);
    CHECK(kill(peer.pid, SIGCONT) == 0, "kill");
    PEER_UNTIL("it goes on", 20000, expect("stopped")->answered);
    PEER_FINISH(&peer);
}

/* A sender that accepts the query, and says other things than one answer. */
static const struct liar {
    const char *says; /* what is told of it */
    struct {
        enum gpud_message_type type;
        uint32_t links; /* announced, or sent */
    } messages[3];
    bool endless;        /* the first message, without end */
    size_t missing, fds; /* bytes at its end; surplus descriptors */
    bool bad_layout;
} liars[] = {
    {"two answers to one question", {{GPUD_MESSAGE_STATUS, 1}, {GPUD_MESSAGE_STATUS, 1}}},
    {"more receivers than it has", {{GPUD_MESSAGE_LINKS, 1}}},
    {"more receivers than it has",
     {{GPUD_MESSAGE_STATUS, 9}, {GPUD_MESSAGE_LINKS, 8}, {GPUD_MESSAGE_LINKS, 2}}},
    /* The first is an answer, and the rest is not read. */
    {"", {{GPUD_MESSAGE_STATUS, 0}}, .endless = true},
    {"a HELLO for an answer", {{GPUD_MESSAGE_HELLO, 0}}},
    {"refused to answer: none of? your business", {{GPUD_MESSAGE_REFUSE, 0}}},
    {"announced", {{GPUD_MESSAGE_STATUS, 0}}, .missing = 1},
    {"2 descriptors with a STATUS that has 0", {{GPUD_MESSAGE_STATUS, 0}}, .fds = 2},
    {"a picture of 0x0", {{GPUD_MESSAGE_STATUS, 0}}, .bad_layout = true},
    {"hung up without an answer"},
    {"hung up without an answer", {{GPUD_MESSAGE_STATUS, 9}, {GPUD_MESSAGE_LINKS, 8}}},
};

static bool tell_lie(const struct liar *liar, int message_number, int fd)
{
    uint8_t bytes[GPUD_MESSAGE_MAX];
    int fds[GPUD_MESSAGE_HANDLES] = {fd, fd};
    size_t fd_count;
    uint32_t links = liar->messages[message_number].links;
    struct gpud_message message = {.type = liar->messages[message_number].type};
    if (message.type == GPUD_MESSAGE_HELLO)
        raw_hello(&message);
    if (message.type == GPUD_MESSAGE_STATUS)
        message.report.links = links;
    if (message.type == GPUD_MESSAGE_LINKS)
        message.links.count = links;
    if (message.type == GPUD_MESSAGE_REFUSE)
        strcpy(message.refuse.reason, "none of\x1b your business");
    if (liar->bad_layout) {
        message.report.epoch = 1;
        strcpy(message.report.media.picture.layout.format, "NV12");
    }
    size_t size = encode_message(&message, bytes, (int[GPUD_MESSAGE_HANDLES]){0}, &fd_count);
    return raw_send(fd, bytes, size - liar->missing, fds, liar->fds);
}

struct lying {
    int listener;
    const struct liar *liar;
};

static void *lie(void *arg)
{
    struct lying *lying = arg;
    struct gpud_message message;
    int fd = accept(lying->listener, NULL, NULL);
    CHECK(fd >= 0 && raw_receive(fd, &message, PATIENCE) && message.type == GPUD_MESSAGE_QUERY,
          "no question");
    for (int i = 0; i < 3 && lying->liar->messages[i].type; i++)
        while (tell_lie(lying->liar, i, fd) && lying->liar->endless)
            ;
    close(fd);
    return NULL;
}

static void those_that_lie(void)
{
    struct raw_server server;
    struct baseline before = baseline_take();
    raw_listen(&server, "liar");
    for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
        struct lying lying = {server.listener, &liars[i]};
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, lie, &lying) == 0, "no thread");
        ask(NULL, PATIENCE);
        pthread_join(thread, NULL);
        if (liars[i].says[0])
            expect_silence("liar", liars[i].says);
        else
            CHECK(find("liar")->answered, "%s", find("liar")->reason);
        CHECK(find(BACKGROUND_ADDRESS)->answered, "the other: %s",
              find(BACKGROUND_ADDRESS)->reason);
    }
    /* One that says nothing costs the time that it is given, and no more. */
    ask(NULL, 4 * GPUD_SEC);
    expect_silence("liar", "does not answer; process");
    CHECK(find(BACKGROUND_ADDRESS)->answered, "the other: %s", find(BACKGROUND_ADDRESS)->reason);
    raw_server_close(&server);
    /* And a socket without a listener is no channel. */
    ask("liar", PATIENCE);
    CHECK_EQUAL(asked.count, 0);
    BASELINE_CHECK(before);
}

/* A process that receives a channel from a network, until it is killed. */
static void receive_from_network(const void *place)
{
    struct gpud_received received;
    gpud_received_note(&received, place);
    CHECK(received.lock >= 0, "no note");
    say("ready");
    stay();
}

/* Its sender is on another host: what is known here is which process receives it. */
static void a_channel_received_from_a_network(void)
{
    struct gpud_received own;
    struct gpud_socket_listener local;
    char path[200];
    struct actor child;
    actor_fork(&child, receive_from_network, "rdma://10.0.0.1:7174/cam1");
    actor_await(&child, "ready");
    gpud_received_note(&own, "rdma://[fd00::2]:7174");
    const struct gpud_channel_info *info = expect("rdma://10.0.0.1:7174/cam1");
    CHECK(info->receiver_pid == child.pid && !info->answered && info->pid == 0, "pid %" PRId64,
          info->receiver_pid);
    CHECK(strstr(info->reason, "receives it; ask on the host"), "reason: %s", info->reason);
    info = expect("rdma://[fd00::2]:7174");
    CHECK_EQUAL(info->receiver_pid, getpid());

    /* The process of another container is not known here, and its note is left alone. */
    CHECK(pwrite(own.lock, "77 1\n", 5, 0) == 5 && ftruncate(own.lock, 5) == 0, "pwrite: %m");
    ask(NULL, PATIENCE);
    snprintf(path, sizeof(path), "%s.lock", own.path);
    CHECK(!find("rdma://[fd00::2]:7174") && access(path, F_OK) == 0, "a live note is removed");
    gpud_received_remove(&own);

    /* Where it is sent here, the sender is asked. */
    snprintf(path, sizeof(path), "%s/gpudirect/.rdma!10.0.0.1:7174!cam1",
             getenv("XDG_RUNTIME_DIR"));
    WORKS(gpud_socket_listen(&local, path, NULL, &e));
    ask(NULL, 50 * GPUD_MSEC);
    info = find("rdma://10.0.0.1:7174/cam1");
    CHECK(info && info->receiver_pid == 0, "the channel's sender is not asked");
    CHECK(!find("rdma://[fd00::2]:7174"), "a note that was removed is listed");
    gpud_socket_unlisten(&local);

    actor_kill(&child);
    ask(NULL, PATIENCE);
    CHECK(!find("rdma://10.0.0.1:7174/cam1"), "a process that was killed receives");
    snprintf(path, sizeof(path), "ls -A %s/gpudirect | grep -q received",
             getenv("XDG_RUNTIME_DIR"));
    CHECK(system(path) != 0, "the note of a process that was killed stays");
}

/* --- events in the directory of channels -------------------------------------------------------
 */

static int watch(uint32_t events)
{
    int fd = inotify_init1(IN_CLOEXEC);
    CHECK(fd >= 0 && inotify_add_watch(fd, asked.directory, events) >= 0, "%m");
    return fd;
}

/* Waits for the next events and says whether one is about the entry. */
static bool await(int fd, const char *entry, const char *what)
{
    _Alignas(struct inotify_event) char buffer[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    bool seen = false;
    CHECK(poll(&wait, 1, (int)(PATIENCE / GPUD_MSEC)) == 1, "no event: %s", what);
    ssize_t length = read(fd, buffer, sizeof(buffer));
    for (ssize_t at = 0; at < length;) {
        const struct inotify_event *event = (const void *)(buffer + at);
        seen |= event->len && strcmp(event->name, entry) == 0;
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return seen;
}

static void a_format(void)
{
    uint32_t epoch = expect(BACKGROUND_ADDRESS)->epoch;
    int fd = watch(IN_ATTRIB);
    background_configure(&background);
    while (!await(fd, BACKGROUND_ADDRESS, "another format"))
        ;
    CHECK(expect(BACKGROUND_ADDRESS)->epoch > epoch, "the event came before the format");
    close(fd);
}

/* In a folder elsewhere, or here. */
static void one_comes_and_goes(const char *prefix, const char *name)
{
    char address[256], entry[256];
    const char *elsewhere = getenv("XDG_RUNTIME_DIR");
    snprintf(address, sizeof(address), "%s%s%s%s", prefix, prefix[0] ? elsewhere : "",
             prefix[0] ? "/" : "", name);
    snprintf(entry, sizeof(entry), "%s%s%s%s", prefix[0] ? ".unix" : "", prefix[0] ? elsewhere : "",
             prefix[0] ? "/" : "", name);
    for (char *at = entry; *at; at++)
        *at = *at == '/' ? '!' : *at;
    ask(NULL, PATIENCE);
    int fd = watch(IN_CREATE | IN_DELETE);
    struct gpud_sender *sender = NEW_SENDER(background.context, .address = address);
    while (!await(fd, entry, "it comes"))
        ;
    gpud_sender_destroy(&sender);
    while (!await(fd, entry, "it goes"))
        ;
    close(fd);
}

static void coming_and_going(void)
{
    one_comes_and_goes("", "here");
    one_comes_and_goes("unix:", "elsewhere");
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"a stream", a_stream},
        {"a new format", a_new_format},
        {"another release", a_smaller_info},
        {"queries leave no trace", queries_leave_no_trace},
        {"a path elsewhere", elsewhere},
        {"forged entries", forged_signs},
        {"a sender that is stopped", a_stopped_one},
        {"senders that lie", those_that_lie},
        {"a channel that is received from a network", a_channel_received_from_a_network},
    };
    static const struct background_test events[] = {
        {"another format", a_format},
        {"channels that come and go", coming_and_going},
    };
    if (argc == 2 && strcmp(argv[1], "events") == 0)
        return background_main(&background, events, 2, 1, argv);
    int result = background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    rmdir(folder);
    return result;
}
