/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams and events. */
#include "device/hip/hip.h"

static long create(void **stream)
{
    return gpud_hip.stream_create((hipStream_t *)stream, hipStreamNonBlocking);
}

static void destroy(void *stream)
{
    gpud_hip.stream_destroy(stream);
}

static long query(void *stream)
{
    return gpud_hip.stream_query(stream);
}

static long await(void *stream, void *event)
{
    return gpud_hip.stream_wait_event(stream, event, 0);
}

static long create_event(void **event)
{
    return gpud_hip.event_create((hipEvent_t *)event, hipEventDisableTiming);
}

static void destroy_event(void *event)
{
    gpud_hip.event_destroy(event);
}

static long record(void *event, void *stream)
{
    return gpud_hip.event_record(event, stream);
}

static long query_event(void *event)
{
    return gpud_hip.event_query(event);
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static long copy(void *stream, const struct gpud_rows *rows, bool on_gpu)
{
    if (on_gpu || gpud_rows_are_linear(rows))
        return gpud_hip.memcpy_async(pointer(rows->to), pointer(rows->from),
                                     rows->row_bytes * rows->rows, hipMemcpyDefault, stream);
    return gpud_hip.memcpy_2d_async(pointer(rows->to), rows->to_stride, pointer(rows->from),
                                    rows->from_stride, rows->row_bytes, rows->rows,
                                    hipMemcpyDefault, stream);
}

static long clear(void *stream, uint64_t address, uint64_t size)
{
    return gpud_hip.memset_async(pointer(address), 0, size, stream);
}

const struct gpud_gpu_stream_ops gpud_hip_stream_ops = {
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
