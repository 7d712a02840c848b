/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* What there is on this machine's buses that frames pass through (GPUs of any vendor, network
 * cards, capture cards), where it is, and how each is linked with each: for a picture of the
 * machine.
 *
 *   gpud_topology_create
 *     → gpud_topology_list_parts, gpud_topology_list_nodes, gpud_topology_get_link…
 *     → gpud_topology_destroy
 *
 * Places are hwloc's to say, what links GPUs their drivers' and, of AMD's, the kernel's (amdkfd).
 *
 * Thread-safety: what was found is a snapshot, which any threads may read at once. */
/* clang-format on */
#ifndef GPUDIRECT_TOPOLOGY_H
#define GPUDIRECT_TOPOLOGY_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

struct gpud_topology;

enum gpud_part_kind {
    GPUD_PART_GPU,     /* of AMD or NVIDIA, or whatever a device of this library is on */
    GPUD_PART_NETWORK, /* a network card, RDMA or not */
    GPUD_PART_CAPTURE, /* what is behind a /dev/video*, or says that it is for video */
};

/* A PCI function. */
struct gpud_part_info {
    size_t size;
    enum gpud_part_kind kind;
    /* The device's, "cuda:0"; the system's, "mlx5_0" or "/dev/video0"; where there is none, the
     * place on the bus. */
    char name[64];
    char others[128];      /* further names, with blanks between them: "opencl:0", "eth0" */
    char description[128]; /* the vendor's own name for it; "": unknown */
    char pci[16];
    int numa_node;  /* next to it; -1: unknown, or all of them */
    char cpus[256]; /* next to it, as in "0-15,32-47"; "": unknown */
    /* What is above it, from the host's bridge down: "pci0000:40 0000:40:01.1 0000:41:00.0"; "":
     * unknown. Parts that have the same bridges share them. */
    char bridges[192];
    uint64_t hive;    /* AMD: GPUs with the same one are joined by xGMI; 0: none */
    uint64_t memory;  /* bytes; 0: unknown */
    uint64_t visible; /* of it on the bus; less than memory: a small BAR */
};

struct gpud_node_info {
    size_t size;
    int number; /* the system's, of the NUMA node */
    char cpus[256];
    uint64_t memory; /* bytes */
};

/* What was found beside the parts. */
struct gpud_topology_info {
    size_t size;
    char reason[GPUD_REASON_MAX]; /* what cannot be known, and why; "": all is known */
};

/* Looks at the machine, and opens each device of the context that is available, to ask for its
 * links. Fails only for want of memory. The context outlives the snapshot. */
GPUD_API enum gpud_status gpud_topology_create(struct gpud_context *context,
                                               struct gpud_topology **topology,
                                               struct gpud_error *error);
GPUD_API void gpud_topology_destroy(struct gpud_topology **topology);

GPUD_API void gpud_topology_get_info(const struct gpud_topology *topology,
                                     struct gpud_topology_info *info);

/* GPUs first, then network cards, then capture cards, each by their places. Writes up to max
 * entries and returns how many there are. parts[0].size is that of each. */
GPUD_API size_t gpud_topology_list_parts(const struct gpud_topology *topology,
                                         struct gpud_part_info *parts, size_t max);
GPUD_API size_t gpud_topology_list_nodes(const struct gpud_topology *topology,
                                         struct gpud_node_info *nodes, size_t max);

/* The way from one part, by its index in the list, to another. Between two GPUs all of it is meant;
 * else the name alone is, which says how far apart they are. "?": there are not so many parts. */
GPUD_API void gpud_topology_get_link(const struct gpud_topology *topology, size_t from, size_t to,
                                     struct gpud_device_link *link);

GPUD_END_DECLS

#endif
