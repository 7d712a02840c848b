/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams and events. */
#include "device/cuda/cuda.h"

static long create(void **stream)
{
    return gpud_cu.stream_create((CUstream *)stream, CU_STREAM_NON_BLOCKING);
}

static void destroy(void *stream)
{
    gpud_cu.stream_destroy(stream);
}

static long query(void *stream)
{
    return gpud_cu.stream_query(stream);
}

static long await(void *stream, void *event)
{
    return gpud_cu.stream_wait_event(stream, event, 0);
}

static long create_event(void **event)
{
    return gpud_cu.event_create((CUevent *)event, CU_EVENT_DISABLE_TIMING);
}

static void destroy_event(void *event)
{
    gpud_cu.event_destroy(event);
}

static long record(void *event, void *stream)
{
    return gpud_cu.event_record(event, stream);
}

static long query_event(void *event)
{
    return gpud_cu.event_query(event);
}

static long copy(void *stream, const struct gpud_rows *rows, bool on_gpu)
{
    if (on_gpu)
        return gpud_cu.memcpy_dtod_async(rows->to, rows->from, rows->row_bytes, stream);
    if (gpud_rows_are_linear(rows))
        return gpud_cu.memcpy_async(rows->to, rows->from, rows->row_bytes * rows->rows, stream);
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = rows->from,
        .srcPitch = rows->from_stride,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = rows->to,
        .dstPitch = rows->to_stride,
        .WidthInBytes = rows->row_bytes,
        .Height = rows->rows,
    };
    return gpud_cu.memcpy_2d_async(&copy, stream);
}

static long clear(void *stream, uint64_t address, uint64_t size)
{
    return gpud_cu.memset_d8_async(address, 0, size, stream);
}

const struct gpud_gpu_stream_ops gpud_cuda_stream_ops = {
    .create = create,
    .destroy = destroy,
    .query = query,
    .await = await,
    .create_event = create_event,
    .destroy_event = destroy_event,
    .record = record,
    .query_event = query_event,
    .copy = copy,
    .clear = clear,
};
