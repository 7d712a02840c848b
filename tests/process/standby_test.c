/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver of a main and a backup sender: kill −9, SIGSTOP, EOS and a change of format of either
 * cost no instant, repeat none, and the preferred one is taken again without a step. How long each
 * took is printed; a slow machine fails nothing. */
#include "instants.h"
#include "support/tally.h"

#define MAIN 0
#define BACKUP 1

/* Of the main and the backup, each at both ends. */
static const char *devices[2] = {"host", "host"};

static struct {
    struct gpud_fraction rate;
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;
    struct instants senders[2];
    uint32_t preferred;
    struct tally tally;
    uint64_t corrupted;
    uint32_t member;
} scene;

/* Each instant once, in order, and its picture whole. */
static void check(struct gpud_group_instant *got)
{
    struct gpud_frame *frame = got->frames[got->member];
    CHECK(frame && !got->frames[1 - got->member], "not one frame of one member");
    struct gpud_frame_info info = INFO(frame, frame);
    uint64_t instant = info.offset;
    if (scene.tally.last)
        CHECK(instant != scene.tally.last + 1 || !got->discontinuity,
              "a discontinuity at instant %llu, and none is missing", (unsigned long long)instant);
    else
        CHECK(got->discontinuity, "the first instant is one without a discontinuity");
    int64_t due = scene.senders[0].orders.base + (int64_t)instants_time(scene.rate, instant);
    tally_take(&scene.tally, instant, due, gpud_test_now());
    CHECK_EQUAL(!!(info.flags & GPUD_FRAME_DISCONTINUITY), got->discontinuity);
    CHECK_EQUAL(got->time_ns, info.pts_ns);
    CHECK_EQUAL(info.pts_ns, instants_time(scene.rate, instant));
    if (info.flags & GPUD_FRAME_CORRUPTED)
        scene.corrupted++;
    else
        FRAME_CHECK(frame, &info.layout, instant);
    gpud_frame_release(&got->frames[got->member]);
    scene.member = got->member;
    for (int i = 0; i < 2; i++)
        if (scene.senders[i].board)
            atomic_store(&scene.senders[i].board->handed, instant);
}

static enum gpud_status take(int64_t timeout)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    struct gpud_error error = {.reason = ""};
    struct gpud_group_request next = {.size = sizeof(next), .preferred = scene.preferred};
    enum gpud_status status = gpud_group_acquire(scene.group, &next, timeout, &got, &error);
    if (status == GPUD_OK)
        check(&got);
    else
        CHECK(status == GPUD_TIMEOUT || status == GPUD_CLOSED, "%s: %s", gpud_status_string(status),
              error.reason);
    return status;
}

/* Takes instants until the condition holds. */
#define TAKE_UNTIL(what, condition)                                                           \
    do {                                                                                      \
        int64_t until_ = gpud_test_now() + 60 * GPUD_SEC;                                     \
        while (!(condition)) {                                                                \
            CHECK(gpud_test_now() < until_, "not within a minute: %s", what);                 \
            CHECK(take(5 * GPUD_MSEC) != GPUD_CLOSED, "an end of the stream while %s", what); \
        }                                                                                     \
    } while (0)

static void take_some(unsigned count)
{
    uint64_t wanted = scene.tally.last + count;
    TAKE_UNTIL("some instants more", scene.tally.last >= wanted);
}

static void start(int which)
{
    instants_start(&scene.senders[which], scene.tally.last);
}

/* From here on it has every instant that comes. */
static void await(int which)
{
    TAKE_UNTIL("a sender that was started sends", atomic_load(&scene.senders[which].board->begun));
}

static void scene_open(struct gpud_context *context, struct gpud_fraction rate)
{
    static const char *const addresses[2] = {"standby-main", "standby-backup"};
    memset(&scene, 0, sizeof(scene));
    scene.rate = rate;
    int64_t base = gpud_test_now();
    for (int i = 0; i < 2; i++) {
        scene.senders[i] = instants_of(addresses[i], devices[i], rate, base);
        scene.receivers[i] = NEW_RECEIVER(context, .address = addresses[i], .device = devices[i]);
    }
    scene.group = NEW_GROUP(context, scene.receivers, 2, .mode = GPUD_GROUP_ANY);
    start(MAIN);
    await(MAIN);
    start(BACKUP);
    await(BACKUP);
    take_some(3);
}

static void scene_close(void)
{
    for (int i = 0; i < 2; i++)
        if (scene.senders[i].board)
            instants_kill(&scene.senders[i]);
    gpud_group_destroy(&scene.group);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&scene.receivers[i]);
}

/* A line of the table, and its verdict. */
static void report(const char *what, unsigned times)
{
    tally_print(&scene.tally, (double)scene.rate.num / scene.rate.den, what, times,
                group_info(scene.group, 0).switches);
    CHECK(scene.tally.lost == 0 && scene.tally.repeated == 0, "instants are lost or repeated");
    CHECK(scene.corrupted == 0, "a broken picture, and the other one was whole");
}

/* --- the cases -------------------------------------------------------------------------------- */

/* After some instants, or when the preferred one is taken again. */
static void kill_one(int which)
{
    instants_kill(&scene.senders[which]);
    start(which);
    await(which);
    unsigned more = tally_random_below(5);
    take_some(more);
    if (more == 4)
        TAKE_UNTIL("the preferred one is taken again", scene.member == scene.preferred);
}

static void kills(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        kill_one(MAIN);
    report("kill -9 of the main", rounds);
    for (unsigned i = 0; i < rounds; i++)
        kill_one(BACKUP);
    report("kill -9 of the backup", rounds);
    for (unsigned i = 0; i < rounds; i++)
        kill_one(i % 2 ? BACKUP : MAIN);
    report("kill -9 of both in turn", rounds);
}

