/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames that a device copies into its own memory: when buffers go back to the driver, and what
 * happens when the device is slow, refuses or fails. */
#include "bench.h"
#include "frame/frame.h"

#include <errno.h>
#include <unistd.h>

static void check_bytes(const struct gpud_frame *frame, uint32_t i, unsigned char byte)
{
    struct gpud_frame_info info = bench_info_of(frame);
    const struct gpud_plane *plane = &info.layout.plane[i];
    const unsigned char *bytes = fake_gpu_bytes(bench_info_of(frame).memory);
    for (uint32_t row = 0; row < plane->rows; row++)
        for (uint32_t x = 0; x < plane->row_bytes; x++)
            CHECK(bytes[plane->offset + (uint64_t)row * plane->stride + x] == byte,
                  "plane %u row %u byte %u", i, row, x);
}

static void test_copies(const char *method)
{
    struct bench bench = {.use_gpu = true, .method = method, .slots = 2};
    bench_stream(&bench);
    for (uint32_t i = 0; i < 10; i++) {
        struct gpud_frame *frame = bench_pass(&bench, i, (unsigned char)i);
        CHECK(bench_info_of(frame).slot < 2, "slot %u", bench_info_of(frame).slot);
        CHECK(bench_info_of(frame).memory->device == bench.gpu.device, "not on the device");
        check_bytes(frame, 0, (unsigned char)i);
        gpud_frame_release(&frame);
    }
    struct gpud_capture_info info = bench_info(&bench);
    CHECK_EQUAL(info.copies_gpu, 10);
    CHECK_EQUAL(info.copies_cpu, 0);
    CHECK_EQUAL(info.frames, 10);
    CHECK_EQUAL(info.dropped, 0);
    bench_close(&bench);
}

/* A header before the first area is not copied along: on the device every frame lies alike. */
static void test_shifted(void)
{
    struct bench bench = {.use_gpu = true, .driver = {.multiplanar = true, .padding = 32}};
    bench_open(&bench);
    WORKS(configure_format(bench.capture, "I420", 320, 180, 0, 1, &e));
    for (uint32_t i = 0; i < 4; i++) {
        struct fake_word word = {.data_offset = i * 32};
        CHECK(fake_frame_with(&bench.driver, i, (unsigned char)(10 * i), &word), "no buffer");
        struct gpud_frame *frame = bench_acquire(&bench);
        struct gpud_frame_info info = bench_info_of(frame);
        CHECK_EQUAL(info.layout.plane[0].offset, 0);
        CHECK_EQUAL(info.flags, 0);
        for (uint32_t plane = 0; plane < 3; plane++)
            check_bytes(frame, plane, (unsigned char)(10 * i + plane));
        gpud_frame_release(&frame);
    }
    bench_close(&bench);
}

/* A frame is handed out before its bytes are there; its buffer goes back when they are, not
 * earlier. */
