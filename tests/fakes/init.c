/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The entry of every function, and the functions that need only the library. */

#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 13000

struct fake fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .progress = PTHREAD_COND_INITIALIZER,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

static size_t read_size(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 0);
    switch (*end) {
    case 'G':
        return value << 30;
    case 'M':
        return value << 20;
    case 'k':
        return value << 10;
    default:
        return value;
    }
}

/* As in the driver, a forked child has lost its GPU. Its copy of the lock may be held forever. */
static void before_fork(void)
{
    pthread_mutex_lock(&fake.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&fake.lock);
}

static void in_child(void)
{
    pthread_mutex_init(&fake.lock, NULL);
    fake.forked = fake.initialised;
}

static void read_environment(void)
{
    const char *memory = getenv("GPUD_FAKE_CUDA_MEMORY");
    const char *strict = getenv("GPUD_FAKE_CUDA_STRICT");
    const char *delay = getenv("GPUD_FAKE_CUDA_DELAY_US");
    fake.memory = memory ? read_size(memory) : (size_t)1 << 30;
    const char *rate = getenv("GPUD_FAKE_CUDA_PEER_MBPS");
    const char *unordered = getenv("GPUD_FAKE_CUDA_UNORDERED");
    fake.unordered = is_set("GPUD_FAKE_CUDA_UNORDERED");
    fake.no_flush = unordered && strcmp(unordered, "2") == 0;
    fake.delay_us = delay ? atol(delay) : 0;
    fake.peer_mbps = rate ? atol(rate) : 0;
    fake.no_peers = getenv("GPUD_FAKE_CUDA_PEERS") && !is_set("GPUD_FAKE_CUDA_PEERS");
    fake.no_read_only = getenv("GPUD_FAKE_CUDA_READ_ONLY") && !is_set("GPUD_FAKE_CUDA_READ_ONLY");
    fake.integrated = is_set("GPUD_FAKE_CUDA_INTEGRATED");
    fake.verbose = is_set("GPUD_FAKE_CUDA_VERBOSE");
    fake.abort_on_report = strict && strcmp(strict, "abort") == 0;
    fake.exit_on_report = strict && strcmp(strict, "exit") == 0;
    if (strict && *strict && !fake.abort_on_report && !fake.exit_on_report) {
        fprintf(stderr, "fake libcuda: GPUD_FAKE_CUDA_STRICT is abort or exit, not %s\n", strict);
        abort();
    }
    inject_read(getenv("GPUD_FAKE_CUDA_FAIL"));
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Streams may be busy forever; they end with the process, and later calls find the driver gone. */
__attribute__((destructor)) static void on_exit_of_process(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.exiting = true;
    bool fail = fake.exit_on_report && fake.reports > 0 && !fake.forked;
    pthread_mutex_unlock(&fake.lock);
    if (fail) {
        fflush(NULL);
        _Exit(86);
    }
}

CUresult enter(const char *function, enum need need)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&fake.lock);
    set_entered(function);
    CUresult result = CUDA_SUCCESS;
    CUcontext context = need == NEED_CONTEXT ? current_context() : NULL;
    if (fake.exiting)
        result = refuse(CUDA_ERROR_DEINITIALIZED, "the process is ending");
    else if (fake.forked)
        result = refuse(CUDA_ERROR_NOT_INITIALIZED, "a child of fork() of a process with CUDA");
    else if (in_host_function())
        result = refuse(CUDA_ERROR_NOT_PERMITTED, "in a function that a stream calls");
    else if (need != NEED_NOTHING && !fake.initialised)
        result = refuse(CUDA_ERROR_NOT_INITIALIZED, "before cuInit");
    else if (need == NEED_CONTEXT && !context)
        result = refuse(CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
    else if (need == NEED_CONTEXT && !context->object.alive)
        result = refuse(ERROR_CONTEXT_IS_DESTROYED, "this thread's current context has ended");
    else if (need == NEED_CONTEXT && context->sticky != CUDA_SUCCESS)
        result = refuse(context->sticky, "the context broke earlier");
    else
        result = inject_ask(function);
    if (result != CUDA_SUCCESS)
        pthread_mutex_unlock(&fake.lock);
    return result;
}

CUresult leave(CUresult result)
{
    pthread_mutex_unlock(&fake.lock);
    return result;
}

CUresult cuInit(unsigned flags)
{
    ENTER(NEED_NOTHING);
    if (flags != 0)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    if (fake.initialised)
        return leave(CUDA_SUCCESS);
    if (!devices_read())
        return leave(refuse(CUDA_ERROR_NO_DEVICE, "no device, or none is visible"));
    const char *arena = getenv("GPUD_FAKE_CUDA_ARENA");
    arena_open(arena ? read_size(arena) : (size_t)512 << 30);
    account_open();
    fake.initialised = true;
    return leave(CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER(NEED_NOTHING);
    if (!version)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "nowhere to put the version"));
    *version = VERSION;
    return leave(CUDA_SUCCESS);
}

