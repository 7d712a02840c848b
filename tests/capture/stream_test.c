/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames in place: what is said of them, how many may be held, how a stream ends and begins again.
 */
#include "bench.h"

#include <errno.h>
#include <unistd.h>

static void test_what_is_said(void)
{
    struct bench bench = {0};
    bench_open(&bench);
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 25, 1, &e));
    uint64_t before = (uint64_t)gpud_now(), started = bench_info(&bench).started_ns;
    CHECK(started && started <= before && before - started < GPUD_SEC, "started at %llu",
          (unsigned long long)started);
    struct gpud_frame *frame = bench_pass(&bench, 12, 5);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.sequence, 1);
    CHECK_EQUAL(info.pts_ns, bench.driver.stamped);
    CHECK_EQUAL(info.dts_ns, GPUD_TIME_NONE);
    CHECK_EQUAL(info.duration_ns, 40000000);
    CHECK_EQUAL(info.offset, 12); /* the driver's number */
    CHECK_EQUAL(info.flags, 0);
    CHECK_EQUAL(info.epoch, 1);
    CHECK(info.submitted_ns >= before && info.submitted_ns <= (uint64_t)gpud_now(),
          "the time of dequeue");
    CHECK_EQUAL(info.layout.plane[0].row_bytes, 640);
    CHECK(bench_info_of(frame).slot < 6, "slot %u", bench_info_of(frame).slot);
    gpud_frame_release(&frame);

    /* A clock that is not the monotonic one gives no time. */
    bench.driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_UNKNOWN;
    frame = bench_pass(&bench, 13, 6);
    CHECK_EQUAL(bench_info_of(frame).pts_ns, GPUD_TIME_NONE);
    gpud_frame_release(&frame);
    CHECK(!bench_info(&bench).monotonic, "monotonic");

    /* Nor does one that is called so: before the stream, or in the time to come. */
    bench.driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    static const int64_t shifts[] = {-3600 * GPUD_SEC, 3600 * GPUD_SEC, INT64_MAX / 2, 0};
    for (uint32_t i = 0; i < 4; i++) {
        bench.driver.stamp_shift = shifts[i];
        frame = bench_pass(&bench, 14 + i, 7);
        CHECK_EQUAL(bench_info_of(frame).pts_ns, shifts[i] ? GPUD_TIME_NONE : bench.driver.stamped);
        gpud_frame_release(&frame);
        CHECK_EQUAL(bench_info(&bench).monotonic, !shifts[i]);
    }

    CHECK(!bench_info(&bench).stamps_start, "no start was stamped");
    bench.driver.stamp |= V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    frame = bench_pass(&bench, 18, 8);
    gpud_frame_release(&frame);
    CHECK(bench_info(&bench).stamps_start, "it is the start of exposure");
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 25, 1, &e));
    CHECK(bench_info(&bench).stamps_start, "known before the first frame");
    CHECK_EQUAL(bench_info(&bench).copies_cpu + bench_info(&bench).copies_gpu, 0);
    bench_close(&bench);
}

static void check_step(struct bench *bench, uint32_t driver_sequence, uint64_t sequence,
                       uint64_t dropped, bool discontinuity)
{
    struct gpud_frame *frame = bench_pass(bench, driver_sequence, (unsigned char)driver_sequence);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.sequence, sequence);
    CHECK_EQUAL(info.dropped, dropped);
    CHECK_EQUAL(info.flags, discontinuity ? GPUD_FRAME_DISCONTINUITY : 0);
    CHECK_EQUAL(bench_info(bench).dropped, dropped);
    gpud_frame_release(&frame);
}

static void test_gaps(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    check_step(&bench, 0xfffffffd, 1, 0, false);
    check_step(&bench, 0xfffffffe, 2, 0, false);
    check_step(&bench, 0, 4, 1, true); /* 0xffffffff is missing */
    check_step(&bench, 1, 5, 1, false);
    check_step(&bench, 11, 15, 10, true);
    check_step(&bench, 11, 16, 10, false); /* a driver that does not count */
    check_step(&bench, 3, 17, 10, true);   /* or began anew */
    check_step(&bench, 4, 18, 10, false);
    CHECK_EQUAL(bench_info(&bench).frames, 8);
    bench_close(&bench);
}

