/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers that hand on instants together: four cameras, one of them late and one that stops, on
 * the devices of the arguments; what is still kept is read at its time; a member that connects for
 * long costs the others nothing; and what a group refuses. */
#include "instants.h"

#include <poll.h>

#define MEMBERS 4
#define LATE 2
#define STOPS 3

static const struct gpud_fraction rate = {50, 1};
static const char *const cameras[MEMBERS] = {"camera-0", "camera-1", "camera-2", "camera-3"};

static struct {
    struct gpud_context *context;
    struct gpud_receiver *receivers[MEMBERS];
    struct gpud_group *group;
    struct instants senders[MEMBERS];
    uint64_t last;
    unsigned complete;
    /* What on_event() was called with. */
    uint32_t width[MEMBERS];
    uint64_t event[MEMBERS];
    unsigned connects[MEMBERS], formats[MEMBERS];
} scene;

/* --- a scene ---------------------------------------------------------------------------------- */

static void on_event(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    CHECK(user == &scene && member < MEMBERS, "an event of no member");
    if (event == GPUD_EVENT_CONNECTED) {
        scene.connects[member]++;
    } else if (event == GPUD_EVENT_FORMAT) {
        CHECK(scene.connects[member], "a format before a connection");
        scene.width[member] = ((const struct gpud_format_event *)data)->media.picture.layout.width;
        scene.formats[member]++;
    } else {
        const struct gpud_user_event *said = data;
        CHECK_EQUAL(said->size, sizeof(uint64_t));
        memcpy(&scene.event[member], said->data, sizeof(uint64_t));
    }
}

static void check_frame(struct gpud_group_instant *got, uint32_t member, uint64_t *instant)
{
    struct gpud_frame *frame = got->frames[member];
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(*instant == 0 || info.offset == *instant, "instants %llu and %llu together",
          (unsigned long long)*instant, (unsigned long long)info.offset);
    *instant = info.offset;
    CHECK_EQUAL(got->states[member], GPUD_GROUP_PRESENT);
    CHECK_EQUAL(info.layout.width, scene.width[member]);
    FRAME_CHECK(frame, &info.layout, info.offset);
}

static uint64_t check(struct gpud_group_instant *got)
{
    uint64_t instant = 0;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (got->frames[i])
            check_frame(got, i, &instant);
        else
            CHECK(got->states[i] != GPUD_GROUP_PRESENT, "member %u has no frame, and no reason", i);
        missing += !got->frames[i];
    }
    CHECK_EQUAL(got->missing, missing);
    CHECK_EQUAL(got->time_ns, instants_time(rate, instant));
    return instant;
}

static void release(struct gpud_group_instant *got)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        gpud_frame_release(&got->frames[i]);
}

static enum gpud_status take(enum gpud_group_select select, int64_t timeout)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    struct gpud_error error = {.reason = ""};
    struct gpud_group_request request = {.size = sizeof(request), .select = select};
    enum gpud_status status = gpud_group_acquire(scene.group, &request, timeout, &got, &error);
    CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s: %s", gpud_status_string(status),
          error.reason);
    if (status != GPUD_OK)
        return status;
    uint64_t instant = check(&got);
    CHECK(instant > scene.last, "instant %llu after %llu", (unsigned long long)instant,
          (unsigned long long)scene.last);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (got.frames[i] && instant % INSTANTS_EVENTS == 0)
            CHECK_EQUAL(scene.event[i], instant);
    scene.last = instant;
    scene.complete += got.missing == 0;
    release(&got);
    return status;
}

#define TAKE_UNTIL(what, condition)                                           \
    do {                                                                      \
        int64_t until_ = gpud_test_now() + 60 * GPUD_SEC;                     \
        while (!(condition)) {                                                \
            CHECK(gpud_test_now() < until_, "not within a minute: %s", what); \
            take(GPUD_GROUP_NEXT, 5 * GPUD_MSEC);                             \
        }                                                                     \
    } while (0)

