/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The devices: their number, visibility and attributes. */

#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As the driver reads it: a list of indices, cut at the first that does not exist. */
static void read_visible(const char *text, int count)
{
    while (*text) {
        char *end;
        long index = strtol(text, &end, 10);
        if (end == text || index < 0 || index >= count || fake.devices == MAX_DEVICES)
            return;
        for (int i = 0; i < fake.devices; i++) {
            if (fake.physical[i] == (int)index) {
                fake.devices = 0; /* named twice: none is visible */
                return;
            }
        }
        fake.physical[fake.devices++] = (int)index;
        if (*end != ',')
            return;
        text = end + 1;
    }
}

bool devices_read(void)
{
    const char *text = getenv("GPUD_FAKE_CUDA_DEVICES");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = fake.integrated ? 1 : text ? atoi(text) : 2;
    count = count > MAX_DEVICES ? MAX_DEVICES : count;
    fake.devices = 0;
    if (visible) {
        read_visible(visible, count);
    } else {
        for (int i = 0; i < count; i++)
            fake.physical[fake.devices++] = i;
    }
    return fake.devices > 0;
}

bool valid_device(CUdevice device)
{
    return device >= 0 && device < fake.devices;
}

CUdevice visible_device(int physical)
{
    for (int i = 0; i < fake.devices; i++) {
        if (fake.physical[i] == physical)
            return i;
    }
    return -1;
}

bool peers_reach(CUdevice from, CUdevice to)
{
    return from == to || !fake.no_peers;
}

/* Begins a function that has a device and a place for its answer. */
#define ENTER_DEVICE(device, out)                                                            \
    ENTER(NEED_INIT);                                                                        \
    do {                                                                                     \
        if (!(out))                                                                          \
            return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));               \
        if (!valid_device(device))                                                           \
            return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "device %d of %d", (int)(device), \
                                fake.devices));                                              \
    } while (0)

CUresult cuDeviceGetCount(int *count)
{
    ENTER(NEED_INIT);
    if (!count)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    *count = fake.devices;
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER_DEVICE(ordinal, device);
    *device = ordinal;
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER_DEVICE(device, name);
    if (size <= 0)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "room for %d bytes", size));
    snprintf(name, (size_t)size, "Fake GPU %d", fake.physical[device]);
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER_DEVICE(device, uuid);
    static const char base[16] = "fake gpu number";
    memcpy(uuid->bytes, base, sizeof base);
    uuid->bytes[15] = (char)(fake.physical[device] + 1);
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

/* A PCI domain that no machine has, so that no real device is confused with ours. */
CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
    ENTER_DEVICE(device, text);
    char id[16];
    int length = snprintf(id, sizeof id, "FACE:%02X:00.0", fake.physical[device] + 1);
    if (size <= length)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "room for %d bytes", size));
    memcpy(text, id, (size_t)length + 1);
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    ENTER(NEED_INIT);
    unsigned domain, bus, slot, function;
    if (!device || !text || sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "not domain:bus:device.function"));
    CUdevice found = domain == 0xface && slot == 0 && function == 0 && bus > 0
                         ? visible_device((int)bus - 1)
                         : -1;
    if (found < 0)
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "no device at %s", text));
    *device = found;
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    ENTER_DEVICE(device, major && minor);
    *major = 9;
    *minor = 0;
    return leave(CUDA_SUCCESS);
}

/* Numbers as in cuda.h, values as an H200 gives them where it matters here. What is not listed
 * is 0: a feature that is not there. */
static int attribute(int which, CUdevice device)
{
    switch (which) {
    case 1: /* threads a block */
        return 1024;
    case 2: /* threads a block, x, y, z */
    case 3:
        return 1024;
    case 4:
        return 64;
    case 5: /* blocks a grid, x, y, z */
        return 2147483647;
    case 6:
    case 7:
        return 65535;
    case 10: /* warp */
        return 32;
    case 11: /* pitch */
        return 2147483647;
    case 14: /* texture alignment */
        return 512;
    case 22: /* width and height of a texture */
        return 131072;
    case 23:
        return 65536;
    case 16: /* multiprocessors */
        return 132;
    case 19: /* can map host memory */
        return 1;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        return fake.integrated;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        return 0;
    case 31: /* concurrent kernels */
        return 1;
    case 33: /* bus, device, domain */
        return fake.physical[device] + 1;
    case 34:
        return 0;
    case 50:
        return 0xface;
    case 40: /* copy engines */
        return 3;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        return 1;
    case 51: /* texture pitch alignment */
        return 32;
    case 75: /* compute capability */
        return 9;
    case 76:
        return 0;
    case 83: /* managed memory */
        return 1;
    /* 91, a registered page's own address serves the device: not here, the device has another. */
    case 99: /* host register */
        return 1;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case 115: /* memory pools */
    case 116: /* GPUDirect RDMA */
        return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
        return fake.no_flush ? 0 : CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
        return fake.unordered ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE
                              : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        return 1;
    case 125: /* events between processes: not here */
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    ENTER_DEVICE(device, value);
    if ((int)which < 1 || (int)which > 150)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no attribute %d", (int)which));
    *value = attribute((int)which, device);
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER_DEVICE(device, bytes);
    *bytes = fake.memory;
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER_DEVICE(device, can);
    if (!valid_device(peer))
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "peer %d of %d", peer, fake.devices));
    *can = device != peer && peers_reach(device, peer);
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute which, CUdevice from,
                                 CUdevice to)
{
    ENTER_DEVICE(from, value);
    if (!valid_device(to) || from == to)
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "from %d to %d", from, to));
    switch ((int)which) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0;
        break;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case 4: /* arrays */
        *value = peers_reach(from, to);
        break;
    default:
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no peer attribute %d", (int)which));
    }
    return leave(CUDA_SUCCESS);
}
