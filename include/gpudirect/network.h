/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/** @file
 * The network cards of this host that move frames to and from other hosts (RDMA: InfiniBand, RoCE),
 * what each of them can do, and what they lack. Nothing is connected, and no memory stays pinned.
 *
 * @verbatim
 *   gpud_network_card_list_create
 *     → { gpud_network_card_list_get_info }…
 *     → gpud_network_card_list_destroy
 * @endverbatim
 *
 * Thread-safety: a list is a snapshot, which any threads may read at once. *list is set only on
 * success, and the caller's to destroy; destroying NULL, or a pointer to NULL, does nothing.
 */
/* clang-format on */
#ifndef GPUDIRECT_NETWORK_H
#define GPUDIRECT_NETWORK_H

#include <gpudirect/types.h>

GPUD_BEGIN_DECLS

struct gpud_network_card_list;

/** What this host and this process have, whatever the card. */
struct gpud_network_host_info {
    size_t size; /**< sizeof(the struct), as the caller knows it */
    bool usable; /**< there is a card that this process can use, with a port that is up */
    char reason[GPUD_REASON_MAX]; /**< if not: why not, and what to do */
    /** bytes that this process may still register with cards; UINT64_MAX: no limit
     * but the memory itself */
    uint64_t pin_max;
    /** If that is too little for one connection with a ring of 4 slots of 3840x2160 at 4 bytes a
     * pixel: how much is needed, and what to do. "": it is enough. */
    char pin_reason[GPUD_REASON_MAX];
};

/** What a port is connected to. */
enum gpud_link_layer {
    GPUD_LINK_LAYER_UNKNOWN,
    GPUD_LINK_LAYER_ETHERNET, /**< RoCE */
    GPUD_LINK_LAYER_INFINIBAND,
};

/** Kinds of a port's addresses. */
enum gpud_gid_kind {
    GPUD_GID_INFINIBAND,
    GPUD_GID_ROCE_V1, /**< Ethernet: not routed */
    GPUD_GID_ROCE_V2, /**< UDP/IP */
};

/** An address of a port. */
struct gpud_network_gid_info {
    size_t size;             /**< sizeof(the struct), as the caller knows it */
    uint32_t index;          /**< in the port's table */
    enum gpud_gid_kind kind; /**< what kind of address it is */
    char text[48];           /**< all 16 bytes, as an IPv6 address is written: "::ffff:10.0.0.1" */
    char address[48];        /**< RoCE: the IP address that it stands for, "10.0.0.1"; else "" */
    char netdev[16];         /**< the network interface that has that address; "": unknown */
};

/** What is known of a card's port. */
struct gpud_network_port_info {
    size_t size;     /**< sizeof(the struct), as the caller knows it */
    uint32_t number; /**< from 1 on */
    bool active;     /**< its state is "active" */
    char state[16];  /**< "down", "init", "armed", "active"; "": unknown */
    /** why no peer can connect by it, and what to do; "": none is known */
    char reason[GPUD_REASON_MAX];
    enum gpud_link_layer link_layer; /**< what the port is connected to */
    uint32_t rate;                   /**< Mbit/s, one way; 0: unknown */
    uint32_t mtu;         /**< bytes of a packet; 0: unknown, as of a card that is not available */
    uint64_t message_max; /**< bytes of one message; larger frames take several; 0: unknown */
    char netdev[16];      /**< its network interface, "eth0"; "": none, or unknown */
    uint32_t gids;        /**< entries of gid */
    /** its addresses, by their index in the table, without empty entries */
    const struct gpud_network_gid_info *const *gid;
};

/** What is known of a network card. */
struct gpud_network_card_info {
    size_t size;     /**< sizeof(the struct), as the caller knows it */
    char name[64];   /**< the system's: "mlx5_0", "rxe0" */
    char model[64];  /**< "MT4129", or the numbers of vendor and device, "15b3:1021"; "": unknown */
    char driver[32]; /**< the kernel's: "mlx5_core", "rdma_rxe"; "": unknown */
    char firmware[64]; /**< its version; "": it has none, or does not say */
    /** "0000:63:00.0"; with soft-RoCE that of the network interface; "": on no PCI bus */
    char pci[16];
    int numa_node;                /**< next to it; -1: unknown, or all of them */
    bool software;                /**< soft-RoCE: the CPU does the work */
    uint32_t ports;               /**< entries of port */
    bool available;               /**< this process can use it, as far as is known without a peer */
    char reason[GPUD_REASON_MAX]; /**< if not: why not, and what to do */
    /** How GPU memory can be registered with the card, best first: as a dma-buf of the GPU's
     * driver, or by its address, if the driver has a module for that (nvidia-peermem). This says
     * what the card and the system can do; the GPU's driver may still refuse. Without either,
     * frames go through pinned host memory. */
    bool dmabuf;
    char no_dmabuf[GPUD_REASON_MAX];  /**< if not: why not, and what to do */
    bool peermem;                     /**< GPU memory can be registered by its address */
    char no_peermem[GPUD_REASON_MAX]; /**< if not: why not, and what to do */
    const struct gpud_network_port_info *const *port; /**< its ports, by number */
};

/** Looks at the host, and asks each card, which takes milliseconds. A host without cards, and a
 * build without RDMA, has a list of 0: gpud_network_host_info.reason says which.
 *
 * @param list  set to the snapshot, which the caller destroys
 * @param count  set to the number of entries; may be NULL
 * @param host  filled as far as host->size goes; may be NULL
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_NO_MEMORY  out of memory; nothing else fails
 */
GPUD_API enum gpud_status gpud_network_card_list_create(struct gpud_network_card_list **list,
                                                        uint32_t *count,
                                                        struct gpud_network_host_info *host,
                                                        struct gpud_error *error);

/** Destroys a list.
 *
 * @param list  set to NULL; NULL or a pointer to NULL: nothing happens
 */
GPUD_API void gpud_network_card_list_destroy(struct gpud_network_card_list **list);

/** One entry of a list. They are in the order of their names.
 *
 * @param list  the list, which owns the ports and addresses that info leads to
 * @param index  0 to the count - 1
 * @param info  filled as far as its size goes
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  there is no such entry, or the size is not set
 */
GPUD_API enum gpud_status gpud_network_card_list_get_info(const struct gpud_network_card_list *list,
                                                          uint32_t index,
                                                          struct gpud_network_card_info *info,
                                                          struct gpud_error *error);

GPUD_END_DECLS

#endif
