/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Links from one GPU to another, and to the host. */
#ifndef GPUD_CUDA_LINK_H
#define GPUD_CUDA_LINK_H

#include "device/cuda/cuda.h"

/* As gpud_device_ops.link. */
void gpud_cuda_link(const struct gpud_device *from, const struct gpud_device *to,
                    struct gpud_device_link *link);

/* What the slot and the GPU can do with the host's memory, in MB/s; 0: unknown. */
uint32_t gpud_cuda_host_rate(const struct gpud_device *device);

#endif
