/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CPU access to device memory: pinned pages beside it. What is read is copied down by one DMA
 * before the map returns; what was written goes up by one DMA, in the order of the queue, without
 * anybody waiting. */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MAX 8

static bool is_at_rest(const struct cuda_bounce *bounce)
{
    return !bounce->busy || gpud_cuda_event_state(bounce->busy) == CUDA_SUCCESS;
}

static struct cuda_bounce *find_idle(struct cuda_device *device, uint64_t size)
{
    struct cuda_bounce *found = NULL;
    pthread_mutex_lock(&device->lock);
    for (struct cuda_bounce **link = &device->idle_bounces; *link && !found;) {
        struct cuda_bounce *bounce = *link;
        if (bounce->size >= size && bounce->size / 2 <= size && is_at_rest(bounce)) {
            found = bounce;
            *link = bounce->next;
        } else {
            link = &bounce->next;
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (found && found->busy)
        gpud_cuda_event_put(device, found->busy);
    if (found)
        found->busy = NULL;
    return found;
}

static struct cuda_bounce *make(uint64_t size, CUresult *result)
{
    struct cuda_bounce *bounce = calloc(1, sizeof(*bounce));
    *result = bounce ? gpud_cu.mem_host_alloc(&bounce->host, size, CU_MEMHOSTALLOC_PORTABLE)
                     : CUDA_ERROR_OUT_OF_MEMORY;
    if (*result != CUDA_SUCCESS) {
        free(bounce);
        return NULL;
    }
    bounce->size = size;
    return bounce;
}

/* Back among the idle ones; the oldest goes when there are too many. */
static void put(struct cuda_device *device, struct cuda_bounce *bounce)
{
    struct cuda_bounce *surplus = NULL;
    unsigned count = 0;
    pthread_mutex_lock(&device->lock);
    bounce->next = device->idle_bounces;
    device->idle_bounces = bounce;
    for (struct cuda_bounce **link = &device->idle_bounces; *link; link = &(*link)->next) {
        if (++count > IDLE_MAX && !(*link)->next && is_at_rest(*link)) {
            surplus = *link;
            *link = NULL;
            break;
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (!surplus)
        return;
    if (surplus->busy)
        gpud_cuda_event_put(device, surplus->busy);
    gpud_cu.mem_free_host(surplus->host);
    free(surplus);
}

static void add_used(struct cuda_device *device, struct cuda_bounce *bounce)
{
    pthread_mutex_lock(&device->lock);
    bounce->next = device->used_bounces;
    device->used_bounces = bounce;
    pthread_mutex_unlock(&device->lock);
}

/* After a copy was put on the stream that uses the pages. Where the driver does not even mark its
 * end they stay in use until the device is closed. */
static void put_busy(struct cuda_device *device, CUstream stream, struct cuda_bounce *bounce,
                     CUresult *result)
{
    bounce->busy = gpud_cuda_mark(device, stream, result);
    if (bounce->busy)
        put(device, bounce);
    else
        add_used(device, bounce);
}

static enum gpud_status download(struct gpud_queue *queue, struct gpud_memory *memory,
                                 struct cuda_bounce *bounce, int64_t deadline,
                                 struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    CUstream stream = gpud_cuda_stream(queue);
    CUresult result =
        gpud_cu.memcpy_async((CUdeviceptr)(uintptr_t)bounce->host,
                             gpud_cuda_address(memory) + bounce->offset, bounce->length, stream);
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "a copy from %s to the host",
                              queue->device->info.name);
    return gpud_cuda_wait(device, stream, deadline, error);
}

static struct cuda_bounce *take(struct cuda_device *device, uint64_t size, CUresult *result)
{
    struct cuda_bounce *bounce = find_idle(device, size);
    return bounce ? bounce : make(size, result);
}

static enum gpud_status no_pages(const struct gpud_queue *queue, uint64_t size, CUresult result,
                                 struct gpud_error *error)
{
    return gpud_cuda_fail(error, result, "no %llu bytes of pinned memory for %s",
                          (unsigned long long)size, queue->device->info.name);
}

enum gpud_status gpud_cuda_bounce_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                       struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    CUresult result = CUDA_SUCCESS;
    uint64_t size = copy->row_bytes * copy->rows;
    struct cuda_bounce *bounce = take(device, size, &result);
    if (!bounce)
        return no_pages(queue, size, result, error);
    const char *from = (const char *)copy->from->host + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy((char *)bounce->host + row * copy->row_bytes, from + (size_t)row * copy->from_stride,
               copy->row_bytes);
    CUstream stream = gpud_cuda_stream(queue);
    result = gpud_cuda_copy_rows(stream, gpud_cuda_address(copy->to) + copy->to_offset,
                                 copy->to_stride, (CUdeviceptr)(uintptr_t)bounce->host,
                                 (uint32_t)copy->row_bytes, copy->row_bytes, copy->rows);
    if (result == CUDA_SUCCESS)
        put_busy(device, stream, bounce, &result);
    else
        put(device, bounce);
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "a copy on %s", queue->device->info.name);
    return GPUD_OK;
}

enum gpud_status gpud_cuda_bounce_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                      uint64_t offset, uint64_t size, unsigned access,
                                      int64_t deadline, void **data, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    CUresult result = CUDA_SUCCESS;
    enum gpud_status status = GPUD_OK;
    gpud_cuda_enter(device);
    struct cuda_bounce *bounce = take(device, size, &result);
    if (!bounce) {
        gpud_cuda_leave();
        return no_pages(queue, size, result, error);
    }
    bounce->access = access;
    bounce->offset = offset;
    bounce->length = size;
    if (access & GPUD_READ)
        status = download(queue, memory, bounce, deadline, error);
    if (status != GPUD_OK) {
        put_busy(device, gpud_cuda_stream(queue), bounce, &result);
        gpud_cuda_leave();
        return status;
    }
    gpud_cuda_leave();
    add_used(device, bounce);
    *data = bounce->host;
    return GPUD_OK;
}

