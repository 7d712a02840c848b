/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What was found out about network cards, as a snapshot. */
#include "device/network_cards.h"

#include "base/sized.h"

#include <stdlib.h>

#ifndef GPUD_WITH_RDMA
enum gpud_status gpud_rdma_find_cards(struct gpud_network_cards *cards, struct gpud_error *error)
{
    gpud_print(cards->host.reason,
               "this libgpudirect is built without rdma: configure it with -Drdma=enabled (Debian: "
               "apt install libibverbs-dev librdmacm-dev)");
    return GPUD_OK;
}
#endif

enum gpud_status gpud_network_cards_create(struct gpud_network_cards **cards,
                                           struct gpud_error *error)
{
    struct gpud_network_cards *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    enum gpud_status status = gpud_rdma_find_cards(made, error);
    if (status != GPUD_OK)
        gpud_network_cards_destroy(&made);
    else
        *cards = made;
    return status;
}

void gpud_network_cards_destroy(struct gpud_network_cards **cards)
{
    if (!cards || !*cards)
        return;
    for (size_t i = 0; i < (*cards)->count; i++) {
        struct gpud_network_card *card = &(*cards)->cards[i];
        for (size_t j = 0; j < card->port_count; j++)
            free(card->ports[j].gids);
        free(card->ports);
    }
    free((*cards)->cards);
    free(*cards);
    *cards = NULL;
}

void gpud_network_cards_get_host(const struct gpud_network_cards *cards,
                                 struct gpud_network_host_info *info)
{
    gpud_sized_copy(info, info->size, &cards->host, sizeof(cards->host));
}

size_t gpud_network_cards_count(const struct gpud_network_cards *cards)
{
    return cards->count;
}

enum gpud_status gpud_network_cards_get_info(const struct gpud_network_cards *cards, size_t index,
                                             struct gpud_network_card_info *info,
                                             struct gpud_error *error)
{
    if (index >= cards->count)
        return gpud_fail(error, GPUD_INVALID, "there is no network card %zu: there are %zu", index,
                         cards->count);
    gpud_sized_copy(info, info->size, &cards->cards[index].info, sizeof(cards->cards[index].info));
    return GPUD_OK;
}

size_t gpud_network_cards_list_ports(const struct gpud_network_cards *cards, size_t index,
                                     struct gpud_network_port_info *infos, size_t max)
{
    if (index >= cards->count)
        return 0;
    const struct gpud_network_card *card = &cards->cards[index];
    for (size_t i = 0; i < card->port_count; i++)
        gpud_sized_entry(infos, max, i, &card->ports[i].info, sizeof(card->ports[i].info));
    return card->port_count;
}

size_t gpud_network_cards_list_gids(const struct gpud_network_cards *cards, size_t index,
                                    uint32_t port, struct gpud_network_gid_info *infos, size_t max)
{
    for (size_t i = 0; index < cards->count && i < cards->cards[index].port_count; i++) {
        const struct gpud_network_port *found = &cards->cards[index].ports[i];
        if (found->info.number != port)
            continue;
        for (size_t j = 0; j < found->gid_count; j++)
            gpud_sized_entry(infos, max, j, &found->gids[j], sizeof(found->gids[j]));
        return found->gid_count;
    }
    return 0;
}
