/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* target@DEVICE: rings for third-party writers, which follow the rules, run free, break the rules,
 * or do not write. */
#include "target/target.h"
#include "target_ends.h"

#include <pthread.h>

/* --- by the rules -------------------------------------------------------------------------- */

static void test_frames(void)
{
    struct ends ends;
    SAY("frames come in order, whole, with their numbers");
    start(&ends);
    for (uint32_t i = 0; i < 50; i++) {
        writer_write(&ends.writer);
        expect(&ends, i, i ? 0 : GPUD_FRAME_DISCONTINUITY, 0);
        CHECK_EQUAL(atomic_load(ends.writer.next), i + 1);
        UNTIL(atomic_load(ends.writer.given_back) == i + 1);
    }
    struct gpud_target_info info = info_now(&ends);
    CHECK_EQUAL(info.frames, 50);
    CHECK_EQUAL(info.dropped, 0);
    CHECK_EQUAL(info.corrupted, 0);
    CHECK(strcmp(info.path, ends.writer.on_bus    ? "target-directgma"
                            : ends.writer.on_host ? "target-host"
                                                  : "target-dmabuf") == 0,
          "path %s", info.path);
    CHECK(info.reason[0] == '\0' && info.age_ns < (uint64_t)LONG, "\"%s\"", info.reason);
    end(&ends);
}

static void test_polite(void)
{
    struct ends ends;
    struct gpud_frame *frames[SLOTS];
    SAY("given_back tells a paced writer which slots are no longer read");
    start_with(&ends, GPUD_TARGET_PACED, NULL);
    for (uint32_t i = 0; i < SLOTS; i++)
        writer_write(&ends.writer);
    for (uint32_t i = 0; i < SLOTS; i++) {
        frames[i] = take(&ends);
        CHECK(!is_corrupted(frames[i]), "frame %u", i);
        check_picture(&ends, frames[i], i);
    }
    CHECK_EQUAL(atomic_load(ends.writer.given_back), 0);
    EXPECT(GPUD_TIMEOUT, "holds all 4", gpud_target_acquire(ends.target, 0, &frames[0], &e));
    gpud_frame_release(&frames[2]);
    gpud_frame_release(&frames[1]);
    CHECK_EQUAL(atomic_load(ends.writer.given_back), 0);
    gpud_frame_release(&frames[0]);
    UNTIL(atomic_load(ends.writer.given_back) == 3);
    for (uint32_t i = 0; i < 3; i++)
        writer_write(&ends.writer);
    CHECK(!is_corrupted(frames[3]), "the writer was polite");
    for (uint32_t i = 4; i < 7; i++)
        expect(&ends, i, 0, 0);
    CHECK_EQUAL(atomic_load(ends.writer.given_back), 3);
    gpud_frame_release(&frames[3]);
    UNTIL(atomic_load(ends.writer.given_back) == 7);
    CHECK_EQUAL(info_now(&ends).corrupted, 0);
    end(&ends);
}

/* --- a writer that does not wait ----------------------------------------------------------- */

static void test_lapped(void)
{
    struct ends ends;
    SAY("a reader that was late gets the newest frame, and the count of the others");
    start(&ends);
    for (uint32_t i = 0; i < 3 * SLOTS + 1; i++)
        writer_write(&ends.writer);
    see_all(&ends);
    expect(&ends, 3 * SLOTS, GPUD_FRAME_DISCONTINUITY, 3 * SLOTS);
    writer_write(&ends.writer);
    expect(&ends, 3 * SLOTS + 1, 0, 3 * SLOTS);
    for (uint32_t i = 0; i < 1000; i++)
        writer_write(&ends.writer);
    see_all(&ends);
    expect(&ends, 3 * SLOTS + 1001, GPUD_FRAME_DISCONTINUITY, 3 * SLOTS + 999);
    struct gpud_target_info info = info_now(&ends);
    CHECK_EQUAL(info.frames, 3);
    CHECK_EQUAL(info.dropped, 3 * SLOTS + 999);
    CHECK_EQUAL(info.corrupted, 0);
    end(&ends);
}

