/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens the HIP runtime. Uses nothing else of the core, because tools/ceilings builds it too. */
#include "device/hip/driver.h"

#include <dlfcn.h>

const char *gpud_hip_load(struct hip_driver *driver)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "";
#define RESOLVE(member, symbol, arguments) \
    driver->member = (hipError_t(*) arguments)dlsym(library, #symbol);
#define REQUIRE(member, symbol, arguments) \
    RESOLVE(member, symbol, arguments)     \
    if (!driver->member)                   \
        return #symbol;
    HIP_DRIVER_FUNCTIONS(REQUIRE)
    HIP_DRIVER_OPTIONAL(RESOLVE)
#undef REQUIRE
#undef RESOLVE
    driver->get_error_name = (const char *(*)(hipError_t))dlsym(library, "hipGetErrorName");
    driver->get_handle_for_range =
        (hip_get_handle_for_range)dlsym(library, "hipMemGetHandleForAddressRange");
    void *hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (hsa)
        driver->export_dmabuf = (hsa_export_dmabuf)dlsym(hsa, "hsa_amd_portable_export_dmabuf");
    return NULL;
}
