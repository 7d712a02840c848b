/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CUDA, by its driver: what it does not share with HIP (see device/gpu/gpu.h). */
#include "device/cuda/driver.h"

#include "base/base.h"
#include "device/device.h"
#include "device/gpu/gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === api ===================================================================================== */
/* CUDA's driver table for device/gpu/, and what only CUDA needs. */

struct cuda_driver gpud_cu;

struct cuda_device {
    struct gpud_gpu gpu;
    CUdevice id;
    CUcontext context;
    bool writes_ordered; /* the GPU sees others' writes over the bus in their order */
    bool can_flush;      /* else the GPU cannot wait for them */
};

/* Its calls are set once a device was found. */
static struct gpud_gpu_driver cuda_gpu_driver;

/* --- what is CUDA's own -------------------------------------------------------------------- */

static const char *cuda_api_error_name(int result)
{
    const char *name = NULL;
    if (!gpud_cu.get_error_name || gpud_cu.get_error_name((CUresult)result, &name) != CUDA_SUCCESS)
        return NULL;
    return name;
}

/* One bit for each enter, the latest lowest: 1 if the driver took the context. A driver that is
 * shutting down takes none; popping then would remove the application's context. And two bits for
 * each, the mode of capturing before. */
static _Thread_local uint64_t entered, modes;

static void cuda_api_enter(struct gpud_gpu *gpu)
{
    CUcontext context = ((struct cuda_device *)gpu)->context;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    entered = entered << 1 | (gpud_cu.ctx_push_current(context) == CUDA_SUCCESS);
    gpud_cu.thread_exchange_capture_mode(&mode);
    modes = modes << 2 | mode;
}

static void cuda_api_leave(struct gpud_gpu *gpu)
{
    CUcontext context;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)(modes & 3);
    gpud_cu.thread_exchange_capture_mode(&mode);
    if (entered & 1)
        gpud_cu.ctx_pop_current(&context);
    entered >>= 1;
    modes >>= 2;
}

static int cuda_api_copy(void *stream, const struct gpud_rows *rows, bool on_gpu)
{
    if (on_gpu)
        return (int)gpud_cu.memcpy_dtod_async(rows->to, rows->from, rows->row_bytes, stream);
    if (gpud_rows_are_linear(rows))
        return (int)gpud_cu.memcpy_async(rows->to, rows->from, rows->row_bytes * rows->rows,
                                         stream);
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = rows->from,
        .srcPitch = rows->from_stride,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = rows->to,
        .dstPitch = rows->to_stride,
        .WidthInBytes = rows->row_bytes,
        .Height = rows->rows,
    };
    return (int)gpud_cu.memcpy_2d_async(&copy, stream);
}

/* The driver compares cyclically. */
static int cuda_api_wait_value(void *stream, uint64_t address, uint32_t value)
{
    return (int)gpud_cu.stream_wait_value(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ);
}

static int cuda_api_batch(void *stream, const struct gpud_gpu_word *words, unsigned count,
                          bool wait)
{
    CUstreamBatchMemOpParams operations[GPUD_SIGNALS_AT_ONCE];
    for (unsigned i = 0; i < count; i++)
        if (wait)
            operations[i] = (CUstreamBatchMemOpParams){
                .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                              .address = words[i].address,
                              .value = words[i].value,
                              .flags = CU_STREAM_WAIT_VALUE_GEQ}};
        else
            operations[i] = (CUstreamBatchMemOpParams){
                .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                               .address = words[i].address,
                               .value = words[i].value}};
    return (int)gpud_cu.stream_batch_mem_op(stream, count, operations, 0);
}

/* GPUDirect RDMA's manual, "Synchronization and Memory Ordering": cuMemcpy() between GPUs' memory
 * and cuMemset() may return early, and a third party's card does not wait for the rest. With this
 * attribute they return when done. The driver rejects it (CUDA_ERROR_NOT_SUPPORTED) for memory of
 * cuMemCreate() and for memory that it did not allocate. */
