/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A driver's streams: how far the work on one is. */
#ifndef GPUD_DEVICE_GPU_STREAM_H
#define GPUD_DEVICE_GPU_STREAM_H

#include "device/gpu/gpu.h"

extern const struct gpud_async_ops gpud_gpu_async_ops;

/* An event behind what is on the stream now, of gpu->events; NULL and *result on failure. */
void *gpud_gpu_record_event(struct gpud_gpu *gpu, void *stream, int *result);

/* Waits until the stream has passed what is on it now. Between enter and leave. */
enum gpud_status gpud_gpu_wait(struct gpud_gpu *gpu, void *stream, int64_t deadline,
                               struct gpud_error *error);

#endif