static void test_in_flight(void)
{
    struct bench bench = {.use_gpu = true, .slots = 2};
    bench_stream(&bench);
    bench.gpu.manual = true;
    CHECK_EQUAL(fake_queued(&bench.driver), 4);
    CHECK(fake_frame(&bench.driver, 0, 1), "no buffer");
    struct gpud_frame *first = bench_acquire(&bench), *second, *frame;
    CHECK_EQUAL(fake_queued(&bench.driver), 3);
    void *data;
    /* A frame that is passed on does not claim that its bytes have arrived, also through a second
     * one. */
    struct gpud_frame *again;
    struct gpud_queue *other;
    WORKS(gpud_queue_create(bench.gpu.device, &other, &e));
    CHECK(gpud_frame_wait(first, NULL, NULL) != GPUD_OK, "nothing is waited for");
    WORKS(gpud_frame_wrap_frame(first, NULL, NULL, NULL, &again, &e));
    CHECK(again->ops->wait(again, other, NULL) != GPUD_OK, "nothing is waited for");
    gpud_frame_release(&again);
    gpud_queue_unref(&other);
    EXPECT(GPUD_TIMEOUT, "stands still",
           gpud_frame_map(first, GPUD_READ, 20 * GPUD_MSEC, &data, &e));
    CHECK(fake_frame(&bench.driver, 1, 2), "no buffer");
    second = bench_acquire(&bench);
    CHECK_EQUAL(fake_queued(&bench.driver), 2);
    EXPECT(GPUD_TIMEOUT, "holds all 2", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    CHECK_EQUAL(fake_queued(&bench.driver), 2);

    fake_gpu_run(&bench.gpu, GPUD_OK);
    check_bytes(first, 0, 1);
    check_bytes(second, 0, 2);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    CHECK_EQUAL(fake_queued(&bench.driver), 4);

    /* Both slots are held: the next frame has no place. */
    CHECK(fake_frame(&bench.driver, 2, 3), "no buffer");
    EXPECT(GPUD_TIMEOUT, "holds all 2", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    bench.gpu.manual = false;
    gpud_frame_release(&first);
    CHECK_EQUAL(fake_queued(&bench.driver), 4);
    frame = bench_pass(&bench, 3, 4);
    CHECK_EQUAL(bench_info_of(frame).sequence, 4);
    bench_check_plane(second, 0, 2);
    gpud_frame_release(&frame);
    gpud_frame_release(&second);
    bench_close(&bench);
}

static void *run_later(void *arg)
{
    usleep(100000);
    fake_gpu_run(arg, GPUD_OK);
    return NULL;
}

/* The end waits for copies under way; memory that a copy uses is not freed (fake_gpu.c checks it).
 */
static void test_end_waits(void)
{
    struct bench bench = {.use_gpu = true, .method = "mmap"};
    bench_stream(&bench);
    bench.gpu.manual = true;
    CHECK(fake_frame(&bench.driver, 0, 1), "no buffer");
    struct gpud_frame *frame = bench_acquire(&bench);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_later, &bench.gpu) == 0, "no thread");
    int64_t begin = gpud_now();
    gpud_capture_destroy(&bench.capture);
    CHECK(gpud_now() - begin >= 50 * GPUD_MSEC && gpud_now() - begin < 4 * GPUD_SEC, "took %lld ms",
          (long long)((gpud_now() - begin) / GPUD_MSEC));
    pthread_join(thread, NULL);
    bench_check_plane(frame, 0, 1);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

/* A completion wakes an acquire that waits where the driver has too few buffers to wait for the
 * next frame with that. */
static void test_completion_wakes(void)
{
    struct bench bench = {.use_gpu = true, .slots = 1, .driver.fewer = 1};
    bench_stream(&bench);
    bench.gpu.manual = true;
    CHECK(fake_frame(&bench.driver, 0, 1), "no buffer");
    struct gpud_frame *held = bench_acquire(&bench), *frame;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_later, &bench.gpu) == 0, "no thread");
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, 300 * GPUD_MSEC, &frame, &e));
    CHECK_EQUAL(fake_queued(&bench.driver), 2);
    pthread_join(thread, NULL);
    gpud_frame_release(&held);
    bench_close(&bench);
}

/* A driver whose every buffer is still being copied from shows an error to poll(): it has not
 * failed. */
static void test_all_in_flight(void)
{
    struct bench bench = {.use_gpu = true, .slots = 1};
    bench_stream(&bench);
    bench.gpu.manual = true;
    struct gpud_frame *frame;
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(fake_frame(&bench.driver, i, (unsigned char)i), "no buffer");
        frame = bench_acquire(&bench);
        gpud_frame_release(&frame);
    }
    CHECK_EQUAL(fake_queued(&bench.driver), 0);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, 20 * GPUD_MSEC, &frame, &e));
    fake_gpu_run(&bench.gpu, GPUD_OK);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    CHECK_EQUAL(fake_queued(&bench.driver), 3);
    bench.gpu.manual = false;
    frame = bench_pass(&bench, 3, 3);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