CUresult fakeCudaReports(unsigned *count)
{
    ENTER(NEED_NOTHING);
    *count = fake.reports;
    return leave(CUDA_SUCCESS);
}

/* How many calls failed on request. */
CUresult fakeCudaFailures(unsigned *count)
{
    ENTER(NEED_NOTHING);
    *count = fake.failures;
    return leave(CUDA_SUCCESS);
}

/* How many times writes over the bus were flushed. */
CUresult fakeCudaFlushes(unsigned *count)
{
    ENTER(NEED_NOTHING);
    *count = fake.flushes;
    return leave(CUDA_SUCCESS);
}

/* How many calls made streams write words, and wait for them. */
CUresult fakeCudaCalls(unsigned *writes, unsigned *waits)
{
    ENTER(NEED_NOTHING);
    *writes = fake.writes;
    *waits = fake.waits;
    return leave(CUDA_SUCCESS);
}

#define ENTRY(symbol) {#symbol, (void (*)(void))symbol},
#define ENTRY_OF_MEMBER(member, symbol, arguments) ENTRY(symbol)
#define ENTRY_OF_FUNCTION(symbol, arguments) ENTRY(symbol)
static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {CUDA_DRIVER_FUNCTIONS(ENTRY_OF_MEMBER) FAKE_FUNCTIONS(ENTRY_OF_FUNCTION)
                     FAKE_UNSUPPORTED_FUNCTIONS(ENTRY)};

/* The driver's version in which a second version of a function came; 4.0 for all others. */
static int since(const char *name)
{
    static const struct {
        const char *name;
        int version;
    } news[] = {
        {"cuStreamWaitValue32_v2", 11070},
        {"cuStreamWriteValue32_v2", 11070},
        {"cuStreamBatchMemOp_v2", 11070},
        {"cuIpcOpenMemHandle_v2", 11000},
        {"cuDevicePrimaryCtxRelease_v2", 11000},
        {"cuDeviceGetUuid_v2", 11040},
        {"cuMemHostRegister_v2", 6050},
        {"cuGetProcAddress_v2", 12000},
        {"cuMemGetHandleForAddressRange", 11070},
        {"cuMemRetainAllocationHandle", 11000},
        {"cuFlushGPUDirectRDMAWrites", 11030},
        {"cuMemCreate", 10020},
        {"cuMemAllocAsync", 11020},
        {"cuMemFreeAsync", 11020},
    };
    for (size_t i = 0; i < sizeof news / sizeof *news; i++) {
        if (strcmp(news[i].name, name) == 0)
            return news[i].version;
    }
    return 4000;
}

/* The newest that the asker's version knows, as the driver: it asks for names without a suffix. */
static void (*look_up(const char *symbol, int version))(void)
{
    size_t length = strlen(symbol);
    void (*found)(void) = NULL;
    bool found_second = false;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const char *name = functions[i].name;
        if (strncmp(name, symbol, length) != 0 || strncmp(name, "cu", 2) != 0)
            continue;
        bool second = strcmp(name + length, "_v2") == 0;
        if ((second || (name[length] == '\0' && !found_second)) && version >= since(name)) {
            found = functions[i].function;
            found_second = second;
        }
    }
    return found;
}

static CUresult get_address(const char *symbol, void **function, int version, uint64_t flags,
                            CUdriverProcAddressQueryResult *found)
{
    if (!symbol || !function || version < 2000 || flags > 1)
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      "no name, nowhere to put it, a version of %d or the flags of per-thread "
                      "streams, which are not here",
                      version);
    size_t length = strlen(symbol);
    bool suffixed = length > 3 && strcmp(symbol + length - 3, "_v2") == 0;
    void (*address)(void) = suffixed ? NULL : look_up(symbol, version);
    if (found)
        *found = address ? 0 : 1;
    memcpy(function, &address, sizeof address);
    if (!address && !found)
        return refuse(ERROR_NOT_FOUND, "no %s for version %d", symbol, version);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    ENTER(NEED_NOTHING);
    return leave(get_address(symbol, function, version, flags, NULL));
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    ENTER(NEED_NOTHING);
    return leave(get_address(symbol, function, version, flags, found));
}

#define DEFINE_UNSUPPORTED(symbol)                                                             \
    CUresult symbol(void)                                                                      \
    {                                                                                          \
        ENTER(NEED_INIT);                                                                      \
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "this driver runs no kernels, has no "   \
                                                      "pools and shares nothing but memory")); \
    }
FAKE_UNSUPPORTED_FUNCTIONS(DEFINE_UNSUPPORTED)
