/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The NVIDIA driver: found once, and kept. */
#ifndef GPUD_CUDA_API_H
#define GPUD_CUDA_API_H

#include "device/cuda/cuda.h"

/* The driver's functions; NULL where there is no driver, or no GPU that this process may use. */
const struct cuda_driver *gpud_cuda_driver(void);

/* The same inside the backend, once a device was found. */
extern struct cuda_driver gpud_cu;

/* For device/gpu/; its calls are there once a device was found. */
extern struct gpud_gpu_driver gpud_cuda_gpu_driver;

/* How many devices there are. */
int gpud_cuda_count(void);

/* Why there is none. */
const char *gpud_cuda_why_none(void);

#endif