static int make_synchronous(uint64_t address)
{
    const unsigned one = 1;
    return (int)gpud_cu.pointer_set_attribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

static enum gpud_status cuda_api_export_dmabuf(struct gpud_device *device, uint64_t address,
                                               uint64_t size, int *fd, uint64_t *offset,
                                               struct gpud_error *error)
{
    CUresult result = gpud_cu.mem_get_handle_for_address_range(
        fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS)
        return gpud_gpu_fail(&cuda_gpu_driver, error, (int)result,
                             "no dma-buf for %llu bytes of %s", (unsigned long long)size,
                             device->info.name);
    *offset = 0;
    return GPUD_OK;
}

/* What Vulkan exports as an opaque descriptor. */
static int open_graphics(int fd, uint64_t bytes, bool dedicated, uint64_t size, void **object,
                         uint64_t *address)
{
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
        .handle = {.fd = fd},
        .size = bytes,
        .flags = dedicated ? CUDA_EXTERNAL_MEMORY_DEDICATED : 0,
    };
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.size = size};
    CUexternalMemory memory;
    CUdeviceptr mapped;
    CUresult result = gpud_cu.import_external_memory(&memory, &what);
    if (result != CUDA_SUCCESS) {
        close(fd);
        return (int)result;
    }
    result = gpud_cu.external_memory_get_mapped_buffer(&mapped, memory, &part);
    if (result != CUDA_SUCCESS) {
        gpud_cu.destroy_external_memory(memory);
        return (int)result;
    }
    *object = memory;
    *address = mapped;
    return 0;
}

static void close_graphics(void *object, uint64_t address)
{
    gpud_cu.mem_free(address);
    gpud_cu.destroy_external_memory(object);
}

static enum gpud_status cuda_api_flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    struct cuda_device *device = memory->device->backend;
    if (device->writes_ordered)
        return GPUD_OK;
    if (!device->can_flush)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s neither keeps the order of writes over the bus nor flushes them: let "
                         "the card write to host memory",
                         memory->device->info.name);
    cuda_api_enter(&device->gpu);
    CUresult result =
        gpud_cu.flush_remote_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    cuda_api_leave(&device->gpu);
    if (result != CUDA_SUCCESS)
        return gpud_gpu_fail(device->gpu.driver, error, (int)result, "writes to %s are not flushed",
                             memory->device->info.name);
    return GPUD_OK;
}

static struct gpud_gpu_driver cuda_gpu_driver = {
    .vendor = "CUDA",
    .origin = "cuda",
    .allocator = "cuMemAlloc",
    .fd_type = GPUD_HANDLE_CUDA_FD,
    .ipc_type = GPUD_HANDLE_CUDA_IPC,
    .p2p_rank = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
    .p2p_atomics = CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
    .read_only_flag = CU_MEMHOSTREGISTER_READ_ONLY, /* without it, read-only pages are refused */
    .pools_have_no_context = true,
    .queries_default_streams = true,
    .host_memory_type = CU_MEMORYTYPE_HOST,
    .ipc_flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
    .pins = {.lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_PINS)},
    .opens = {.lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_OPENS)},
    .error_name = cuda_api_error_name,
    .enter = cuda_api_enter,
    .leave = cuda_api_leave,
    .copy = cuda_api_copy,
    .wait_value = cuda_api_wait_value,
    .batch = cuda_api_batch,
    .make_synchronous = make_synchronous,
    .export_dmabuf = cuda_api_export_dmabuf,
    .open_graphics = open_graphics,
    .close_graphics = close_graphics,
    .flush_remote = cuda_api_flush_remote,
};

/* --- the library --------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static int device_count;
static char why_not[GPUD_REASON_MAX]; /* why there is no device at all */

static void cuda_api_load(void)
{
    const char *missing = gpud_cuda_load(&gpud_cu);
    if (missing && missing[0]) {
        gpud_print(why_not, "the NVIDIA driver has no %s: R515 or a newer one is needed", missing);
        return;
    }
    if (missing) {
        gpud_print(why_not, "no NVIDIA driver (libcuda.so.1 cannot be loaded): install it, or in a "
                            "container pass the GPU through");
        return;
    }
#define TAKE(member, arguments) \
    memcpy(&cuda_gpu_driver.member, &gpud_cu.member, sizeof(gpud_cu.member));
    GPUD_GPU_CALLS(TAKE)
#undef TAKE
    struct gpud_error error;
    CUresult result = gpud_cu.init(0);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_get_count(&device_count);
    if (result == CUDA_SUCCESS && device_count > 0) {
        loaded = true;
        return;
    }
    gpud_gpu_fail(&cuda_gpu_driver, &error,
                  (int)(result == CUDA_SUCCESS ? CUDA_ERROR_NO_DEVICE : result),
                  "the NVIDIA driver finds no GPU that it may use (look at nvidia-smi and "
                  "CUDA_VISIBLE_DEVICES)");
    gpud_print(why_not, "%s", error.reason);
}

