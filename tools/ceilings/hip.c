/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The HIP runtime has no contexts to push: each thread has a current device. */
#include "ceilings/ceilings.h"

#include "clock.h"
#include "device/hip/driver.h"
#include "vendor.h"

#include <stdio.h>
#include <string.h>

#define NESTED_MAX 8
#define PATIENCE INT64_C(1000000000) /* ns, for a stream with hardly any work */

static struct hip_driver hip;

static bool open_hip(char *reason, size_t size)
{
    const char *missing = gpud_hip_load(&hip);
    if (missing) {
        if (missing[0])
            snprintf(reason, size, "the HIP runtime has no %s: ROCm 5.2 or a newer one is needed",
                     missing);
        else
            snprintf(reason, size,
                     "no HIP runtime (libamdhip64.so.7, .6 or .5 cannot be loaded): "
                     "install ROCm, or Debian's libamdhip64-5");
        return false;
    }
#define TAKE(member, arguments) memcpy(&raw_hip.member, &hip.member, sizeof(hip.member));
    GPUD_GPU_CALLS(TAKE)
#undef TAKE
    hipError_t result = hip.init(0);
    if (result != hipSuccess)
        raw_say(&raw_hip, reason, size, "the HIP runtime finds no GPU that it may use", result);
    return result == hipSuccess;
}

static const char *hip_error_name(int result)
{
    return hip.get_error_name ? hip.get_error_name((hipError_t)result) : NULL;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* --- GPUs ------------------------------------------------------------------------------------- */

/* The devices to restore. */
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

static int enable_peer(unsigned peer)
{
    int result = hip.device_enable_peer_access((int)peer, 0);
    return result == hipErrorPeerAccessAlreadyEnabled ? 0 : result;
}

/* --- streams ---------------------------------------------------------------------------------- */

static int hip_copy(uint64_t to, uint64_t from, size_t size, void *stream)
{
    return hip.memcpy_async(pointer(to), pointer(from), size, hipMemcpyDefault, stream);
}

static int copy_rows(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width,
                     size_t rows, void *stream)
{
    return hip.memcpy_2d_async(pointer(to), to_pitch, pointer(from), from_pitch, width, rows,
                               hipMemcpyDefault, stream);
}

static int hip_wait_value(void *stream, uint64_t word, uint32_t value)
{
    return hip.stream_wait_value(stream, pointer(word), value, hipStreamWaitValueGte, UINT32_MAX);
}

/* --- words ------------------------------------------------------------------------------------ */

static bool finish(void *stream)
{
    int result;
    return raw_finish(&raw_hip, stream, clock_now() + PATIENCE, &result);
}

static bool try_word(volatile uint32_t *word, void *stream)
{
    uint64_t address;
    *word = 0;
    return raw_host_address(&raw_hip, &address, (void *)(uintptr_t)word) == 0 &&
           hip_wait_value(stream, address, 0) == 0 &&
           raw_write_value(&raw_hip, stream, address, 1) == 0 && finish(stream) && *word == 1;
}

/* The attribute guarantees it only for memory of hipMallocSignalMemory, so pinned memory is
 * tried. */
static bool has_words(unsigned gpu)
{
    int can = 0;
    void *page, *stream;
    bool found = false;
    if (hip.device_get_attribute(&can, hipDeviceAttributeCanUseStreamWaitValue, (int)gpu) != 0 ||
        !can || enter(gpu) != 0)
        return false;
    if (raw_stream_create(&raw_hip, &stream) == 0) {
        if (raw_host_alloc(&raw_hip, &page, sizeof(uint32_t)) == 0) {
            found = try_word(page, stream);
            raw_host_free(&raw_hip, page);
        }
        raw_stream_destroy(&raw_hip, stream);
    }
    leave();
    return found;
}

struct raw_driver raw_hip = {
    .vendor = "HIP",
    .prefix = "hip",
    .open = open_hip,
    .error_name = hip_error_name,
    .has_words = has_words,
    .enter = enter,
    .leave = leave,
    .enable_peer = enable_peer,
    .copy = hip_copy,
    .copy_rows = copy_rows,
    .wait_value = hip_wait_value,
};
