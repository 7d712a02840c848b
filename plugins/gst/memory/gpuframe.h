/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_MEMORY_GPUFRAME_H
#define GPUD_GST_MEMORY_GPUFRAME_H

#include "base/counters.h"
#include "memory/gpuvendor.h"

/* Wraps a buffer's own memory, allocated by another of the vendor's elements, as a frame from which
 * the core copies. The frame holds the buffer until the copy is done, and is ordered after the
 * GPU's pending work on it. NULL: *error says why not. */
struct gpud_frame *gpu_wrap_buffer(const struct gpu_vendor *vendor, GstBuffer *buffer,
                                   struct counters *counters, struct gpud_error *error);

#endif
