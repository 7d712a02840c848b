/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A hostile receiver after it has connected: it overwrites the words that it shares with the
 * sender, floods it with messages and connections, and exhausts its descriptors. The honest
 * receiver beside it loses no frame. */
#include "actor.h"
#include "stream/sender/sender.h"
#include "wire/unix/unix.h"

#include <sys/resource.h>
#include <sys/socket.h>

static struct background background;

/* --- the shared words, while frames flow ------------------------------------------------------ */

static void forged_words(void)
{
    struct raw raw;
    for (int lie = 0; lie < 8; lie++) {
        raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
        struct gpud_page *page = raw.page;
        uint32_t returned = atomic_load(&page->receiver.returned);
        const char *says = "gave back a frame it did not have";
        /* given_back stays filled with lies, whatever the place that the sender looks at. */
        uint32_t index = lie == 0 ? 0 : lie == 1 ? 4 : lie == 2 ? 63 : lie == 3 ? 255 : UINT32_MAX;
        for (int i = 0; i < GPUD_PAGE_ENTRIES; i++)
            atomic_store(&page->receiver.given_back[i], index);
        if (lie <= 4)
            atomic_store(&page->receiver.returned, returned + (lie == 0 ? 5 : 1));
        else if (lie == 5)
            atomic_store(&page->receiver.returned, returned - 2);
        else if (lie == 6)
            atomic_store(&page->receiver.returned, returned + INT32_MAX);
        else
            atomic_store(&page->receiver.returned, UINT32_MAX);
        TURNED_OUT(&raw, says);
    }
    /* drop-oldest looks at `claimed`. */
    static const int32_t shifts[] = {1000, -1000, INT32_MAX};
    for (int i = 0; i < 3; i++) {
        struct gpud_message message;
        raw_connect(&raw, BACKGROUND_ADDRESS);
        raw_hello(&message);
        message.hello.slow_receiver = GPUD_SLOW_DROP_OLDEST;
        CHECK(raw_send_message(raw.fd, &message), "not sent");
        raw_to(&raw, RAW_HELLO_SENT, RAW_STREAMING);
        atomic_fetch_add(&raw.page->receiver.claimed, (uint32_t)shifts[i]);
        TURNED_OUT(&raw,
                   "broke the protocol: it "); /* by its claims, or by what came back unclaimed */
    }
    /* What the sender does not believe anyway may be anything: scribbling over all of it hurts only
     * the scribbler. */
    for (int turn = 0; turn < 20; turn++) {
        raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
        uint32_t state = 77u + (uint32_t)turn;
        int64_t until = gpud_test_now() + 30 * GPUD_MSEC;
        uint8_t *bytes = (uint8_t *)raw.page;
        while (gpud_test_now() < until)
            for (int i = 0; i < 1000; i++) {
                state = state * 1664525 + 1013904223;
                bytes[(state >> 8) % (turn % 2 ? sizeof(*raw.page) : 1200)] = (uint8_t)(state >> 3);
            }
        raw_close(&raw);
        raw_log_clear();
    }
}

static struct sockaddr_un background_name(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    WORKS(gpud_socket_resolve(BACKGROUND_ADDRESS, name.sun_path, &e));
    return name;
}

/* --- floods ----------------------------------------------------------------------------------- */

