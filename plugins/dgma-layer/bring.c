/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Updates an owner's copy with what writers wrote, once the marker has arrived. The poller does it
 * through a queue of the layer's, since the program's own is stalled until then. The buffers of a
 * context and device share one queue. */

#include <pthread.h>
#include <stdlib.h>

#include "bring.h"
#include "written.h"

struct dgma_copy_queue {
    cl_context context; /* the queue holds it: the handle stays its own */
    cl_device_id device;
    cl_command_queue queue;
    unsigned refs; /* buffers */
    struct dgma_copy_queue *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* also every buffer's copy_queue */
static struct dgma_copy_queue *queues;

static struct dgma_copy_queue *get_locked(cl_context context, cl_device_id device, cl_int *status)
{
    struct dgma_copy_queue *at = queues;
    while (at && (at->context != context || at->device != device))
        at = at->next;
    if (at) {
        at->refs++;
        return at;
    }
    at = calloc(1, sizeof *at);
    if (!at) {
        *status = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    at->queue = dgma_next.clCreateCommandQueue(context, device, 0, status);
    if (!at->queue) {
        free(at);
        return NULL;
    }
    at->context = context;
    at->device = device;
    at->refs = 1;
    at->next = queues;
    queues = at;
    return at;
}

/* Returns a queue that the caller has to release, outside of the lock. */
static cl_command_queue put_locked(struct dgma_copy_queue *of)
{
    if (!of || --of->refs > 0)
        return NULL;
    struct dgma_copy_queue **at = &queues;
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    cl_command_queue queue = of->queue;
    free(of);
    return queue;
}

cl_command_queue dgma_bring_queue(struct dgma_buffer *buffer, cl_device_id device, cl_int *status)
{
    cl_command_queue queue = NULL, old = NULL;
    *status = CL_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!buffer->copy_queue || buffer->copy_queue->device != device) {
        struct dgma_copy_queue *fresh = get_locked(buffer->context, device, status);
        if (fresh) {
            old = put_locked(buffer->copy_queue);
            buffer->copy_queue = fresh;
        }
    }
    if (*status == CL_SUCCESS)
        *status = dgma_next.clRetainCommandQueue(buffer->copy_queue->queue);
    if (*status == CL_SUCCESS)
        queue = buffer->copy_queue->queue;
    pthread_mutex_unlock(&lock);
    if (old)
        dgma_next.clReleaseCommandQueue(old);
    return queue;
}

void dgma_bring_free(struct dgma_buffer *buffer)
{
    pthread_mutex_lock(&lock);
    cl_command_queue old = put_locked(buffer->copy_queue);
    buffer->copy_queue = NULL;
    pthread_mutex_unlock(&lock);
    if (old)
        dgma_next.clReleaseCommandQueue(old);
}

/* Combines ranges of equal length and distance into one rectangle for the driver. */
struct transfer {
    cl_command_queue queue;
    cl_mem mem;
    const uint8_t *surface;
    cl_event last;
    size_t offset, length, pitch, rows; /* not yet enqueued; rows 0: nothing */
};

static cl_int write_range(struct transfer *to, size_t offset, size_t length)
{
    if (to->last)
        dgma_next.clReleaseEvent(to->last);
    to->last = NULL;
    return dgma_next.clEnqueueWriteBuffer(to->queue, to->mem, CL_FALSE, offset, length,
                                          to->surface + offset, 0, NULL, &to->last);
}

static cl_int write_rectangle(struct transfer *to)
{
    const size_t origin[3] = {to->offset % to->pitch, to->offset / to->pitch, 0};
    const size_t region[3] = {to->length, to->rows, 1};
    if (to->last)
        dgma_next.clReleaseEvent(to->last);
    to->last = NULL;
    return dgma_next.clEnqueueWriteBufferRect(to->queue, to->mem, CL_FALSE, origin, origin, region,
                                              to->pitch, 0, to->pitch, 0, to->surface, 0, NULL,
                                              &to->last);
}

static cl_int flush(struct transfer *to)
{
    cl_int status = CL_SUCCESS;
    if (to->rows > 1 && to->offset % to->pitch + to->length <= to->pitch)
        status = write_rectangle(to);
    else
        for (size_t row = 0; row < to->rows && status == CL_SUCCESS; row++)
            status = write_range(to, to->offset + row * to->pitch, to->length);
    to->rows = 0;
    return status;
}

static cl_int add(void *user_data, size_t offset, size_t length)
{
    struct transfer *to = user_data;
    if (to->rows == 1 && length == to->length) {
        to->pitch = offset - to->offset;
        to->rows = 2;
        return CL_SUCCESS;
    }
    if (to->rows > 1 && length == to->length && offset == to->offset + to->rows * to->pitch) {
        to->rows++;
        return CL_SUCCESS;
    }
    cl_int status = flush(to);
    to->offset = offset;
    to->length = length;
    to->rows = 1;
    to->pitch = 0;
    return status;
}

static cl_int forget_range(void *user_data, size_t offset, size_t length)
{
    (void)user_data, (void)offset, (void)length;
    return CL_SUCCESS;
}

cl_int dgma_bring_in(struct dgma_buffer *buffer, cl_mem mem, cl_command_queue queue, cl_event *gate)
{
    struct transfer to = {.queue = queue, .mem = mem, .surface = buffer->surface};
    cl_int status;
    if (dgma_written_is_foreign(buffer->surface_object, buffer->marker, &buffer->seen_marker)) {
        dgma_written_take(buffer->surface_object, forget_range, NULL);
        status = write_range(&to, 0, buffer->size);
    } else {
        status = dgma_written_take(buffer->surface_object, add, &to);
        if (status == CL_SUCCESS)
            status = flush(&to);
    }
    if (to.last)
        dgma_next.clFlush(queue);
    *gate = to.last;
    return status;
}
