/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Physical allocations, and where they are mapped. All calls are made between enter and leave. */
#ifndef GPUD_DEVICE_GPU_MAP_H
#define GPUD_DEVICE_GPU_MAP_H

#include "device/gpu/gpu.h"

/* An allocation of this GPU that can be exported as a descriptor. */
struct gpud_gpu_allocation gpud_gpu_describe(const struct gpud_gpu *gpu);

/* Makes record->allocation of record->mapped bytes and maps it. Returns the driver's result. */
int gpud_gpu_create(const struct gpud_gpu *gpu, struct gpud_gpu_memory *record);

/* Maps a physical allocation for this GPU: reserves addresses, maps, allows access. */
enum gpud_status gpud_gpu_map(const struct gpud_gpu *gpu, uint64_t allocation, uint64_t size,
                              bool read_only, uint64_t *address, int *result);

/* Undoes either, also for what was imported. */
void gpud_gpu_unmap(const struct gpud_gpu *gpu, const struct gpud_gpu_memory *record);

#endif
