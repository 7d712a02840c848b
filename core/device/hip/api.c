/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HIP devices: finding the runtime, and what its devices can do. */
#include "device/backends.h"
#include "device/hip/hip.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hip_driver gpud_hip;

/* --- errors -------------------------------------------------------------------------------- */

static enum gpud_status error_status(long result)
{
    switch (result) {
    case hipErrorOutOfMemory:
        return GPUD_NO_MEMORY;
    case hipErrorInsufficientDriver:
    case hipErrorNoDevice:
    case hipErrorInvalidDevice:
        return GPUD_NO_DEVICE;
    case hipErrorNotSupported:
        return GPUD_UNSUPPORTED;
    default:
        return GPUD_IO;
    }
}

static const char *error_name(long result)
{
    return gpud_hip.get_error_name ? gpud_hip.get_error_name((hipError_t)result) : NULL;
}

/* --- the runtime --------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static int device_count;
static char why_not[GPUD_REASON_MAX]; /* why there is no device at all */

/* false: a function is missing, and why_not says which. */
static bool resolve(void *library)
{
#define RESOLVE(member, symbol, arguments) \
    gpud_hip.member = (hipError_t(*) arguments)dlsym(library, #symbol);
#define REQUIRE(member, symbol, arguments)                                                  \
    RESOLVE(member, symbol, arguments)                                                      \
    if (!gpud_hip.member) {                                                                 \
        gpud_print(why_not, "the HIP runtime has no %s: ROCm 5.2 or a newer one is needed", \
                   #symbol);                                                                \
        return false;                                                                       \
    }
    HIP_DRIVER_FUNCTIONS(REQUIRE)
    HIP_DRIVER_OPTIONAL(RESOLVE)
#undef REQUIRE
#undef RESOLVE
    gpud_hip.get_error_name = (const char *(*)(hipError_t))dlsym(library, "hipGetErrorName");
    gpud_hip.get_handle_for_range =
        (hip_get_handle_for_range)dlsym(library, "hipMemGetHandleForAddressRange");
    void *hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (hsa)
        gpud_hip.export_dmabuf = (hsa_export_dmabuf)dlsym(hsa, "hsa_amd_portable_export_dmabuf");
    return true;
}

/* What keeps the runtime from a GPU that may be there. */
static const char *look_at_kernel(void)
{
    if (access("/dev/kfd", R_OK | W_OK) == 0)
        return "look at rocminfo and HIP_VISIBLE_DEVICES";
    return errno == ENOENT ? "there is no /dev/kfd: the amdgpu driver is not loaded, or the "
                             "container was not given it"
                           : "/dev/kfd is not open to this user: the group render is";
}

static void load(void)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        gpud_print(why_not, "no HIP runtime (libamdhip64.so.7, .6 or .5 cannot be loaded): install "
                            "ROCm, or Debian's libamdhip64-5");
        return;
    }
    if (!resolve(library))
        return;
    struct gpud_error error;
    hipError_t result = gpud_hip.init(0);
    if (result == hipSuccess)
        result = gpud_hip.runtime_get_version(&gpud_hip.version);
    if (result == hipSuccess)
        result = gpud_hip.get_device_count(&device_count);
    if (result == hipSuccess && device_count > 0) {
        loaded = true;
        return;
    }
    gpud_gpu_fail(&gpud_hip_gpu_ops, &error, result == hipSuccess ? hipErrorNoDevice : result,
                  "the HIP runtime finds no AMD GPU that it may use (%s)", look_at_kernel());
    gpud_print(why_not, "%s", error.reason);
}

const struct hip_driver *gpud_hip_driver(void)
{
    pthread_once(&once, load);
    return loaded ? &gpud_hip : NULL;
}

/* The runtime has a current device for each thread, which is the application's: it gets its own
 * back. -1: nothing to give back. */
#define NESTED_MAX 16
static _Thread_local int before[NESTED_MAX];
static _Thread_local unsigned nested;

static void enter(struct gpud_gpu *gpu)
{
    int ordinal = ((const struct hip_device *)gpu)->ordinal, current = -1;
    if (gpud_hip.get_device(&current) != hipSuccess || current == ordinal)
        current = -1;
    else
        gpud_hip.set_device(ordinal);
    before[nested++ % NESTED_MAX] = current;
}

static void leave(struct gpud_gpu *gpu)
{
    int current = before[--nested % NESTED_MAX];
    if (current >= 0)
        gpud_hip.set_device(current);
}

const struct gpud_gpu_ops gpud_hip_gpu_ops = {
    .vendor = "HIP",
    .origin = "hip",
    .allocator = "hipMalloc",
    .not_ready = hipErrorNotReady,
    .no_memory = hipErrorOutOfMemory,
    .error_name = error_name,
    .error_status = error_status,
    .enter = enter,
    .leave = leave,
    .stream = &gpud_hip_stream_ops,
    .memory = &gpud_hip_memory_ops,
    .share = &gpud_hip_share_ops,
    .signal = &gpud_hip_signal_ops,
};