static void take_complete(const char *what, unsigned count)
{
    unsigned wanted = scene.complete + count;
    TAKE_UNTIL(what, scene.complete >= wanted);
}

static void scene_open(const char *const devices[MEMBERS], uint32_t slots, uint32_t history)
{
    memset(&scene, 0, sizeof(scene));
    scene.context = NEW_CONTEXT();
    for (int i = 0; i < MEMBERS; i++) {
        struct instants *sender = &scene.senders[i];
        *sender = instants_of(cameras[i], devices[MEMBERS - 1 - i], rate, 0);
        sender->orders.width += 2 * (unsigned)i;
        sender->orders.delay = i == LATE ? 30 * GPUD_MSEC : 0;
        scene.receivers[i] = NEW_RECEIVER(scene.context, .address = cameras[i],
                                          .device = devices[i], .slots = slots);
    }
    scene.group = NEW_GROUP(scene.context, scene.receivers, MEMBERS, .history = history,
                            .on_event = on_event, .user = &scene);
}

/* The first instant is due when all of them are ready for it: one that starts seconds later, on a
 * busy machine, is rightly taken for one of another time line. */
static void start_all(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        scene.senders[i].orders.base = INT64_MAX / 2;
        instants_start(&scene.senders[i], 0);
    }
    for (int i = 0; i < MEMBERS; i++)
        TAKE_UNTIL("a sender is ready", atomic_load(&scene.senders[i].board->begun));
    int64_t base = gpud_test_now();
    for (int i = 0; i < MEMBERS; i++) {
        scene.senders[i].orders.base = base;
        atomic_store(&scene.senders[i].board->base, base);
    }
}

static void scene_close(void)
{
    gpud_group_destroy(&scene.group);
    for (int i = 0; i < MEMBERS; i++) {
        gpud_receiver_destroy(&scene.receivers[i]);
        if (scene.senders[i].pid)
            instants_finish(&scene.senders[i]);
    }
    gpud_context_destroy(&scene.context);
}

/* --- cases ------------------------------------------------------------------------------------ */

static void late_and_stopped(const char *const devices[MEMBERS])
{
    scene_open(devices, 0, 0);
    start_all();
    take_complete("all four", 10);
    SAY("  the late one comes %.1f ms behind the first",
        (double)group_info(scene.group, LATE).behind_ns / GPUD_MSEC);

    kill(scene.senders[STOPS].pid, SIGSTOP);
    uint64_t missed = group_info(scene.group, STOPS).missed;
    TAKE_UNTIL("instants without the stopped one",
               group_info(scene.group, STOPS).missed >= missed + 10);
    CHECK(group_info(scene.group, STOPS).connected, "a stopped sender is taken for a dead one");
    kill(scene.senders[STOPS].pid, SIGCONT);
    take_complete("all four again", 5);

    instants_kill(&scene.senders[STOPS]);
    TAKE_UNTIL("the death is noticed", !group_info(scene.group, STOPS).connected);
    CHECK(strstr(group_info(scene.group, STOPS).reason, "camera-3") ||
              group_info(scene.group, STOPS).reason[0],
          "no reason for a missing member");
    instants_start(&scene.senders[STOPS], scene.last);
    take_complete("all four with a new sender", 5);
    CHECK_EQUAL(scene.connects[STOPS], 2);

    /* Another format comes before its first frame, which check_frame() looks at. */
    unsigned formats = scene.formats[0];
    atomic_store(&scene.senders[0].board->other_at, scene.last + 3);
    TAKE_UNTIL("another format", scene.formats[0] > formats);
    take_complete("all four with another format", 3);
    struct gpud_group_info info = group_info(scene.group, 0);
    CHECK(info.instants >= info.incomplete + scene.complete, "the counters are wrong");
    CHECK_EQUAL(info.members, MEMBERS);
    scene_close();
}

