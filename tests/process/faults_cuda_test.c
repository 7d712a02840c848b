/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A CUDA driver that fails. The core still breaks none of the driver's rules. */
#include "device/cuda/driver.h"
#include "faults.h"
#include "support/check.h"

#include <dlfcn.h>

#define BROKE_RULES 86 /* the exit status of a process that did */

static const char *const functions[] = {
#define NAME(member, symbol, arguments) #symbol,
    CUDA_DRIVER_FUNCTIONS(NAME)
#undef NAME
};

static unsigned failures(void)
{
    CUresult (*count)(unsigned *);
    unsigned value = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        SKIP("there is no CUDA driver");
    *(void **)&count = dlsym(library, "fakeCudaFailures");
    if (!count)
        SKIP("this is a real driver, which does not fail on request");
    count(&value);
    return value;
}

static bool gives_back(const char *function)
{
    static const char *const names[] = {
        "cuMemFree_v2",       "cuMemFreeHost",       "cuMemHostUnregister",
        "cuMemUnmap",         "cuMemRelease",        "cuMemAddressFree",
        "cuStreamDestroy_v2", "cuIpcCloseMemHandle", "cuCtxPushCurrent_v2",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return false;
}

/* If the driver fails to free something, it may remain at the end; nothing else may be wrong. */
static bool only_left_behind(const char *function, int status, const char *out)
{
    char line[512];
    unsigned reports = 0, left = 0;
    if (status != BROKE_RULES || !gives_back(function))
        return false;
    FILE *file = fopen(out, "re");
    while (file && fgets(line, sizeof(line), file)) {
        reports += strncmp(line, "fake libcuda: ", 14) == 0;
        left += strstr(line, "cuDevicePrimaryCtxRelease_v2: the context of device ") != NULL;
    }
    if (file)
        fclose(file);
    return reports > 0 && reports == left;
}

int main(int argc, char **argv)
{
    static const struct faults faults = {
        .origin = "the driver",
        .variable = "GPUD_FAKE_CUDA_FAIL",
        .function = functions,
        .count = sizeof(functions) / sizeof(functions[0]),
        .failures = failures,
        .excuses = only_left_behind,
    };
    failures();
    return faults_main(&faults, argc, argv);
}
