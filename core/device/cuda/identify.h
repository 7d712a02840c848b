/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which device a pointer's memory belongs to. */
#ifndef GPUD_CUDA_IDENTIFY_H
#define GPUD_CUDA_IDENTIFY_H

#include "device/cuda/cuda.h"

/* As gpud_device_ops.identify. */
bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info);

/* Records an opened device for look-ups; context NULL: it is about to be closed. */
void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context);

#endif
