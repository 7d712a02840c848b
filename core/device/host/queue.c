/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host's queue: each call does its work before it returns. */
#include "device/host/host.h"

#include <string.h>

static enum gpud_status host_queue_create(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static void host_queue_destroy(struct gpud_queue *queue)
{
}

static void host_queue_copy_rows(const struct gpud_copy *copy)
{
    char *to = (char *)copy->to->host + copy->to_offset;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    if (copy->to_stride == copy->from_stride && copy->row_bytes == copy->to_stride) {
        memcpy(to, from, copy->row_bytes * copy->rows);
        return;
    }
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy(to + (size_t)row * copy->to_stride, from + (size_t)row * copy->from_stride,
               copy->row_bytes);
}

static enum gpud_status host_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                        struct gpud_error *error)
{
    enum gpud_status status = gpud_memory_begin_access(copy->from, GPUD_READ, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_memory_begin_access(copy->to, GPUD_WRITE, error);
    if (status == GPUD_OK) {
        host_queue_copy_rows(copy);
        gpud_memory_end_access(copy->to, GPUD_WRITE);
    }
    gpud_memory_end_access(copy->from, GPUD_READ);
    return status;
}

static enum gpud_status host_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn,
                                               void *arg, struct gpud_error *error)
{
    fn(arg, GPUD_OK);
    return GPUD_OK;
}

static enum gpud_status host_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                          struct gpud_error *error)
{
    return GPUD_OK;
}

static enum gpud_status host_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                       uint64_t offset, uint64_t size, unsigned access,
                                       int64_t deadline, void **data, struct gpud_error *error)
{
    *data = (char *)memory->host + offset;
    return gpud_memory_begin_access(memory, access, error);
}

static enum gpud_status host_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                         void *data, struct gpud_error *error)
{
    gpud_memory_end_access(memory, GPUD_READ | GPUD_WRITE);
    return GPUD_OK;
}

const struct gpud_queue_ops gpud_host_queue_ops = {
    .create = host_queue_create,
    .destroy = host_queue_destroy,
    .copy = host_queue_copy,
    .on_complete = host_queue_on_complete,
    .finish = host_queue_finish,
    .map = host_queue_map,
    .unmap = host_queue_unmap,
};
