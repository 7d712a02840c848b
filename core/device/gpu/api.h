/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a vendor's device.c calls to open a GPU, and to ask its driver about it. */
#ifndef GPUD_DEVICE_GPU_API_H
#define GPUD_DEVICE_GPU_API_H

#include "device/gpu/gpu.h"

/* Asks the driver, without more than a call; 0: it makes no physical allocations. gpu has its
 * driver and ordinal. Between enter and leave. */
uint64_t gpud_gpu_find_granularity(const struct gpud_gpu *gpu);

/* gpu has its driver, ordinal, context and granularity. On failure nothing is left of it; the
 * caller's own part of the record stays the caller's. Without a granularity the device loses
 * GPUD_CAP_SHARE. */
enum gpud_status gpud_gpu_open(struct gpud_gpu *gpu, struct gpud_device *device,
                               struct gpud_error *error);
/* All queues are gone. false: work is stuck on the device, and its record has to stay. */
bool gpud_gpu_close(struct gpud_gpu *gpu);

/* The uuids of all devices that this one reaches, itself first. */
void gpud_gpu_probe_reach(struct gpud_device *device, int count, bool (*reaches)(int from, int to),
                          bool (*read_uuid)(int ordinal, uint8_t uuid[16]));

/* Fills what the driver says of a way between two of its devices: direct, and if so atomics and
 * rank. false: it does not answer. */
bool gpud_gpu_ask_link(const struct gpud_gpu_driver *driver, int from, int to,
                       struct gpud_device_link *link);

/* As gpud_device_ops.identify; kind: the part of a device's name before the colon. */
bool gpud_gpu_identify(const struct gpud_gpu_driver *driver, const char *kind, const void *pointer,
                       struct gpud_pointer_info *info);

#endif