static void test_overwritten(void)
{
    struct ends ends;
    SAY("a held frame is flagged when the writer may be in it");
    start(&ends);
    writer_write(&ends.writer);
    struct gpud_frame *held = take(&ends);
    for (uint32_t i = 1; i < SLOTS - 1; i++) {
        writer_write(&ends.writer);
        expect(&ends, i, 0, 0);
    }
    CHECK(!is_corrupted(held), "the writer has not come to its slot");
    check_picture(&ends, held, 0);
    writer_write(&ends.writer);
    UNTIL(is_corrupted(held));

    SAY("and what came into its slot meanwhile is dropped");
    expect(&ends, SLOTS - 1, 0, 0);
    writer_write(&ends.writer);
    struct gpud_frame *none = NULL;
    EXPECT(GPUD_TIMEOUT, "no frame", gpud_target_acquire(ends.target, 50 * GPUD_MSEC, &none, &e));
    UNTIL(info_now(&ends).dropped == 1 ||
          gpud_target_acquire(ends.target, 0, &none, NULL) != GPUD_TIMEOUT);
    gpud_frame_release(&held);
    writer_write(&ends.writer);
    expect(&ends, SLOTS + 1, GPUD_FRAME_DISCONTINUITY, 1);
    CHECK_EQUAL(info_now(&ends).corrupted, 1);
    end(&ends);

    SAY("one that said that it waits is believed until it has not");
    start_with(&ends, GPUD_TARGET_PACED, NULL);
    writer_write(&ends.writer);
    held = take(&ends);
    for (uint32_t i = 1; i < SLOTS; i++) {
        writer_write(&ends.writer);
        expect(&ends, i, 0, 0);
    }
    CHECK(!is_corrupted(held), "it still follows the rules");
    writer_write(&ends.writer);
    UNTIL(is_corrupted(held));
    gpud_frame_release(&held);
    end(&ends);
}

/* --- lies ---------------------------------------------------------------------------------- */

static void expect_lie(struct ends *ends, const char *text)
{
    struct gpud_frame *frame = NULL;
    /* What a device sees first of a marker that jumped is its slot's next frame. */
    if (ends->writer.on_bus && gpud_target_acquire(ends->target, LONG, &frame, NULL) == GPUD_OK)
        gpud_frame_release(&frame);
    EXPECT(GPUD_PEER, text, gpud_target_acquire(ends->target, LONG, &frame, &e));
    for (unsigned i = 0; i < 3; i++)
        EXPECT(GPUD_PEER, text, gpud_target_acquire(ends->target, 0, &frame, &e));
    CHECK(strstr(info_now(ends).reason, text), "\"%s\"", info_now(ends).reason);
    end(ends);
}

static void test_lies(void)
{
    struct ends ends;
    start(&ends);
    bool words = !ends.writer.on_bus;
    end(&ends);

    if (words) {
        SAY("a marker that goes back");
        start(&ends);
        for (uint32_t i = 0; i < 6; i++) {
            writer_write(&ends.writer);
            expect(&ends, i, i ? 0 : GPUD_FRAME_DISCONTINUITY, 0);
        }
        writer_mark(&ends.writer, 1, 2);
        expect_lie(&ends, "of slot 1 went back from 6 to 2");

        SAY("a marker that is another slot's");
        start(&ends);
        writer_mark(&ends.writer, 1, 1);
        expect_lie(&ends, "belongs to slot 0");

        SAY("a marker beyond all numbers");
        start(&ends);
        writer_mark(&ends.writer, 3, UINT32_MAX - 3);
        expect_lie(&ends, "up to the marker");
    }

    SAY("markers that are far ahead of the others");
    static const uint32_t rounds[] = {2, 1000, 400000000};
    for (unsigned i = 0; i < 3; i++) {
        start(&ends);
        writer_mark(&ends.writer, 0, 1 + SLOTS * rounds[i]);
        expect_lie(&ends, "written in order");
    }

    SAY("a frame that is left out");
    start(&ends);
    writer_write(&ends.writer);
    expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    writer_mark(&ends.writer, 2, 3);
    expect_lie(&ends, "frame 1 before it");

    SAY("a marker that jumps while its frame is held");
    start(&ends);
    writer_write(&ends.writer);
    struct gpud_frame *held = take(&ends);
    writer_mark(&ends.writer, 0, 1 + SLOTS * 1000);
    struct gpud_frame *none = NULL;
    UNTIL(gpud_target_acquire(ends.target, 10 * GPUD_MSEC, &none, NULL) != GPUD_OK);
    gpud_frame_release(&held);
    end(&ends);
}

