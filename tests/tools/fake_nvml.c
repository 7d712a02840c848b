/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* As much of NVIDIA's management library as core/device/cuda/cuda.c asks: the first two GPUs (as
 * tests/fakes numbers them on the bus) have 18 links to switches, the third and the fourth two
 * links to each other, and every GPU has a PCI Express slot, of generation 5 or of the one that
 * FAKE_NVML_GENERATION says. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define GPUS 4

struct device {
    unsigned bus;
};
static struct device devices[GPUS] = {{1}, {2}, {3}, {4}};

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device);
int nvmlDeviceGetNvLinkState(struct device *device, unsigned link, int *active);
int nvmlDeviceGetNvLinkVersion(struct device *device, unsigned link, unsigned *version);
int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link, struct pci *pci);
int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields);
int nvmlDeviceGetMaxPcieLinkGeneration(struct device *device, unsigned *generation);
int nvmlDeviceGetMaxPcieLinkWidth(struct device *device, unsigned *width);

int nvmlInit_v2(void)
{
    return SUCCESS;
}

/* "FACE:01:00.0" of CUDA, "0000FACE:01:00.0" of its own. */
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device)
{
    unsigned domain, bus;
    if (sscanf(bus_id, "%x:%x:", &domain, &bus) != 2)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < GPUS; i++) {
        if (devices[i].bus != bus)
            continue;
        *device = &devices[i];
        return SUCCESS;
    }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkState(struct device *device, unsigned link, int *active)
{
    unsigned links = device->bus <= 2 ? 18 : 3;
    if (link >= links)
        return INVALID_ARGUMENT;
    *active = device->bus <= 2 || link != 1; /* one of the three is not plugged in */
    return SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(struct device *device, unsigned link, unsigned *version)
{
    *version = 4;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device, unsigned link, int *type)
{
    *type = device->bus <= 2 ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link, struct pci *pci)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = device->bus == 3 ? 4 : 3;
    snprintf(pci->bus_id, sizeof(pci->bus_id), "0000FACE:%02X:00.0", pci->bus);
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields)
{
    for (int i = 0; i < count; i++) {
        /* The first two tell the speed of a link, the others, being older, that of all links. */
        bool known = fields[i].id == (device->bus <= 2 ? 164u : 90u);
        fields[i].result = known ? SUCCESS : NOT_SUPPORTED;
        fields[i].type = 1;
        fields[i].value.u = 26562;
    }
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(struct device *device, unsigned *generation)
{
    const char *said = getenv("FAKE_NVML_GENERATION");
    *generation = said ? (unsigned)atoi(said) : 5;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(struct device *device, unsigned *width)
{
    *width = device->bus == 4 ? 8 : 16;
    return SUCCESS;
}
