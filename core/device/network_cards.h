/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists network cards for <gpudirect/network.h>. */
#ifndef GPUD_DEVICE_NETWORK_CARDS_H
#define GPUD_DEVICE_NETWORK_CARDS_H

#include "base/error.h"
#include <gpudirect/network.h>

struct gpud_network_port {
    struct gpud_network_port_info info;
    struct gpud_network_gid_info *gids;
    size_t gid_count;
};

struct gpud_network_card {
    struct gpud_network_card_info info;
    struct gpud_network_port *ports;
    size_t port_count;
};

struct gpud_network_cards {
    struct gpud_network_host_info host;
    struct gpud_network_card *cards;
    size_t count;
};

/* Fills a zeroed record; the caller frees its contents, also on failure. In rdma/cards.c; without
 * RDMA in network.c. */
enum gpud_status gpud_rdma_find_cards(struct gpud_network_cards *cards, struct gpud_error *error);

#endif
