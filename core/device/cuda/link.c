/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The link from one GPU into the memory of another: the CUDA driver says what it can do, NVML what
 * it is made of. NVML comes with the driver, but a container may lack it: then the name is the
 * bus's, and the bandwidth is unknown. */
#include "device/cuda/link.h"

#include "device/cuda/api.h"
#include "device/gpu/api.h"

#include <dlfcn.h>
#include <string.h>

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
static struct nvml {
    NVML_FUNCTIONS(NVML_MEMBER)
} table;
#undef NVML_MEMBER

static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Never unloaded: it keeps threads and files of its own. */
static void load(void)
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
    loaded = complete && table.init() == NVML_SUCCESS;
}

static const struct nvml *nvml(void)
{
    pthread_once(&once, load);
    return loaded ? &table : NULL;
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

/* Every GPU behind NVSwitches reaches every other over all its links to them, as `nvidia-smi topo
 * -m` counts. */
static unsigned joining_links(const struct nvml *nv, nvml_device a, nvml_device b)
{
    struct bundle ours = count_links(nv, a, b), theirs = count_links(nv, b, NULL);
    unsigned through_switch = ours.to_switch < theirs.to_switch ? ours.to_switch : theirs.to_switch;
    return ours.direct + through_switch;
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

uint32_t gpud_cuda_host_rate(const struct gpud_device *device)
{
    const struct nvml *nv = nvml();
    nvml_device handle;
    if (!nv || nv->get_handle(device->info.pci, &handle) != NVML_SUCCESS)
        return 0;
    return (uint32_t)(pcie_bandwidth(nv, handle) / 1e6);
}

/* --- both ---------------------------------------------------------------------------------- */

static void ask_nvml(const struct gpud_device *from, const struct gpud_device *to,
                     struct gpud_device_link *link)
{
    const struct nvml *nv = nvml();
    nvml_device a, b;
    if (!nv || nv->get_handle(from->info.pci, &a) != NVML_SUCCESS ||
        nv->get_handle(to->info.pci, &b) != NVML_SUCCESS)
        return;
    unsigned links = joining_links(nv, a, b);
    if (links) {
        gpud_print(link->name, "NV%u", links);
        link->bandwidth = links * link_speed(nv, a);
    } else if (link->direct) {
        double ours = pcie_bandwidth(nv, a), theirs = pcie_bandwidth(nv, b);
        link->bandwidth = ours < theirs ? ours : theirs;
    }
}

static void ask_driver(const struct gpud_device *from, const struct gpud_device *to,
                       struct gpud_device_link *link)
{
    const struct cuda_driver *cu = gpud_cuda_driver();
    CUdevice a, b;
    if (!cu || cu->device_get(&a, (int)from->index) != CUDA_SUCCESS ||
        cu->device_get(&b, (int)to->index) != CUDA_SUCCESS ||
        !gpud_gpu_ask_link(&gpud_cuda_gpu_driver, a, b, link))
        gpud_print(link->reason, "the CUDA driver does not answer for %s and %s", from->info.name,
                   to->info.name);
    else if (!link->direct)
        gpud_print(link->reason,
                   "the driver lets %s not write to %s: there is no NVLink between them, and PCIe "
                   "peer-to-peer is off (by the IOMMU, by ACS, or because the card's class has "
                   "none)",
                   from->info.name, to->info.name);
}

void gpud_cuda_link(const struct gpud_device *from, const struct gpud_device *to,
                    struct gpud_device_link *link)
{
    ask_driver(from, to, link);
    ask_nvml(from, to, link);
}
