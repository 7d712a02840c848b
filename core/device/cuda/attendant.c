/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions. The driver's own callbacks hold up the stream while they run and may not call the
 * driver, which what is released in a completion does; so a thread looks at events instead. It
 * sleeps when nobody waits. */
#include "device/cuda/cuda.h"

#include <stdlib.h>

/* Takes those off the list that are done, oldest first, and of one queue none before those ahead of
 * it, which may have ended a moment after they were asked. Under the lock. */
static struct cuda_completion *take_done(struct cuda_device *device)
{
    struct cuda_completion *done = NULL, **last = &done, **link = &device->completions;
    device->rounds++;
    while (*link) {
        struct cuda_completion *completion = *link;
        CUresult result = completion->queue->busy_in == device->rounds
                              ? CUDA_ERROR_NOT_READY
                              : gpud_cuda_event_state(completion->event);
        if (result == CUDA_ERROR_NOT_READY) {
            completion->queue->busy_in = device->rounds;
            link = &completion->next;
            continue;
        }
        if (result != CUDA_SUCCESS)
            atomic_store(&completion->queue->failed, (int)result);
        *link = completion->next;
        completion->next = NULL;
        *last = completion;
        last = &completion->next;
    }
    device->last_completion = link;
    return done;
}

static void tell(struct cuda_device *device, struct cuda_completion *done)
{
    while (done) {
        struct cuda_completion *completion = done;
        done = completion->next;
        gpud_cuda_event_put(device, completion->event);
        struct cuda_queue *queue = completion->queue;
        completion->fn(completion->arg, atomic_load(&queue->failed) ? GPUD_IO : GPUD_OK);
        atomic_fetch_sub(&queue->untold, 1);
        free(completion);
    }
}

static void *attend(void *arg)
{
    struct cuda_device *device = arg;
    gpud_cuda_enter(device);
    int64_t start = gpud_now();
    pthread_mutex_lock(&device->lock);
    while (!device->stopping) {
        if (!device->completions) {
            pthread_cond_wait(&device->wanted, &device->lock); /* for somebody to tell */
            start = gpud_now();
            continue;
        }
        struct cuda_completion *done = take_done(device);
        pthread_mutex_unlock(&device->lock);
        if (done) {
            tell(device, done);
            start = gpud_now();
        } else {
            gpud_cuda_pause(start);
        }
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    gpud_cuda_leave();
    return NULL;
}

enum gpud_status gpud_cuda_on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                       struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    CUstream stream = gpud_cuda_stream(queue);
    struct cuda_queue *own = queue->backend;
    gpud_cuda_enter(device);
    CUresult result = gpud_cu.stream_query(stream);
    if (result == CUDA_SUCCESS && atomic_load(&own->untold) == 0) {
        gpud_cuda_leave();
        fn(arg, atomic_load(&own->failed) ? GPUD_IO : GPUD_OK);
        return GPUD_OK;
    }
    struct cuda_completion *completion = malloc(sizeof(*completion));
    CUevent event = completion ? gpud_cuda_mark(device, stream, &result) : NULL;
    gpud_cuda_leave();
    if (!completion)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a completion");
    if (!event) {
        free(completion);
        return gpud_cuda_fail(error, result, "the driver takes no more work");
    }
    *completion = (struct cuda_completion){.event = event, .queue = own, .fn = fn, .arg = arg};
    pthread_mutex_lock(&device->lock);
    if (!device->attended)
        device->attended = pthread_create(&device->attendant, NULL, attend, device) == 0;
    bool accepted = device->attended;
    if (accepted) {
        atomic_fetch_add(&own->untold, 1);
        *device->last_completion = completion;
        device->last_completion = &completion->next;
        pthread_cond_signal(&device->wanted);
    }
    pthread_mutex_unlock(&device->lock);
    if (accepted)
        return GPUD_OK;
    gpud_cuda_event_put(device, event);
    free(completion);
    return gpud_fail(error, GPUD_NO_MEMORY, "no thread for completions");
}

bool gpud_cuda_attendant_finish(struct cuda_device *device)
{
    int64_t deadline = gpud_deadline(GPUD_SEC);
    bool busy = true;
    while (busy) {
        pthread_mutex_lock(&device->lock);
        busy = device->completions != NULL;
        device->stopping = !busy || gpud_now() >= deadline;
        bool stopping = device->stopping;
        pthread_cond_signal(&device->wanted);
        pthread_mutex_unlock(&device->lock);
        if (stopping)
            break;
        nanosleep(&(struct timespec){.tv_nsec = GPUD_MSEC}, NULL);
    }
    if (device->attended)
        pthread_join(device->attendant, NULL);
    return !busy;
}
