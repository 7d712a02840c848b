/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CUDA devices: finding the driver, and what its devices can do. */
#include "base/text.h"
#include "device/backends.h"
#include "device/cuda/cuda.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_driver gpud_cu;

/* --- errors -------------------------------------------------------------------------------- */

static enum gpud_status status_of(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return GPUD_NO_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return GPUD_NO_DEVICE;
    case CUDA_ERROR_NOT_PERMITTED:
        return GPUD_NO_ACCESS;
    case CUDA_ERROR_NOT_SUPPORTED:
        return GPUD_UNSUPPORTED;
    default:
        return GPUD_IO;
    }
}

static enum gpud_status fail(struct gpud_error *error, enum gpud_status status, CUresult result,
                             const char *format, va_list args)
{
    char text[160];
    const char *name = NULL;
    gpud_text_format(text, sizeof(text), format, args);
    if (!gpud_cu.get_error_name || gpud_cu.get_error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "a CUDA error";
    return gpud_fail_native(error, status, "cuda", (long)result, "%s: %s (%d)", text, name,
                            (int)result);
}

enum gpud_status gpud_cuda_fail(struct gpud_error *error, CUresult result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status = fail(error, status_of(result), result, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_cuda_fail_as(struct gpud_error *error, enum gpud_status status,
                                   CUresult result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(error, status, result, format, args);
    va_end(args);
    return status;
}

/* --- the driver ---------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static int device_count;
static char why_not[GPUD_REASON_MAX]; /* why there is no device at all */

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        gpud_print(why_not, "no NVIDIA driver (libcuda.so.1 cannot be loaded): install it, or in a "
                            "container pass the GPU through");
        return;
    }
#define RESOLVE(member, symbol, arguments)                                                \
    gpud_cu.member = (CUresult(*) arguments)dlsym(library, #symbol);                      \
    if (!gpud_cu.member) {                                                                \
        gpud_print(why_not, "the NVIDIA driver has no %s: R515 or a newer one is needed", \
                   #symbol);                                                              \
        return;                                                                           \
    }
    CUDA_DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
    struct gpud_error error;
    CUresult result = gpud_cu.init(0);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_get_count(&device_count);
    if (result == CUDA_SUCCESS && device_count > 0) {
        loaded = true;
        return;
    }
    gpud_cuda_fail(&error, result == CUDA_SUCCESS ? CUDA_ERROR_NO_DEVICE : result,
                   "the NVIDIA driver finds no GPU that it may use (look at nvidia-smi and "
                   "CUDA_VISIBLE_DEVICES)");
    gpud_print(why_not, "%s", error.reason);
}

const struct cuda_driver *gpud_cuda_driver(void)
{
    pthread_once(&once, load);
    return loaded ? &gpud_cu : NULL;
}

/* One bit for each enter, the latest lowest: 1 if the driver took the context. A driver that is
 * shutting down takes none, and popping then would remove the application's. */
static _Thread_local uint64_t entered;

void gpud_cuda_enter(const struct cuda_device *device)
{
    bool pushed = gpud_cu.ctx_push_current(device->context) == CUDA_SUCCESS;
    entered = entered << 1 | pushed;
}

void gpud_cuda_leave(void)
{
    CUcontext context;
    if (entered & 1)
        gpud_cu.ctx_pop_current(&context);
    entered >>= 1;
}

/* --- devices ------------------------------------------------------------------------------- */

static unsigned count(void)
{
    return gpud_cuda_driver() ? (unsigned)device_count : 1;
}

static int attribute(CUdevice id, CUdevice_attribute which)
{
    int value = 0;
    return gpud_cu.device_get_attribute(&value, which, id) == CUDA_SUCCESS ? value : 0;
}

static bool has_vmm(CUdevice id)
{
    return attribute(id, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
           attribute(id, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

static void probe_reach(struct gpud_device *device, CUdevice id)
{
    memcpy(device->reach[device->reach_count++], device->uuid, sizeof(device->uuid));
    for (int i = 0; i < device_count && device->reach_count < GPUD_REACH_MAX; i++) {
        CUdevice peer;
        CUuuid uuid;
        int can = 0;
        if (gpud_cu.device_get(&peer, i) != CUDA_SUCCESS || peer == id ||
            gpud_cu.device_can_access_peer(&can, id, peer) != CUDA_SUCCESS || !can ||
            gpud_cu.device_get_uuid(&uuid, peer) != CUDA_SUCCESS)
            continue;
        memcpy(device->reach[device->reach_count++], uuid.bytes, sizeof(uuid.bytes));
    }
}

static void probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    if (!gpud_cuda_driver()) {
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
        gpud_cuda_fail(&error, result, "the driver does not describe %s", info->name);
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
    device->caps = GPUD_CAP_SHARE | GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS | GPUD_CAP_FENCES;
    device->dmabuf_pci_only =
        true; /* NVIDIA's exporter looks at the importer's PCI device unasked */
    probe_reach(device, id);
}

static enum gpud_status make_context(struct cuda_device *cuda, const struct gpud_device *device,
                                     struct gpud_error *error)
{
    CUresult result = gpud_cu.device_get(&cuda->id, (int)device->index);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_primary_ctx_retain(&cuda->context, cuda->id);
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "no CUDA context on %s", device->info.name);
    cuda->vmm = has_vmm(cuda->id);
    cuda->rdma = attribute(cuda->id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    cuda->writes_ordered =
        attribute(cuda->id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
        CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    cuda->can_flush =
        attribute(cuda->id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)device->index},
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
    if (cuda->vmm &&
        gpud_cu.mem_get_allocation_granularity(&cuda->granularity, &prop,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
        cuda->vmm = false;
    return GPUD_OK;
}

static enum gpud_status open_cuda(struct gpud_device *device, struct gpud_error *error)
{
    struct cuda_device *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    /* The watchdog of the words that streams wait for runs on it. */
    enum gpud_status status = gpud_worker_start(&device->context->watch, error);
    if (status == GPUD_OK)
        status = gpud_async_init(&cuda->async, &gpud_cuda_async_ops, device, error);
    if (status != GPUD_OK) {
        free(cuda);
        return status;
    }
    CUresult result = CUDA_SUCCESS;
    status = make_context(cuda, device, error);
    if (status == GPUD_OK) {
        gpud_cuda_enter(cuda);
        result = gpud_cu.stream_create(&cuda->service, CU_STREAM_NON_BLOCKING);
        gpud_cuda_leave();
    }
    if (result != CUDA_SUCCESS) {
        gpud_cu.device_primary_ctx_release(cuda->id);
        status = gpud_cuda_fail(error, result, "no stream on %s", device->info.name);
    }
    if (status != GPUD_OK) {
        gpud_async_finish(&cuda->async);
        free(cuda);
        return status;
    }
    if (!cuda->vmm)
        device->caps &= ~(uint32_t)GPUD_CAP_SHARE;
    gpud_completion_thread_init(&cuda->completions, &gpud_cuda_async_ops, device);
    gpud_events_init(&cuda->events, gpud_cuda_event_create, gpud_cuda_event_destroy);
    gpud_bounces_init(&cuda->bounces, &gpud_cuda_bounce_ops, &cuda->async);
    gpud_cuda_identify_by((CUdevice)device->index, cuda->context);
    device->host_rate = gpud_cuda_host_rate(device);
    device->backend = cuda;
    return GPUD_OK;
}

/* All queues are gone: they would have kept the context alive. */
static void close_cuda(struct gpud_device *device)
{
    struct cuda_device *cuda = gpud_cuda_device(device);
    if (!gpud_completion_thread_finish(&cuda->completions) || gpud_async_count(&cuda->async)) {
        gpud_log_error(&device->context->log, "cuda",
                       "%s: work is stuck on it and its context cannot be released",
                       device->info.name);
        return;
    }
    gpud_cuda_identify_by((CUdevice)device->index, NULL);
    gpud_cuda_enter(cuda);
    gpud_bounces_finish(&cuda->bounces);
    gpud_cu.stream_destroy(cuda->service);
    gpud_events_finish(&cuda->events);
    gpud_cuda_leave();
    gpud_cu.device_primary_ctx_release(cuda->id);
    gpud_async_finish(&cuda->async);
    free(cuda);
}

static void *native(const struct gpud_device *device)
{
    return gpud_cuda_device(device)->context;
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_CUDA_FD, .words = 1, .attachment = true},
    {.type = GPUD_HANDLE_CUDA_IPC, .words = 9},
};

const struct gpud_device_ops gpud_cuda_ops = {
    .name = "cuda",
    .count = count,
    .probe = probe,
    .open = open_cuda,
    .close = close_cuda,
    .native = native,
    .link = gpud_cuda_link,
    .identify = gpud_cuda_identify,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .memory = &gpud_cuda_memory_ops,
    .queue = &gpud_cuda_queue_ops,
    .signal = &gpud_cuda_signal_ops,
};
