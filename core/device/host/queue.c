/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host's queue: what is enqueued is done before the call returns. */
#include "device/host/host.h"

#include <string.h>

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static void destroy(struct gpud_queue *queue)
{
}

static enum gpud_status copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error)
{
    char *to = (char *)copy->to->host + copy->to_offset;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    if (copy->to_stride == copy->from_stride && copy->row_bytes == copy->to_stride) {
        memcpy(to, from, copy->row_bytes * copy->rows);
        return GPUD_OK;
    }
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy(to + (size_t)row * copy->to_stride, from + (size_t)row * copy->from_stride,
               copy->row_bytes);
    return GPUD_OK;
}

static enum gpud_status flush(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK;
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    fn(arg, GPUD_OK);
    return GPUD_OK;
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    return GPUD_OK;
}

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    *data = (char *)memory->host + offset;
    return GPUD_OK;
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    return GPUD_OK;
}

const struct gpud_queue_ops gpud_host_queue_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .flush = flush,
    .on_complete = on_complete,
    .finish = finish,
    .map = map,
    .unmap = unmap,
};
