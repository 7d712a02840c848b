/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CUDA's driver, opened at run time. */
#include "device/cuda/cuda.h"

#include "base/base.h"
#include "device/gpu/gpu.h"

#include <string.h>
#include <unistd.h>

/* === api ===================================================================================== */
/* CUDA's driver table for device/gpu/, and what only CUDA needs. */

struct cuda_driver gpud_cu;

/* --- what is CUDA's own -------------------------------------------------------------------- */

static const char *cuda_api_error_name(int result)
{
    const char *name = NULL;
    if (!gpud_cu.get_error_name || gpud_cu.get_error_name((CUresult)result, &name) != CUDA_SUCCESS)
        return NULL;
    return name;
}

/* One bit for each enter, the latest lowest: 1 if the driver took the context. A driver that is
 * shutting down takes none; popping then would remove the application's context. */
static _Thread_local uint64_t entered;

static void cuda_api_enter(struct gpud_gpu *gpu)
{
    CUcontext context = ((struct cuda_device *)gpu)->context;
    entered = entered << 1 | (gpud_cu.ctx_push_current(context) == CUDA_SUCCESS);
}

static void cuda_api_leave(struct gpud_gpu *gpu)
{
    CUcontext context;
    if (entered & 1)
        gpud_cu.ctx_pop_current(&context);
    entered >>= 1;
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

static int write_both(void *stream, uint64_t first, uint64_t second, uint32_t value)
{
    CUstreamBatchMemOpParams operations[] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = first,
                        .value = value}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = second,
                        .value = value}},
    };
    return (int)gpud_cu.stream_batch_mem_op(stream, 2, operations, 0);
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
        return gpud_gpu_fail(&gpud_cuda_gpu_driver, error, (int)result,
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
    struct cuda_device *device = gpud_cuda_device(memory->device);
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

struct gpud_gpu_driver gpud_cuda_gpu_driver = {
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
    .write_both = write_both,
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
    memcpy(&gpud_cuda_gpu_driver.member, &gpud_cu.member, sizeof(gpud_cu.member));
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
    gpud_gpu_fail(&gpud_cuda_gpu_driver, &error,
                  (int)(result == CUDA_SUCCESS ? CUDA_ERROR_NO_DEVICE : result),
                  "the NVIDIA driver finds no GPU that it may use (look at nvidia-smi and "
                  "CUDA_VISIBLE_DEVICES)");
    gpud_print(why_not, "%s", error.reason);
}

const struct cuda_driver *gpud_cuda_driver(void)
{
    pthread_once(&once, cuda_api_load);
    return loaded ? &gpud_cu : NULL;
}

int gpud_cuda_count(void)
{
    return gpud_cuda_driver() ? device_count : 0;
}

const char *gpud_cuda_why_none(void)
{
    return why_not;
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

void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context)
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
    return gpud_gpu_identify(&gpud_cuda_gpu_driver, "cuda", pointer, info);
}

bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info)
{
    CUcontext current = NULL;
    if (!gpud_cuda_driver())
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
