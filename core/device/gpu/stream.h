/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A driver's streams: the progress of their work. */
#ifndef GPUD_DEVICE_GPU_STREAM_H
#define GPUD_DEVICE_GPU_STREAM_H

#include "device/gpu/gpu.h"

extern const struct gpud_async_ops gpud_gpu_async_ops;

/* Records an event, from gpu->events, after the stream's current work; NULL and *result on failure.
 */
void *gpud_gpu_record_event(struct gpud_gpu *gpu, void *stream, int *result);

/* Waits until the stream's current work is done. Between enter and leave. */
enum gpud_status gpud_gpu_wait(struct gpud_gpu *gpu, void *stream, int64_t deadline,
                               struct gpud_error *error);

#endif
