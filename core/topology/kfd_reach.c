/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether one AMD GPU reaches the memory of another, and what prevents it. The rules are those of
 * amdgpu_device_is_peer_accessible() and kfd_add_peer_prop() in Linux 6.1. The kernel lists a link
 * from one GPU to another if the first may write the second's memory, which the bus has to show
 * whole. */
#include "topology/kfd.h"

#include <string.h>

#define WEIGHT_OF_HOP 15

static const struct gpud_kfd_node *find_number(const struct gpud_kfd *kfd, uint32_t number)
{
    for (size_t i = 0; i < kfd->node_count; i++)
        if (kfd->nodes[i].number == number)
            return &kfd->nodes[i];
    return NULL;
}

static bool is_usable(const struct gpud_kfd_link *link)
{
    return link->flags & GPUD_KFD_ENABLED && !(link->flags & GPUD_KFD_NO_PEER_DMA);
}

/* xGMI before PCIe, usable before unusable, then the nearest. */
static bool is_better(const struct gpud_kfd_link *link, const struct gpud_kfd_link *than)
{
    if (!than || is_usable(link) != is_usable(than))
        return !than || is_usable(link);
    if ((link->type == GPUD_KFD_XGMI) != (than->type == GPUD_KFD_XGMI))
        return link->type == GPUD_KFD_XGMI;
    return link->weight < than->weight;
}

static const struct gpud_kfd_link *find_link(const struct gpud_kfd *kfd, uint32_t from, uint32_t to)
{
    const struct gpud_kfd_link *best = NULL;
    for (size_t i = 0; i < kfd->link_count; i++) {
        const struct gpud_kfd_link *link = &kfd->links[i];
        if (link->from == from && link->to == to && is_better(link, best))
            best = link;
    }
    return best;
}

/* Whether the kernel lists PCIe links between any two GPUs. */
static bool has_gpu_peers(const struct gpud_kfd *kfd)
{
    for (size_t i = 0; i < kfd->link_count; i++) {
        const struct gpud_kfd_link *link = &kfd->links[i];
        const struct gpud_kfd_node *from = find_number(kfd, link->from);
        const struct gpud_kfd_node *to = find_number(kfd, link->to);
        if (link->peer && from && from->gpu && to && to->gpu)
            return true;
    }
    return false;
}

#define GIB(bytes) ((double)(bytes) / (1 << 30))

/* Explains a missing link by the first cause that is certain. */
static void explain_absence(const struct gpud_kfd *kfd, const struct gpud_kfd_node *from,
                            const struct gpud_kfd_node *to, char why[GPUD_REASON_MAX])
{
    if (kfd->peer_off)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "amdgpu was loaded with pcie_p2p=0: remove that from the kernel's command "
                     "line or from /etc/modprobe.d, and restart");
    else if (!kfd->has_peer_links)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the kernel is too old to let AMD GPUs write each other's memory over PCIe: "
                     "Linux 6.0 with CONFIG_HSA_AMD_P2P, or AMD's own amdgpu driver, does");
    else if (kfd->configured == 0)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the kernel is built without CONFIG_HSA_AMD_P2P: install one with it (it "
                     "needs PCI_P2PDMA, too), or AMD's own amdgpu driver");
    else if (to->hidden > 0)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the bus shows only %.2f GiB of the %.2f GiB of memory of %s (no large BAR): "
                     "switch Resizable BAR and Above 4G Decoding on in the firmware's setup",
                     GIB(to->visible), GIB(to->visible) + GIB(to->hidden), to->pci);
    else if (kfd->configured < 0 && !has_gpu_peers(kfd))
        gpud_print_n(
            why, GPUD_REASON_MAX,
            "the kernel lists no PCIe link between any two GPUs: most likely its amdgpu "
            "is built without CONFIG_HSA_AMD_P2P (grep P2P /boot/config-$(uname -r)); else "
            "boot with iommu=pt");
    else if (find_link(kfd, to->number, from->number))
        gpud_print_n(why, GPUD_REASON_MAX,
                     "only the other direction is possible: the memory of %s lies beyond what %s "
                     "can address, or the bus redirects its writes (iommu=pt, ACS off)",
                     to->pci, from->pci);
    else
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the kernel lets nothing pass between %s and %s: they are behind no common "
                     "PCIe switch, and the processor's root complex is not known to pass peers' "
                     "writes: put both cards behind one switch, and boot with iommu=pt",
                     from->pci, to->pci);
}

/* A GPU that this process may not see has no address here. */
static void explain_unknown(const struct gpud_kfd *kfd, const char *pci,
                            struct gpud_kfd_reach *reach)
{
    if (kfd->denied) {
        reach->known = true;
        gpud_print(reach->reason,
                   "the kernel shows this process nothing of %zu of its compute nodes, among them "
                   "most likely %s: give the container or service its devices (docker --device "
                   "/dev/kfd --device /dev/dri, DeviceAllow=)",
                   kfd->denied, pci);
    } else {
        gpud_print(reach->reason,
                   "amdkfd knows no GPU at %s: amdgpu does not drive it, or it cannot compute",
                   pci);
    }
}

static void explain_link(const struct gpud_kfd_link *link, const char *from, const char *to,
                         struct gpud_kfd_reach *reach)
{
    reach->link = link;
    reach->direct = is_usable(link);
    if (link->type == GPUD_KFD_XGMI)
        reach->hops = (link->weight + WEIGHT_OF_HOP - 1) / WEIGHT_OF_HOP;
    reach->bandwidth = link->max_bandwidth * 1e6;
    reach->atomics =
        reach->direct && !(link->flags & (GPUD_KFD_NO_ATOMICS_32 | GPUD_KFD_NO_ATOMICS_64));
    if (!(link->flags & GPUD_KFD_ENABLED))
        gpud_print(reach->reason,
                   "the kernel shows the link from %s to %s as disabled: dmesg says why amdgpu "
                   "has shut it",
                   from, to);
    else if (!reach->direct)
        gpud_print(reach->reason,
                   "the link from %s to %s forbids peer-to-peer DMA (NO_PEER_TO_PEER_DMA, set by "
                   "the firmware or amdgpu): a newer firmware may allow it; else frames go through "
                   "the host",
                   from, to);
}

void gpud_kfd_explain(const struct gpud_kfd *kfd, const char *from, const char *to,
                      struct gpud_kfd_reach *reach)
{
    const struct gpud_kfd_node *a = gpud_kfd_find(kfd, from), *b = gpud_kfd_find(kfd, to);
    *reach = (struct gpud_kfd_reach){0};
    if (!a || !b) {
        explain_unknown(kfd, a ? to : from, reach);
        return;
    }
    reach->known = true;
    if (a == b) {
        reach->direct = reach->atomics = true;
        return;
    }
    const struct gpud_kfd_link *link = find_link(kfd, a->number, b->number);
    if (link)
        explain_link(link, from, to, reach);
    else
        explain_absence(kfd, a, b, reach->reason);
}

/* The best rate of its links to processors, which are those to the nearest. */
uint32_t gpud_kfd_host_rate(const struct gpud_kfd *kfd, const char *pci)
{
    const struct gpud_kfd_node *node = gpud_kfd_find(kfd, pci);
    uint32_t rate = 0;
    for (size_t i = 0; node && i < kfd->link_count; i++) {
        const struct gpud_kfd_link *link = &kfd->links[i];
        const struct gpud_kfd_node *to = find_number(kfd, link->to);
        if (link->from == node->number && to && !to->gpu && link->flags & GPUD_KFD_ENABLED &&
            link->max_bandwidth > rate)
            rate = link->max_bandwidth;
    }
    return rate;
}
