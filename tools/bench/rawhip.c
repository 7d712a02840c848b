/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The HIP runtime, with our own declarations. It has no contexts to push: each thread has a current
 * device. */
#include "bench/rawhip.h"

#include "bench/rawgpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#define NESTED_MAX 8
#define PATIENCE INT64_C(1000000000) /* ns, for a stream that has next to nothing to do */

typedef int hipError_t, hipDeviceAttribute_t, hipMemcpyKind; /* enumerations */
typedef void *hipStream_t;

#define MEMBER(member, symbol, arguments) hipError_t(*member) arguments;
static struct {
    RAW_HIP_FUNCTIONS(MEMBER)
    const char *(*error_name)(hipError_t result);
} hip;
#undef MEMBER

static bool opened;

/* The first symbol that is missing, or NULL. */
static const char *load(void *library)
{
    const char *missing = NULL;
#define LOAD(member, symbol, arguments)              \
    *(void **)&hip.member = dlsym(library, #symbol); \
    if (!hip.member && !missing)                     \
        missing = #symbol;
    RAW_HIP_FUNCTIONS(LOAD)
    LOAD(error_name, hipGetErrorName, )
#undef LOAD
    return missing;
}

/* In the order in which the library under test takes them. */
static void *find_library(void)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static bool open_hip(char *reason, size_t size)
{
    if (opened)
        return true;
    void *library = find_library();
    if (!library) {
        snprintf(reason, size,
                 "no HIP runtime (libamdhip64.so.7, .6 or .5 cannot be loaded): "
                 "install ROCm, or Debian's libamdhip64-5");
        return false;
    }
    const char *missing = load(library);
    if (missing) {
        snprintf(reason, size, "the HIP runtime has no %s: ROCm 5.2 or a newer one is needed",
                 missing);
        return false;
    }
    int result = hip.init(0);
    if (result != 0)
        raw_say(&raw_hip, reason, size, "the HIP runtime finds no GPU that it may use", result);
    opened = result == 0;
    return opened;
}

static const char *error_name(int result)
{
    return hip.error_name(result);
}

static void *pointer(raw_address address)
{
    return (void *)(uintptr_t)address;
}

/* --- GPUs ------------------------------------------------------------------------------------- */

/* The devices to come back to. */
static _Thread_local int before[NESTED_MAX];
static _Thread_local unsigned nested;

static int enter(unsigned gpu)
{
    int result = hip.get_device(&before[nested % NESTED_MAX]);
    if (result == 0)
        result = hip.set_device((int)gpu);
    if (result == 0)
        nested++;
    return result;
}

static void leave(void)
{
    hip.set_device(before[--nested % NESTED_MAX]);
}

static int can_access_peer(int *can, unsigned gpu, unsigned peer)
{
    return hip.can_access_peer(can, (int)gpu, (int)peer);
}

static int enable_peer(unsigned peer)
{
    int result = hip.enable_peer((int)peer, 0);
    return result == RAW_HIP_PEER_ALREADY_ENABLED ? 0 : result;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int alloc(raw_address *address, size_t size)
{
    void *made = NULL;
    int result = hip.alloc(&made, size);
    *address = (uintptr_t)made;
    return result;
}

static int free_memory(raw_address address)
{
    return hip.free(pointer(address));
}

/* Mapped: then it is coherent, whatever the environment says. */
static int host_alloc(void **host, size_t size)
{
    return hip.host_alloc(host, size, RAW_HIP_HOST_PORTABLE | RAW_HIP_HOST_MAPPED);
}

static int host_free(void *host)
{
    return hip.host_free(host);
}

static int host_address(raw_address *address, void *host)
{
    void *found = NULL;
    int result = hip.host_address(&found, host, 0);
    *address = (uintptr_t)found;
    return result;
}

static int fill(raw_address address, unsigned char value, size_t size, raw_stream stream)
{
    return hip.fill(pointer(address), value, size, stream);
}

static int copy(raw_address to, raw_address from, size_t size, raw_stream stream)
{
    return hip.copy(pointer(to), pointer(from), size, RAW_HIP_COPY_DEFAULT, stream);
}

static int copy_rows(raw_address to, size_t to_pitch, raw_address from, size_t from_pitch,
                     size_t width, size_t rows, raw_stream stream)
{
    return hip.copy_2d(pointer(to), to_pitch, pointer(from), from_pitch, width, rows,
                       RAW_HIP_COPY_DEFAULT, stream);
}

/* --- streams ---------------------------------------------------------------------------------- */

static int stream_create(raw_stream *stream)
{
    return hip.stream_create(stream, RAW_HIP_STREAM_NON_BLOCKING);
}

static int stream_destroy(raw_stream stream)
{
    return hip.stream_destroy(stream);
}

static int stream_query(raw_stream stream)
{
    return hip.stream_query(stream);
}

static int wait_value(raw_stream stream, raw_address word, uint32_t value)
{
    return hip.wait_value(stream, pointer(word), value, RAW_HIP_WAIT_GREATER_OR_EQUAL, UINT32_MAX);
}

static int write_value(raw_stream stream, raw_address word, uint32_t value)
{
    return hip.write_value(stream, pointer(word), value, 0);
}

/* --- words ------------------------------------------------------------------------------------ */

static bool finish(raw_stream stream)
{
    struct timespec now;
    int result;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return raw_finish(&raw_hip, stream, now.tv_sec * INT64_C(1000000000) + now.tv_nsec + PATIENCE,
                      &result);
}

static bool try_word(volatile uint32_t *word, raw_stream stream)
{
    raw_address address;
    *word = 0;
    return host_address(&address, (void *)(uintptr_t)word) == 0 &&
           wait_value(stream, address, 0) == 0 && write_value(stream, address, 1) == 0 &&
           finish(stream) && *word == 1;
}

/* The attribute promises it for memory of hipMallocSignalMemory alone: for pinned memory it is
 * tried. */
static bool has_words(unsigned gpu)
{
    int can = 0;
    void *page;
    raw_stream stream;
    bool found = false;
    if (hip.get_attribute(&can, RAW_HIP_ATTRIBUTE_WAIT_VALUE, (int)gpu) != 0 || !can ||
        enter(gpu) != 0)
        return false;
    if (stream_create(&stream) == 0) {
        if (host_alloc(&page, sizeof(uint32_t)) == 0) {
            found = try_word(page, stream);
            host_free(page);
        }
        stream_destroy(stream);
    }
    leave();
    return found;
}

const struct raw_driver raw_hip = {
    .vendor = "HIP",
    .prefix = "hip",
    .not_ready = RAW_HIP_NOT_READY,
    .open = open_hip,
    .error_name = error_name,
    .has_words = has_words,
    .enter = enter,
    .leave = leave,
    .can_access_peer = can_access_peer,
    .enable_peer = enable_peer,
    .alloc = alloc,
    .free = free_memory,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_address = host_address,
    .fill = fill,
    .copy = copy,
    .copy_rows = copy_rows,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .wait_value = wait_value,
    .write_value = write_value,
};
