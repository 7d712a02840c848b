/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The NVIDIA driver: loaded once, for good. */
#ifndef GPUD_CUDA_API_H
#define GPUD_CUDA_API_H

#include "device/cuda/cuda.h"

/* The driver's functions; NULL where there is no driver, or no GPU that this process may use. */
const struct cuda_driver *gpud_cuda_driver(void);

/* The same inside the backend; valid once a device was found. */
extern struct cuda_driver gpud_cu;

/* For device/gpu/; its calls are set once a device was found. */
extern struct gpud_gpu_driver gpud_cuda_gpu_driver;

/* Number of devices. */
int gpud_cuda_count(void);

/* Why there is no device. */
const char *gpud_cuda_why_none(void);

#endif
