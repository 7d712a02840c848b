/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors: names of results, refusals, reports, and injected failures. */

#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RULES 16

static struct rule {
    char function[64];
    unsigned long from, calls;
    bool onwards;
    CUresult result;
} rules[MAX_RULES];
static unsigned num_rules;

static _Thread_local const char *entered = "a stream";

void set_entered(const char *function)
{
    entered = function;
}

/* An invalid rule must not make a test pass that depends on it. */
static void bad_rule(const char *text)
{
    fprintf(stderr,
            "fake libcuda: GPUD_FAKE_CUDA_FAIL: \"%s\" is not function:n, function:n+ or "
            "function:n=result\n",
            text);
    abort();
}

static void read_rule(const char *text)
{
    if (num_rules == MAX_RULES)
        bad_rule(text);
    struct rule *rule = &rules[num_rules++];
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof rule->function)
        bad_rule(text);
    memcpy(rule->function, text, colon - text);
    char *end;
    rule->from = strtoul(colon + 1, &end, 10);
    rule->result = CUDA_ERROR_OUT_OF_MEMORY;
    if (*end == '+') {
        rule->onwards = true;
        end++;
    }
    if (*end == '=')
        rule->result = (CUresult)strtol(end + 1, &end, 10);
    if (*end || rule->from == 0 || rule->result == CUDA_SUCCESS)
        bad_rule(text);
}

void inject_read(const char *text)
{
    if (!text || !*text)
        return;
    char *copy = strdup(text), *rest = copy;
    for (char *one; (one = strsep(&rest, ","));)
        read_rule(one);
    free(copy);
}

CUresult inject_ask(const char *function)
{
    for (unsigned i = 0; i < num_rules; i++) {
        struct rule *rule = &rules[i];
        if (strcmp(rule->function, function) != 0)
            continue;
        unsigned long call = ++rule->calls;
        if (call != rule->from && !(rule->onwards && call > rule->from))
            continue;
        fake.failures++;
        return refuse(rule->result, "on request, call %lu", call);
    }
    return CUDA_SUCCESS;
}

static void say(const char *format, va_list arguments)
{
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    /* One write, so that the lines of several threads and processes stay whole. */
    fprintf(stderr, "fake libcuda: %s: %s\n", entered, text);
}

CUresult refuse(CUresult result, const char *format, ...)
{
    if (fake.verbose) {
        va_list arguments;
        va_start(arguments, format);
        say(format, arguments);
        va_end(arguments);
    }
    return result;
}

CUresult report(CUresult result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    fake.reports++;
    if (fake.abort_on_report)
        abort();
    return result;
}

static const struct {
    int result;
    const char *name, *text;
} results[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {208, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult look_up(CUresult result, const char **out, bool name)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].result == (int)result) {
            *out = name ? results[i].name : results[i].text;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    return look_up(result, name, true);
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    return look_up(result, text, false);
}
