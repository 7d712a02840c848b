/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HIP, by its runtime: what it does not share with CUDA (see device/gpu/gpu.h).
 *
 * Differences between versions, decided by the version of the runtime that was found:
 *   before 6.0  memory is shared by legacy handles only, as the structure that describes an
 *               allocation had another shape; the flag of opening such a handle is 0, and not 1;
 *               kinds of memory have other numbers
 *   before 7.0  dma-bufs are made by the HSA runtime below
 *   before 7.1  a descriptor is imported by its address, and not by its value */
#include "device/hip/driver.h"

#include "device/device.h"
#include "device/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct hip_driver runtime; /* the runtime's functions, once a device was found */

struct hip_device {
    struct gpud_gpu gpu;
    bool coherent;            /* no memory of its own: others' writes are seen */
    volatile uint32_t *flush; /* 1 makes others' writes over the bus visible; or NULL */
};

/* Its calls are set once a device was found. */
static struct gpud_gpu_driver hip_gpu_driver;

/* === api ===================================================================================== */
/* The runtime's table for device/gpu/, and what only HIP needs. */

/* --- what is HIP's own --------------------------------------------------------------------- */

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static const char *hip_api_error_name(int result)
{
    return runtime.get_error_name ? runtime.get_error_name((hipError_t)result) : NULL;
}

/* The runtime keeps a current device and a mode of capturing for each thread. They are the
 * application's, so they are restored. */
#define NESTED_MAX 16

static _Thread_local struct {
    int device; /* -1: nothing to restore */
    hipStreamCaptureMode mode;
} before[NESTED_MAX];
static _Thread_local unsigned nested;

static void hip_api_enter(struct gpud_gpu *gpu)
{
    int ordinal = gpu->ordinal, current = -1;
    if (runtime.get_device(&current) != hipSuccess || current == ordinal)
        current = -1;
    else
        runtime.set_device(ordinal);
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    runtime.thread_exchange_capture_mode(&mode);
    before[nested % NESTED_MAX].device = current;
    before[nested++ % NESTED_MAX].mode = mode;
}

static void hip_api_leave(struct gpud_gpu *gpu)
{
    nested--;
    runtime.thread_exchange_capture_mode(&before[nested % NESTED_MAX].mode);
    int current = before[nested % NESTED_MAX].device;
    if (current >= 0)
        runtime.set_device(current);
}

static int hip_api_copy(void *stream, const struct gpud_rows *rows, bool on_gpu)
{
    if (on_gpu || gpud_rows_are_linear(rows))
        return (int)runtime.memcpy_async(pointer(rows->to), pointer(rows->from),
                                         rows->row_bytes * rows->rows, hipMemcpyDefault, stream);
    return (int)runtime.memcpy_2d_async(pointer(rows->to), rows->to_stride, pointer(rows->from),
                                        rows->from_stride, rows->row_bytes, rows->rows,
                                        hipMemcpyDefault, stream);
}

/* The runtime waits for (word & mask) >= value, and does not wrap. */
static int hip_api_wait_value(void *stream, uint64_t address, uint32_t value)
{
    return (int)runtime.stream_wait_value(stream, pointer(address), value, hipStreamWaitValueGte,
                                          UINT32_MAX);
}

