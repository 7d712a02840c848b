/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The descriptor for event loops: readable when acquire has something to tell, and only then. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static int fd_of(struct bench *bench)
{
    int fd = -1;
    WORKS(gpud_capture_get_fd(bench->capture, &fd, &e));
    CHECK(fd >= 0, "no descriptor");
    return fd;
}

static bool is_readable(int fd, int milliseconds)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    return poll(&poller, 1, milliseconds) == 1;
}

#define READABLE(fd) CHECK(is_readable(fd, 0), "not readable")
#define NOT_READABLE(fd) CHECK(!is_readable(fd, 0), "readable")

/* Acquire has nothing to tell, and asking changes nothing. */
static void check_quiet(struct bench *bench, int fd)
{
    struct gpud_frame *frame;
    NOT_READABLE(fd);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench->capture, 0, &frame, &e));
    NOT_READABLE(fd);
}

static void put(struct bench *bench, uint32_t sequence)
{
    CHECK(fake_frame(&bench->driver, sequence, (unsigned char)sequence), "no buffer");
}

static struct gpud_frame *take(struct bench *bench)
{
    struct gpud_frame *frame = NULL;
    WORKS(gpud_capture_acquire(bench->capture, 0, &frame, &e));
    return frame;
}

static void configure(struct bench *bench)
{
    WORKS(configure_format(bench->capture, "UYVY", 320, 180, 0, 1, &e));
}

static void take_two(struct bench *bench, int fd)
{
    put(bench, 0);
    READABLE(fd);
    put(bench, 1);
    struct gpud_frame *first = take(bench);
    READABLE(fd);
    struct gpud_frame *second = take(bench);
    check_quiet(bench, fd);
    gpud_frame_release(&first);
    gpud_frame_release(&second);
    check_quiet(bench, fd);
}

static void test_frames(bool use_gpu, const char *method)
{
    struct bench bench = {.use_gpu = use_gpu, .method = method};
    bench_open(&bench);
    int fd = fd_of(&bench);
    struct gpud_frame *frame;
    NOT_READABLE(fd);
    EXPECT(GPUD_INVALID, "not configured", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    NOT_READABLE(fd);
    configure(&bench);
    check_quiet(&bench, fd);
    take_two(&bench, fd);
    CHECK_EQUAL(fd_of(&bench), fd);
    gpud_capture_destroy(&bench.capture);
    CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF, "left open");
    bench_close(&bench);
}

/* Frames from before the descriptor was requested count. */
static void test_asked_late(void)
{
    struct bench waits = {0};
    bench_stream(&waits);
    put(&waits, 0);
    READABLE(fd_of(&waits));
    bench_close(&waits);

    struct bench failed = {0};
    struct gpud_frame *frame;
    bench_stream(&failed);
    failed.driver.fault = (struct fake_fault){VIDIOC_DQBUF, 0, 0, 1, EIO};
    EXPECT(GPUD_IO, "", gpud_capture_acquire(failed.capture, 0, &frame, &e));
    READABLE(fd_of(&failed));
    bench_close(&failed);

    struct bench interrupted = {0};
    bench_stream(&interrupted);
    gpud_capture_interrupt(interrupted.capture, true);
    READABLE(fd_of(&interrupted));
    bench_close(&interrupted);
}

/* A process without a descriptor left is told so, and may ask again. */
static void test_no_descriptor(void)
{
    struct bench bench = {0};
    struct rlimit limit, none;
    int fd;
    bench_stream(&bench);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    none = limit;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    EXPECT(GPUD_NO_MEMORY, "epoll", gpud_capture_get_fd(bench.capture, &fd, &e));
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    take_two(&bench, fd_of(&bench));
    bench_close(&bench);
}

/* --- held frames --------------------------------------------------------------------------- */

static void test_all_held(bool use_gpu)
{
    struct bench bench = {.use_gpu = use_gpu, .slots = 2};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    put(&bench, 0);
    put(&bench, 1);
    struct gpud_frame *first = take(&bench), *second = take(&bench), *third;
    check_quiet(&bench, fd);

    /* The driver fills all that it has. */
    for (uint32_t i = 2; fake_frame(&bench.driver, i, (unsigned char)i); i++)
        NOT_READABLE(fd);
    gpud_frame_release(&first);
    READABLE(fd);
    third = take(&bench);
    bench_check_plane(third, 0, 2);
    NOT_READABLE(fd);
    EXPECT(GPUD_TIMEOUT, "holds all 2", gpud_capture_acquire(bench.capture, 0, &first, &e));
    NOT_READABLE(fd);
    gpud_frame_release(&second);
    gpud_frame_release(&third);
    while (is_readable(fd, 0)) {
        first = take(&bench);
        gpud_frame_release(&first);
    }
    check_quiet(&bench, fd);
    take_two(&bench, fd);

    /* That the driver ends is seen although no frame can be taken. */
    put(&bench, 0);
    put(&bench, 1);
    first = take(&bench);
    second = take(&bench);
    check_quiet(&bench, fd);
    fake_fail_poll(&bench.driver);
    READABLE(fd);
    EXPECT(GPUD_IO, "failed", gpud_capture_acquire(bench.capture, 0, &third, &e));
    gpud_frame_release(&first);
    gpud_frame_release(&second);
    READABLE(fd);
    bench_close(&bench);
}