static void floods(void)
{
    struct raw raw;
    struct gpud_message message;
    /* READY and REFUSE without end, at a point where they are overtaken answers and may come. */
    for (int k = 0; k < 2; k++) {
        raw_open(&raw, BACKGROUND_ADDRESS, RAW_OFFERED);
        message = (struct gpud_message){.type = k ? GPUD_MESSAGE_REFUSE : GPUD_MESSAGE_READY};
        if (k)
            message.refuse.epoch = raw.offer.epoch + 7;
        atomic_store(&background.worst, 0);
        int64_t until = gpud_test_now() + 1500 * GPUD_MSEC;
        unsigned sent = 0;
        while (gpud_test_now() < until)
            sent += raw_send_message(raw.fd, &message);
        SAY("  %u messages in 1.5 s, the longest hand-over took %lld us", sent,
            (long long)atomic_load(&background.worst) / 1000);
        CHECK(atomic_load(&background.worst) < GPUD_SEC, "a flood of messages stops the stream");
        raw_close(&raw);
    }
    background_goes_on(&background);
    raw_log_clear();

    /* Connections that come and go as fast as they can. */
    struct sockaddr_un name = background_name();
    atomic_store(&background.worst, 0);
    unsigned long long before = atomic_load(&background.number);
    raw_log_clear();
    int64_t until = gpud_test_now() + GPUD_SEC;
    unsigned made = 0;
    while (gpud_test_now() < until) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        made += connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0;
        close(fd);
    }
    SAY("  %u connections in a second, %llu frames meanwhile, the longest hand-over took %lld us, "
        "%u lines of log",
        made, atomic_load(&background.number) - before,
        (long long)atomic_load(&background.worst) / 1000, raw_log_lines());
    CHECK(atomic_load(&background.worst) < GPUD_SEC, "a flood of connections stops the stream");
    CHECK(raw_log_says("turned away: it connects too often", GPUD_SEC), "no connection is refused");
    CHECK(raw_log_lines() < 20, "%u lines of log", raw_log_lines());
    background_goes_on(&background);
    gpud_test_nap(1100); /* the second that the flood used up */
    raw_log_clear();
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING); /* and there is room again */
    hang_up_heard(&raw);
}

/* --- places ----------------------------------------------------------------------------------- */

struct hoard {
    unsigned count;
    enum raw_step step;
};

static void open_many(const void *part)
{
    const struct hoard *hoard = part;
    struct raw raw;
    for (unsigned i = 0; i < hoard->count; i++)
        raw_open(&raw, BACKGROUND_ADDRESS, hoard->step);
    say("ready");
    stay();
}

/* Another process that opens this many connections, and holds each at the step. */
static struct actor hoard(unsigned count, enum raw_step step)
{
    struct actor actor;
    actor_fork(&actor, open_many, &(struct hoard){count, step});
    actor_await(&actor, "ready");
    return actor;
}

static void one_comes_and_goes(enum raw_step step)
{
    struct actor one = hoard(1, step);
    actor_kill(&one);
}

/* A process that has a place gets none of those that are kept for others. */
static void ask_for_a_second(const void *part)
{
    struct raw raw;
    struct gpud_message message;
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_READY_SENT);
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_HELLO_SENT);
    CHECK(raw_receive(raw.fd, &message, 5 * GPUD_SEC) && message.type == GPUD_MESSAGE_REFUSE &&
              strstr(message.refuse.reason, "kept for processes that have none"),
          "a process took a second one of the last places");
    say("refused");
    stay();
}

/* Takes all places, the last of which are kept for processes that have none, and then three more:
 * a link that does not stream, of the process with the most, makes room. false: those have timed
 * out by themselves before, on a busy machine. */
static bool take_all_places(void)
{
    struct actor child[3] = {hoard(8, RAW_READY_SENT), hoard(8, RAW_READY_SENT),
                             hoard(7, RAW_OFFERED)};
    struct actor late[GPUD_PLACES_KEPT];
    actor_fork(&late[0], ask_for_a_second, NULL);
    actor_await(&late[0], "refused");
    for (int i = 1; i < GPUD_PLACES_KEPT; i++)
        late[i] = hoard(1, RAW_READY_SENT);
    raw_log_clear();
    for (int i = 0; i < 3; i++)
        one_comes_and_goes(RAW_READY_SENT);
    bool squeezed = raw_log_says("has to make room for a new receiver", 0);
    CHECK(!raw_log_says("all places", 0), "a newcomer was turned away");
    for (int i = 0; i < 3; i++)
        actor_kill(&child[i]);
    for (int i = 0; i < GPUD_PLACES_KEPT; i++)
        actor_kill(&late[i]);
    background_goes_on(&background);
    return squeezed;
}

