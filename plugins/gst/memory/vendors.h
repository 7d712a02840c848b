/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_MEMORY_VENDORS_H
#define GPUD_GST_MEMORY_VENDORS_H

#include "memory/gpuvendor.h"

#define GPU_VENDORS_MAX 4
extern const struct gpu_vendor *const gpu_vendors[GPU_VENDORS_MAX + 1]; /* NULL behind the last */

#endif
