/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared memory: handles to and from other processes, and host pages pinned for GPUs. */
#ifndef GPUD_DEVICE_GPU_SHARE_H
#define GPUD_DEVICE_GPU_SHARE_H

#include "device/gpu/gpu.h"

/* The ops of these names. */
enum gpud_status gpud_gpu_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                 struct gpud_error *error);
enum gpud_status gpud_gpu_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                 struct gpud_error *error);
enum gpud_status gpud_gpu_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t bytes,
                                        int *fd, uint64_t *offset, struct gpud_error *error);
enum gpud_status gpud_gpu_before_dma(struct gpud_memory *memory, struct gpud_error *error);

/* Whether read-only pages can be pinned, tried with one. */
bool gpud_gpu_pins_what_it_reads(struct gpud_gpu *gpu);

/* Pins host memory and gets its GPU address. *pinned is NULL if the application has pinned it.
 * GPUD_UNSUPPORTED: it cannot be pinned. Between enter and leave. */
enum gpud_status gpud_gpu_pin(struct gpud_gpu *gpu, void *data, uint64_t size, bool read_only,
                              struct gpud_pinned **pinned, uint64_t *address);

#endif
