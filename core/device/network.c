/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What was found out about network cards, as a snapshot. */
#include "device/network_cards.h"

#include "base/sized.h"

#include <stdlib.h>

#ifndef GPUD_WITH_RDMA
enum gpud_status gpud_rdma_find_cards(struct gpud_network_card_list *cards,
                                      struct gpud_error *error)
{
    gpud_print(cards->host.reason,
               "this libgpudirect is built without rdma: configure it with -Drdma=enabled (Debian: "
               "apt install libibverbs-dev librdmacm-dev)");
    return GPUD_OK;
}
#endif

static bool publish_port(struct gpud_network_port *port)
{
    for (size_t i = 0; i < port->gid_count; i++)
        port->gids[i].size = sizeof(port->gids[i]);
    port->gid = gpud_list_point(port->gids, port->gid_count, sizeof(*port->gids));
    port->info.size = sizeof(port->info);
    port->info.gids = (uint32_t)port->gid_count;
    port->info.gid = port->gid;
    return port->gid;
}

static bool publish(struct gpud_network_card *card)
{
    bool enough = true;
    for (size_t i = 0; i < card->port_count && enough; i++)
        enough = publish_port(&card->ports[i]);
    card->port = gpud_list_point(card->ports, card->port_count, sizeof(*card->ports));
    card->info.ports = (uint32_t)card->port_count;
    card->info.port = card->port;
    return enough && card->port;
}

enum gpud_status gpud_network_card_list_create(struct gpud_network_card_list **list,
                                               uint32_t *count, struct gpud_network_host_info *host,
                                               struct gpud_error *error)
{
    struct gpud_network_card_list *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    made->list = (struct gpud_list){.what = "network card",
                                    .entry_size = sizeof(struct gpud_network_card),
                                    .record_size = sizeof(struct gpud_network_card_info)};
    enum gpud_status status = gpud_rdma_find_cards(made, error);
    for (uint32_t i = 0; i < made->list.count && status == GPUD_OK; i++)
        if (!publish(gpud_network_card_at(made, i)))
            status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    if (status != GPUD_OK) {
        gpud_network_card_list_destroy(&made);
        return status;
    }
    *list = made;
    if (count)
        *count = made->list.count;
    if (host)
        gpud_sized_copy(host, host->size, &made->host, sizeof(made->host));
    return GPUD_OK;
}

void gpud_network_card_list_destroy(struct gpud_network_card_list **list)
{
    if (!list || !*list)
        return;
    for (uint32_t i = 0; i < (*list)->list.count; i++) {
        struct gpud_network_card *card = gpud_network_card_at(*list, i);
        for (size_t j = 0; j < card->port_count; j++) {
            free(card->ports[j].gids);
            free(card->ports[j].gid);
        }
        free(card->ports);
        free(card->port);
    }
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

enum gpud_status gpud_network_card_list_get_info(const struct gpud_network_card_list *list,
                                                 uint32_t index,
                                                 struct gpud_network_card_info *info,
                                                 struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, info, error);
}