static void check_word(struct bench *bench, const struct fake_word *word, bool corrupted)
{
    static uint32_t sequence;
    uint64_t so_far = bench_info(bench).corrupted;
    CHECK(fake_frame_with(&bench->driver, sequence++, 1, word), "no buffer");
    struct gpud_frame *frame = bench_acquire(bench);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.flags, corrupted ? GPUD_FRAME_CORRUPTED : 0);
    CHECK_EQUAL(bench_info(bench).corrupted, so_far + corrupted);
    WORKS(gpud_layout_check(&info.layout, &e));
    gpud_frame_release(&frame);
}

static void test_corrupted(void)
{
    struct bench bench = {.driver.padding = 32};
    bench_stream(&bench);
    check_word(&bench, &(struct fake_word){0}, false);
    check_word(&bench, &(struct fake_word){.flags = V4L2_BUF_FLAG_ERROR}, true);
    check_word(&bench, &(struct fake_word){.missing = 32}, false); /* behind the last row */
    check_word(&bench, &(struct fake_word){.missing = 33}, true);
    check_word(&bench, &(struct fake_word){.missing = 672 * 180}, true);
    check_word(&bench, &(struct fake_word){0}, false);
    bench_close(&bench);

    /* A picture that would begin so late that it leaves its area: it is not where the driver says.
     */
    struct bench multi = {.driver.multiplanar = true};
    bench_stream(&multi);
    check_word(&multi, &(struct fake_word){.data_offset = 128}, false);
    check_word(&multi, &(struct fake_word){.data_offset = 129}, true);
    check_word(&multi, &(struct fake_word){.data_offset = UINT32_MAX}, true);
    check_word(&multi, &(struct fake_word){.data_offset = 64, .missing = 65}, true);
    bench_close(&multi);
}

/* --- holding ------------------------------------------------------------------------------- */

static void test_all_held(const char *method)
{
    struct bench bench = {.slots = 3, .method = method};
    bench_stream(&bench);
    struct gpud_frame *held[3], *frame;
    for (uint32_t i = 0; i < 3; i++)
        held[i] = bench_pass(&bench, i, (unsigned char)i);
    CHECK_EQUAL(fake_queued(&bench.driver), 2);

    /* Two are filled and go back; the driver has two, always. */
    for (uint32_t i = 3; i < 9; i++) {
        CHECK(fake_frame(&bench.driver, i, (unsigned char)i), "the driver ran dry");
        EXPECT(GPUD_TIMEOUT, "holds all 3 frames",
               gpud_capture_acquire(bench.capture, 0, &frame, &e));
        CHECK(fake_queued(&bench.driver) >= 1, "the driver runs dry");
    }
    for (uint32_t i = 0; i < 3; i++)
        bench_check_plane(held[i], 0, (unsigned char)i);
    CHECK_EQUAL(bench_info(&bench).dropped, 6);

    gpud_frame_release(&held[1]);
    CHECK_EQUAL(fake_queued(&bench.driver), 3);
    frame = bench_pass(&bench, 9, 9);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.sequence, 10);
    CHECK_EQUAL(info.flags, GPUD_FRAME_DISCONTINUITY);
    gpud_frame_release(&frame);
    gpud_frame_release(&held[0]);
    gpud_frame_release(&held[2]);
    CHECK_EQUAL(fake_queued(&bench.driver), 5);
    bench_close(&bench);
}

static void *release_later(void *arg)
{
    usleep(100000);
    gpud_frame_release(arg);
    return NULL;
}

/* A release in another thread lets a waiting acquire go on. */
static void test_release_wakes(void)
{
    struct bench bench = {.slots = 1};
    bench_stream(&bench);
    struct gpud_frame *held = bench_pass(&bench, 0, 1), *frame;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, release_later, &held) == 0, "no thread");
    int64_t begin = gpud_now();
    EXPECT(GPUD_TIMEOUT, "is there a signal",
           gpud_capture_acquire(bench.capture, 300 * GPUD_MSEC, &frame, &e));
    CHECK(gpud_now() - begin >= 300 * GPUD_MSEC && gpud_now() - begin < 2 * GPUD_SEC,
          "took %lld ms", (long long)((gpud_now() - begin) / GPUD_MSEC));
    pthread_join(thread, NULL);
    CHECK_EQUAL(fake_queued(&bench.driver), 3);
    frame = bench_pass(&bench, 1, 2);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

