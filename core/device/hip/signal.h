/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether streams wait for words in pinned pages. */
#ifndef GPUD_HIP_SIGNAL_H
#define GPUD_HIP_SIGNAL_H

#include "device/gpu/gpu.h"

/* Tries whether streams can wait for words in pinned pages, and post them. That is documented only
 * for memory of hipMallocSignalMemory, which cannot be shared with another process. On false the
 * reason. */
bool gpud_hip_prove_signals(struct gpud_gpu *gpu, char why[GPUD_REASON_MAX]);

#endif