static enum gpud_status hip_api_export_dmabuf(struct gpud_device *device, uint64_t address,
                                              uint64_t size, int *fd, uint64_t *offset,
                                              struct gpud_error *error)
{
    if (runtime.get_handle_for_range) {
        *offset = 0;
        hipError_t result =
            runtime.get_handle_for_range(fd, pointer(address), size, HIP_RANGE_HANDLE_DMA_BUF, 0);
        if (result == hipSuccess)
            return GPUD_OK;
        if (result != hipErrorNotSupported || !runtime.export_dmabuf)
            return gpud_gpu_fail(&hip_gpu_driver, error, (int)result,
                                 "no dma-buf for %llu bytes of %s", (unsigned long long)size,
                                 device->info.name);
    }
    int result = runtime.export_dmabuf(pointer(address), size, fd, offset);
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
    const struct hip_device *device = memory->device->backend;
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
static struct gpud_gpu_driver hip_gpu_driver = {
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
    const char *missing = gpud_hip_load(&runtime);
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
    memcpy(&hip_gpu_driver.member, &runtime.member, sizeof(runtime.member));
    GPUD_GPU_CALLS(TAKE)
#undef TAKE
    struct gpud_error error;
    hipError_t result = runtime.init(0);
    if (result == hipSuccess)
        result = runtime.runtime_get_version(&runtime.version);
    if (result == hipSuccess)
        result = runtime.get_device_count(&device_count);
    hip_gpu_driver.host_memory_type = HIP_MEMORY_HOST(runtime.version);
    hip_gpu_driver.ipc_flags = HIP_IPC_LAZY_PEER_ACCESS(runtime.version);
    hip_gpu_driver.imports_by_address = runtime.version < HIP_VERSION_7_1;
    if (result == hipSuccess && device_count > 0) {
        loaded = true;
        return;
    }
    gpud_gpu_fail(&hip_gpu_driver, &error, (int)(result == hipSuccess ? hipErrorNoDevice : result),
                  "the HIP runtime finds no AMD GPU that it may use (%s)", look_at_kernel());
    gpud_print(why_not, "%s", error.reason);
}

/* The runtime's functions; NULL where there is no runtime, or no GPU that this process may use. */
static const struct hip_driver *hip_driver(void)
{
    pthread_once(&once, hip_api_load);
    return loaded ? &runtime : NULL;
}

/* === signal ================================================================================== */
/* Proves that stream memory operations work on pinned pages. */

#define PATIENCE (5 * GPUD_SEC)
#define GATE 0   /* the stream waits for this word */
#define DONE 16  /* and then writes this one */
#define TICK 32  /* another stream writes this one meanwhile, */
#define TICKS 16 /* this many times */

static int write_value(const struct gpud_gpu *gpu, void *stream, uint64_t address, uint32_t value)
{
    return gpu->driver->stream_write_value(stream, address, value, 0);
}

/* Waits until the word has the value. */
static bool comes_to(_Atomic uint32_t *word, uint32_t value)
{
    int64_t start = gpud_now();
    while (atomic_load(word) != value && gpud_now() - start < PATIENCE)
        gpud_pause(start);
    return atomic_load(word) == value;
}

/* Another stream runs a series of writes, one after the other. When they are done, the GPU has had
 * the time to do what it would wrongly do meanwhile. */
static bool tick(struct gpud_gpu *gpu, uint64_t address, _Atomic uint32_t *words)
{
    for (uint32_t value = atomic_load(&words[TICK]) + 1, end = value + TICKS; value < end; value++)
        if (write_value(gpu, gpu->service, address + TICK * sizeof(*words), value) ||
            !comes_to(&words[TICK], value))
            return false;
    return true;
}

static const char *try_signals(struct gpud_gpu *gpu, void *stream, uint64_t address,
                               _Atomic uint32_t *words)
{
    if (gpu->driver->wait_value(stream, address + GATE * sizeof(*words), 5))
        return "the runtime refuses to wait for a word in pinned memory (is "
               "GPU_STREAMOPS_CP_WAIT set?)";
    if (write_value(gpu, stream, address + DONE * sizeof(*words), 7))
        return "the runtime refuses to write a word in pinned memory";
    if (!tick(gpu, address, words))
        return "what a stream writes into pinned memory is not seen by the CPU";
    if (atomic_load(&words[DONE]))
        return "a stream does not wait for a word in pinned memory";
    atomic_store(&words[GATE], 4);
    if (!tick(gpu, address, words) || atomic_load(&words[DONE]))
        return "a stream does not wait until a word in pinned memory is great enough";
    atomic_store(&words[GATE], 9);
    return comes_to(&words[DONE], 7) ? NULL
                                     : "a stream does not see what the CPU writes into pinned "
                                       "memory";
}

/* Tries whether streams can wait for words in pinned pages, and post them. That is documented only
 * for memory of hipMallocSignalMemory, which cannot be shared with another process. On false the
 * reason. */
static bool prove_signals(struct gpud_gpu *gpu, char why[GPUD_REASON_MAX])
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *reason = "a page cannot be pinned: is the limit of locked memory (ulimit -l) low?";
    struct gpud_pinned *pinned = NULL;
    uint64_t address;
    void *stream;
    if (page == MAP_FAILED) {
        gpud_print_n(why, GPUD_REASON_MAX, "%s", reason);
        return false;
    }
    gpu->driver->enter(gpu);
    if (gpud_gpu_pin(gpu, page, size, false, &pinned, &address) == GPUD_OK) {
        reason = "the runtime makes no stream";
        bool idle = true;
        if (gpu->driver->stream_create(&stream, GPUD_GPU_STREAM_NON_BLOCKING) == 0) {
            _Atomic uint32_t *words = page;
            reason = try_signals(gpu, stream, address, words);
            atomic_store(&words[GATE], UINT32_MAX >> 1); /* satisfies any wait */
            int64_t start = gpud_now();
            while (gpu->driver->stream_query(stream) == GPUD_GPU_NOT_READY &&
                   gpud_now() - start < PATIENCE)
                gpud_pause(start);
            idle = gpu->driver->stream_query(stream) != GPUD_GPU_NOT_READY;
            if (idle)
                gpu->driver->stream_destroy(stream);
        }
        if (idle)
            gpud_pins_remove(gpu->driver, pinned);
        else
            page = NULL; /* leaks the stream, its words and the page */
    }
    gpu->driver->leave(gpu);
    if (page)
        munmap(page, size);
    if (reason)
        gpud_print_n(why, GPUD_REASON_MAX, "%s", reason);
    return !reason;
}

