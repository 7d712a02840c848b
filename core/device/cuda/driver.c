/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens the CUDA driver. Uses nothing else of the core, because tools/ceilings builds it too. */
#include "device/cuda/driver.h"

#include <dlfcn.h>

const char *gpud_cuda_load(struct cuda_driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "";
#define RESOLVE(member, symbol, arguments)                           \
    driver->member = (CUresult(*) arguments)dlsym(library, #symbol); \
    if (!driver->member)                                             \
        return #symbol;
    CUDA_DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
    return NULL;
}
