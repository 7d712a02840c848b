/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The core's sender. Frames are lent by it, or lie in memory of our own ("foreign"): the host's,
 * from malloc, or a GPU's, from cuMemAlloc. On a GPU they are marked by a stream of ours. */
#include "control.h"
#include "cudamarks.h"
#include "outlet.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct outlet {
    const struct bench_job *job;
    int control;
    struct gpud_context *context;
    struct gpud_device *device; /* of foreign memory: the GPU, or the host */
    const struct raw_cuda *cu;  /* NULL: frames are written by the CPU */
    raw_stream stream;
    struct bench_stamper *stamper;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_frame *frame; /* acquired */
    struct foreign *free; /* oldest first, so that each is cold in the caches when its turn comes */
    struct foreign **free_tail;
    pthread_mutex_t lock;
    pthread_cond_t freed;
};

/* A buffer of our own. */
struct foreign {
    struct foreign *next;
    struct outlet *outlet;
    void *data; /* of the host, or the GPU's address */
};

static void check(struct outlet *outlet, enum gpud_status status, const struct gpud_error *error)
{
    if (status != GPUD_OK)
        bench_child_fail(outlet->control, status, "%s", error->reason);
}

/* --- the GPU ---------------------------------------------------------------------------------- */

static void check_cuda(struct outlet *outlet, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_cuda_say(reason, sizeof(reason), what, result);
    bench_child_fail(outlet->control, GPUD_IO, "%s", reason);
}

/* The device's own context stays current in this thread, which does everything. */
static void open_stream(struct outlet *outlet)
{
    char reason[GPUD_REASON_MAX];
    outlet->cu = raw_cuda_open(reason, sizeof(reason));
    if (!outlet->cu)
        bench_child_fail(outlet->control, GPUD_NO_DEVICE, "%s", reason);
    check_cuda(outlet, "cuCtxPushCurrent",
               outlet->cu->context_push(gpud_device_get_native(outlet->device)));
    check_cuda(outlet, "cuStreamCreate",
               outlet->cu->stream_create(&outlet->stream, RAW_STREAM_NON_BLOCKING));
    outlet->stamper = bench_stamper_create(outlet->job, outlet->control);
}

static void close_stream(struct outlet *outlet)
{
    if (!outlet->cu)
        return;
    bench_stamper_destroy(outlet->stamper);
    outlet->cu->stream_destroy(outlet->stream);
    raw_cuda_leave(outlet->cu);
}

static void mark_core(void *user, uint64_t index)
{
    struct outlet *outlet = user;
    uint64_t offset;
    struct gpud_frame_info info;
    gpud_frame_get_info(outlet->frame, &info);
    struct gpud_memory *memory = gpud_frame_get_memory(outlet->frame, &offset);
    bench_stamper_mark(outlet->stamper, outlet->stream,
                       (raw_address)(uintptr_t)gpud_memory_get_native(memory) + offset,
                       &info.layout, index);
}

/* --- foreign memory --------------------------------------------------------------------------- */

static void give_back(void *user)
{
    struct foreign *foreign = user;
    struct outlet *outlet = foreign->outlet;
    pthread_mutex_lock(&outlet->lock);
    foreign->next = NULL;
    *outlet->free_tail = foreign;
    outlet->free_tail = &foreign->next;
    pthread_cond_signal(&outlet->freed);
    pthread_mutex_unlock(&outlet->lock);
}

static void *alloc_on_gpu(struct outlet *outlet)
{
    raw_address address;
    check_cuda(outlet, "cuMemAlloc", outlet->cu->alloc(&address, outlet->layout.size));
    return (void *)(uintptr_t)address;
}

static void make_foreign(struct outlet *outlet)
{
    for (uint32_t i = 0; i < outlet->job->foreign_buffers; i++) {
        struct foreign *made = g_new0(struct foreign, 1);
        made->outlet = outlet;
        made->data = outlet->cu ? alloc_on_gpu(outlet) : malloc(outlet->layout.size);
        if (!made->data)
            bench_child_fail(outlet->control, GPUD_NO_MEMORY, "out of memory for %u frames",
                             outlet->job->foreign_buffers);
        /* Pages that nobody ever wrote are all one page of zeros, which is read from the caches. */
        if (!outlet->cu)
            memset(made->data, 1, outlet->layout.size);
        give_back(made);
    }
}

static struct foreign *take_foreign(struct outlet *outlet)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BENCH_STEP / GPUD_SEC;
    pthread_mutex_lock(&outlet->lock);
    while (!outlet->free)
        if (pthread_cond_timedwait(&outlet->freed, &outlet->lock, &until) != 0)
            bench_child_fail(outlet->control, GPUD_TIMEOUT, "no foreign buffer came back in time");
    struct foreign *taken = outlet->free;
    outlet->free = taken->next;
    if (!outlet->free)
        outlet->free_tail = &outlet->free;
    pthread_mutex_unlock(&outlet->lock);
    return taken;
}

