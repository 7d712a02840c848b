/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The core's sender. Frames lie in slots that it lends, or in the bench's own memory ("foreign"),
 * from malloc or the GPU's driver. On a GPU, work on the bench's own stream marks them. */
#include "control.h"
#include "gpumarks.h"
#include "output.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct output {
    const struct bench_job *job;
    int control;
    struct gpud_context *context;
    struct gpud_device *device; /* where foreign memory is: the GPU, or the host */
    struct raw_driver *driver;  /* NULL: the CPU writes the frames */
    unsigned gpu;
    raw_stream stream;
    struct bench_mark_writer *writer;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_frame *frame; /* acquired */
    struct foreign *free;     /* oldest first, so that none is still cached when it is used again */
    struct foreign **free_tail;
    pthread_mutex_t lock;
    pthread_cond_t freed;
};

/* A buffer of the bench's own. */
struct foreign {
    struct foreign *next;
    struct output *output;
    void *data; /* a pointer, or the GPU's address */
};

static void check(struct output *output, enum gpud_status status, const struct gpud_error *error)
{
    if (status != GPUD_OK)
        bench_child_fail(output->control, status, "%s", error->reason);
}

/* --- the GPU ---------------------------------------------------------------------------------- */

static void check_gpu(struct output *output, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(output->driver, reason, sizeof(reason), what, result);
    bench_child_fail(output->control, GPUD_IO, "%s", reason);
}

/* The GPU stays current: this thread does everything. */
static void open_stream(struct output *output)
{
    char reason[GPUD_REASON_MAX];
    if (!raw_open(output->driver, reason, sizeof(reason)) ||
        !raw_enter(output->driver, output->gpu, reason, sizeof(reason)))
        bench_child_fail(output->control, GPUD_NO_DEVICE, "%s", reason);
    check_gpu(output, "a stream", raw_stream_create(output->driver, &output->stream));
    output->writer = bench_mark_writer_create(output->driver, output->job, output->control);
}

static void close_stream(struct output *output)
{
    if (!output->driver)
        return;
    bench_mark_writer_destroy(output->writer);
    raw_stream_destroy(output->driver, output->stream);
    raw_leave(output->driver);
}

static void mark_core(void *user, uint64_t index)
{
    struct output *output = user;
    struct gpud_frame_info info;
    info.size = sizeof(info);
    gpud_frame_get_info(output->frame, &info);
    bench_mark_writer_mark(output->writer, output->stream,
                           (raw_address)(uintptr_t)info.native + info.memory_offset, &info.layout,
                           index);
}

/* --- foreign memory --------------------------------------------------------------------------- */

static void give_back(void *user)
{
    struct foreign *foreign = user;
    struct output *output = foreign->output;
    pthread_mutex_lock(&output->lock);
    foreign->next = NULL;
    *output->free_tail = foreign;
    output->free_tail = &foreign->next;
    pthread_cond_signal(&output->freed);
    pthread_mutex_unlock(&output->lock);
}

static void *alloc_on_gpu(struct output *output)
{
    raw_address address;
    check_gpu(output, "memory on the GPU",
              raw_alloc(output->driver, &address, output->layout.size));
    return (void *)(uintptr_t)address;
}

static void make_foreign(struct output *output)
{
    for (uint32_t i = 0; i < output->job->foreign_buffers; i++) {
        struct foreign *made = g_new0(struct foreign, 1);
        made->output = output;
        made->data = output->driver ? alloc_on_gpu(output) : malloc(output->layout.size);
        if (!made->data)
            bench_child_fail(output->control, GPUD_NO_MEMORY, "out of memory for %u frames",
                             output->job->foreign_buffers);
        /* Pages that were never written all map to one page of zeros, which would be read from the
         * caches. */
        if (!output->driver)
            memset(made->data, 1, output->layout.size);
        give_back(made);
    }
}

static struct foreign *take_foreign(struct output *output)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BENCH_STEP_TIMEOUT / GPUD_SEC;
    pthread_mutex_lock(&output->lock);
    while (!output->free)
        if (pthread_cond_timedwait(&output->freed, &output->lock, &until) != 0)
            bench_child_fail(output->control, GPUD_TIMEOUT, "no foreign buffer came back in time");
    struct foreign *taken = output->free;
    output->free = taken->next;
    if (!output->free)
        output->free_tail = &output->free;
    pthread_mutex_unlock(&output->lock);
    return taken;
}