/* The driver's functions; NULL where there is no driver, or no GPU that this process may use. */
static const struct cuda_driver *cuda_driver(void)
{
    pthread_once(&once, cuda_api_load);
    return loaded ? &gpud_cu : NULL;
}

/* === identify ================================================================================ */
/* Which device a pointer's memory belongs to. */

/* The driver answers only with a current context. If the caller's thread has none, that of an open
 * device is used. */
static struct gpud_lock lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_IDENTIFY);

static struct {
    CUcontext context;
    unsigned opened; /* how many times */
} known[64];         /* by ordinal */

/* Records an opened device for look-ups; context NULL: it is about to be closed. */
static void identify_by(CUdevice ordinal, CUcontext context)
{
    gpud_lock_take(&lock);
    if (ordinal >= 0 && ordinal < 64) {
        known[ordinal].opened += context ? 1u : -1u;
        if (context || known[ordinal].opened == 0)
            known[ordinal].context = context;
    }
    gpud_lock_release(&lock);
}

static bool identify(const void *pointer, struct gpud_pointer_info *info)
{
    return gpud_gpu_identify(&cuda_gpu_driver, "cuda", pointer, info);
}

/* As gpud_device_ops.identify. */
static bool cuda_identify(const void *pointer, struct gpud_pointer_info *info)
{
    CUcontext current = NULL;
    if (!cuda_driver())
        return false;
    if (gpud_cu.ctx_get_current(&current) == CUDA_SUCCESS && current)
        return identify(pointer, info);
    bool found = false;
    gpud_lock_take(&lock);
    for (int i = 0; i < 64 && !found; i++) {
        if (!known[i].context || gpud_cu.ctx_push_current(known[i].context) != CUDA_SUCCESS)
            continue;
        found = identify(pointer, info);
        gpud_cu.ctx_pop_current(&current);
    }
    gpud_lock_release(&lock);
    return found;
}

/* === link ==================================================================================== */
/* The link from one GPU into the memory of another: the CUDA driver says what it can do, NVML what
 * it is made of. NVML comes with the driver, but a container may lack it: then the name is the
 * bus's, and the bandwidth is unknown. */

typedef struct nvmlDevice_st *nvml_device;

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency;
    int type; /* of the value: 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long */
    int result;
    union {
        double d;
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
    } value;
};

#define NVML_SUCCESS 0
#define NVML_LINKS_MAX 36
#define NVML_REMOTE_SWITCH 2
#define NVML_FIELD_NVLINK_MBPS 164       /* of the link that the scope names */
#define NVML_FIELD_NVLINK_MBPS_COMMON 90 /* of every active link; GPUs before Hopper */

#define NVML_FUNCTIONS(FUNCTION)                                         \
    FUNCTION(init, nvmlInit_v2, (void))                                  \
    FUNCTION(get_handle, nvmlDeviceGetHandleByPciBusId_v2,               \
             (const char *bus_id, nvml_device *device))                  \
    FUNCTION(link_state, nvmlDeviceGetNvLinkState,                       \
             (nvml_device device, unsigned link, int *active))           \
    FUNCTION(link_version, nvmlDeviceGetNvLinkVersion,                   \
             (nvml_device device, unsigned link, unsigned *version))     \
    FUNCTION(link_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType,      \
             (nvml_device device, unsigned link, int *type))             \
    FUNCTION(link_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2,       \
             (nvml_device device, unsigned link, struct nvml_pci *pci))  \
    FUNCTION(get_fields, nvmlDeviceGetFieldValues,                       \
             (nvml_device device, int count, struct nvml_field *fields)) \
    FUNCTION(pcie_generation, nvmlDeviceGetMaxPcieLinkGeneration,        \
             (nvml_device device, unsigned *generation))                 \
    FUNCTION(pcie_width, nvmlDeviceGetMaxPcieLinkWidth, (nvml_device device, unsigned *width))

