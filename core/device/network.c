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

enum gpud_status gpud_network_card_list_create(struct gpud_network_card_list **list,
                                               struct gpud_error *error)
{
    struct gpud_network_card_list *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    made->list = (struct gpud_list){.what = "network card",
                                    .entry_size = sizeof(struct gpud_network_card),
                                    .record_size = sizeof(struct gpud_network_card_info)};
    enum gpud_status status = gpud_rdma_find_cards(made, error);
    if (status != GPUD_OK)
        gpud_network_card_list_destroy(&made);
    else
        *list = made;
    return status;
}

void gpud_network_card_list_destroy(struct gpud_network_card_list **list)
{
    if (!list || !*list)
        return;
    for (uint32_t i = 0; i < (*list)->list.count; i++) {
        struct gpud_network_card *card = gpud_network_card_at(*list, i);
        for (size_t j = 0; j < card->port_count; j++)
            free(card->ports[j].gids);
        free(card->ports);
    }
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

void gpud_network_card_list_get_host(const struct gpud_network_card_list *list,
                                     struct gpud_network_host_info *info)
{
    gpud_sized_copy(info, info->size, &list->host, sizeof(list->host));
}

uint32_t gpud_network_card_list_count(const struct gpud_network_card_list *list)
{
    return list->list.count;
}

enum gpud_status gpud_network_card_list_get_info(const struct gpud_network_card_list *list,
                                                 uint32_t index,
                                                 struct gpud_network_card_info *info,
                                                 struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, info, error);
}

size_t gpud_network_card_list_get_ports(const struct gpud_network_card_list *list, uint32_t index,
                                        struct gpud_network_port_info *infos, size_t max)
{
    const struct gpud_network_card *card = gpud_network_card_at(list, index);
    for (size_t i = 0; card && i < card->port_count; i++)
        gpud_sized_entry(infos, max, i, &card->ports[i].info, sizeof(card->ports[i].info));
    return card ? card->port_count : 0;
}

size_t gpud_network_card_list_get_gids(const struct gpud_network_card_list *list, uint32_t index,
                                       uint32_t port, struct gpud_network_gid_info *infos,
                                       size_t max)
{
    const struct gpud_network_card *card = gpud_network_card_at(list, index);
    for (size_t i = 0; card && i < card->port_count; i++) {
        const struct gpud_network_port *found = &card->ports[i];
        if (found->info.number != port)
            continue;
        for (size_t j = 0; j < found->gid_count; j++)
            gpud_sized_entry(infos, max, j, &found->gids[j], sizeof(found->gids[j]));
        return found->gid_count;
    }
    return 0;
}
