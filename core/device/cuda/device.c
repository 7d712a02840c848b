/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CUDA devices: what each can do. */
#include "device/backends.h"
#include "device/cuda/api.h"
#include "device/cuda/identify.h"
#include "device/cuda/link.h"
#include "device/gpu/api.h"

#include <stdlib.h>
#include <string.h>

static unsigned count(void)
{
    return gpud_cuda_driver() ? (unsigned)gpud_cuda_count() : 1;
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

static bool reaches(int from, int to)
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

static void probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    if (!gpud_cuda_driver()) {
        gpud_print(info->description, "NVIDIA GPU");
        gpud_print(info->reason, "%s", gpud_cuda_why_none());
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
        gpud_gpu_fail(&gpud_cuda_gpu_driver, &error, (int)result, "the driver does not describe %s",
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
    gpud_gpu_probe_reach(device, gpud_cuda_count(), reaches, read_uuid);
}

static enum gpud_status make_context(struct cuda_device *cuda, const struct gpud_device *device,
                                     struct gpud_error *error)
{
    CUresult result = gpud_cu.device_get(&cuda->id, (int)device->index);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.device_primary_ctx_retain(&cuda->context, cuda->id);
    if (result != CUDA_SUCCESS)
        return gpud_gpu_fail(&gpud_cuda_gpu_driver, error, (int)result, "no CUDA context on %s",
                             device->info.name);
    cuda->writes_ordered =
        attribute(cuda->id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
        CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    cuda->can_flush =
        attribute(cuda->id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    cuda->gpu.ordinal = cuda->id;
    if (has_vmm(cuda->id))
        cuda->gpu.granularity = gpud_gpu_find_granularity(&cuda->gpu);
    cuda->gpu.rdma =
        attribute(cuda->id, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    cuda->gpu.context = cuda->context;
    return GPUD_OK;
}

static enum gpud_status open_cuda(struct gpud_device *device, struct gpud_error *error)
{
    struct cuda_device *cuda = calloc(1, sizeof(*cuda));
    if (!cuda)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    cuda->gpu.driver = &gpud_cuda_gpu_driver;
    enum gpud_status status = make_context(cuda, device, error);
    if (status == GPUD_OK) {
        status = gpud_gpu_open(&cuda->gpu, device, error);
        if (status != GPUD_OK)
            gpud_cu.device_primary_ctx_release(cuda->id);
    }
    if (status != GPUD_OK) {
        free(cuda);
        return status;
    }
    gpud_cuda_identify_by((CUdevice)device->index, cuda->context);
    device->host_rate = gpud_cuda_host_rate(device);
    return GPUD_OK;
}

/* All queues must be gone: they keep the context alive. */
static void close_cuda(struct gpud_device *device)
{
    struct cuda_device *cuda = gpud_cuda_device(device);
    if (!gpud_gpu_close(&cuda->gpu))
        return;
    gpud_cuda_identify_by((CUdevice)device->index, NULL);
    gpud_cu.device_primary_ctx_release(cuda->id);
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

static const char *const peermem[] = {
    "/sys/module/nvidia_peermem/version",
    "/sys/kernel/mm/memory_peers/nv_mem*/version",
    NULL,
};

static const char *const hwloc_plugins[] = {"nvml", NULL};

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
    .peermem = peermem,
    .no_peermem = "nvidia-peermem is not loaded (modprobe nvidia-peermem)",
    .hwloc_plugins = hwloc_plugins,
    .memory = &gpud_gpu_memory_ops,
    .dmabuf = &gpud_gpu_dmabuf_ops,
    .queue = &gpud_gpu_queue_ops,
    .fence = &gpud_gpu_fence_ops,
    .signal = &gpud_gpu_signal_ops,
};