#define NVML_MEMBER(member, symbol, arguments) int(*member) arguments;

static const struct nvml *nvml(void);

static struct nvml {
    NVML_FUNCTIONS(NVML_MEMBER)
} table;

#undef NVML_MEMBER

static bool nvml_loaded;
static pthread_once_t nvml_once = PTHREAD_ONCE_INIT;

/* Never unloaded: it keeps threads and files of its own. */
static void load_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    bool complete = true;
#define NVML_LOAD(member, symbol, arguments)           \
    *(void **)&table.member = dlsym(library, #symbol); \
    complete = complete && table.member;
    NVML_FUNCTIONS(NVML_LOAD)
#undef NVML_LOAD
    nvml_loaded = complete && table.init() == NVML_SUCCESS;
}

static const struct nvml *nvml(void)
{
    pthread_once(&nvml_once, load_nvml);
    return nvml_loaded ? &table : NULL;
}

/* --- NVLink -------------------------------------------------------------------------------- */

struct bundle {
    unsigned direct, to_switch; /* active links: to that very GPU; to an NVSwitch */
};

static bool is_active(const struct nvml *nv, nvml_device device, unsigned link)
{
    int active = 0;
    return nv->link_state(device, link, &active) == NVML_SUCCESS && active;
}

/* peer: NULL counts links to switches only. Handles are compared, not bus ids, because NVML and
 * CUDA write those differently. */
static struct bundle count_links(const struct nvml *nv, nvml_device device, nvml_device peer)
{
    struct bundle found = {0};
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
        int type = -1;
        nvml_device other;
        struct nvml_pci pci = {.domain = 0};
        if (!is_active(nv, device, link))
            continue;
        if (nv->link_remote_type(device, link, &type) == NVML_SUCCESS && type == NVML_REMOTE_SWITCH)
            found.to_switch++;
        else if (peer && nv->link_remote_pci(device, link, &pci) == NVML_SUCCESS &&
                 nv->get_handle(pci.bus_id, &other) == NVML_SUCCESS && other == peer)
            found.direct++;
    }
    return found;
}

/* A field in MB/s as bytes per second; 0: this GPU or driver does not have it. */
static double ask_speed(const struct nvml *nv, nvml_device device, unsigned id, unsigned scope)
{
    struct nvml_field field = {.id = id, .scope = scope};
    if (nv->get_fields(device, 1, &field) != NVML_SUCCESS || field.result != NVML_SUCCESS)
        return 0;
    switch (field.type) {
    case 0:
        return field.value.d * 1e6;
    case 1:
        return field.value.u * 1e6;
    case 2:
        return (double)field.value.ul * 1e6;
    case 3:
        return (double)field.value.ull * 1e6;
    default:
        return 0;
    }
}

/* Bytes per second of one link, one way; 0: unknown. Where the driver reports no speed, the
 * generation's nominal figure is used, as in `nvidia-smi nvlink -s`. */
static double link_speed(const struct nvml *nv, nvml_device device)
{
    static const double generation[] = {0, 20e9, 25.781e9, 25.781e9, 26.562e9, 53.125e9};
    unsigned link = 0, version = 0;
    while (link < NVML_LINKS_MAX && !is_active(nv, device, link))
        link++;
    double speed = ask_speed(nv, device, NVML_FIELD_NVLINK_MBPS, link);
    if (speed <= 0)
        speed = ask_speed(nv, device, NVML_FIELD_NVLINK_MBPS_COMMON, 0);
    if (speed <= 0 && nv->link_version(device, link, &version) == NVML_SUCCESS &&
        version < sizeof(generation) / sizeof(generation[0]))
        speed = generation[version];
    return speed;
}

/* --- PCI Express --------------------------------------------------------------------------- */

/* The best that both ends and their slots can do; 0: unknown. The current generation does not
 * count, because an idle GPU lowers it. */