static void test_device_refuses(void)
{
    /* Pages of the driver's that the device cannot see: the CPU carries them. */
    struct bench bounced = {.use_gpu = true, .method = "mmap"};
    bench_open(&bounced);
    bounced.gpu.refused_wraps = 1000;
    EXPECT(GPUD_UNSUPPORTED, "cannot be pinned",
           configure_format(bounced.capture, "UYVY", 320, 180, 0, 1, &e));
    bounced.gpu.refused_wraps = 1; /* the first buffer's own pages */
    WORKS(configure_format(bounced.capture, "UYVY", 320, 180, 0, 1, &e));
    struct gpud_frame *frame = bench_pass(&bounced, 0, 77);
    CHECK_EQUAL(bench_info(&bounced).copies_cpu, 1);
    CHECK_EQUAL(bench_info(&bounced).copies_gpu, 1);
    gpud_frame_release(&frame);
    frame = bench_pass(&bounced, 1, 78);
    gpud_frame_release(&frame);
    bench_close(&bounced);

    struct bench broken = {.use_gpu = true};
    bench_stream(&broken);
    broken.gpu.fail_copies = 1;
    CHECK(fake_frame(&broken.driver, 0, 1), "no buffer");
    EXPECT(GPUD_IO, "fell off the bus", gpud_capture_acquire(broken.capture, 0, &frame, &e));
    EXPECT(GPUD_IO, "fell off the bus", gpud_capture_acquire(broken.capture, 0, &frame, &e));
    WORKS(configure_format(broken.capture, "UYVY", 320, 180, 0, 1, &e));
    broken.gpu.fail_completes = 1;
    CHECK(fake_frame(&broken.driver, 0, 1), "no buffer");
    EXPECT(GPUD_NO_MEMORY, "callback", gpud_capture_acquire(broken.capture, 0, &frame, &e));
    bench_close(&broken);
}

static void test_copy_fails(void)
{
    struct bench bench = {.use_gpu = true};
    bench_stream(&bench);
    bench.gpu.manual = true;
    CHECK(fake_frame(&bench.driver, 0, 1), "no buffer");
    struct gpud_frame *frame = bench_acquire(&bench), *next;
    fake_gpu_run(&bench.gpu, GPUD_IO);
    CHECK(fake_frame(&bench.driver, 1, 2), "no buffer");
    EXPECT(GPUD_IO, "a copy on fake:0 failed", gpud_capture_acquire(bench.capture, 0, &next, &e));
    gpud_frame_release(&frame);
    bench.gpu.manual = false;
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    frame = bench_pass(&bench, 0, 3);
    gpud_frame_release(&frame);
    bench_close(&bench);
}

/* Only the last holder gives a frame back, be it a slot or the driver's own buffer. */
static void test_holders(bool use_gpu)
{
    struct bench bench = {.use_gpu = use_gpu, .slots = 1};
    bench_stream(&bench);
    uint32_t buffers = fake_queued(&bench.driver);
    struct gpud_frame *frame = bench_pass(&bench, 0, 1), *second = gpud_frame_ref(frame), *next;
    gpud_frame_release(&frame);
    EXPECT(GPUD_TIMEOUT, "holds all 1", gpud_capture_acquire(bench.capture, 0, &next, &e));
    CHECK_EQUAL(fake_queued(&bench.driver), use_gpu ? buffers : buffers - 1);
    bench_check_plane(second, 0, 1);
    gpud_frame_release(&second);
    CHECK_EQUAL(fake_queued(&bench.driver), buffers);
    /* The next one is its holder's alone. */
    for (uint32_t i = 1; i < buffers + 2; i++) {
        frame = bench_pass(&bench, i, (unsigned char)i);
        CHECK_EQUAL(bench_info_of(frame).flags, 0);
        gpud_frame_release(&frame);
    }
    bench_close(&bench);
}

int main(void)
{
    test_copies("userptr");
    test_copies("mmap");
    test_shifted();
    test_in_flight();
    test_end_waits();
    test_completion_wakes();
    test_all_in_flight();
    test_device_refuses();
    test_copy_fails();
    test_holders(false);
    test_holders(true);
    puts("ok");
    return 0;
}