static void test_few_buffers(void)
{
    struct bench bench = {.driver.fewer = 3};
    bench_stream(&bench); /* 3 of 6 buffers: one can be held */
    struct gpud_frame *first = bench_pass(&bench, 0, 1), *frame;
    CHECK(fake_frame(&bench.driver, 1, 2), "no buffer");
    EXPECT(GPUD_TIMEOUT, "all 1 frames", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    gpud_frame_release(&first);
    bench_close(&bench);

    struct bench one = {.slots = 1, .driver.fewer = 2};
    bench_open(&one);
    EXPECT(GPUD_IO, "made 1 buffers", configure_format(one.capture, "UYVY", 320, 180, 0, 1, &e));
    bench_close(&one);
}

/* --- the driver and its buffers ------------------------------------------------------------ */

static void test_refused_buffers(void)
{
    struct bench bench = {.slots = 1};
    bench_stream(&bench);
    struct gpud_frame *frame = bench_pass(&bench, 0, 1);
    bench.driver.fault = (struct fake_fault){VIDIOC_QBUF, 0, 0, 1, EINVAL};
    gpud_frame_release(&frame);
    CHECK_EQUAL(fake_queued(&bench.driver), 2);
    frame = bench_pass(&bench, 1, 2); /* offers it again */
    CHECK_EQUAL(fake_queued(&bench.driver), 2);
    gpud_frame_release(&frame);
    CHECK_EQUAL(fake_queued(&bench.driver), 3);

    bench.driver.fault = (struct fake_fault){VIDIOC_QBUF, 0, 0, 100, EINVAL};
    for (uint32_t i = 2; i < 5; i++) {
        frame = bench_pass(&bench, i, 3);
        gpud_frame_release(&frame);
    }
    EXPECT(GPUD_IO, "none of its buffers", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench.driver.fault.times = 0;
    EXPECT(GPUD_IO, "none of its buffers", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    frame = bench_pass(&bench, 0, 4);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

static void test_interrupted_calls(void)
{
    struct bench bench = {0};
    bench_prepare(&bench);
    bench.driver.fault = (struct fake_fault){0, 0, 0, 3, EINTR};
    WORKS(bench_create(&bench, &e));
    bench.driver.fault = (struct fake_fault){VIDIOC_QBUF, 0, 0, 3, EINTR};
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    CHECK(strcmp(bench_info(&bench).path, "v4l2-userptr") == 0, "%s", bench_info(&bench).path);
    bench.driver.fault = (struct fake_fault){VIDIOC_DQBUF, 0, 0, 3, EINTR};
    struct gpud_frame *frame = bench_pass(&bench, 0, 1);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

static void test_driver_lies(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    struct gpud_frame *frame, *held = bench_pass(&bench, 0, 1);
    bench.driver.lies_index = 1000;
    CHECK(fake_frame(&bench.driver, 1, 2), "no buffer");
    EXPECT(GPUD_IO, "did not have", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench.driver.lies_index = 0;
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    gpud_frame_release(&held);

    /* Buffer 1 comes, and is called 0, which is held. */
    held = bench_pass(&bench, 0, 1);
    CHECK_EQUAL(bench_info_of(held).slot, 0);
    bench.driver.lies_index = UINT32_MAX;
    CHECK(fake_frame(&bench.driver, 1, 2), "no buffer");
    EXPECT(GPUD_IO, "buffer 0", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    gpud_frame_release(&held);
    bench_close(&bench);
}

/* --- ends and beginnings ------------------------------------------------------------------- */

static void test_driver_fails(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    struct gpud_frame *frame, *held = bench_pass(&bench, 0, 1);
    bench.driver.fault = (struct fake_fault){VIDIOC_DQBUF, 0, 0, 1, EIO};
    EXPECT(GPUD_IO, "start the capture again",
           gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    EXPECT(GPUD_IO, "start the capture again",
           gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    bench_check_plane(held, 0, 1);
    WORKS(configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));

    /* The old frame's place is not in the new ring. */
    bench_check_plane(held, 0, 1);
    CHECK_EQUAL(fake_queued(&bench.driver), 6);
    gpud_frame_release(&held);
    CHECK_EQUAL(fake_queued(&bench.driver), 6);
    frame = bench_pass(&bench, 0, 2);
    struct gpud_frame_info info = bench_info_of(frame);
    CHECK_EQUAL(info.layout.width, 640);
    CHECK_EQUAL(info.epoch, 2);
    CHECK_EQUAL(info.sequence, 2);
    CHECK_EQUAL(info.flags, GPUD_FRAME_DISCONTINUITY);
    gpud_frame_release(&frame);

    /* An error that only poll() shows. */
    fake_fail_poll(&bench.driver);
    EXPECT(GPUD_IO, "start the capture again",
           gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    bench_close(&bench);
}

static void *unplug_later(void *arg)
{
    usleep(100000);
    fake_unplug(arg, true);
    return NULL;
}

static void test_unplugged(void)
{
    struct bench bench = {.method = "mmap"};
    bench_stream(&bench);
    struct gpud_frame *frame, *held = bench_pass(&bench, 0, 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, unplug_later, &bench.driver) == 0, "no thread");
    int64_t begin = gpud_now();
    EXPECT(GPUD_NO_DEVICE, "unplugged",
           gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
    CHECK(gpud_now() - begin < 5 * GPUD_SEC, "noticed too late");
    pthread_join(thread, NULL);
    EXPECT(GPUD_NO_DEVICE, "unplugged", gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    bench_check_plane(held, 0, 1);
    gpud_frame_release(&held);
    EXPECT(GPUD_NO_DEVICE, "there is no /dev/fake",
           configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    EXPECT(GPUD_INVALID, "not configured", gpud_capture_acquire(bench.capture, 0, &frame, &e));

    /* Plugged in again. */
    fake_unplug(&bench.driver, false);
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    frame = bench_pass(&bench, 0, 9);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

static void *interrupt_later(void *arg)
{
    usleep(100000);
    gpud_capture_interrupt(arg, true);
    return NULL;
}

static void test_interrupt(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    struct gpud_frame *frame;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, interrupt_later, bench.capture) == 0, "no thread");
    int64_t begin = gpud_now();
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
    int64_t took = gpud_now() - begin;
    CHECK(took < GPUD_SEC, "took %lld ms", (long long)(took / GPUD_MSEC));
    pthread_join(thread, NULL);
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
    gpud_capture_interrupt(bench.capture, false);
    frame = bench_pass(&bench, 0, 1);
    gpud_frame_release(&frame);
    begin = gpud_now();
    EXPECT(GPUD_TIMEOUT, "/dev/fake",
           gpud_capture_acquire(bench.capture, 50 * GPUD_MSEC, &frame, &e));
    CHECK(gpud_now() - begin >= 50 * GPUD_MSEC, "a leftover of the interrupt cut the wait short");
    EXPECT(GPUD_INVALID, "negative", gpud_capture_acquire(bench.capture, -1, &frame, &e));
    bench_close(&bench);
}

static void test_frames_outlive(const char *method)
{
    struct bench bench = {.method = method};
    bench_stream(&bench);
    struct gpud_frame *first = bench_pass(&bench, 0, 1), *second = bench_pass(&bench, 1, 2);
    gpud_capture_destroy(&bench.capture);
    CHECK_EQUAL(bench.driver.opened, 0);
    bench_check_plane(first, 0, 1);
    bench_check_plane(second, 0, 2);
    gpud_frame_release(&second);
    bench_check_plane(first, 0, 1);
    gpud_frame_release(&first);
    gpud_frame_release(&first);
    gpud_capture_destroy(&bench.capture);
    bench_close(&bench);
}

/* An old driver keeps its buffers while one of them is mapped. */
static void test_old_driver(void)
{
    struct bench bench = {.method = "mmap", .driver.keeps_mapped = true};
    bench_stream(&bench);
    struct gpud_frame *held = bench_pass(&bench, 0, 1);
    EXPECT(GPUD_IO, "release them first",
           configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));
    gpud_frame_release(&held);
    bench.driver.mapped = 0;
    WORKS(configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));
    bench_close(&bench);
}

/* Such a driver after a stop: while frames are held no mode can be set, which says how many they
 * are; with the last one the driver gets its buffers back, without a call of the application's. */
static void test_stop_of_an_old_driver(void)
{
    struct bench bench = {.method = "mmap", .driver.keeps_mapped = true};
    bench_stream(&bench);
    struct gpud_frame *first = bench_pass(&bench, 0, 1), *second = bench_pass(&bench, 1, 2);
    gpud_capture_stop(bench.capture);
    CHECK(!bench.driver.streaming && bench.driver.count, "the driver has its buffers back");
    EXPECT(GPUD_IO, "2 frames that are still held",
           configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));
    gpud_frame_release(&first);
    EXPECT(GPUD_IO, "1 frame that are still held",
           configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));
    CHECK(bench.driver.count, "the driver has its buffers back");
    bench_check_plane(second, 0, 2);
    bench.driver.mapped = 0;
    gpud_frame_release(&second);
    CHECK(!bench.driver.count, "the driver keeps its buffers when no frame is held");
    WORKS(configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));

    /* The capture ends before its frames: its node is closed, and the driver is not called. */
    first = bench_pass(&bench, 0, 3);
    gpud_capture_stop(bench.capture);
    gpud_capture_destroy(&bench.capture);
    uint64_t calls = bench.driver.calls;
    bench_check_plane(first, 0, 3);
    gpud_frame_release(&first);
    CHECK_EQUAL(bench.driver.calls, calls);
    bench_close(&bench);
}

/* --- releases from many threads while frames flow ------------------------------------------ */

struct traffic {
    struct bench *bench;
    atomic_bool over;
};

static void *generate(void *arg)
{
    struct traffic *traffic = arg;
    for (uint32_t i = 0; !atomic_load(&traffic->over); i++) {
        fake_frame(&traffic->bench->driver, i, (unsigned char)(i % 251));
        usleep(200);
    }
    return NULL;
}

static void *use_and_release(void *arg)
{
    struct gpud_frame *frame = arg;
    struct gpud_frame_info info = bench_info_of(frame);
    bench_check_plane(frame, 0, (unsigned char)((info.sequence - 1) % 251));
    gpud_frame_release(&frame);
    return NULL;
}

static void test_threads(void)
{
    struct bench bench = {.slots = 4};
    bench_stream(&bench);
    struct traffic traffic = {.bench = &bench};
    pthread_t generator, users[100];
    CHECK(pthread_create(&generator, NULL, generate, &traffic) == 0, "no thread");
    uint64_t last = 0, gaps = 0;
    for (int i = 0; i < 100; i++) {
        struct gpud_frame *frame = bench_acquire(&bench);
        struct gpud_frame_info info = bench_info_of(frame);
        CHECK(info.sequence > last, "%llu after %llu", (unsigned long long)info.sequence,
              (unsigned long long)last);
        gaps += last ? info.sequence - last - 1 : 0;
        last = info.sequence;
        CHECK(pthread_create(&users[i], NULL, use_and_release, frame) == 0, "no thread");
    }
    for (int i = 0; i < 100; i++)
        pthread_join(users[i], NULL);
    CHECK_EQUAL(bench_info(&bench).dropped, gaps);
    atomic_store(&traffic.over, true);
    pthread_join(generator, NULL);
    bench_close(&bench);
}

int main(void)
{
    test_what_is_said();
    test_gaps();
    test_corrupted();
    test_all_held("userptr");
    test_all_held("mmap");
    test_release_wakes();
    test_few_buffers();
    test_refused_buffers();
    test_interrupted_calls();
    test_driver_lies();
    test_driver_fails();
    test_unplugged();
    test_interrupt();
    test_frames_outlive("userptr");
    test_frames_outlive("mmap");
    test_old_driver();
    test_stop_of_an_old_driver();
    test_threads();
    puts("ok");
    return 0;
}