static double pcie_bandwidth(const struct nvml *nv, nvml_device device)
{
    static const double lane[] = {0, 250e6, 500e6, 985e6, 1969e6, 3938e6, 7563e6};
    unsigned generation = 0, width = 0;
    if (nv->pcie_generation(device, &generation) != NVML_SUCCESS ||
        nv->pcie_width(device, &width) != NVML_SUCCESS ||
        generation >= sizeof(lane) / sizeof(lane[0]))
        return 0;
    return lane[generation] * width;
}

/* As gpud_device_ops.link. */
static void cuda_link(const struct gpud_device *from, const struct gpud_device *to,
                      struct gpud_device_link *link)
{
    const struct cuda_driver *cu = cuda_driver();
    const struct nvml *nv = nvml();
    CUdevice one, other;
    nvml_device a, b;
    if (!cu || cu->device_get(&one, (int)from->index) != CUDA_SUCCESS ||
        cu->device_get(&other, (int)to->index) != CUDA_SUCCESS ||
        !gpud_gpu_ask_link(&cuda_gpu_driver, one, other, link))
        gpud_print(link->reason, "the CUDA driver does not answer for %s and %s", from->info.name,
                   to->info.name);
    else if (!link->direct)
        gpud_print(link->reason,
                   "the driver lets %s not write to %s: there is no NVLink between them, and PCIe "
                   "peer-to-peer is off (by the IOMMU, by ACS, or because the card's class has "
                   "none)",
                   from->info.name, to->info.name);
    if (!nv || nv->get_handle(from->info.pci, &a) != NVML_SUCCESS ||
        nv->get_handle(to->info.pci, &b) != NVML_SUCCESS)
        return;
    /* Every GPU behind NVSwitches reaches every other over all its links to them, as `nvidia-smi
     * topo -m` counts. */
    struct bundle ours = count_links(nv, a, b), theirs = count_links(nv, b, NULL);
    unsigned through_switch = ours.to_switch < theirs.to_switch ? ours.to_switch : theirs.to_switch;
    unsigned links = ours.direct + through_switch;
    if (links) {
        gpud_print(link->name, "NV%u", links);
        link->bandwidth = links * link_speed(nv, a);
    } else if (link->direct) {
        double one_end = pcie_bandwidth(nv, a), other_end = pcie_bandwidth(nv, b);
        link->bandwidth = one_end < other_end ? one_end : other_end;
    }
}

/* === device ================================================================================== */
/* CUDA devices: what each can do. */

static unsigned cuda_count(void)
{
    return cuda_driver() ? (unsigned)device_count : 1;
}

static int attribute(CUdevice id, CUdevice_attribute which)
{
    int value = 0;
    return gpud_cu.device_get_attribute(&value, which, id) == CUDA_SUCCESS ? value : 0;
}

static bool cuda_device_reaches(int from, int to)
{
    CUdevice a, b;
    int can = 0;
    return gpud_cu.device_get(&a, from) == CUDA_SUCCESS &&
           gpud_cu.device_get(&b, to) == CUDA_SUCCESS &&
           gpud_cu.device_can_access_peer(&can, a, b) == CUDA_SUCCESS && can;
}

static bool read_uuid(int ordinal, uint8_t uuid[16])
{
    CUdevice id;
    return gpud_cu.device_get(&id, ordinal) == CUDA_SUCCESS &&
           gpud_cu.device_get_uuid((CUuuid *)uuid, id) == CUDA_SUCCESS;
}