static void read_history(const char *const devices[MEMBERS])
{
    scene_open(devices, 8, 6);
    start_all();
    take_complete("all four", 12);
    struct gpud_group_instant kept = GPUD_INFO_INIT(kept);
    /* On a busy machine newer frames may come before any of these is asked for. */
    for (int round = 0, found = 0; found < 3; round++) {
        CHECK(round < 50, "what was handed on last is never kept");
        for (uint64_t back = 0; back < 3; back++) {
            struct gpud_group_request at = {.size = sizeof(at), .select = GPUD_GROUP_AT};
            struct gpud_group_instant got = GPUD_INFO_INIT(got);
            at.time_ns = instants_time(rate, scene.last - back) + 1000;
            enum gpud_status status = gpud_group_acquire(scene.group, &at, 0, &got, NULL);
            if (status == GPUD_INVALID)
                continue; /* it made room for them */
            CHECK(status == GPUD_OK, "what was handed on last cannot be read: %d", status);
            found += back == 0;
            got.time_ns -= 1000;
            CHECK_EQUAL(check(&got), scene.last - back);
            release(&kept);
            kept = got;
        }
        take_complete("the senders do not starve", 10);
    }
    CHECK(group_info(scene.group, 0).held <= 6, "more is held than was asked for");
    struct gpud_group_request old = {.size = sizeof(old), .select = GPUD_GROUP_AT};
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    old.time_ns = instants_time(rate, 1);
    EXPECT(GPUD_INVALID, "the oldest that is kept",
           gpud_group_acquire(scene.group, &old, GPUD_SEC, &got, &e));
    /* One to come. */
    old.time_ns = instants_time(rate, scene.last + 5);
    WORKS(gpud_group_acquire(scene.group, &old, 30 * GPUD_SEC, &got, &e));
    CHECK_EQUAL(check(&got), scene.last + 5);
    release(&got);
    take_complete("in order again", 3);

    gpud_test_nap(100);
    uint64_t before = scene.last;
    CHECK_EQUAL(take(GPUD_GROUP_NEWEST, 30 * GPUD_SEC), GPUD_OK);
    CHECK(scene.last > before, "the frame is not newer than the one before");
    /* Frames outlive the group and its receivers. */
    struct gpud_group_request next = {.size = sizeof(next)};
    WORKS(gpud_group_acquire(scene.group, &next, 30 * GPUD_SEC, &got, &e));
    gpud_group_destroy(&scene.group);
    for (int i = 0; i < MEMBERS; i++)
        gpud_receiver_destroy(&scene.receivers[i]);
    check(&got);
    release(&got);
    release(&kept);
    scene_close();
}

/* --- one process, no sender ------------------------------------------------------------------- */

static struct gpud_receiver *pair[2];

static enum gpud_status create(const struct gpud_group_params *params, uint32_t count,
                               struct gpud_group **group, struct gpud_error *error)
{
    return gpud_group_create(scene.context, params, pair, count, group, error);
}