static void stop(int which, const char *what)
{
    kill(scene.senders[which].pid, SIGSTOP);
    take_some(10);
    CHECK_EQUAL(scene.member, 1 - which);
    kill(scene.senders[which].pid, SIGCONT);
    if (which == (int)scene.preferred)
        TAKE_UNTIL("the preferred one is taken again", scene.member == scene.preferred);
    take_some(3);
    report(what, 1);
}

static void end(int which, const char *what)
{
    instants_leave(&scene.senders[which]);
    TAKE_UNTIL("a sender ends", instants_has_left(&scene.senders[which]));
    take_some(5);
    CHECK_EQUAL(scene.member, 1 - which);
    start(which);
    await(which);
    TAKE_UNTIL("the preferred one is taken again", scene.member == scene.preferred);
    report(what, 1);
}

static void change_format(int which, const char *what)
{
    for (int i = 0; i < 2; i++)
        if (i == which || which == 2)
            atomic_store(&scene.senders[i].board->other_at, scene.tally.last + 4);
    take_some(10);
    TAKE_UNTIL("the preferred one is taken again", scene.member == scene.preferred);
    report(what, 1);
}

static bool has_pictures(struct gpud_receiver *receiver, unsigned *count)
{
    struct gpud_frame *frame;
    struct gpud_error error;
    enum gpud_status status = gpud_receiver_acquire(receiver, 0, &frame, &error);
    if (status == GPUD_OK) {
        gpud_frame_release(&frame);
        ++*count;
    }
    return *count >= 3;
}

/* A receiver on another device joins: that sender's ring grows, or there is another one besides. It
 * leaves, joins again, and in that moment the sender is killed. */
static void join(struct gpud_context *context, int which, const char *what)
{
    const char *address = scene.senders[which].orders.address;
    for (int i = 0; i < 3; i++) {
        unsigned count = 0;
        struct gpud_receiver *more =
            NEW_RECEIVER(context, .address = address, .device = devices[1 - which]);
        TAKE_UNTIL("the one that joins has pictures", has_pictures(more, &count));
        if (i == 2)
            kill_one(which);
        gpud_receiver_destroy(&more);
        take_some(3);
    }
    report(what, 3);
}

static void prefer(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        scene.preferred = 1 - scene.preferred;
        TAKE_UNTIL("the other one is taken", scene.member == scene.preferred);
    }
    report("the other preferred", 4);
}

/* Only when the last one ends does the stream end, and once; a kill is no end. */
static void ends(void)
{
    instants_leave(&scene.senders[BACKUP]);
    TAKE_UNTIL("the backup ends", instants_has_left(&scene.senders[BACKUP]));
    take_some(2);
    instants_leave(&scene.senders[MAIN]);
    int64_t until = gpud_test_now() + 60 * GPUD_SEC;
    while (take(20 * GPUD_MSEC) != GPUD_CLOSED)
        CHECK(gpud_test_now() < until, "the end of the stream is not noticed");
    instants_finish(&scene.senders[MAIN]);
    CHECK_EQUAL(take(50 * GPUD_MSEC), GPUD_TIMEOUT);
    start(MAIN);
    await(MAIN);
    take_some(3);
    instants_kill(&scene.senders[MAIN]);
    until = gpud_test_now() + 300 * GPUD_MSEC;
    while (gpud_test_now() < until)
        CHECK(take(20 * GPUD_MSEC) != GPUD_CLOSED, "a kill is told as the end of the stream");
    scene.corrupted = 0; /* the one that was killed was alone, and a GPU may have been at work */
    report("EOS of both, then a kill", 1);
}

/* Drivers keep what they opened once: only what a second time leaves behind is a leak. */
static void open_drivers(void)
{
    struct gpud_error why;
    struct gpud_device *opened;
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    for (int i = 0; i < 2; i++) {
        if (gpud_device_open(context, devices[i], &opened, &why) != GPUD_OK)
            SKIP("%s", why.reason);
        gpud_device_close(&opened);
    }
}

/* standby_test [rounds [device of the main [and of the backup]]] */
int main(int argc, char **argv)
{
    static const struct gpud_fraction rates[] = {{50, 1}, {60000, 1001}};
    instants_main(argc, argv);
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 5;
    for (int i = 0; i < 2 && argc > 2; i++)
        devices[i] = argv[argc > 3 ? 2 + i : 2];
    test_begin(rounds < 50 ? 110 : 7200);
    open_drivers();
    tally_print_header();
    for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct baseline before = baseline_take();
        struct gpud_context *context = NEW_CONTEXT();
        scene_open(context, rates[i]);
        kills(rounds);
        stop(MAIN, "SIGSTOP of the main");
        stop(BACKUP, "SIGSTOP of the backup");
        end(MAIN, "EOS of the main");
        end(BACKUP, "EOS of the backup");
        change_format(MAIN, "another format of the main");
        change_format(BACKUP, "another format of the backup");
        change_format(2, "another format of both");
        join(context, MAIN, "another receiver of the main");
        join(context, BACKUP, "another receiver of the backup");
        prefer();
        ends();
        scene_close();
        gpud_context_destroy(&context);
        BASELINE_CHECK(before);
    }
    /* Those that were killed could not clean up: the next ones to listen do. */
    for (int i = 0; i < 2; i++) {
        struct gpud_context *context = NEW_CONTEXT();
        struct gpud_sender *sender =
            NEW_SENDER(context, .address = i ? "standby-backup" : "standby-main");
        gpud_sender_destroy(&sender);
        gpud_context_destroy(&context);
    }
    return runtime_done();
}