/* A driver without a buffer shows an error to poll(): the loop sees none of it, and comes when
 * there are buffers to give back. */
static void test_all_in_flight(void)
{
    struct bench bench = {.use_gpu = true, .slots = 1};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    bench.gpu.manual = true;
    struct gpud_frame *frame;
    for (uint32_t i = 0; i < 3; i++) {
        put(&bench, i);
        frame = take(&bench);
        gpud_frame_release(&frame);
    }
    CHECK_EQUAL(fake_queued(&bench.driver), 0);
    CHECK(is_readable(bench.driver.fd, 0), "the fake shows no error");
    check_quiet(&bench, fd);

    fake_gpu_run(&bench.gpu, GPUD_OK);
    READABLE(fd);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    CHECK_EQUAL(fake_queued(&bench.driver), 3);
    check_quiet(&bench, fd);

    /* One of three: the driver can continue, and no thread is woken for it. */
    put(&bench, 3);
    frame = take(&bench);
    fake_gpu_run(&bench.gpu, GPUD_OK);
    CHECK_EQUAL(fake_queued(&bench.driver), 2);
    NOT_READABLE(fd);
    gpud_frame_release(&frame);
    bench.gpu.manual = false;
    check_quiet(&bench, fd);
    put(&bench, 4);
    READABLE(fd);
    frame = take(&bench);
    gpud_frame_release(&frame);
    check_quiet(&bench, fd);
    bench_close(&bench);
}