static void refusals(void)
{
    struct gpud_group *group = NULL, *other = NULL;
    scene.context = NEW_CONTEXT();
    for (int i = 0; i < 2; i++)
        pair[i] = NEW_RECEIVER(scene.context, .address = i ? "none-b" : "none-a", .slots = 5);
#define PARAMS(...) WITH_SIZE(gpud_group_params, __VA_ARGS__)
    EXPECT(GPUD_INVALID, "0", create(PARAMS(.mode = GPUD_GROUP_ALL), 0, &group, &e));
    EXPECT(GPUD_INVALID, "17", create(PARAMS(.mode = GPUD_GROUP_ALL), 17, &group, &e));
    EXPECT(GPUD_INVALID, "mode", create(PARAMS(.mode = (enum gpud_group_mode)7), 2, &group, &e));
    EXPECT(GPUD_INVALID, "negative", create(PARAMS(.latency_ns = -1), 2, &group, &e));
    EXPECT(GPUD_INVALID, "negative", create(PARAMS(.tolerance_ns = -1), 2, &group, &e));
    EXPECT(GPUD_INVALID, "negative", create(PARAMS(.freeze_timeout_ns = -1), 2, &group, &e));
    EXPECT(GPUD_INVALID, "ANY", create(PARAMS(.freeze_timeout_ns = 1), 2, &group, &e));
    EXPECT(GPUD_INVALID, "years", create(PARAMS(.latency_ns = INT64_MAX), 2, &group, &e));
    EXPECT(GPUD_INVALID, "none-a", create(PARAMS(.history = 4), 2, &group, &e));
    EXPECT(GPUD_INVALID, "history", create(PARAMS(.history = UINT32_MAX), 2, &group, &e));
    struct gpud_receiver *twice[2] = {pair[0], pair[0]}, *missing[2] = {pair[0], NULL};
    EXPECT(GPUD_INVALID, "in a group already",
           gpud_group_create(scene.context, PARAMS(.history = 3), twice, 2, &group, &e));
    EXPECT(GPUD_INVALID, "NULL",
           gpud_group_create(scene.context, PARAMS(.history = 3), missing, 2, &group, &e));
    /* None of these kept a receiver. */
    WORKS(create(PARAMS(.history = 3), 2, &group, &e));
    EXPECT(GPUD_INVALID, "in a group already", create(PARAMS(.history = 3), 2, &other, &e));

    struct gpud_group_instant got = GPUD_INFO_INIT(got), unsized = {.size = 0};
    struct gpud_group_request bad = {.size = sizeof(bad)};
    EXPECT(GPUD_INVALID, "negative", gpud_group_acquire(group, NULL, -1, &got, &e));
    EXPECT(GPUD_INVALID, "size", gpud_group_acquire(group, NULL, 0, &unsized, &e));
    bad.preferred = 2;
    EXPECT(GPUD_INVALID, "member 2", gpud_group_acquire(group, &bad, 0, &got, &e));
    bad.preferred = 0;
    bad.select = (enum gpud_group_select)9;
    EXPECT(GPUD_INVALID, "9", gpud_group_acquire(group, &bad, 0, &got, &e));
    /* Without senders the error names the missing members. */
    EXPECT(GPUD_TIMEOUT, "member 1", gpud_group_acquire(group, NULL, 300 * GPUD_MSEC, &got, &e));
    EXPECT(GPUD_TIMEOUT, "none-a", gpud_group_acquire(group, NULL, 0, &got, &e));
    struct gpud_group_info info = group_info(group, 5);
    CHECK(info.members == 2 && !info.connected, "the info of no member");
    gpud_group_destroy(&group);
    gpud_group_destroy(&group);
    gpud_group_destroy(NULL);
    /* They are receivers as before. */
    struct gpud_frame *frame;
    EXPECT(GPUD_TIMEOUT, "none-a", gpud_receiver_acquire(pair[0], 0, &frame, &e));
}

/* Where the CPU cannot read the pictures. */
static void refuse_freeze(const char *device)
{
    struct gpud_group *group = NULL;
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = "none-a", .device = device, .slots = 5);
    EXPECT(GPUD_UNSUPPORTED, "receive on the host",
           gpud_group_create(context, PARAMS(.mode = GPUD_GROUP_ANY, .freeze_timeout_ns = GPUD_SEC),
                             &receiver, 1, &group, &e));
    gpud_receiver_destroy(&receiver);
}

static struct gpud_group *waiting;

static void *wait_long(void *arg)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    EXPECT(GPUD_AGAIN, "interrupted", gpud_group_acquire(waiting, NULL, 100 * GPUD_SEC, &got, &e));
    return arg;
}

