/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HIP's runtime, opened at run time. */
#include "device/hip/hip.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct hip_driver gpud_hip;

/* --- what is HIP's own --------------------------------------------------------------------- */

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static const char *hip_api_error_name(int result)
{
    return gpud_hip.get_error_name ? gpud_hip.get_error_name((hipError_t)result) : NULL;
}

/* The runtime keeps a current device for each thread. It is the application's, so it is restored.
 * -1: nothing to restore. */
#define NESTED_MAX 16

static _Thread_local int before[NESTED_MAX];
static _Thread_local unsigned nested;

static void hip_api_enter(struct gpud_gpu *gpu)
{
    int ordinal = gpu->ordinal, current = -1;
    if (gpud_hip.get_device(&current) != hipSuccess || current == ordinal)
        current = -1;
    else
        gpud_hip.set_device(ordinal);
    before[nested++ % NESTED_MAX] = current;
}

static void hip_api_leave(struct gpud_gpu *gpu)
{
    int current = before[--nested % NESTED_MAX];
    if (current >= 0)
        gpud_hip.set_device(current);
}

static int hip_api_copy(void *stream, const struct gpud_rows *rows, bool on_gpu)
{
    if (on_gpu || gpud_rows_are_linear(rows))
        return (int)gpud_hip.memcpy_async(pointer(rows->to), pointer(rows->from),
                                          rows->row_bytes * rows->rows, hipMemcpyDefault, stream);
    return (int)gpud_hip.memcpy_2d_async(pointer(rows->to), rows->to_stride, pointer(rows->from),
                                         rows->from_stride, rows->row_bytes, rows->rows,
                                         hipMemcpyDefault, stream);
}

/* The runtime waits for (word & mask) >= value, and does not wrap. */
static int hip_api_wait_value(void *stream, uint64_t address, uint32_t value)
{
    return (int)gpud_hip.stream_wait_value(stream, pointer(address), value, hipStreamWaitValueGte,
                                           UINT32_MAX);
}

static enum gpud_status hip_api_export_dmabuf(struct gpud_device *device, uint64_t address,
                                              uint64_t size, int *fd, uint64_t *offset,
                                              struct gpud_error *error)
{
    if (gpud_hip.get_handle_for_range) {
        *offset = 0;
        hipError_t result =
            gpud_hip.get_handle_for_range(fd, pointer(address), size, HIP_RANGE_HANDLE_DMA_BUF, 0);
        if (result == hipSuccess)
            return GPUD_OK;
        if (result != hipErrorNotSupported || !gpud_hip.export_dmabuf)
            return gpud_gpu_fail(&gpud_hip_gpu_driver, error, (int)result,
                                 "no dma-buf for %llu bytes of %s", (unsigned long long)size,
                                 device->info.name);
    }
    int result = gpud_hip.export_dmabuf(pointer(address), size, fd, offset);
    if (result)
        return gpud_fail_native(
            error, GPUD_UNSUPPORTED, "hsa", result,
            "no dma-buf for %llu bytes of %s: the HSA runtime answers %#x "
            "(the kernel needs CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY)",
            (unsigned long long)size, device->info.name, (unsigned)result);
    return GPUD_OK;
}

/* Writes over the bus go through the GPU's host data path, which holds some back until its register
 * is written. */
static enum gpud_status hip_api_flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    const struct hip_device *device = gpud_hip_device(memory->device);
    if (device->coherent)
        return GPUD_OK;
    if (!device->flush)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the HIP runtime gives no access to the register that flushes what a "
                         "network card wrote to %s: let the card write to host memory",
                         memory->device->info.name);
    atomic_thread_fence(memory_order_seq_cst);
    *device->flush = 1;
    atomic_thread_fence(memory_order_seq_cst);
    return GPUD_OK;
}

/* No flag exists for pages that are mapped read-only: some kernels pin them, others refuse. */
struct gpud_gpu_driver gpud_hip_gpu_driver = {
    .vendor = "HIP",
    .origin = "hip",
    .allocator = "hipMalloc",
    .fd_type = GPUD_HANDLE_HIP_FD,
    .ipc_type = GPUD_HANDLE_HIP_IPC,
    .p2p_rank = hipDevP2PAttrPerformanceRank,
    .p2p_atomics = hipDevP2PAttrNativeAtomicSupported,
    .pins = {.lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_PINS)},
    .opens = {.lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_OPENS)},
    .error_name = hip_api_error_name,
    .enter = hip_api_enter,
    .leave = hip_api_leave,
    .copy = hip_api_copy,
    .wait_value = hip_api_wait_value,
    .export_dmabuf = hip_api_export_dmabuf,
    .flush_remote = hip_api_flush_remote,
};

/* --- the library --------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static int device_count;
static char why_not[GPUD_REASON_MAX]; /* why there is no device at all */

/* What may keep the runtime from a GPU that is present. */
static const char *look_at_kernel(void)
{
    if (access("/dev/kfd", R_OK | W_OK) == 0)
        return "look at rocminfo and HIP_VISIBLE_DEVICES";
    return errno == ENOENT ? "there is no /dev/kfd: the amdgpu driver is not loaded, or the "
                             "container was not given it"
                           : "/dev/kfd is not open to this user: the group render is";
}

static void hip_api_load(void)
{
    const char *missing = gpud_hip_load(&gpud_hip);
    if (missing && missing[0]) {
        gpud_print(why_not, "the HIP runtime has no %s: ROCm 5.2 or a newer one is needed",
                   missing);
        return;
    }
    if (missing) {
        gpud_print(why_not, "no HIP runtime (libamdhip64.so.7, .6 or .5 cannot be loaded): install "
                            "ROCm, or Debian's libamdhip64-5");
        return;
    }
#define TAKE(member, arguments) \
    memcpy(&gpud_hip_gpu_driver.member, &gpud_hip.member, sizeof(gpud_hip.member));
    GPUD_GPU_CALLS(TAKE)
#undef TAKE
    struct gpud_error error;
    hipError_t result = gpud_hip.init(0);
    if (result == hipSuccess)
        result = gpud_hip.runtime_get_version(&gpud_hip.version);
    if (result == hipSuccess)
        result = gpud_hip.get_device_count(&device_count);
    gpud_hip_gpu_driver.host_memory_type = HIP_MEMORY_HOST(gpud_hip.version);
    gpud_hip_gpu_driver.ipc_flags = HIP_IPC_LAZY_PEER_ACCESS(gpud_hip.version);
    gpud_hip_gpu_driver.imports_by_address = gpud_hip.version < HIP_VERSION_7_1;
    if (result == hipSuccess && device_count > 0) {
        loaded = true;
        return;
    }
    gpud_gpu_fail(&gpud_hip_gpu_driver, &error,
                  (int)(result == hipSuccess ? hipErrorNoDevice : result),
                  "the HIP runtime finds no AMD GPU that it may use (%s)", look_at_kernel());
    gpud_print(why_not, "%s", error.reason);
}

const struct hip_driver *gpud_hip_driver(void)
{
    pthread_once(&once, hip_api_load);
    return loaded ? &gpud_hip : NULL;
}

int gpud_hip_count(void)
{
    return gpud_hip_driver() ? device_count : 0;
}

const char *gpud_hip_why_none(void)
{
    return why_not;
}
