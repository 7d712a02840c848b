/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ops of OpenCL's in-order command queues: copies, moves and CPU access. */
#include "device/opencl/opencl.h"

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(queue->device);
    struct opencl_queue *made = NULL;
    enum gpud_status status = gpud_opencl_queue_new(device, &made, error);
    if (status != GPUD_OK)
        return status;
    gpud_async_add(&device->async, &made->async);
    queue->backend = made;
    return GPUD_OK;
}

static void destroy(struct gpud_queue *queue)
{
    gpud_opencl_queue_retire(queue->backend);
}

static bool linear(const struct gpud_copy *copy)
{
    return copy->rows == 1 ||
           (copy->to_stride == copy->row_bytes && copy->from_stride == copy->row_bytes);
}

static cl_int copy_linear(struct opencl_queue *queue, const struct gpud_copy *copy, cl_event *event)
{
    cl_mem to = gpud_opencl_mem(copy->to), from = gpud_opencl_mem(copy->from);
    size_t size = copy->row_bytes * copy->rows;
    if (to && from)
        return clEnqueueCopyBuffer(queue->queue, from, to, copy->from_offset, copy->to_offset, size,
                                   OPENCL_AFTER(queue), event);
    if (to)
        return clEnqueueWriteBuffer(queue->queue, to, CL_FALSE, copy->to_offset, size,
                                    (const char *)copy->from->host + copy->from_offset,
                                    OPENCL_AFTER(queue), event);
    return clEnqueueReadBuffer(queue->queue, from, CL_FALSE, copy->from_offset, size,
                               (char *)copy->to->host + copy->to_offset, OPENCL_AFTER(queue),
                               event);
}

static cl_int copy_rows(struct opencl_queue *queue, const struct gpud_copy *copy, cl_event *event)
{
    cl_mem to = gpud_opencl_mem(copy->to), from = gpud_opencl_mem(copy->from);
    const size_t region[3] = {copy->row_bytes, copy->rows, 1};
    /* Byte offsets are split into row and column: drivers check both against the pitch. */
    const size_t to_origin[3] = {copy->to_offset % copy->to_stride,
                                 copy->to_offset / copy->to_stride, 0};
    const size_t from_origin[3] = {copy->from_offset % copy->from_stride,
                                   copy->from_offset / copy->from_stride, 0};
    if (to && from)
        return clEnqueueCopyBufferRect(queue->queue, from, to, from_origin, to_origin, region,
                                       copy->from_stride, 0, copy->to_stride, 0,
                                       OPENCL_AFTER(queue), event);
    if (to)
        return clEnqueueWriteBufferRect(queue->queue, to, CL_FALSE, to_origin, from_origin, region,
                                        copy->to_stride, 0, copy->from_stride, 0, copy->from->host,
                                        OPENCL_AFTER(queue), event);
    return clEnqueueReadBufferRect(queue->queue, from, CL_FALSE, from_origin, to_origin, region,
                                   copy->from_stride, 0, copy->to_stride, 0, copy->to->host,
                                   OPENCL_AFTER(queue), event);
}

static enum gpud_status copy_op(struct gpud_queue *queue, const struct gpud_copy *copy,
                                struct gpud_error *error)
{
    if (gpud_opencl_is_write_only(copy->from))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "a peer's memory behind a bus address can only be written");
    if (!gpud_opencl_mem(copy->to) && !gpud_opencl_mem(copy->from))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s does not copy between two host memories: use the host's queue",
                         queue->device->info.name);
    struct opencl_device *device = gpud_opencl_device(queue->device);
    struct opencl_queue *opencl = queue->backend;
    struct opencl_memory *const memories[2] = {gpud_opencl_record(copy->to),
                                               gpud_opencl_record(copy->from)};
    enum gpud_status status = gpud_opencl_queue_begin(opencl, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code = gpud_opencl_begin_use(device, opencl, memories);
    if (code == CL_SUCCESS)
        code = linear(copy) ? copy_linear(opencl, copy, &event) : copy_rows(opencl, copy, &event);
    if (code == CL_SUCCESS)
        gpud_opencl_queue_push(opencl, event);
    cl_int ended = gpud_opencl_end_use(device, opencl, memories);
    code = code == CL_SUCCESS ? ended : code;
    gpud_opencl_queue_end(opencl, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused a copy of %u rows of %llu bytes",
                                queue->device->info.name, copy->rows,
                                (unsigned long long)copy->row_bytes);
    return GPUD_OK;
}