/* Refused buffers cause no repeated wakes; the loss of the last one does. */
static void test_refused_buffers(void)
{
    struct bench bench = {.slots = 1};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    struct gpud_frame *frame;
    bench.driver.fault = (struct fake_fault){VIDIOC_QBUF, 0, 0, 100, EINVAL};
    for (uint32_t i = 0; i < 2; i++) {
        put(&bench, i);
        frame = take(&bench);
        gpud_frame_release(&frame);
        check_quiet(&bench, fd);
    }
    put(&bench, 2);
    frame = take(&bench);
    NOT_READABLE(fd);
    gpud_frame_release(&frame);
    READABLE(fd);
    EXPECT(GPUD_IO, "none of its buffers", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    READABLE(fd);
    bench_close(&bench);
}

/* --- ends and beginnings ------------------------------------------------------------------- */

static void test_driver_fails(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    put(&bench, 0);
    struct gpud_frame *frame, *held = take(&bench);
    put(&bench, 1);
    bench.driver.fault = (struct fake_fault){VIDIOC_DQBUF, 0, 0, 1, EIO};
    READABLE(fd);
    for (int i = 0; i < 2; i++) {
        EXPECT(GPUD_IO, "start the capture again",
               gpud_capture_acquire(bench.capture, 0, &frame, &e));
        READABLE(fd);
    }
    configure(&bench);
    check_quiet(&bench, fd); /* although the old ring is still there, for its frame */
    gpud_frame_release(&held);
    take_two(&bench, fd);

    /* An error that only poll() shows: a loop that sees it is told so. */
    fake_fail_poll(&bench.driver);
    READABLE(fd);
    for (int i = 0; i < 2; i++) {
        EXPECT(GPUD_IO, "start the capture again",
               gpud_capture_acquire(bench.capture, 0, &frame, &e));
        READABLE(fd);
    }
    bench.driver.poll_error = false;
    configure(&bench);
    check_quiet(&bench, fd);
    take_two(&bench, fd);
    CHECK_EQUAL(fd_of(&bench), fd);
    bench_close(&bench);
}

static void test_unplugged(void)
{
    struct bench bench = {0};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    struct gpud_frame *frame;
    check_quiet(&bench, fd);
    fake_unplug(&bench.driver, true);
    READABLE(fd);
    for (int i = 0; i < 2; i++) {
        EXPECT(GPUD_NO_DEVICE, "unplugged", gpud_capture_acquire(bench.capture, 0, &frame, &e));
        READABLE(fd);
    }
    EXPECT(GPUD_NO_DEVICE, "there is no /dev/fake",
           configure_format(bench.capture, "UYVY", 320, 180, 0, 1, &e));
    NOT_READABLE(fd); /* there is no stream, which configure has said */
    fake_unplug(&bench.driver, false);
    configure(&bench);
    check_quiet(&bench, fd);
    take_two(&bench, fd);
    bench_close(&bench);
}

static void test_interrupt(void)
{
    struct bench bench = {0};
    bench_open(&bench);
    int fd = fd_of(&bench);
    struct gpud_frame *frame;
    gpud_capture_interrupt(bench.capture, true);
    READABLE(fd);
    gpud_capture_interrupt(bench.capture, false);
    NOT_READABLE(fd);

    configure(&bench);
    gpud_capture_interrupt(bench.capture, true);
    gpud_capture_interrupt(bench.capture, true);
    for (int i = 0; i < 2; i++) {
        READABLE(fd);
        EXPECT(GPUD_AGAIN, "interrupted",
               gpud_capture_acquire(bench.capture, GPUD_SEC, &frame, &e));
    }
    gpud_capture_interrupt(bench.capture, false);
    gpud_capture_interrupt(bench.capture, false);
    check_quiet(&bench, fd);
    take_two(&bench, fd);
    bench_close(&bench);
}

/* Nothing of the old configuration is left in the descriptor. */
static void test_configured_again(void)
{
    struct bench bench = {.slots = 2};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    put(&bench, 0);
    put(&bench, 1);
    struct gpud_frame *first = take(&bench), *second = take(&bench);
    put(&bench, 2);
    configure(&bench);
    check_quiet(&bench, fd);
    gpud_frame_release(&first);
    check_quiet(&bench, fd);
    take_two(&bench, fd);
    gpud_capture_destroy(&bench.capture);
    gpud_frame_release(&second);
    bench_close(&bench);
}

static void test_driver_keeps_buffers(void)
{
    struct bench bench = {.method = "mmap", .driver.keeps_mapped = true};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    put(&bench, 0);
    struct gpud_frame *held = take(&bench), *frame;
    EXPECT(GPUD_IO, "release them first",
           configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));
    READABLE(fd);
    EXPECT(GPUD_IO, "release them first", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    gpud_frame_release(&held);
    READABLE(fd);
    bench.driver.mapped = 0;
    configure(&bench);
    check_quiet(&bench, fd);
    bench_close(&bench);
}

/* --- another signal ------------------------------------------------------------------------ */

/* Frames are always there when the loop comes: it hears of another signal all the same, before it
 * takes a frame of that for one of the old. */
static void test_signal_while_busy(void)
{
    struct bench bench = {.driver = {.digital = true, .tells = true}};
    struct gpud_frame *frame;
    bench_prepare(&bench);
    fake_signal(&bench.driver, 640, 360, false, 0);
    WORKS(bench_create(&bench, &e));
    int fd = fd_of(&bench);
    bench.driver.events = 0;
    WORKS(configure_format(bench.capture, "UYVY", 640, 360, 0, 1, &e));
    put(&bench, 0);
    frame = take(&bench);
    gpud_frame_release(&frame);
    fake_signal(&bench.driver, 320, 180, false, 0);
    for (uint32_t i = 1; fake_frame(&bench.driver, i, 1); i++)
        ;
    READABLE(fd);
    EXPECT(GPUD_TIMEOUT, "", gpud_capture_acquire(bench.capture, 0, &frame, &e));
    put(&bench, 0);
    frame = take(&bench);
    CHECK_EQUAL(bench_info_of(frame).layout.width, 320);
    gpud_frame_release(&frame);
    check_quiet(&bench, fd);
    bench_close(&bench);
}

/* --- threads ------------------------------------------------------------------------------- */

struct traffic {
    struct bench *bench;
    atomic_bool over;
};

static void *generate(void *arg)
{
    struct traffic *traffic = arg;
    for (uint32_t i = 0; !atomic_load(&traffic->over); i++) {
        fake_frame(&traffic->bench->driver, i, 1);
        sched_yield();
    }
    return NULL;
}

static void *release(void *arg)
{
    struct gpud_frame *frame = arg;
    gpud_frame_release(&frame);
    return NULL;
}

/* However releases, frames and acquires meet, the loop is never left waiting. */
static void test_threads(bool use_gpu)
{
    struct bench bench = {.use_gpu = use_gpu, .slots = 2};
    bench_stream(&bench);
    int fd = fd_of(&bench);
    struct traffic traffic = {.bench = &bench};
    pthread_t generator, users[200];
    CHECK(pthread_create(&generator, NULL, generate, &traffic) == 0, "no thread");
    for (int i = 0; i < 200;) {
        struct gpud_frame *frame;
        struct gpud_error e;
        CHECK(is_readable(fd, 10000), "frame %d never comes", i);
        enum gpud_status status = gpud_capture_acquire(bench.capture, 0, &frame, &e);
        CHECK(status == GPUD_OK || status == GPUD_TIMEOUT, "%s", e.reason);
        if (status == GPUD_OK)
            CHECK(pthread_create(&users[i++], NULL, release, frame) == 0, "no thread");
    }
    for (int i = 0; i < 200; i++)
        pthread_join(users[i], NULL);
    atomic_store(&traffic.over, true);
    pthread_join(generator, NULL);
    bench_close(&bench);
}

int main(void)
{
    test_frames(false, "userptr");
    test_frames(false, "mmap");
    test_frames(true, NULL);
    test_asked_late();
    test_no_descriptor();
    test_all_held(false);
    test_all_held(true);
    test_all_in_flight();
    test_refused_buffers();
    test_driver_fails();
    test_unplugged();
    test_interrupt();
    test_configured_again();
    test_driver_keeps_buffers();
    test_signal_while_busy();
    test_threads(false);
    test_threads(true);
    puts("ok");
    return 0;
}