/* By a member, which may be interrupted before the group is made and stays so after it. */
static void interrupts(void)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    gpud_receiver_interrupt(pair[1], true);
    WORKS(create(PARAMS(.mode = GPUD_GROUP_ANY), 2, &waiting, &e));
    EXPECT(GPUD_AGAIN, "interrupted", gpud_group_acquire(waiting, NULL, GPUD_SEC, &got, &e));
    gpud_group_destroy(&waiting);
    struct gpud_frame *frame;
    EXPECT(GPUD_AGAIN, "interrupted", gpud_receiver_acquire(pair[1], 0, &frame, &e));
    gpud_receiver_interrupt(pair[1], false);

    WORKS(create(PARAMS(.mode = GPUD_GROUP_ANY), 2, &waiting, &e));
    pthread_t thread = NEW_THREAD(wait_long, NULL);
    gpud_test_nap(20);
    gpud_receiver_interrupt(pair[1], true);
    pthread_join(thread, NULL);
    gpud_receiver_interrupt(pair[1], false);
    EXPECT(GPUD_TIMEOUT, "member 1: no", gpud_group_acquire(waiting, NULL, 0, &got, &e));
    /* The descriptor, too. */
    struct pollfd fd = {.fd = group_info(waiting, 0).fd, .events = POLLIN};
    gpud_receiver_interrupt(pair[0], true);
    CHECK(poll(&fd, 1, 30000) == 1, "an interrupt does not wake the loop");
    EXPECT(GPUD_AGAIN, "interrupted", gpud_group_acquire(waiting, NULL, 0, &got, &e));
    CHECK(poll(&fd, 1, 0) == 0, "an interrupted group wakes the loop again and again");
    gpud_receiver_interrupt(pair[0], false);
    CHECK(poll(&fd, 1, 30000) == 1, "the end of an interrupt does not wake the loop");
    EXPECT(GPUD_TIMEOUT, "member 1: no", gpud_group_acquire(waiting, NULL, 0, &got, &e));
    gpud_group_destroy(&waiting);
    for (int i = 0; i < 2; i++)
        gpud_receiver_destroy(&pair[i]);
    gpud_context_destroy(&scene.context);
}

/* --- in a loop of the application's, beside a member that connects for long ------------------- */

static atomic_bool is_connecting, may_connect;

/* Called by the receiver while it connects: a driver that takes long. */
static enum gpud_status alloc_late(void *user, const struct gpud_layout *layout, uint32_t slot,
                                   struct gpud_memory **memory, struct gpud_error *error)
{
    int64_t until = gpud_test_now() + 60 * GPUD_SEC;
    atomic_store(&is_connecting, true);
    while (!atomic_load(&may_connect))
        CHECK((gpud_test_nap(1), gpud_test_now() < until), "the others stand still");
    return gpud_memory_alloc(user, layout->size, GPUD_MEMORY_PLAIN, memory, error);
}

static void count_formats(void *user, uint32_t member, enum gpud_event event, const void *data)
{
    unsigned *formats = user;
    CHECK(event != GPUD_EVENT_CONNECTED || formats[member] % 2 == 0, "connected twice");
    if (event == GPUD_EVENT_FORMAT)
        CHECK_EQUAL(((const struct gpud_format_event *)data)->media.picture.rate.num, rate.num);
    formats[member] += event != GPUD_EVENT_USER;
}

/* Receivers that are connected already: the group learns their formats. */
static void join_again(struct gpud_context *context, struct gpud_receiver *receivers[2])
{
    unsigned formats[2] = {0};
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    uint64_t connects = INFO(receiver, receivers[0]).connects;
    struct gpud_group *group =
        NEW_GROUP(context, receivers, 2, .on_event = count_formats, .user = formats);
    int64_t until = gpud_test_now() + 60 * GPUD_SEC;
    while (formats[0] < 2 || formats[1] < 2) {
        CHECK(gpud_test_now() < until, "not within a minute: the formats");
        if (gpud_group_acquire(group, NULL, GPUD_SEC, &got, NULL) == GPUD_OK)
            release(&got);
    }
    CHECK_EQUAL(INFO(receiver, receivers[0]).connects, connects);
    gpud_group_destroy(&group);
}

