/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists network cards for <gpudirect/network.h>. */
#ifndef GPUD_DEVICE_NETWORK_CARDS_H
#define GPUD_DEVICE_NETWORK_CARDS_H

#include "base/list.h"
#include <gpudirect/network.h>

struct gpud_network_port {
    struct gpud_network_port_info info;
    struct gpud_network_gid_info *gids;
    size_t gid_count;
    void *gid; /* pointers to them, for info */
};

struct gpud_network_card {
    struct gpud_network_card_info info;
    struct gpud_network_port *ports;
    size_t port_count;
    void *port; /* pointers to their infos, for info */
};

struct gpud_network_card_list {
    struct gpud_network_host_info host;
    struct gpud_list list; /* struct gpud_network_card */
};

static inline struct gpud_network_card *gpud_network_card_at(
    const struct gpud_network_card_list *list, uint32_t index)
{
    return index < list->list.count ? gpud_list_entry(&list->list, index) : NULL;
}

/* Adds the cards to a list that has none, and describes the host. The caller destroys the list,
 * also on failure. In rdma/cards.c; without RDMA in network.c. */
enum gpud_status gpud_rdma_find_cards(struct gpud_network_card_list *cards,
                                      struct gpud_error *error);

#endif
