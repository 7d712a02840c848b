/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * What there is on this machine's buses that frames pass through (GPUs of any vendor, network
 * cards, capture cards), where it is, and how each is linked with each: for a picture of the
 * machine.
 *
 * @verbatim
 *   gpud_topology_create
 *     → gpud_topology_get_info: parts, nodes, and the link of each with each
 *     → gpud_topology_destroy
 * @endverbatim
 *
 * Places come from hwloc; links between GPUs from their drivers and, for AMD's, from the kernel
 * (amdkfd).
 *
 * Thread-safety: what was found is a snapshot, which any threads may read at once.
 */
/* clang-format on */
#ifndef GPUDIRECT_TOPOLOGY_H
#define GPUDIRECT_TOPOLOGY_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

struct gpud_topology;

/** Kinds of parts. */
enum gpud_part_kind {
    GPUD_PART_GPU,     /**< any of AMD or NVIDIA, and any other that is a device of this library */
    GPUD_PART_NETWORK, /**< a network card, RDMA or not */
    GPUD_PART_CAPTURE, /**< has a /dev/video*, or the PCI class of a video device */
};

/** A PCI function. */
struct gpud_part_info {
    size_t size;              /**< sizeof(the struct), as the caller knows it */
    enum gpud_part_kind kind; /**< what it is */
    /** a device's name, "cuda:0", or the system's, "mlx5_0" or "/dev/video0"; without either, the
     * address on the bus */
    char name[64];
    char others[128];      /**< further names, with blanks between them: "opencl:0", "eth0" */
    char description[128]; /**< the vendor's own name for it; "": unknown */
    char pci[16];          /**< its place on the bus, "0000:63:00.0" */
    int numa_node;         /**< next to it; -1: unknown, or all of them */
    char cpus[256];        /**< next to it, as in "0-15,32-47"; "": unknown */
    /** The bridges from the host's down to this part: "pci0000:40 0000:40:01.1 0000:41:00.0"; "":
     * unknown. Parts that have the same bridges share them. */
    char bridges[192];
    uint64_t hive;    /**< AMD: GPUs with the same one are joined by xGMI; 0: none */
    uint64_t memory;  /**< bytes; 0: unknown */
    uint64_t visible; /**< bytes of it that are on the bus; less than memory: a small BAR */
};

/** A NUMA node. */
struct gpud_node_info {
    size_t size;     /**< sizeof(the struct), as the caller knows it */
    int number;      /**< the system's, of the NUMA node */
    char cpus[256];  /**< of the node, as in "0-15,32-47" */
    uint64_t memory; /**< bytes */
};

/** What was found. */
struct gpud_topology_info {
    size_t size;                  /**< sizeof(the struct), as the caller knows it */
    char reason[GPUD_REASON_MAX]; /**< what cannot be known, and why; "": all is known */
    uint32_t parts;               /**< entries of part */
    uint32_t nodes;               /**< entries of node */
    /** GPUs first, by their names, then network cards and capture cards, by their bus addresses */
    const struct gpud_part_info *const *part;
    const struct gpud_node_info *const *node; /**< the NUMA nodes */
    /** parts × parts entries; link[from * parts + to] is the way from one part to another. Between
     * two GPUs all of it is known; otherwise only its name and the distance. */
    const struct gpud_device_link *const *link;
};

/** Looks at the machine, and opens each available device of the context to ask it for its links.
 *
 * @param context  must outlive the snapshot
 * @param topology  set to the snapshot, which the caller owns
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory; nothing else fails
 */
GPUD_API enum gpud_status gpud_topology_create(struct gpud_context *context,
                                               struct gpud_topology **topology,
                                               struct gpud_error *error);

/** Destroys a snapshot.
 *
 * @param topology  set to NULL
 */
GPUD_API void gpud_topology_destroy(struct gpud_topology **topology);

/** What was found.
 *
 * @param topology  the snapshot, which owns all that info leads to
 * @param info  filled as far as info->size goes
 */
GPUD_API void gpud_topology_get_info(const struct gpud_topology *topology,
                                     struct gpud_topology_info *info);

GPUD_END_DECLS

#endif