static void cuda_device_probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    if (!cuda_driver()) {
        gpud_print(info->description, "NVIDIA GPU");
        gpud_print(info->reason, "%s", why_not);
        return;
    }
    CUdevice id;
    CUuuid uuid;
    CUresult result = gpud_cu.device_get(&id, (int)device->index);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_get_name(info->description, sizeof(info->description), id);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_get_uuid(&uuid, id);
    if (result != CUDA_SUCCESS) {
        struct gpud_error error;
        gpud_gpu_fail(&cuda_gpu_driver, &error, (int)result, "the driver does not describe %s",
                      info->name);
        gpud_print(info->reason, "%s", error.reason);
        return;
    }
    memcpy(device->uuid, uuid.bytes, sizeof(device->uuid));
    if (gpud_cu.device_get_pci_bus_id(info->pci, sizeof(info->pci), id) != CUDA_SUCCESS)
        info->pci[0] = '\0';
    if (!attribute(id, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)) {
        gpud_print(info->reason, "%s has no unified addressing: a 64-bit driver is needed",
                   info->name);
        return;
    }
    if (attribute(id, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == 2) {
        gpud_print(info->reason, "%s is in compute mode \"prohibited\": nvidia-smi -c DEFAULT",
                   info->name);
        return;
    }
    info->available = info->direct_writes = true;
    device->caps = GPUD_CAP_SHARE | GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS | GPUD_CAP_FENCES |
                   GPUD_CAP_OF_GRAPHICS;
    /* NVIDIA's exporter dereferences the importer's PCI device without a check. */
    device->dmabuf_pci_only = true;
    if (!attribute(id, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
        gpud_print(device->no_dmabuf,
                   "the driver of %s makes no dma-bufs: the open kernel modules do", info->name);
    gpud_gpu_probe_reach(device, device_count, cuda_device_reaches, read_uuid);
}

static enum gpud_status open_cuda(struct gpud_device *device, struct gpud_error *error)
{
    struct cuda_device *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    struct gpud_gpu *gpu = &cuda->gpu;
    gpu->driver = &cuda_gpu_driver;
    CUresult result = gpud_cu.device_get(&cuda->id, (int)device->index);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_primary_ctx_retain(&cuda->context, cuda->id);
    if (result != CUDA_SUCCESS) {
        free(cuda);
        return gpud_gpu_fail(&cuda_gpu_driver, error, (int)result, "no CUDA context on %s",
                             device->info.name);
    }
    CUdevice id = cuda->id;
    cuda->writes_ordered = attribute(id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                           CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    cuda->can_flush = attribute(id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
                      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    gpu->ordinal = id;
    if (attribute(id, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
        attribute(id, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        gpu->granularity = gpud_gpu_find_granularity(gpu);
    gpu->rdma = attribute(id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    gpu->context = cuda->context;
    enum gpud_status status = gpud_gpu_open(gpu, device, error);
    if (status != GPUD_OK) {
        gpud_cu.device_primary_ctx_release(id);
        free(cuda);
        return status;
    }
    identify_by((CUdevice)device->index, cuda->context);
    /* What the slot and the GPU can do with the host's memory, in MB/s; 0: unknown. */
    const struct nvml *nv = nvml();
    nvml_device handle;
    if (nv && nv->get_handle(device->info.pci, &handle) == NVML_SUCCESS)
        device->host_rate = (uint32_t)(pcie_bandwidth(nv, handle) / 1e6);
    return GPUD_OK;
}

/* All queues must be gone: they keep the context alive. */
static void close_cuda(struct gpud_device *device)
{
    struct cuda_device *cuda = device->backend;
    if (!gpud_gpu_close(&cuda->gpu))
        return;
    identify_by((CUdevice)device->index, NULL);
    gpud_cu.device_primary_ctx_release(cuda->id);
    free(cuda);
}

static void *native(const struct gpud_device *device)
{
    return ((struct cuda_device *)device->backend)->context;
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_CUDA_FD, .words = 1, .attachment = true},
    {.type = GPUD_HANDLE_CUDA_IPC, .words = 9},
};

static const char *const peermem[] = {
    "/sys/module/nvidia_peermem/version",
    "/sys/kernel/mm/memory_peers/nv_mem*/version",
    NULL,
};

static const char *const hwloc_plugins[] = {"nvml", NULL};

const struct gpud_device_ops gpud_cuda_ops = {
    .name = "cuda",
    .count = cuda_count,
    .probe = cuda_device_probe,
    .open = open_cuda,
    .close = close_cuda,
    .native = native,
    .link = cuda_link,
    .identify = cuda_identify,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .peermem = peermem,
    .no_peermem = "nvidia-peermem is not loaded (modprobe nvidia-peermem)",
    .hwloc_plugins = hwloc_plugins,
    .memory = &gpud_gpu_memory_ops,
    .dmabuf = &gpud_gpu_dmabuf_ops,
    .queue = &gpud_gpu_queue_ops,
    .fence = &gpud_gpu_fence_ops,
    .signal = &gpud_gpu_signal_ops,
};