static void acquire_foreign(struct output *output)
{
    struct gpud_error error;
    struct gpud_memory *memory;
    struct foreign *foreign = take_foreign(output);
    check(output,
          gpud_memory_wrap(output->device, foreign->data, output->layout.size, give_back, foreign,
                           &memory, &error),
          &error);
    check(output, gpud_frame_wrap(memory, 0, &output->layout, &output->frame, &error), &error);
    gpud_memory_unref(&memory);
}

static void free_foreign(struct output *output)
{
    while (output->free) {
        struct foreign *gone = output->free;
        output->free = gone->next;
        if (output->driver)
            raw_free(output->driver, (raw_address)(uintptr_t)gone->data);
        else
            free(gone->data);
        g_free(gone);
    }
}

/* --- the operations --------------------------------------------------------------------------- */

static void *open_core(const struct bench_job *job, int control)
{
    struct output *output = g_new0(struct output, 1);
    struct gpud_error error;
    output->job = job;
    output->control = control;
    output->free_tail = &output->free;
    pthread_mutex_init(&output->lock, NULL);
    pthread_cond_init(&output->freed, NULL);
    check(output, gpud_context_create(NULL, &output->context, &error), &error);
    output->driver = raw_driver_of(job->from, &output->gpu);
    check(output,
          gpud_device_open(output->context, output->driver ? job->from : "host", &output->device,
                           &error),
          &error);
    if (output->driver)
        open_stream(output);
    check(output,
          gpud_layout_init(&output->layout, job->format, job->width, job->height, 0, &error),
          &error);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = job->address;
    params.device = job->from;
    params.slots = job->slots;
    params.slow_receiver = job->slow_receiver;
    params.route = job->route[0] ? job->route : NULL;
    params.psk_file = job->psk_file[0] ? job->psk_file : NULL;
    params.allow_unauthenticated = job->allow_unauthenticated;
    check(output, gpud_sender_create(output->context, &params, &output->sender, &error), &error);
    struct gpud_media media = {.picture = {.layout = output->layout}};
    check(output, gpud_sender_configure(output->sender, &media, &error), &error);
    if (job->foreign)
        make_foreign(output);
    return output;
}

static void wait_core(void *user)
{
    struct output *output = user;
    struct gpud_error error;
    check(output,
          gpud_sender_wait(output->sender, output->job->receivers,
                           (output->job->remote ? 2 : 1) * output->job->patience, &error),
          &error);
    bench_send(output->control, BENCH_READY, NULL, 0);
    bench_child_expect(output->control, BENCH_GO, clock_now() + 3 * BENCH_STEP_TIMEOUT, NULL, 0);
}

static void *acquire_core(void *user, uint64_t *size)
{
    struct output *output = user;
    struct gpud_error error;
    void *data;
    if (output->job->foreign)
        acquire_foreign(output);
    else
        check(output,
              gpud_sender_acquire(output->sender, BENCH_STEP_TIMEOUT, &output->frame, &error),
              &error);
    *size = output->layout.size;
    if (output->driver) {
        if (!output->job->foreign)
            check(output, gpud_frame_wait(output->frame, output->stream, &error), &error);
        return NULL;
    }
    check(output, gpud_frame_map(output->frame, GPUD_WRITE, BENCH_STEP_TIMEOUT, &data, &error),
          &error);
    return data;
}

static void send_core(void *user)
{
    struct output *output = user;
    struct gpud_error error;
    if (output->driver)
        check(output, gpud_frame_post(output->frame, output->stream, &error), &error);
    else
        gpud_frame_unmap(output->frame);
    check(output, gpud_sender_submit(output->sender, &output->frame, BENCH_STEP_TIMEOUT, &error),
          &error);
}

static void end_core(void *user)
{
    struct output *output = user;
    struct gpud_error error;
    check(output, gpud_sender_send_eos(output->sender, &error), &error);
}

static void count_core(void *user, struct bench_result *result)
{
    struct output *output = user;
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gpud_sender_get_info(output->sender, &info);
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    result->waits_device = (int64_t)info.waits_device;
    result->dropped = (int64_t)info.dropped;
    result->lent = output->job->foreign ? 0 : info.frames;
}

static void close_core(void *user)
{
    struct output *output = user;
    gpud_sender_destroy(&output->sender);
    free_foreign(output);
    close_stream(output);
    gpud_device_close(&output->device);
    gpud_context_destroy(&output->context);
    pthread_cond_destroy(&output->freed);
    pthread_mutex_destroy(&output->lock);
    g_free(output);
}

const struct bench_output_ops bench_output_core = {
    .open = open_core,
    .wait = wait_core,
    .acquire = acquire_core,
    .mark = mark_core,
    .send = send_core,
    .end = end_core,
    .count = count_core,
    .close = close_core,
};
