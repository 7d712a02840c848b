/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues of an application's that work on captured frames by themselves. The fake GPU runs the
 * youngest queue first: where nothing orders two of them, the picture is wrong. */
#include "bench.h"
#include "capture/internal.h"
#include "frame/frame.h"

#include <unistd.h>

/* A card whose DMA engine writes the device's memory: its driver is given the addresses. */
static enum gpud_status setup_on_device(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < ring->buffer_count && status == GPUD_OK; i++) {
        struct gpud_capture_buffer *buffer = &ring->buffers[i];
        status = gpud_memory_alloc_for(ring->device, ring->placement.layout.size, GPUD_USAGE_LOCAL,
                                       &buffer->memory, error);
        if (status != GPUD_OK)
            return status;
        buffer->raw.plane[0].length = ring->placement.area[0].size;
        buffer->raw.plane[0].m.userptr = (unsigned long)buffer->memory->native;
    }
    return status;
}

static const struct gpud_capture_method on_device = {
    .name = "on-device",
    .memory = V4L2_MEMORY_USERPTR,
    .on_device = true,
    .setup = setup_on_device,
};

/* Instead of the library's own. */
const struct gpud_capture_method *const gpud_capture_methods[] = {
    &on_device,
    &gpud_capture_userptr,
    NULL,
};

/* --- an application that copies frames on a queue of its own ------------------------------- */

struct application {
    struct bench bench;
    struct gpud_queue queue;
    struct gpud_memory *picture; /* what it copied */
    uint64_t size;
};

static char its_queue;

static void start(struct application *app, const char *method)
{
    app->bench.use_gpu = true;
    app->bench.method = method;
    app->bench.slots = 2;
    bench_prepare(&app->bench);
    fake_gpu_give_fences(&app->bench.gpu);
    WORKS(bench_create(&app->bench, &e));
    WORKS(configure_format(app->bench.capture, "UYVY", 320, 180, 0, 1, &e));
    app->size = bench_info(&app->bench).media.picture.layout.size;
    WORKS(gpud_memory_alloc_for(app->bench.gpu.device, app->size, GPUD_USAGE_LOCAL, &app->picture,
                                &e));
    WORKS(gpud_queue_wrap(app->bench.gpu.device, &its_queue, &app->queue, &e));
    app->bench.gpu.manual = true;
}

static void end(struct application *app)
{
    gpud_memory_unref(&app->picture);
    bench_close(&app->bench);
}

static void copy(struct application *app, const struct gpud_frame *frame, bool into_frame)
{
    struct gpud_copy copy = {
        .to = app->picture, .from = bench_info_of(frame).memory, .row_bytes = app->size, .rows = 1};
    if (into_frame)
        copy =
            (struct gpud_copy){.to = copy.from, .from = copy.to, .row_bytes = app->size, .rows = 1};
    WORKS(gpud_queue_copy(&app->queue, &copy, &e));
}

static void check(const struct application *app, unsigned char byte)
{
    const unsigned char *bytes = fake_gpu_bytes(app->picture);
    for (uint64_t i = 0; i < app->size; i++)
        CHECK(bytes[i] == byte, "byte %llu of the picture is %u, not %u", (unsigned long long)i,
              bytes[i], byte);
}

static struct gpud_frame *take(struct application *app, uint32_t sequence, unsigned char byte)
{
    CHECK(fake_frame(&app->bench.driver, sequence, byte), "the driver has no buffer");
    return bench_acquire(&app->bench);
}

/* --- copied frames ------------------------------------------------------------------------- */

/* The frame is there before its bytes: the application's queue waits for the copy. */
static void test_copied_wait(void)
{
    struct application app = {0};
    start(&app, "userptr");
    struct gpud_frame *frame = take(&app, 0, 7);
    WORKS(gpud_frame_wait(frame, &its_queue, &e));
    copy(&app, frame, false);
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    check(&app, 7);
    gpud_frame_release(&frame);
    end(&app);
}

/* The next copy into the slot waits for the application's queue. */
static void test_copied_post(void)
{
    struct application app = {0};
    start(&app, "userptr");
    struct gpud_frame *frame = take(&app, 0, 7);
    WORKS(gpud_frame_wait(frame, &its_queue, &e));
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    copy(&app, frame, false);
    WORKS(gpud_frame_post(frame, &its_queue, &e));
    gpud_frame_release(&frame);
    frame = take(&app, 1, 8);
    CHECK_EQUAL(bench_info_of(frame).slot, 0);
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    check(&app, 7);
    gpud_frame_release(&frame);
    end(&app);
}

/* --- frames in place ----------------------------------------------------------------------- */

