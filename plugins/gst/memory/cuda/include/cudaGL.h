/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Beside the cuda.h of this folder, and for the same reason. */
#ifndef GPUD_GST_CUDA_GL_H
#define GPUD_GST_CUDA_GL_H

#include "cuda.h"

typedef enum CUGLDeviceList_enum { GPUD_GL_DEVICE_LIST = 0x7fffffff } CUGLDeviceList;

#endif