static void poll_beside_a_slow_one(void)
{
    struct gpud_receiver *receivers[2];
    struct instants senders[2];
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(context, "host");
    receivers[0] = NEW_RECEIVER(context, .address = "camera-0");
    receivers[1] = NEW_RECEIVER(context, .address = "camera-1", .alloc = alloc_late, .user = host);
    struct gpud_group *group = NEW_GROUP(context, receivers, 2, .mode = GPUD_GROUP_ALL);
    for (int i = 0; i < 2; i++) {
        senders[i] = instants_of(cameras[i], "", rate, gpud_test_now());
        instants_start(&senders[i], 0);
    }
    struct pollfd fd = {.fd = group_info(group, 0).fd, .events = POLLIN};
    unsigned beside = 0, together = 0, turns = 0;
    uint64_t last = 0;
    int64_t until = gpud_test_now() + 60 * GPUD_SEC;
    while (together < 5) {
        struct gpud_group_instant got = GPUD_INFO_INIT(got);
        CHECK(gpud_test_now() < until, "not within a minute: instants of both");
        poll(&fd, 1, 1000);
        turns++;
        while (gpud_group_acquire(group, NULL, 0, &got, NULL) == GPUD_OK) {
            struct gpud_frame_info frame = INFO(frame, got.frames[got.member]);
            CHECK(last == 0 || got.member != 0 || frame.offset == last + 1,
                  "a slow member costs another a frame: %llu after %llu",
                  (unsigned long long)frame.offset, (unsigned long long)last);
            last = frame.offset;
            beside += !got.frames[1] && atomic_load(&is_connecting);
            together += got.frames[0] && got.frames[1];
            gpud_frame_release(&got.frames[0]);
            gpud_frame_release(&got.frames[1]);
        }
        if (beside >= 10)
            atomic_store(&may_connect, true);
    }
    CHECK(beside >= 10, "nothing was handed on while a member connected");
    /* Not a turn without need for each one with it: at most one for each frame, and its deadline.
     */
    SAY("  %u turns of the loop for %llu instants", turns,
        (unsigned long long)group_info(group, 0).instants);
    gpud_group_destroy(&group);
    join_again(context, receivers);
    for (int i = 0; i < 2; i++) {
        gpud_receiver_destroy(&receivers[i]);
        instants_finish(&senders[i]);
    }
}

/* A group that ends while its members connect, over and over. */
static void start_and_stop(void)
{
    struct instants sender = instants_of("camera-0", "", rate, gpud_test_now());
    instants_start(&sender, 0);
    for (int i = 0; i < 20; i++) {
        struct gpud_context *context = NEW_CONTEXT();
        struct gpud_receiver *receivers[2] = {NEW_RECEIVER(context, .address = "camera-0"),
                                              NEW_RECEIVER(context, .address = "camera-none")};
        struct gpud_group *group = NEW_GROUP(context, receivers, 2, .mode = GPUD_GROUP_ANY);
        struct gpud_group_instant got = GPUD_INFO_INIT(got);
        gpud_test_nap(i);
        if (i % 2)
            WORKS(gpud_group_acquire(group, NULL, 30 * GPUD_SEC, &got, &e));
        gpud_group_destroy(&group);
        gpud_frame_release(&got.frames[0]);
        gpud_receiver_destroy(&receivers[1]);
        gpud_receiver_destroy(&receivers[0]);
        gpud_context_destroy(&context);
    }
    instants_finish(&sender);
}

/* --- what it costs ---------------------------------------------------------------------------- */

static atomic_bool over;

static void *receive_alone(void *arg)
{
    struct gpud_frame *frame;
    while (!atomic_load(&over))
        if (gpud_receiver_acquire(arg, 100 * GPUD_MSEC, &frame, NULL) == GPUD_OK)
            gpud_frame_release(&frame);
    return NULL;
}

