/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HIP's devices, and how they reach each other. */
#include "device/hip/hip.h"

#include "device/device.h"
#include "device/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === link ==================================================================================== */
/* The link from one GPU into the memory of another, as the runtime reports it. */

#define LINK_XGMI 4 /* hsa_amd_link_info_type_t */

/* As gpud_device_ops.link. */
static void hip_link(const struct gpud_device *from, const struct gpud_device *to,
                     struct gpud_device_link *link)
{
    const struct hip_driver *hip = gpud_hip_driver();
    int a = (int)from->index, b = (int)to->index;
    uint32_t type = 0, hops = 0;
    if (!hip || !gpud_gpu_ask_link(&gpud_hip_gpu_driver, a, b, link)) {
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

static unsigned hip_device_count(void)
{
    return gpud_hip_driver() ? (unsigned)gpud_hip_count() : 1;
}

static int attribute(int ordinal, hipDeviceAttribute_t which)
{
    int value = 0;
    return gpud_hip.device_get_attribute(&value, which, ordinal) == hipSuccess ? value : 0;
}

static bool hip_device_reaches(int from, int to)
{
    int can = 0;
    return gpud_hip.device_can_access_peer(&can, from, to) == hipSuccess && can;
}

/* Some GPUs have no UUID, and some runtimes do not report it. Then the bus address serves, which is
 * the same in every process. */
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

static void hip_device_probe(struct gpud_device *device)
{
    struct gpud_device_info *info = &device->info;
    int ordinal = (int)device->index;
    if (!gpud_hip_driver()) {
        gpud_print(info->description, "AMD GPU");
        gpud_print(info->reason, "%s", gpud_hip_why_none());
        return;
    }
    hipError_t result =
        gpud_hip.device_get_name(info->description, sizeof(info->description), ordinal);
    if (result != hipSuccess || !read_uuid(ordinal, device->uuid)) {
        struct gpud_error error;
        gpud_gpu_fail(&gpud_hip_gpu_driver, &error, (int)result, "the runtime does not describe %s",
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
    gpud_gpu_probe_reach(device, gpud_hip_count(), hip_device_reaches, read_uuid);
}

static bool has_physical_allocations(int ordinal)
{
    return gpud_hip.version >= HIP_VERSION_6 && gpud_hip.mem_get_allocation_granularity &&
           gpud_hip.mem_create && gpud_hip.mem_release && gpud_hip.mem_address_reserve &&
           gpud_hip.mem_address_free && gpud_hip.mem_map && gpud_hip.mem_unmap &&
           gpud_hip.mem_set_access && gpud_hip.mem_export && gpud_hip.mem_import &&
           gpud_hip.mem_get_allocation_properties &&
           attribute(ordinal, HIP_ATTRIBUTE_VIRTUAL_MEMORY);
}

/* The granularity of physical allocations that can be exported as a descriptor; an allocation is
 * tried. */
static uint64_t find_granularity(struct gpud_gpu *gpu)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    struct gpud_gpu_memory tried = {.kind = GPUD_GPU_PHYSICAL};
    int fd = -1;
    if (!has_physical_allocations(gpu->ordinal))
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
    return gpud_hip_driver() && gpud_gpu_identify(&gpud_hip_gpu_driver, "hip", pointer, info);
}

static enum gpud_status open_hip(struct gpud_device *device, struct gpud_error *error)
{
    struct hip_device *hip = calloc(1, sizeof(*hip));
    char why[GPUD_REASON_MAX];
    if (!hip)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    int ordinal = (int)device->index;
    hip->gpu.driver = &gpud_hip_gpu_driver;
    hip->gpu.ordinal = ordinal;
    hip->gpu.context = (void *)(intptr_t)(ordinal + 1);
    hip->coherent = attribute(ordinal, hipDeviceAttributeIntegrated);
    /* The runtime fills in a pointer, although the argument's type is int. */
    if (gpud_hip.device_get_attribute((int *)(void *)&hip->flush, hipDeviceAttributeHdpMemFlushCntl,
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
    if (device->caps & GPUD_CAP_SIGNALS && !gpud_hip_prove_signals(&hip->gpu, why)) {
        device->caps &= ~(uint32_t)(GPUD_CAP_SIGNALS | GPUD_CAP_PAGE_SIGNALS);
        gpud_log_warning(&device->context->log, "hip", "%s: %s: the CPU waits and posts instead",
                         device->info.name, why);
    }
    return GPUD_OK;
}

/* All queues must be gone. */
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

static const char *const peermem[] = {"/sys/kernel/mm/memory_peers/amdkfd/version", NULL};
static const char *const hwloc_plugins[] = {"rsmi", NULL};

const struct gpud_device_ops gpud_hip_ops = {
    .name = "hip",
    .count = hip_device_count,
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