/* Both are flushed: a command that waits for another queue's is never reached otherwise. */
enum gpud_status gpud_opencl_migrate(struct gpud_queue *queue, struct gpud_memory *memory,
                                     struct gpud_queue *after, bool discard,
                                     struct gpud_error *error)
{
    struct opencl_queue *opencl = queue->backend, *earlier = after ? after->backend : NULL;
    cl_mem mem = gpud_opencl_mem(memory);
    cl_event before[2], event = NULL;
    cl_uint count = 0;
    before[0] = earlier ? gpud_opencl_queue_last(earlier) : NULL;
    if (before[0])
        count++;
    enum gpud_status status = earlier ? gpud_opencl_queue_start(earlier, error) : GPUD_OK;
    if (status == GPUD_OK)
        status = gpud_opencl_queue_begin(opencl, error);
    if (status == GPUD_OK) {
        if (opencl->last)
            before[count++] = opencl->last;
        cl_int code = clEnqueueMigrateMemObjects(
            opencl->queue, 1, &mem, discard ? CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED : 0, count,
            count ? before : NULL, &event);
        gpud_opencl_queue_end(opencl, code == CL_SUCCESS ? event : NULL);
        if (code != CL_SUCCESS)
            status = gpud_opencl_fail(error, code, "%s refused to take a memory of %s",
                                      queue->device->info.name, memory->device->info.name);
    }
    if (earlier && before[0])
        clReleaseEvent(before[0]);
    return status == GPUD_OK ? gpud_opencl_queue_start(opencl, error) : status;
}

static enum gpud_status flush(struct gpud_queue *queue, struct gpud_error *error)
{
    return gpud_opencl_queue_start(queue->backend, error);
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    return gpud_opencl_queue_on_complete(queue->backend, fn, arg, error);
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    return gpud_opencl_queue_finish(queue->backend, deadline, error);
}

static enum gpud_status enqueue_unmap(struct opencl_queue *queue, cl_mem memory, void *data,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code = clEnqueueUnmapMemObject(queue->queue, memory, data, OPENCL_AFTER(queue), &event);
    gpud_opencl_queue_end(queue, code == CL_SUCCESS ? event : NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "a mapping cannot be undone");
    clFlush(queue->queue);
    return GPUD_OK;
}

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    struct opencl_queue *opencl = queue->backend;
    if (gpud_opencl_is_write_only(memory))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "a peer's memory behind a bus address cannot be mapped");
    if (gpud_opencl_record(memory)->external)
        return gpud_opencl_map_external(opencl, memory, offset, size, access, deadline, data,
                                        error);
    cl_mem mem = gpud_opencl_mem(memory);
    enum gpud_status status;
    if (!mem) {
        status = gpud_opencl_queue_finish(opencl, deadline, error);
        if (status == GPUD_OK)
            *data = (char *)memory->host + offset;
        return status;
    }

    status = gpud_opencl_queue_begin(opencl, error);
    if (status != GPUD_OK)
        return status;
    /* For writing alone nothing need be fetched from the device. */
    cl_map_flags flags = access == GPUD_WRITE  ? CL_MAP_WRITE_INVALIDATE_REGION
                         : access & GPUD_WRITE ? CL_MAP_READ | CL_MAP_WRITE
                                               : CL_MAP_READ;
    cl_event event = NULL;
    cl_int code;
    void *mapped = clEnqueueMapBuffer(opencl->queue, mem, CL_FALSE, flags, offset, size,
                                      OPENCL_AFTER(opencl), &event, &code);
    if (mapped)
        clRetainEvent(event);
    gpud_opencl_queue_end(opencl, mapped ? event : NULL);
    if (!mapped)
        return gpud_opencl_fail(error, code, "%s cannot map %llu bytes", queue->device->info.name,
                                (unsigned long long)size);
    status = gpud_opencl_queue_wait(opencl, event, deadline, error);
    if (status == GPUD_OK)
        *data = mapped;
    else
        enqueue_unmap(opencl, mem, mapped,
                      NULL); /* in queue order: undone right after it was done */
    return status;
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    cl_mem mem = gpud_opencl_mem(memory);
    if (gpud_opencl_record(memory)->external)
        return gpud_opencl_unmap_external(queue->backend, memory, data, error);
    return mem ? enqueue_unmap(queue->backend, mem, data, error) : GPUD_OK;
}

const struct gpud_queue_ops gpud_opencl_queue_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy_op,
    .flush = flush,
    .on_complete = on_complete,
    .finish = finish,
    .map = map,
    .unmap = unmap,
};