/* === link ==================================================================================== */
/* The link from one GPU into the memory of another, as the runtime reports it. */

#define LINK_XGMI 4 /* hsa_amd_link_info_type_t */

/* As gpud_device_ops.link. */
static void hip_link(const struct gpud_device *from, const struct gpud_device *to,
                     struct gpud_device_link *link)
{
    const struct hip_driver *hip = hip_driver();
    int a = (int)from->index, b = (int)to->index;
    uint32_t type = 0, hops = 0;
    if (!hip || !gpud_gpu_ask_link(&hip_gpu_driver, a, b, link)) {
        gpud_print(link->reason, "the HIP runtime does not answer for %s and %s", from->info.name,
                   to->info.name);
        return;
    }
    if (hip->get_link && hip->get_link(a, b, &type, &hops) == hipSuccess && type == LINK_XGMI)
        gpud_print(link->name, "XGMI");
    if (!link->direct)
        gpud_print(link->reason,
                   "the runtime lets %s not write to %s: there is no XGMI between them, and PCIe "
                   "peer-to-peer wants a large BAR (Resizable BAR in the BIOS) and a kernel with "
                   "CONFIG_HSA_AMD_P2P",
                   from->info.name, to->info.name);
}

/* === device ================================================================================== */
/* HIP devices: what each can do. */

static unsigned hip_count(void)
{
    return hip_driver() ? (unsigned)device_count : 1;
}

static int attribute(int ordinal, hipDeviceAttribute_t which)
{
    int value = 0;
    return runtime.device_get_attribute(&value, which, ordinal) == hipSuccess ? value : 0;
}

static bool hip_device_reaches(int from, int to)
{
    int can = 0;
    return runtime.device_can_access_peer(&can, from, to) == hipSuccess && can;
}

/* Some GPUs have no UUID, and some runtimes do not report it. Then the bus address serves, which is
 * the same in every process. */
static bool read_uuid(int ordinal, uint8_t uuid[16])
{
    static const hipUUID none;
    char pci[32] = "";
    memset(uuid, 0, 16);
    if (runtime.device_get_uuid &&
        runtime.device_get_uuid((hipUUID *)uuid, ordinal) == hipSuccess &&
        memcmp(uuid, &none, sizeof(none)) != 0)
        return true;
    if (runtime.device_get_pci_bus_id(pci, sizeof(pci), ordinal) != hipSuccess)
        return false;
    memcpy(uuid, pci, strnlen(pci, 16));
    return true;
}

static void hip_device_probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    int ordinal = (int)device->index;
    if (!hip_driver()) {
        gpud_print(info->description, "AMD GPU");
        gpud_print(info->reason, "%s", why_not);
        return;
    }
    hipError_t result =
        runtime.device_get_name(info->description, sizeof(info->description), ordinal);
    if (result != hipSuccess || !read_uuid(ordinal, device->uuid)) {
        struct gpud_error error;
        gpud_gpu_fail(&hip_gpu_driver, &error, (int)result, "the runtime does not describe %s",
                      info->name);
        gpud_print(info->reason, "%s", error.reason);
        return;
    }
    if (runtime.device_get_pci_bus_id(info->pci, sizeof(info->pci), ordinal) != hipSuccess)
        info->pci[0] = '\0';
    if (attribute(ordinal, hipDeviceAttributeComputeMode) == 2) {
        gpud_print(info->reason, "%s is in compute mode \"prohibited\"", info->name);
        return;
    }
    info->available = info->direct_writes = true;
    device->caps = GPUD_CAP_SHARE | GPUD_CAP_FENCES;
    if (attribute(ordinal, hipDeviceAttributeCanUseStreamWaitValue))
        device->caps |= GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS;
    if (!runtime.get_handle_for_range && !runtime.export_dmabuf)
        gpud_print(device->no_dmabuf,
                   "the HIP runtime of %s makes no dma-bufs: ROCm 5.6 and newer ones do",
                   info->name);
    gpud_gpu_probe_reach(device, device_count, hip_device_reaches, read_uuid);
}

