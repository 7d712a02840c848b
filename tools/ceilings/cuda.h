/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What only CUDA has: contexts besides the GPU's own, as GStreamer makes them. The driver must be
 * open. */
#ifndef GPUD_TOOLS_CEILINGS_CUDA_H
#define GPUD_TOOLS_CEILINGS_CUDA_H

#include "driver.h"

/* Makes a context current, until raw_leave(&raw_cuda). */
int raw_cuda_push(void *context);

#endif