/* As many frames as the driver has buffers for. */
static void overwrite(struct application *app, unsigned char byte)
{
    while (fake_frame(&app->bench.driver, 100, byte))
        ;
}

static void test_in_place_post(void)
{
    struct application app = {0};
    struct gpud_frame *next;
    start(&app, NULL);
    CHECK(strcmp(bench_info(&app.bench).path, "v4l2-on-device") == 0, "not in place");
    uint32_t buffers = fake_queued(&app.bench.driver);

    struct gpud_frame *frame = take(&app, 0, 7);
    copy(&app, frame, false);
    WORKS(gpud_frame_post(frame, &its_queue, &e));
    gpud_frame_release(&frame);
    CHECK_EQUAL(fake_queued(&app.bench.driver), buffers - 1);
    overwrite(&app, 9);
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    check(&app, 7);

    /* It does come back: these were all buffers but one, and that one is queued now. */
    next = bench_acquire(&app.bench);
    CHECK_EQUAL(fake_queued(&app.bench.driver), 1);
    gpud_frame_release(&next);

    /* Without post nothing is waited for, and the buffer goes back at once. */
    CHECK_EQUAL(fake_queued(&app.bench.driver), 2);
    end(&app);
}

/* What a posted queue writes into the frame is visible after a wait for the frame. */
static void test_in_place_wait(void)
{
    struct application app = {0};
    struct gpud_queue other;
    static char other_queue;
    start(&app, NULL);
    WORKS(gpud_queue_wrap(app.bench.gpu.device, &other_queue, &other, &e));
    struct gpud_frame *frame = take(&app, 0, 7);
    WORKS(gpud_frame_wait(frame, &its_queue, &e)); /* for nothing: the bytes are there */
    CHECK_EQUAL(app.bench.gpu.count, 0);
    copy(&app, frame, true); /* zeros */
    WORKS(gpud_frame_post(frame, &its_queue, &e));
    WORKS(gpud_frame_wait(frame, &other_queue, &e));
    struct gpud_memory *seen;
    WORKS(gpud_memory_alloc_for(app.bench.gpu.device, app.size, GPUD_USAGE_LOCAL, &seen, &e));
    WORKS(gpud_queue_copy(
        &other,
        &(struct gpud_copy){
            .to = seen, .from = bench_info_of(frame).memory, .row_bytes = app.size, .rows = 1},
        &e));
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    CHECK_EQUAL(fake_gpu_bytes(seen)[app.size / 2], 0);
    gpud_memory_unref(&seen);
    gpud_frame_release(&frame);
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    end(&app);
}

/* A device that takes no callback is waited for; the buffer comes back all the same. */
static void test_in_place_no_callback(void)
{
    struct application app = {0};
    start(&app, NULL);
    uint32_t buffers = fake_queued(&app.bench.driver);
    struct gpud_frame *frame = take(&app, 0, 7);
    copy(&app, frame, false);
    WORKS(gpud_frame_post(frame, &its_queue, &e));
    fake_gpu_run(&app.bench.gpu, GPUD_OK);
    app.bench.gpu.fail_completes = 1;
    gpud_frame_release(&frame);
    CHECK_EQUAL(fake_queued(&app.bench.driver), buffers);
    check(&app, 7);
    end(&app);
}

static void *run_it(void *arg)
{
    usleep(50000);
    fake_gpu_run(arg, GPUD_OK);
    return NULL;
}

/* The capture ends while a queue still reads a buffer, and while the application still has a frame
 * that a queue reads: memory that a copy uses is not freed (fake_gpu.c checks it). */
static void test_in_place_end(void)
{
    struct application app = {0};
    pthread_t thread;
    start(&app, NULL);
    struct gpud_frame *first = take(&app, 0, 7), *second = take(&app, 1, 8);
    copy(&app, first, false);
    WORKS(gpud_frame_post(first, &its_queue, &e));
    gpud_frame_release(&first);
    CHECK(pthread_create(&thread, NULL, run_it, &app.bench.gpu) == 0, "no thread");
    gpud_capture_destroy(&app.bench.capture);
    pthread_join(thread, NULL);
    check(&app, 7);

    copy(&app, second, false);
    WORKS(gpud_frame_post(second, &its_queue, &e));
    CHECK(pthread_create(&thread, NULL, run_it, &app.bench.gpu) == 0, "no thread");
    gpud_frame_release(&second);
    pthread_join(thread, NULL);
    check(&app, 8);
    end(&app);
}

int main(void)
{
    test_copied_wait();
    test_copied_post();
    test_in_place_post();
    test_in_place_wait();
    test_in_place_no_callback();
    test_in_place_end();
    puts("ok");
    return 0;
}
