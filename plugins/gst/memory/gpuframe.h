/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_MEMORY_GPUFRAME_H
#define GPUD_GST_MEMORY_GPUFRAME_H

#include "counters.h"
#include "memory/gpuvendor.h"

/* A frame over a buffer's own memory, which another of the vendor's elements allocated and from
 * which the core copies; it holds the buffer until that is done, and is ordered after the work that
 * the GPU still has to do for the buffer. NULL: *error says why that cannot be. */
struct gpud_frame *gpu_wrap_buffer(const struct gpu_vendor *vendor, GstBuffer *buffer,
                                   struct counters *counters, struct gpud_error *error);

#endif