static void acquire_foreign(struct outlet *outlet)
{
    struct gpud_error error;
    struct gpud_memory *memory;
    struct foreign *foreign = take_foreign(outlet);
    check(outlet,
          gpud_memory_wrap(outlet->device, foreign->data, outlet->layout.size, give_back, foreign,
                           &memory, &error),
          &error);
    check(outlet, gpud_frame_wrap(memory, 0, &outlet->layout, &outlet->frame, &error), &error);
    gpud_memory_unref(&memory);
}

static void free_foreign(struct outlet *outlet)
{
    while (outlet->free) {
        struct foreign *gone = outlet->free;
        outlet->free = gone->next;
        if (outlet->cu)
            outlet->cu->free((raw_address)(uintptr_t)gone->data);
        else
            free(gone->data);
        g_free(gone);
    }
}

/* --- the operations --------------------------------------------------------------------------- */

static void *open_core(const struct bench_job *job, int control)
{
    struct outlet *outlet = g_new0(struct outlet, 1);
    struct gpud_error error;
    outlet->job = job;
    outlet->control = control;
    outlet->free_tail = &outlet->free;
    pthread_mutex_init(&outlet->lock, NULL);
    pthread_cond_init(&outlet->freed, NULL);
    check(outlet, gpud_context_create(NULL, &outlet->context, &error), &error);
    bool on_gpu = raw_cuda_ordinal(job->from) >= 0;
    check(outlet,
          gpud_device_open(outlet->context, on_gpu ? job->from : "host", &outlet->device, &error),
          &error);
    if (on_gpu)
        open_stream(outlet);
    check(outlet,
          gpud_layout_init(&outlet->layout, job->format, job->width, job->height, 0, &error),
          &error);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = job->address;
    params.device = job->from;
    params.slots = job->slots;
    params.slow_receiver = job->slow_receiver;
    params.route = job->route[0] ? job->route : NULL;
    check(outlet, gpud_sender_create(outlet->context, &params, &outlet->sender, &error), &error);
    check(outlet, gpud_sender_configure(outlet->sender, &outlet->layout, NULL, 0, &error), &error);
    if (job->foreign)
        make_foreign(outlet);
    return outlet;
}

static void wait_core(void *user)
{
    struct outlet *outlet = user;
    struct gpud_error error;
    check(outlet, gpud_sender_wait(outlet->sender, outlet->job->receivers, 2 * BENCH_STEP, &error),
          &error);
    bench_send(outlet->control, BENCH_READY, NULL, 0);
    bench_child_expect(outlet->control, BENCH_GO, bench_now() + 3 * BENCH_STEP, NULL, 0);
}

static void *acquire_core(void *user, uint64_t *size)
{
    struct outlet *outlet = user;
    struct gpud_error error;
    void *data;
    if (outlet->job->foreign)
        acquire_foreign(outlet);
    else
        check(outlet, gpud_sender_acquire(outlet->sender, BENCH_STEP, &outlet->frame, &error),
              &error);
    *size = outlet->layout.size;
    if (outlet->cu) {
        if (!outlet->job->foreign)
            check(outlet, gpud_frame_wait(outlet->frame, outlet->stream, &error), &error);
        return NULL;
    }
    check(outlet, gpud_frame_map(outlet->frame, GPUD_WRITE, BENCH_STEP, &data, &error), &error);
    return data;
}

static void send_core(void *user)
{
    struct outlet *outlet = user;
    struct gpud_error error;
    if (outlet->cu)
        check(outlet, gpud_frame_post(outlet->frame, outlet->stream, &error), &error);
    else
        gpud_frame_unmap(outlet->frame);
    check(outlet, gpud_sender_submit(outlet->sender, &outlet->frame, false, BENCH_STEP, &error),
          &error);
}

static void end_core(void *user)
{
    struct outlet *outlet = user;
    struct gpud_error error;
    check(outlet, gpud_sender_send_eos(outlet->sender, &error), &error);
}

static void count_core(void *user, struct bench_result *result)
{
    struct outlet *outlet = user;
    struct gpud_sender_info info;
    gpud_sender_get_info(outlet->sender, &info);
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    result->waits_device = (int64_t)info.waits_device;
    result->dropped = (int64_t)info.dropped;
    result->lent = outlet->job->foreign ? 0 : info.frames;
}

static void close_core(void *user)
{
    struct outlet *outlet = user;
    gpud_sender_destroy(&outlet->sender);
    free_foreign(outlet);
    close_stream(outlet);
    gpud_device_close(&outlet->device);
    gpud_context_destroy(&outlet->context);
    pthread_cond_destroy(&outlet->freed);
    pthread_mutex_destroy(&outlet->lock);
    g_free(outlet);
}

const struct bench_outlet_ops bench_outlet_core = {
    .open = open_core,
    .wait = wait_core,
    .acquire = acquire_core,
    .mark = mark_core,
    .send = send_core,
    .end = end_core,
    .count = count_core,
    .close = close_core,
};
