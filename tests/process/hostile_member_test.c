/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A member of a group that lies about its times, durations and rate: the other members' instants go
 * on without a gap, while it is there and after it has left, in both modes; and the group says who
 * is not used as meant. */
#include "instants.h"

#define MEMBERS 3
#define LIAR 2
/* Instants in a row that show that nothing is lost. */
#define ROW 40

static const struct gpud_fraction rate = {50, 1};
static const char *const addresses[MEMBERS] = {"honest-0", "honest-1", "liar"};

static const struct lie {
    const char *what, *warning;
    struct gpud_fraction rate;
    uint64_t duration;
    int64_t ahead, every;
} lies[] = {
    {"frames of 15.8 years, 55 years ahead",
     "believed",
     {1, 500000000},
     0,
     INT64_C(55) * 366 * 24 * 3600 * GPUD_SEC,
     20 * GPUD_MSEC},
    {"no rate, frames of 18 years, in time", "believed", {0, 1}, INT64_MAX / 17, 0, 20 * GPUD_MSEC},
    {"a rate of 10^9/s", "believed", {1000000000, 1}, 0, 7 * GPUD_MSEC, 20 * GPUD_MSEC},
    {"no rate, one frame a second, 0.95 s ahead", "ahead", {0, 1}, 0, 950 * GPUD_MSEC, GPUD_SEC},
    {"frames of ten seconds, 15 s ahead", "", {1, 10}, 0, 15 * GPUD_SEC, 200 * GPUD_MSEC},
    {"an hour ago", "more than a second off", {50, 1}, 0, -3600 * GPUD_SEC, 20 * GPUD_MSEC},
};

static struct {
    struct gpud_context *context;
    struct gpud_receiver *receivers[MEMBERS];
    struct gpud_group *group;
    struct instants honest[LIAR];
    enum gpud_group_mode mode;
    int64_t base;
    const struct lie *lie;
    pthread_t thread;
    atomic_bool over;
    atomic_uint told; /* lies */
    uint64_t last;    /* instant of the first member */
    unsigned row;     /* instants without a gap */
} scene;

static void *tell_lies(void *arg)
{
    const struct lie *lie = scene.lie;
    struct gpud_layout layout = LAYOUT("UYVY", 64, INSTANTS_HEIGHT, 0);
    struct gpud_media media = *PICTURE(&layout);
    struct gpud_sender *sender = NEW_SENDER(scene.context, .address = addresses[LIAR]);
    media.picture.rate = lie->rate;
    WORKS(gpud_sender_configure(sender, &media, &e));
    /* In step with the honest ones: of members that are not, one may be handed on for another, as
     * group.h says, and the row of the honest ones ends each time that their clocks pass. */
    for (int64_t due = scene.base; !atomic_load(&scene.over);) {
        struct gpud_frame *frame;
        if (gpud_test_now() < due) {
            gpud_test_nap(1);
            continue;
        }
        due += (gpud_test_now() - due) / lie->every * lie->every;
        if (gpud_sender_wait(sender, 1, 20 * GPUD_MSEC, NULL) != GPUD_OK ||
            gpud_sender_acquire(sender, 20 * GPUD_MSEC, &frame, NULL) != GPUD_OK)
            continue;
        struct gpud_frame_info info = INFO(frame, frame);
        uint64_t hour = 3600 * UINT64_C(1000000000);
        info.pts_ns = hour + (uint64_t)(due - scene.base + lie->ahead);
        info.duration_ns = lie->duration ? lie->duration : GPUD_TIME_NONE;
        info.offset = 0;
        WORKS(gpud_frame_set_info(frame, &info, &e));
        while (gpud_sender_submit(sender, &frame, 20 * GPUD_MSEC, NULL) != GPUD_OK)
            if (atomic_load(&scene.over))
                break;
        gpud_frame_release(&frame);
        atomic_fetch_add(&scene.told, 1);
        due += lie->every;
    }
    gpud_sender_destroy(&sender);
    return arg;
}

static void take(void)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    if (gpud_group_acquire(scene.group, NULL, 100 * GPUD_MSEC, &got, NULL) != GPUD_OK)
        return;
    for (uint32_t i = 0; i < LIAR; i++) {
        if (!got.frames[i])
            continue;
        struct gpud_frame_info info = INFO(frame, got.frames[i]);
        if (info.offset != scene.last)
            scene.row = info.offset == scene.last + 1 ? scene.row + 1 : 0;
        scene.last = info.offset;
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        gpud_frame_release(&got.frames[i]);
}