/* One process cannot have all places; and those of links that do not stream go to newcomers. */
static void places(void)
{
    struct raw many[GPUD_PLACES_A_PROCESS + 8];
    raw_log_clear();
    for (int i = 0; i < GPUD_PLACES_A_PROCESS + 8; i++)
        raw_connect(&many[i], BACKGROUND_ADDRESS);
    CHECK(raw_log_says("as many connections as a process can have", GPUD_SEC),
          "no connection was refused");
    background_flows(&background, 20);
    one_comes_and_goes(RAW_STREAMING); /* another process finds a place */
    for (int i = 0; i < GPUD_PLACES_A_PROCESS + 8; i++)
        raw_close(&many[i]);
    background_goes_on(&background);

    bool squeezed = false;
    for (int i = 0; i < 5 && !squeezed; i++)
        squeezed = take_all_places();
    CHECK(squeezed, "there was room all the time");

    /* All of them stream: none is evicted for a new connection. */
    struct actor streaming[3 + GPUD_PLACES_KEPT];
    for (int i = 0; i < 3 + GPUD_PLACES_KEPT; i++)
        streaming[i] = hoard(i < 2 ? 8 : i < 3 ? 7 : 1, RAW_READY_SENT);
    struct raw raw;
    raw_log_clear();
    struct gpud_message message;
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_HELLO_SENT);
    CHECK(raw_receive(raw.fd, &message, 5 * GPUD_SEC) && message.type == GPUD_MESSAGE_REFUSE &&
              strstr(message.refuse.reason, "all places for receivers are taken"),
          "one more was taken");
    /* A query needs none. */
    struct gpud_channel_list *channels;
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    WORKS(gpud_channel_list_create(BACKGROUND_ADDRESS, 20 * GPUD_SEC, &channels, NULL, NULL, &e));
    WORKS(gpud_channel_list_get_info(channels, 0, &info, &e));
    CHECK(info.answered && info.links == GPUD_RECEIVERS_MAX, "%u receivers: %s", info.links,
          info.reason);
    gpud_channel_list_destroy(&channels);
    CHECK(raw_log_says("all places for receivers are taken", 5 * GPUD_SEC), "and it is not logged");
    raw_close(&raw);
    for (int i = 0; i < 3 + GPUD_PLACES_KEPT; i++)
        actor_kill(&streaming[i]);
}

/* This process has no descriptor left: connections wait, nothing spins, and when there are some
 * again they are served. */
static void no_descriptors(void)
{
    struct raw raw;
    struct rlimit limit, none;
    raw_connect(&raw, BACKGROUND_ADDRESS);
    hang_up_heard(&raw);
    int sockets[3];
    for (int i = 0; i < 3; i++)
        sockets[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name = background_name();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    none = limit;
    none.rlim_cur = 3;
    raw_log_clear();
    struct timespec cpu_before, cpu_after;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
    CHECK(connect(sockets[0], (struct sockaddr *)&name, sizeof(name)) == 0, "connect: %s",
          strerror(errno));
    gpud_test_nap(500);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
    setrlimit(RLIMIT_NOFILE, &limit);
    double cpu = (double)(cpu_after.tv_sec - cpu_before.tv_sec) +
                 (double)(cpu_after.tv_nsec - cpu_before.tv_nsec) / 1e9;
    unsigned lines = raw_log_lines();
    SAY("  half a second without descriptors: %.0f %% of a processor, %u lines of log", cpu * 200,
        lines);
    CHECK(raw_log_says("cannot accept a connection", 0), "nothing is said about it");
    CHECK(lines < 50, "%u lines of log for one connection that cannot be accepted", lines);
    for (int i = 0; i < 3; i++)
        close(sockets[i]);
    background_goes_on(&background);
    raw_log_clear();
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
    raw_close(&raw);
    raw_log_says("vanished", GPUD_SEC);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"shared words that lie", forged_words},
        {"floods", floods},
        {"places", places},
        {"no descriptors left", no_descriptors},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
