/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory for other processes and drivers: legacy IPC handles and dma-bufs.
 *
 * A handle says which descriptor of which process the memory is; it is opened through /proc. It
 * fails across PID namespaces, as with many a driver, also where both see the same /proc. */

#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x66616b65u

struct handle {
    unsigned magic;
    int pid, fd, physical;
    unsigned long long namespace, key, offset, size;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "fits");

static unsigned long long own_namespace(void)
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    struct range *range = range_at(address);
    if (fake.integrated)
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "an integrated GPU has no IPC handles"));
    if (!handle || !range || range->kind != RANGE_ALLOC)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is not of cuMemAlloc", address));
    if (range->start != address)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is %llu bytes into its allocation",
                            address, address - range->start));
    if (range->device != current_context()->device)
        return leave(refuse(CUDA_ERROR_INVALID_CONTEXT, "%#llx is of another device", address));
    const struct handle own = {.magic = MAGIC,
                               .pid = getpid(),
                               .fd = range->backing->fd,
                               .namespace = own_namespace(),
                               .physical = fake.physical[range->device],
                               .key = range->backing->key,
                               .offset = (unsigned long long)(range->cpu - range->backing->cpu),
                               .size = range->size};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &own, sizeof own);
    return leave(CUDA_SUCCESS);
}

/* A number alone is not enough: each PID namespace counts from 1. */
static bool is_own(const struct handle *handle)
{
    struct range *range = fake.ranges;
    while (range && (range->kind != RANGE_ALLOC || range->backing->key != handle->key))
        range = range->next;
    return range && handle->pid == getpid();
}

static bool is_open(CUcontext context, unsigned long long key)
{
    struct range *range = fake.ranges;
    while (range &&
           (range->kind != RANGE_IPC || range->context != context || range->backing->key != key))
        range = range->next;
    return range != NULL;
}

/* The read lock shows the owner that the memory is open elsewhere; it ends with this process at the
 * latest. It belongs to the open file description, which the backing's descriptor keeps. */
static CUresult open_backing(const struct handle *handle, struct backing **out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = handle->namespace == own_namespace() ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stat status;
    if (fd < 0 || fstat(fd, &status) || status.st_ino != handle->key) {
        if (fd >= 0)
            close(fd);
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      "the memory's process is gone, has freed it, or is not to be seen from here "
                      "(another PID namespace or user)");
    }
    CUresult result = backing_import('a', fd, out);
    if (result != CUDA_SUCCESS)
        return result;
    struct flock region = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (handle->offset + handle->size <= (*out)->size && fcntl(fd, F_OFD_SETLK, &region) == 0)
        return CUDA_SUCCESS;
    backing_unref(*out);
    return refuse(CUDA_ERROR_INVALID_VALUE, "the handle says more than there is");
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    CUcontext context = current_context();
    struct handle own;
    memcpy(&own, &handle, sizeof own);
    if (fake.integrated)
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "an integrated GPU has no IPC handles"));
    if (!address || own.magic != MAGIC || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE,
                            "no handle, or flags %#x: only lazy peer access is right", flags));
    if (is_own(&own))
        return leave(refuse(CUDA_ERROR_INVALID_CONTEXT, "a handle of this very process"));
    if (is_open(context, own.key))
        return leave(refuse(ERROR_ALREADY_MAPPED, "opened before in this context"));
    CUdevice device = visible_device(own.physical);
    if (device < 0)
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "memory of device %d, which is not visible",
                            own.physical));
    if (!peers_reach(context->device, device))
        return leave(refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "device %d cannot reach device %d",
                            context->device, device));
    struct backing *backing = NULL;
    CUresult result = open_backing(&own, &backing);
    if (result != CUDA_SUCCESS)
        return leave(result);
    CUdeviceptr start = arena_take(backing->size, PAGE);
    struct range *range = start ? range_add(RANGE_IPC, start + own.offset, own.size) : NULL;
    if (!range) {
        backing_unref(backing);
        return leave(refuse(CUDA_ERROR_OUT_OF_MEMORY, "no address for %llu bytes", own.size));
    }
    range->backing = backing;
    range->cpu = backing->cpu + own.offset;
    range->context = context;
    range->device = device;
    *address = range->start;
    return leave(CUDA_SUCCESS);
}

/* The name by which libgstcuda asks. */
CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    struct range *range = range_at(address);
    if (!range || range->kind != RANGE_IPC || range->start != address)
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%#llx was not opened, or closed before", address));
    if (range->context != current_context())
        return leave(report(CUDA_ERROR_INVALID_CONTEXT, "%#llx is another context's", address));
    return leave(range_retire(range, "closed"));
}

/* A memfd replaces the dma-buf: a mapping of it shows the memory. Its own description has
 * O_NONBLOCK, by which an import as an exported handle is refused, as the driver refuses it. A
 * memfd cannot begin in the middle: so such a range is refused, which the driver would export. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    ENTER(NEED_CONTEXT);
    struct range *range = range_at(address);
    if (!handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "type %d, flags %llu", type, flags));
    if (!range || size == 0 || range->start + range->size - address < size ||
        (range->kind != RANGE_ALLOC && range->kind != RANGE_VMM))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx, %zu bytes, is not one allocation",
                            address, size));
    if (address % PAGE || size % PAGE)
        return leave(
            refuse(CUDA_ERROR_INVALID_VALUE, "%#llx or %zu is not of whole pages", address, size));
    if (range->cpu + (address - range->start) != range->backing->cpu)
        return leave(
            refuse(CUDA_ERROR_NOT_SUPPORTED, "%#llx is not the allocation's start", address));
    if (range->kind == RANGE_ALLOC && !range->sync_memops)
        return leave(report(CUDA_ERROR_NOT_PERMITTED,
                            "a dma-buf of %#llx, whose synchronous operations may be asynchronous: "
                            "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is not set",
                            address));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", range->backing->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return leave(refuse(CUDA_ERROR_OPERATING_SYSTEM, "no file descriptor: %m"));
    *(int *)handle = fd;
    return leave(CUDA_SUCCESS);
}
