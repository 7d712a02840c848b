/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a frame costs in system calls: one poll, one DQBUF, one QBUF, and no wake-up of one thread
 * by another. Counted, not timed: by the fake driver, and by wrapped reads and writes of
 * descriptors. */
#include "bench.h"

#include <unistd.h>

#define FRAMES 50

/* Wrapped. */
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __wrap_read(int fd, void *data, size_t size);

/* By an eventfd: 8 bytes. The fake driver's own pipe passes single ones. */
static atomic_uint wakes;

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    wakes += size == 8;
    return __real_write(fd, data, size);
}

ssize_t __wrap_read(int fd, void *data, size_t size)
{
    wakes += size == 8;
    return __real_read(fd, data, size);
}

struct counts {
    uint32_t calls, polls, dequeues, wakes;
};

static struct counts count(struct bench *bench)
{
    pthread_mutex_lock(&bench->driver.lock);
    struct counts counts = {bench->driver.calls, bench->driver.polls, bench->driver.dequeues,
                            wakes};
    pthread_mutex_unlock(&bench->driver.lock);
    return counts;
}

static void check(struct bench *bench, struct counts before, uint32_t polls)
{
    struct counts now = count(bench);
    CHECK_EQUAL(now.wakes - before.wakes, 0);
    CHECK_EQUAL(now.dequeues - before.dequeues, FRAMES);
    CHECK_EQUAL(now.calls - before.calls, 2 * FRAMES); /* and QBUF */
    CHECK_EQUAL(now.polls - before.polls, polls);
}

/* --- a frame that is waited for, and whose predecessor another thread gives back meanwhile -- */

struct downstream {
    struct bench *bench;
    pthread_mutex_t lock;
    struct gpud_frame *frame; /* to give back */
    uint32_t polls;           /* that the driver has seen when the next acquire waits */
    bool with_gpu;
};

static void await_poll(struct downstream *down, uint32_t polls)
{
    int64_t deadline = gpud_deadline(30 * GPUD_SEC);
    while (count(down->bench).polls < polls) {
        CHECK(gpud_now() < deadline, "the acquire does not wait");
        usleep(100);
    }
}

static void *give_back(void *arg)
{
    struct downstream *down = arg;
    for (uint32_t i = 0; i < FRAMES; i++) {
        await_poll(down, down->polls + i + 1);
        pthread_mutex_lock(&down->lock);
        struct gpud_frame *frame = down->frame;
        down->frame = NULL;
        pthread_mutex_unlock(&down->lock);
        if (down->with_gpu)
            fake_gpu_run(&down->bench->gpu, GPUD_OK);
        gpud_frame_release(&frame);
        CHECK(fake_frame(&down->bench->driver, i, (unsigned char)i), "no buffer");
    }
    return NULL;
}

static void test_waited(bool with_gpu, const char *method, bool tells)
{
    struct bench bench = {
        .use_gpu = with_gpu, .method = method, .driver = {.takes_dmabufs = true, .tells = tells}};
    bench_stream(&bench);
    bench.gpu.manual = with_gpu;
    struct counts before = count(&bench);
    struct downstream down = {.bench = &bench, .polls = before.polls, .with_gpu = with_gpu};
    pthread_t thread;
    pthread_mutex_init(&down.lock, NULL);
    CHECK(pthread_create(&thread, NULL, give_back, &down) == 0, "no thread");
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = NULL;
        WORKS(gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
        pthread_mutex_lock(&down.lock);
        down.frame = frame;
        pthread_mutex_unlock(&down.lock);
    }
    pthread_join(thread, NULL);
    if (with_gpu)
        fake_gpu_run(&bench.gpu, GPUD_OK);
    gpud_frame_release(&down.frame); /* whose QBUF makes as many as frames */
    check(&bench, before, FRAMES);
    CHECK_EQUAL(fake_queued(&bench.driver), 6);
    pthread_mutex_destroy(&down.lock);
    bench_close(&bench);
}

/* The ring's own descriptor is polled only while a frame is held, since only those come back. */
static void test_held(bool held, uint32_t polled)
{
    struct bench bench = {0};
    struct gpud_frame *kept = NULL;
    bench_stream(&bench);
    if (held) {
        CHECK(fake_frame(&bench.driver, 0, 1), "no buffer");
        WORKS(gpud_capture_acquire(bench.capture, 0, &kept, &e));
    }
    uint32_t before = bench.driver.polled;
    for (uint32_t i = 1; i <= FRAMES; i++) {
        struct gpud_frame *frame = NULL;
        CHECK(fake_frame(&bench.driver, i, 1), "no buffer");
        WORKS(gpud_capture_acquire(bench.capture, 30 * GPUD_SEC, &frame, &e));
        gpud_frame_release(&frame);
    }
    CHECK_EQUAL(bench.driver.polled - before, FRAMES * polled);
    gpud_frame_release(&kept);
    bench_close(&bench);
}

/* --- a frame that is there ----------------------------------------------------------------- */

/* As an event loop takes it: no poll at all, nor a question after events. */
static void test_there(bool tells)
{
    struct bench bench = {.driver.tells = tells};
    bench_stream(&bench);
    struct counts before = count(&bench);
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = NULL;
        CHECK(fake_frame(&bench.driver, i, 1), "no buffer");
        WORKS(gpud_capture_acquire(bench.capture, 0, &frame, &e));
        gpud_frame_release(&frame);
    }
    check(&bench, before, 0);
    bench_close(&bench);
}

int main(void)
{
    test_there(false);
    test_there(true);
    test_waited(false, "userptr", false);
    test_waited(false, "userptr", true);
    test_waited(false, "mmap", true);
    test_waited(true, "userptr", true);
    test_waited(true, "dmabuf", true);
    test_held(false, 2);
    test_held(true, 3);
    puts("ok");
    return 0;
}