static void test_silence(void)
{
    struct ends ends;
    struct gpud_frame *none = NULL;
    SAY("a writer that never writes, and one that stops");
    start(&ends);
    int64_t before = gpud_now();
    EXPECT(GPUD_TIMEOUT, "is there a writer?",
           gpud_target_acquire(ends.target, 1200 * GPUD_MSEC, &none, &e));
    CHECK(gpud_now() - before >= 1200 * GPUD_MSEC, "too early");
    CHECK(strstr(info_now(&ends).reason, "no frame was written"), "\"%s\"", info_now(&ends).reason);
    CHECK(info_now(&ends).age_ns == GPUD_TIME_NONE, "there was no frame");
    writer_write(&ends.writer);
    expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    CHECK(info_now(&ends).reason[0] == '\0', "\"%s\"", info_now(&ends).reason);
    /* Half a picture is no frame. */
    writer_fill(&ends.writer, 1, 1, ends.writer.size / 2);
    EXPECT(GPUD_TIMEOUT, "does it run?",
           gpud_target_acquire(ends.target, 1200 * GPUD_MSEC, &none, &e));
    CHECK(strstr(info_now(&ends).reason, "has written no frame"), "\"%s\"", info_now(&ends).reason);
    EXPECT(GPUD_INVALID, "negative", gpud_target_acquire(ends.target, -1, &none, &e));
    writer_write(&ends.writer);
    expect(&ends, 1, 0, 0);
    end(&ends);
}

static void *interrupt_later(void *target)
{
    nanosleep(&(struct timespec){.tv_nsec = 100 * GPUD_MSEC}, NULL);
    gpud_target_interrupt(target, true);
    return NULL;
}

static void test_interrupt(void)
{
    struct ends ends;
    struct gpud_frame *none = NULL;
    pthread_t thread;
    SAY("a wait can be interrupted");
    start(&ends);
    pthread_create(&thread, NULL, interrupt_later, ends.target);
    EXPECT(GPUD_AGAIN, "interrupted", gpud_target_acquire(ends.target, LONG, &none, &e));
    pthread_join(thread, NULL);
    writer_write(&ends.writer);
    EXPECT(GPUD_AGAIN, "interrupted", gpud_target_acquire(ends.target, LONG, &none, &e));
    gpud_target_interrupt(ends.target, false);
    expect(&ends, 0, GPUD_FRAME_DISCONTINUITY, 0);
    end(&ends);
}

static void test_last_number(void)
{
    struct ends ends;
    struct gpud_frame *none = NULL;
    SAY("the numbers end before they wrap");
    start(&ends);
    end(&ends);
    memset(&ends, 0, sizeof(ends));
    start(&ends);
    ends.writer.number = GPUD_TARGET_FRAMES_MAX - 3;
    /* As if it had run for 414 days. */
    struct gpud_target_ring *ring = ends.target->ring;
    ring->posted = ring->next = ends.writer.number;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t number = ends.writer.number;
        writer_write(&ends.writer);
        expect(&ends, number, i ? 0 : GPUD_FRAME_DISCONTINUITY, 0);
    }
    EXPECT(GPUD_CLOSED, "make a new target", gpud_target_acquire(ends.target, 0, &none, &e));
    EXPECT(GPUD_CLOSED, "make a new target", gpud_target_acquire(ends.target, LONG, &none, &e));
    end(&ends);
}

static void test_params(void)
{
    struct ends ends;
    struct gpud_target *none = NULL;
    SAY("parameters that make no sense are refused");
    start(&ends);
    struct gpud_target_params params = ends.params;
    params.slots = 1;
    EXPECT(GPUD_INVALID, "2 to 32", gpud_target_create(ends.context, &params, &none, &e));
    params.slots = 33;
    EXPECT(GPUD_INVALID, "2 to 32", gpud_target_create(ends.context, &params, &none, &e));
    params.slots = 0;
    params.pace = 2;
    EXPECT(GPUD_INVALID, "not a pace", gpud_target_create(ends.context, &params, &none, &e));
    params.pace = 0;
    params.fps_den = 0;
    EXPECT(GPUD_INVALID, "frame rate", gpud_target_create(ends.context, &params, &none, &e));
    params = ends.params;
    params.layout = NULL;
    EXPECT(GPUD_INVALID, "layout", gpud_target_create(ends.context, &params, &none, &e));
    struct gpud_layout layout = ends.layout;
    layout.plane[0].rows = 1u << 30;
    params.layout = &layout;
    EXPECT(GPUD_INVALID, "", gpud_target_create(ends.context, &params, &none, &e));
    params = ends.params;
    params.device = "toaster";
    EXPECT(GPUD_INVALID, "not a device", gpud_target_create(ends.context, &params, &none, &e));
    if (ends.writer.on_bus) {
        params = ends.params;
        params.slots = 32;
        WORKS(gpud_layout_init(&layout, "UYVY", 7680, 4320, 0, &e));
        params.layout = &layout;
        EXPECT(GPUD_NO_MEMORY, "aperture", gpud_target_create(ends.context, &params, &none, &e));
    }
    end(&ends);
}

static void everything(void)
{
    test_frames();
    test_polite();
    test_lapped();
    test_overwritten();
    test_lies();
    test_silence();
    test_interrupt();
    test_last_number();
    test_params();
}

int main(int argc, char **argv)
{
    return run_twice(argc, argv, everything);
}
