/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/cuda/identify.h"

#include "base/lock.h"
#include "device/cuda/api.h"
#include "device/gpu/api.h"

/* The driver answers only with a current context. If the caller's thread has none, that of an open
 * device is used. */
static struct gpud_lock lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_IDENTIFY);
static struct {
    CUcontext context;
    unsigned opened; /* how many times */
} known[64];         /* by ordinal */

void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context)
{
    gpud_lock_take(&lock);
    if (ordinal >= 0 && ordinal < 64) {
        known[ordinal].opened += context ? 1u : -1u;
        if (context || known[ordinal].opened == 0)
            known[ordinal].context = context;
    }
    gpud_lock_release(&lock);
}

static bool identify(const void *pointer, struct gpud_pointer_info *info)
{
    return gpud_gpu_identify(&gpud_cuda_gpu_driver, "cuda", pointer, info);
}

bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info)
{
    CUcontext current = NULL;
    if (!gpud_cuda_driver())
        return false;
    if (gpud_cu.ctx_get_current(&current) == CUDA_SUCCESS && current)
        return identify(pointer, info);
    bool found = false;
    gpud_lock_take(&lock);
    for (int i = 0; i < 64 && !found; i++) {
        if (!known[i].context || gpud_cu.ctx_push_current(known[i].context) != CUDA_SUCCESS)
            continue;
        found = identify(pointer, info);
        gpud_cu.ctx_pop_current(&current);
    }
    gpud_lock_release(&lock);
    return found;
}