/* The granularity of physical allocations that can be exported as a descriptor; an allocation is
 * tried. */
static uint64_t find_granularity(struct gpud_gpu *gpu)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    struct gpud_gpu_memory tried = {.kind = GPUD_GPU_PHYSICAL};
    int fd = -1;
    if (runtime.version < HIP_VERSION_6 || !runtime.mem_get_allocation_granularity ||
        !runtime.mem_create || !runtime.mem_release || !runtime.mem_address_reserve ||
        !runtime.mem_address_free || !runtime.mem_map || !runtime.mem_unmap ||
        !runtime.mem_set_access || !runtime.mem_export || !runtime.mem_import ||
        !runtime.mem_get_allocation_properties ||
        !attribute(gpu->ordinal, HIP_ATTRIBUTE_VIRTUAL_MEMORY))
        return 0;
    tried.mapped = gpud_gpu_find_granularity(gpu);
    if (!tried.mapped || gpud_gpu_create(gpu, &tried))
        return 0;
    int result = driver->mem_export(&fd, tried.allocation, GPUD_GPU_HANDLE_FD, 0);
    if (result == 0)
        close(fd);
    gpud_gpu_unmap(gpu, &tried);
    return result == 0 ? tried.mapped : 0;
}

static bool identify(const void *pointer, struct gpud_pointer_info *info)
{
    return hip_driver() && gpud_gpu_identify(&hip_gpu_driver, "hip", pointer, info);
}

static enum gpud_status open_hip(struct gpud_device *device, struct gpud_error *error)
{
    struct hip_device *hip = calloc(1, sizeof(*hip));
    char why[GPUD_REASON_MAX];
    if (!hip)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    int ordinal = (int)device->index;
    hip->gpu.driver = &hip_gpu_driver;
    hip->gpu.ordinal = ordinal;
    hip->gpu.context = (void *)(intptr_t)(ordinal + 1);
    hip->coherent = attribute(ordinal, hipDeviceAttributeIntegrated);
    /* The runtime fills in a pointer, although the argument's type is int. */
    if (runtime.device_get_attribute((int *)(void *)&hip->flush, hipDeviceAttributeHdpMemFlushCntl,
                                     ordinal) != hipSuccess)
        hip->flush = NULL;
    hip->gpu.driver->enter(&hip->gpu);
    hip->gpu.granularity = find_granularity(&hip->gpu);
    hip->gpu.driver->leave(&hip->gpu);
    enum gpud_status status = gpud_gpu_open(&hip->gpu, device, error);
    if (status != GPUD_OK) {
        free(hip);
        return status;
    }
    if (device->caps & GPUD_CAP_SIGNALS && !prove_signals(&hip->gpu, why)) {
        device->caps &= ~(uint32_t)(GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS);
        gpud_log_warning(&device->context->log, "hip", "%s: %s: the CPU waits and posts instead",
                         device->info.name, why);
    }
    return GPUD_OK;
}

/* All queues must be gone. */
static void close_hip(struct gpud_device *device)
{
    struct hip_device *hip = device->backend;
    if (gpud_gpu_close(&hip->gpu))
        free(hip);
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_HIP_FD, .words = 1, .attachment = true},
    {.type = GPUD_HANDLE_HIP_IPC, .words = 9},
};

static const char *const peermem[] = {"/sys/kernel/mm/memory_peers/amdkfd/version", NULL};
static const char *const hwloc_plugins[] = {"rsmi", NULL};

const struct gpud_device_ops gpud_hip_ops = {
    .name = "hip",
    .count = hip_count,
    .probe = hip_device_probe,
    .open = open_hip,
    .close = close_hip,
    .link = hip_link,
    .identify = identify,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .peermem = peermem,
    .no_peermem =
        "amdgpu's driver knows no peer memory (the one of ROCm, with the network card's own "
        "driver package, does)",
    .hwloc_plugins = hwloc_plugins,
    .memory = &gpud_gpu_memory_ops,
    .dmabuf = &gpud_gpu_dmabuf_ops,
    .queue = &gpud_gpu_queue_ops,
    .fence = &gpud_gpu_fence_ops,
    .signal = &gpud_gpu_signal_ops,
};
