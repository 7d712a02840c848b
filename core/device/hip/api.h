/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The HIP runtime: loaded once, for good. */
#ifndef GPUD_HIP_API_H
#define GPUD_HIP_API_H

#include "device/hip/hip.h"

/* The runtime's functions; NULL where there is no runtime, or no GPU that this process may use. */
const struct hip_driver *gpud_hip_driver(void);

/* The same inside the backend; valid once a device was found. */
extern struct hip_driver gpud_hip;

/* For device/gpu/; its calls are set once a device was found. */
extern struct gpud_gpu_driver gpud_hip_gpu_driver;

/* Number of devices. */
int gpud_hip_count(void);

/* Why there is no device. */
const char *gpud_hip_why_none(void);

#endif
