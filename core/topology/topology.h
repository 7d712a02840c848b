/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which devices reach each other. */
#ifndef GPUD_TOPOLOGY_TOPOLOGY_H
#define GPUD_TOPOLOGY_TOPOLOGY_H

#include "base/base.h"
#include "device/device.h"
#include <gpudirect/device.h>
#include <gpudirect/topology.h>
#include <hwloc.h>

/* === kfd ===================================================================================== */
/* clang-format off */
/* AMD's GPUs and the links between them, as the kernel's compute driver (amdkfd) shows them below
 * /sys/class/kfd/kfd/topology/nodes:
 *
 *     N/properties                 of a node: a GPU, or processors
 *     N/mem_banks/K/properties     its memory, and whether the bus shows all of it
 *     N/io_links/K/properties      links whatever the kernel's configuration: xGMI from GPU to GPU,
 *                                  PCIe from GPU to processor
 *     N/p2p_links/K/properties     PCIe from GPU to GPU, where the kernel lets one write into the
 *                                  other (Linux 6.0, CONFIG_HSA_AMD_P2P), and indirect ones to
 *                                  processors, which say nothing about GPUs
 *
 * Lines are "key number". Formats and rules: kfd_topology.c and kfd_crat.h of Linux 6.1, in
 * drivers/gpu/drm/amd/amdkfd. A malformed file is ignored and reported. */
/* clang-format on */

/* The largest machines have some 66 nodes; further ones are not read. */
#define GPUD_KFD_NODES_MAX 256
#define GPUD_KFD_LINKS_MAX 256 /* of one node */
#define GPUD_KFD_BANKS_MAX 64
#define GPUD_KFD_FILE_MAX 4096 /* sysfs shows no more */

enum gpud_kfd_link_type { GPUD_KFD_PCIE = 2, GPUD_KFD_XGMI = 11 };

enum gpud_kfd_link_flags {
    GPUD_KFD_ENABLED = 1 << 0,
    GPUD_KFD_NO_ATOMICS_32 = 1 << 2,
    GPUD_KFD_NO_ATOMICS_64 = 1 << 3,
    GPUD_KFD_NO_PEER_DMA = 1 << 4,
};

struct gpud_kfd_link {
    uint32_t from, to;                     /* nodes, by their numbers */
    uint32_t type;                         /* enum gpud_kfd_link_type, or an unknown one */
    uint32_t weight;                       /* 15 for each hop over xGMI; larger is farther */
    uint32_t flags;                        /* enum gpud_kfd_link_flags */
    uint32_t min_bandwidth, max_bandwidth; /* MB/s; 0: unknown */
    bool peer;                             /* from p2p_links */
};

struct gpud_kfd_node {
    uint32_t number;
    bool denied;               /* the kernel shows only that it exists */
    bool gpu;                  /* else processors */
    uint32_t domain, location; /* PCI: location is bus << 8 | device << 3 | function */
    uint32_t vendor, device;   /* 4098 is AMD */
    uint32_t render_minor;     /* /dev/dri/renderD<this> */
    uint32_t gfx;              /* 90010: gfx90a */
    uint64_t hive;             /* the same, and not 0: joined by xGMI */
    uint64_t visible, hidden;  /* bytes of memory that the bus shows and does not show */
    char pci[GPUD_SYSFS_PCI_MAX];
};

struct gpud_kfd {
    struct gpud_kfd_node *nodes; /* in order of their numbers */
    size_t node_count;
    struct gpud_kfd_link *links;
    size_t link_count;
    bool has_peer_links;           /* the kernel knows p2p_links */
    bool peer_off;                 /* amdgpu was loaded with pcie_p2p=0 */
    int configured;                /* CONFIG_HSA_AMD_P2P: 1 yes, 0 no, -1 unknown */
    size_t denied;                 /* number of nodes */
    char ignored[GPUD_REASON_MAX]; /* malformed input that was not used; "": none */
};

/* --- kfd.c: parsing a file. `text` is any bytes ----------------------------------------- */

/* false: *why says what is wrong; the record is untouched. The caller sets the number and
 * `peer`. */
bool gpud_kfd_parse_node(const char *text, size_t size, struct gpud_kfd_node *node,
                         char why[GPUD_REASON_MAX]);
bool gpud_kfd_parse_link(const char *text, size_t size, struct gpud_kfd_link *link,
                         char why[GPUD_REASON_MAX]);