/* --- devices ------------------------------------------------------------------------------- */

static unsigned count(void)
{
    return gpud_hip_driver() ? (unsigned)device_count : 1;
}

static int attribute(int ordinal, hipDeviceAttribute_t which)
{
    int value = 0;
    return gpud_hip.device_get_attribute(&value, which, ordinal) == hipSuccess ? value : 0;
}

static bool reaches(int from, int to)
{
    int can = 0;
    return gpud_hip.device_can_access_peer(&can, from, to) == hipSuccess && can;
}

/* Not every GPU has one, and not every runtime tells it: then the place on the bus, which is the
 * same in every process. */
static bool read_uuid(int ordinal, uint8_t uuid[16])
{
    static const hipUUID none;
    char pci[32] = "";
    memset(uuid, 0, 16);
    if (gpud_hip.device_get_uuid &&
        gpud_hip.device_get_uuid((hipUUID *)uuid, ordinal) == hipSuccess &&
        memcmp(uuid, &none, sizeof(none)) != 0)
        return true;
    if (gpud_hip.device_get_pci_bus_id(pci, sizeof(pci), ordinal) != hipSuccess)
        return false;
    memcpy(uuid, pci, strnlen(pci, 16));
    return true;
}

static void probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    int ordinal = (int)device->index;
    if (!gpud_hip_driver()) {
        gpud_print(info->description, "AMD GPU");
        gpud_print(info->reason, "%s", why_not);
        return;
    }
    hipError_t result =
        gpud_hip.device_get_name(info->description, sizeof(info->description), ordinal);
    if (result != hipSuccess || !read_uuid(ordinal, device->uuid)) {
        struct gpud_error error;
        gpud_gpu_fail(&gpud_hip_gpu_ops, &error, result, "the runtime does not describe %s",
                      info->name);
        gpud_print(info->reason, "%s", error.reason);
        return;
    }
    if (gpud_hip.device_get_pci_bus_id(info->pci, sizeof(info->pci), ordinal) != hipSuccess)
        info->pci[0] = '\0';
    if (attribute(ordinal, hipDeviceAttributeComputeMode) == 2) {
        gpud_print(info->reason, "%s is in compute mode \"prohibited\"", info->name);
        return;
    }
    info->available = info->direct_writes = true;
    device->caps = GPUD_CAP_SHARE | GPUD_CAP_FENCES;
    if (attribute(ordinal, hipDeviceAttributeCanUseStreamWaitValue))
        device->caps |= GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS;
    if (!gpud_hip.get_handle_for_range && !gpud_hip.export_dmabuf)
        gpud_print(device->no_dmabuf,
                   "the HIP runtime of %s makes no dma-bufs: ROCm 5.6 and newer ones do",
                   info->name);
    gpud_gpu_probe_reach(device, device_count, reaches, read_uuid);
}

static enum gpud_status open_hip(struct gpud_device *device, struct gpud_error *error)
{
    struct hip_device *hip = calloc(1, sizeof(*hip));
    char why[GPUD_REASON_MAX];
    if (!hip)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    hip->ordinal = (int)device->index;
    hip->gpu.ops = &gpud_hip_gpu_ops;
    hip->gpu.context = (void *)(intptr_t)(hip->ordinal + 1);
    hip->coherent = attribute(hip->ordinal, hipDeviceAttributeIntegrated);
    /* The runtime fills a pointer, whatever the type of the argument says. */
    if (gpud_hip.device_get_attribute((int *)(void *)&hip->flush, hipDeviceAttributeHdpMemFlushCntl,
                                      hip->ordinal) != hipSuccess)
        hip->flush = NULL;
    enter(&hip->gpu);
    hip->gpu.granularity = gpud_hip_find_granularity(hip);
    leave(&hip->gpu);
    enum gpud_status status = gpud_gpu_open(&hip->gpu, device, error);
    if (status != GPUD_OK) {
        free(hip);
        return status;
    }
    if (device->caps & GPUD_CAP_SIGNALS && !gpud_hip_prove_signals(&hip->gpu, why)) {
        device->caps &= ~(uint32_t)(GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS);
        gpud_log_warning(&device->context->log, "hip", "%s: %s: the CPU waits and posts instead",
                         device->info.name, why);
    }
    return GPUD_OK;
}

/* All queues are gone. */
static void close_hip(struct gpud_device *device)
{
    struct hip_device *hip = gpud_hip_device(device);
    if (gpud_gpu_close(&hip->gpu))
        free(hip);
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_HIP_FD, .words = 1, .attachment = true},
    {.type = GPUD_HANDLE_HIP_IPC, .words = 9},
};

const struct gpud_device_ops gpud_hip_ops = {
    .name = "hip",
    .count = count,
    .probe = probe,
    .open = open_hip,
    .close = close_hip,
    .link = gpud_hip_link,
    .identify = gpud_hip_identify,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .memory = &gpud_gpu_memory_ops,
    .queue = &gpud_gpu_queue_ops,
    .signal = &gpud_gpu_signal_ops,
};