#define TAKE_UNTIL(what, condition)                                    \
    do {                                                               \
        int64_t until_ = gpud_test_now() + 60 * GPUD_SEC;              \
        for (scene.row = 0; !(condition); take())                      \
            CHECK(gpud_test_now() < until_,                            \
                  "not within a minute: %s: %u instants in a row, %u " \
                  "lies, \"%s\"",                                      \
                  what, scene.row, atomic_load(&scene.told),           \
                  group_info(scene.group, LIAR).warning);              \
    } while (0)

/* first: the liar is there before the others. */
static void lie_to(enum gpud_group_mode mode, const struct lie *lie, bool first)
{
    memset(&scene, 0, sizeof(scene));
    scene.context = NEW_CONTEXT();
    scene.base = gpud_test_now();
    scene.lie = lie;
    for (int i = 0; i < MEMBERS; i++)
        scene.receivers[i] = NEW_RECEIVER(scene.context, .address = addresses[i], .device = "host");
    scene.group = NEW_GROUP(scene.context, scene.receivers, MEMBERS, .mode = mode);
    if (first) {
        scene.thread = NEW_THREAD(tell_lies, NULL);
        TAKE_UNTIL("the first lie", group_info(scene.group, LIAR).frames > 0);
    }
    for (int i = 0; i < LIAR; i++) {
        scene.honest[i] = instants_of(addresses[i], "", rate, scene.base);
        scene.honest[i].orders.apart = 3600 * GPUD_SEC;
        scene.honest[i].orders.slow_receiver = GPUD_SLOW_BLOCK;
        instants_start(&scene.honest[i], 0);
    }
    if (!first) {
        TAKE_UNTIL("the honest ones", scene.row >= 10);
        scene.thread = NEW_THREAD(tell_lies, NULL);
    }
    TAKE_UNTIL("a lie", group_info(scene.group, LIAR).frames > 0);
    /* Longer than any instant waits. */
    int64_t lied = gpud_test_now() + 3 * GPUD_SEC / 2;
    unsigned told = atomic_load(&scene.told);
    TAKE_UNTIL("lies", gpud_test_now() > lied && atomic_load(&scene.told) > told);
    TAKE_UNTIL("a row beside a liar", scene.row >= ROW);
    TAKE_UNTIL("a warning", !lie->warning[0] ||
                                strstr(group_info(scene.group, LIAR).warning, lie->warning) ||
                                (mode == GPUD_GROUP_ALL && strcmp(lie->warning, "ahead") == 0));
    CHECK(!group_info(scene.group, 0).warning[0] && !group_info(scene.group, 1).warning[0],
          "an honest one is blamed");
    atomic_store(&scene.over, true);
    pthread_join(scene.thread, NULL);
    TAKE_UNTIL("it has left", !group_info(scene.group, LIAR).connected);
    TAKE_UNTIL("a row after a liar", scene.row >= ROW);
    CHECK(group_info(scene.group, 0).tolerance_ns > 9 * GPUD_MSEC &&
              group_info(scene.group, 0).latency_ns <= 40 * GPUD_MSEC,
          "what a liar said counts after it has left");
    gpud_group_destroy(&scene.group);
    for (int i = 0; i < MEMBERS; i++)
        gpud_receiver_destroy(&scene.receivers[i]);
    for (int i = 0; i < LIAR; i++)
        instants_finish(&scene.honest[i]);
    gpud_context_destroy(&scene.context);
}

int main(int argc, char **argv)
{
    test_alarm(280);
    instants_main(argc, argv);
    runtime_make();
    for (unsigned i = 0; i < 2 * sizeof(lies) / sizeof(lies[0]); i++) {
        const struct lie *lie = &lies[i / 2];
        bool any = i % 2, first = (i / 2 + i) % 2;
        SAY("%s; %s, %s", lie->what, any ? "ANY" : "ALL", first ? "first" : "later");
        lie_to(any ? GPUD_GROUP_ANY : GPUD_GROUP_ALL, lie, first);
    }
    return runtime_done();
}
