/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench/rawcuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIBRARY "libcuda.so.1"
#define SPIN_NS 1000000

static struct raw_cuda table;
static bool opened;

/* The first symbol that is missing, or NULL. */
static const char *load(void *library)
{
    const char *missing = NULL;
#define RAW_CUDA_LOAD(member, symbol, arguments)       \
    *(void **)&table.member = dlsym(library, #symbol); \
    if (!table.member && !missing)                     \
        missing = #symbol;
    RAW_CUDA_FUNCTIONS(RAW_CUDA_LOAD)
#undef RAW_CUDA_LOAD
    return missing;
}

void raw_cuda_say(char *reason, size_t size, const char *what, int result)
{
    const char *name = NULL;
    if (!table.get_error_name || table.get_error_name(result, &name) != 0 || !name)
        name = "an unknown error";
    snprintf(reason, size, "%s: %s (%d)", what, name, result);
}

const struct raw_cuda *raw_cuda_open(char *reason, size_t size)
{
    if (opened)
        return &table;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(reason, size, "no CUDA driver: %s", dlerror());
        return NULL;
    }
    const char *missing = load(library);
    if (missing) {
        snprintf(reason, size, "the CUDA driver has no %s: a newer one is needed", missing);
        return NULL;
    }
    int result = table.init(0);
    if (result != 0) {
        raw_cuda_say(reason, size, "cuInit", result);
        return NULL;
    }
    opened = true;
    return &table;
}

bool raw_cuda_enter(const struct raw_cuda *cu, unsigned ordinal, raw_context *context, char *reason,
                    size_t size)
{
    int device;
    int result = cu->device_get(&device, (int)ordinal);
    if (result == 0)
        result = cu->context_retain(context, device);
    if (result == 0)
        result = cu->context_push(*context);
    if (result == 0)
        return true;
    char what[64];
    snprintf(what, sizeof(what), "the primary context of cuda:%u", ordinal);
    raw_cuda_say(reason, size, what, result);
    return false;
}

void raw_cuda_leave(const struct raw_cuda *cu)
{
    raw_context context;
    cu->context_pop(&context);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

bool raw_cuda_finish(const struct raw_cuda *cu, raw_stream stream, int64_t deadline, int *result)
{
    int64_t start = now(), time = start;
    while ((*result = cu->stream_query(stream)) == RAW_NOT_READY && time < deadline) {
        if (time - start > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        time = now();
    }
    return *result == 0;
}

int raw_cuda_ordinal(const char *device)
{
    char *end;
    if (strcmp(device, "cuda") == 0)
        return 0;
    if (strncmp(device, "cuda:", 5) != 0 || device[5] < '0' || device[5] > '9')
        return -1;
    unsigned long ordinal = strtoul(device + 5, &end, 10);
    return *end || ordinal > 255 ? -1 : (int)ordinal;
}