/* Adds a bank to the node. */
bool gpud_kfd_parse_bank(const char *text, size_t size, struct gpud_kfd_node *node,
                         char why[GPUD_REASON_MAX]);

/* --- kfd.c: the whole tree -------------------------------------------------------------- */

/* Reads what is below gpud_sysfs_root now. A machine without amdkfd has no nodes, and that is
 * GPUD_OK. Fails only when out of memory. */
enum gpud_status gpud_kfd_read(struct gpud_kfd *kfd, struct gpud_error *error);
void gpud_kfd_clear(struct gpud_kfd *kfd);

/* This machine's tree, read once for the process. */
const struct gpud_kfd *gpud_kfd_get(void);

/* The GPU at "0000:63:00.0" (hexadecimal digits of any case, since CUDA writes capitals), or NULL.
 * If a card has several (partitions), the one with that function, else the first. */
const struct gpud_kfd_node *gpud_kfd_find(const struct gpud_kfd *kfd, const char *pci);

/* --- kfd.c: reachable devices ----------------------------------------------------------- */

/* How one GPU reaches the memory of another. */
struct gpud_kfd_reach {
    bool known;                       /* the kernel's driver knows both, or hides one */
    bool direct;                      /* without the host */
    const struct gpud_kfd_link *link; /* the link in use, or the blocked one, or NULL */
    uint32_t hops;                    /* over xGMI; 0 over PCIe */
    bool atomics;
    double bandwidth;             /* bytes per second, one way; 0: unknown */
    char reason[GPUD_REASON_MAX]; /* if not direct: why, and what would change that */
};

/* MB/s between the GPU there and the host's memory, one way; 0: unknown. */
uint32_t gpud_kfd_host_rate(const struct gpud_kfd *kfd, const char *pci);
void gpud_kfd_explain(const struct gpud_kfd *kfd, const char *from, const char *to,
                      struct gpud_kfd_reach *reach);

/* === near ==================================================================================== */
/* The device that is nearest to a card. */

/* Opens a device like gpud_device_open(). If the name is only a kind ("cuda"), it opens the one
 * nearest to the card at pci ("": unknown) by the buses: behind the same switch, below the same
 * host bridge, in the same NUMA node, across nodes; the first of equals. "auto" is the nearest of
 * any kind that others can write directly; it is "host" if there is none, if pci is unknown or does
 * not tell how near they are, or if that device cannot be opened. what: the card's name, for the
 * reason. reason says which device was chosen and why; "": there was no choice, as with NULL, which
 * means "host". On failure it is untouched. */
enum gpud_status gpud_device_open_near(struct gpud_context *context, const char *name,
                                       const char *pci, const char *what,
                                       struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                       struct gpud_error *error);

/* The same without opening it. kind: a kind, or "auto". GPUD_NO_DEVICE: no device of the kind. */
enum gpud_status gpud_topology_find_near(struct gpud_context *context, const char *kind,
                                         const char *pci, const char *what,
                                         struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error);

/* === topology ================================================================================ */
/* hwloc's tree of this machine, for others that ask about positions in it. */

/* Read once for the process, without the names of makers and models. NULL: the machine cannot be
 * read. */
hwloc_topology_t gpud_topology_hwloc(void);

/* Reads it again; with names, for display, in half as much time again. The caller destroys it.
 * NULL: the machine cannot be read. */
hwloc_topology_t gpud_topology_load(bool names);

/* A PCI function's object in the tree, or NULL. */
hwloc_obj_t gpud_topology_find(const char *pci);

/* Either may be NULL: unknown. */
enum gpud_distance gpud_topology_distance(hwloc_obj_t a, hwloc_obj_t b);
enum gpud_distance gpud_topology_device_distance(const struct gpud_device *a,
                                                 const struct gpud_device *b);

/* "PIX", "?" */
const char *gpud_topology_distance_name(enum gpud_distance distance);

/* === place =================================================================================== */
/* Two PCI devices of this machine, by their addresses ("0000:63:00.0", also in capitals). An
 * address may come from a peer: an invalid or unused one counts as unknown. */

enum gpud_distance gpud_place_distance(const char *a, const char *b);

/* How the two are related, as in "are behind the same PCIe switch (PIX)"; "" if unknown. */
const char *gpud_place_relation(enum gpud_distance distance);

/* MB/s between the device and the processors, one way: the lowest maximum of any PCIe link between
 * them, from max_link_speed and max_link_width (an idle card lowers the current ones). 0: the
 * kernel does not know all of them. */
uint32_t gpud_place_bus_rate(const char *pci);

#endif