static struct cuda_bounce *take_used(struct cuda_device *device, const void *data)
{
    pthread_mutex_lock(&device->lock);
    struct cuda_bounce **link = &device->used_bounces;
    while (*link && (*link)->host != data)
        link = &(*link)->next;
    struct cuda_bounce *bounce = *link;
    if (bounce)
        *link = bounce->next;
    pthread_mutex_unlock(&device->lock);
    return bounce;
}

enum gpud_status gpud_cuda_bounce_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                        void *data, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    CUstream stream = gpud_cuda_stream(queue);
    CUresult copied = CUDA_SUCCESS, marked;
    struct cuda_bounce *bounce = take_used(device, data);
    if (!bounce)
        return GPUD_OK;
    bool written = bounce->access & GPUD_WRITE;
    gpud_cuda_enter(device);
    if (written)
        copied = gpud_cu.memcpy_async(gpud_cuda_address(memory) + bounce->offset,
                                      (CUdeviceptr)(uintptr_t)bounce->host, bounce->length, stream);
    if (written && copied == CUDA_SUCCESS)
        put_busy(device, stream, bounce, &marked);
    else
        put(device, bounce);
    gpud_cuda_leave();
    if (copied != CUDA_SUCCESS)
        return gpud_cuda_fail(error, copied, "what was written does not get to %s",
                              queue->device->info.name);
    return GPUD_OK;
}

static void free_all(struct cuda_device *device, struct cuda_bounce *bounce)
{
    while (bounce) {
        struct cuda_bounce *gone = bounce;
        bounce = bounce->next;
        if (gone->busy)
            gpud_cuda_event_put(device, gone->busy);
        gpud_cu.mem_free_host(gone->host);
        free(gone);
    }
}

void gpud_cuda_bounces_free(struct cuda_device *device)
{
    free_all(device, device->idle_bounces);
    free_all(device, device->used_bounces);
}