static int64_t cpu_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * GPUD_SEC + now.tv_nsec;
}

static uint64_t frames_of_all(void)
{
    uint64_t frames = 0;
    for (int i = 0; i < MEMBERS; i++)
        frames += INFO(receiver, scene.receivers[i]).frames;
    return frames;
}

/* The CPU time that a frame takes in a thread for each receiver, and in a group of them. */
static void cost(unsigned instants)
{
    pthread_t threads[MEMBERS];
    const char *const hosts[MEMBERS] = {"host", "host", "host", "host"};
    scene_open(hosts, 0, 0);
    start_all();
    take_complete("all four", 50);
    int64_t begun = cpu_time(), behind = 0;
    uint64_t frames = frames_of_all(), last = scene.last;
    while (scene.last < last + instants) {
        struct gpud_group_instant got = GPUD_INFO_INIT(got);
        WORKS(gpud_group_acquire(scene.group, NULL, 30 * GPUD_SEC, &got, &e));
        scene.last = INFO(frame, got.frames[got.member]).offset;
        release(&got);
        for (uint32_t i = 0; i < MEMBERS; i++)
            behind += i == LATE ? 0 : group_info(scene.group, i).behind_ns;
    }
    double together = (double)(cpu_time() - begun) / (double)(frames_of_all() - frames);
    gpud_group_destroy(&scene.group);
    for (int i = 0; i < MEMBERS; i++)
        threads[i] = NEW_THREAD(receive_alone, scene.receivers[i]);
    uint64_t wanted = frames_of_all() + MEMBERS * 50;
    PEER_UNTIL("frames of receivers alone", 60000, frames_of_all() >= wanted);
    begun = cpu_time();
    frames = frames_of_all();
    wanted = frames + MEMBERS * instants;
    while (frames_of_all() < wanted)
        gpud_test_nap(100);
    double alone = (double)(cpu_time() - begun) / (double)(frames_of_all() - frames);
    atomic_store(&over, true);
    for (int i = 0; i < MEMBERS; i++)
        pthread_join(threads[i], NULL);
    SAY("  CPU a frame: %.1f us alone, %.1f us in a group of four; those in time come %.2f ms "
        "behind the first on average",
        alone / 1000, together / 1000,
        (double)behind / instants / (MEMBERS - 1) / (double)GPUD_MSEC);
    scene_close();
}

/* group_test [device of each of four members] | cost INSTANTS */
int main(int argc, char **argv)
{
    const char *devices[MEMBERS] = {"host", "host", "host", "host"};
    instants_main(argc, argv);
    test_begin(110);
    if (argc == 3 && strcmp(argv[1], "cost") == 0) {
        cost((unsigned)atoi(argv[2]));
        runtime_done();
        return 0;
    }
    for (int i = 0; i < MEMBERS && i + 1 < argc; i++)
        devices[i] = argv[i + 1];
    if (argc > 1) {
        struct gpud_error why;
        struct gpud_context *context = NEW_CONTEXT();
        for (int i = 0; i < MEMBERS; i++) {
            struct gpud_device *device;
            if (gpud_device_open(context, devices[i], &device, &why) != GPUD_OK)
                SKIP("%s", why.reason);
            gpud_device_close(&device);
            if (strcmp(devices[i], "host") != 0)
                refuse_freeze(devices[i]);
        }
        gpud_context_destroy(&context);
    }
    CASE("four cameras, one 30 ms late, one that stops", late_and_stopped(devices));
    CASE("what is kept, at its time", read_history(devices));
    if (argc == 1) {
        struct baseline before = baseline_take();
        SAY("what is refused; interrupts");
        refusals();
        interrupts();
        SAY("a member that connects for long");
        poll_beside_a_slow_one();
        start_and_stop();
        BASELINE_CHECK(before);
    }
    return runtime_done();
}
