/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every backend, in the order in which "auto" and listings look at them. */
#ifndef GPUD_DEVICE_BACKENDS_H
#define GPUD_DEVICE_BACKENDS_H

#include "device/ops.h"

extern const struct gpud_device_ops gpud_host_ops;
extern const struct gpud_device_ops gpud_cuda_ops;
extern const struct gpud_device_ops gpud_hip_ops;
extern const struct gpud_device_ops gpud_opencl_ops;
extern const struct gpud_device_ops gpud_test_ops; /* in tests/toy */

#endif
