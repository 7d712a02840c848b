/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network cards as JSON. */
#include "info.h"
#include "jsonfields.h"

static void add_gid(JsonBuilder *builder, const struct gpud_network_gid_info *gid)
{
    static const char *const kinds[] = {
        [GPUD_GID_INFINIBAND] = "infiniband",
        [GPUD_GID_ROCE_V1] = "roce-v1",
        [GPUD_GID_ROCE_V2] = "roce-v2",
    };
    json_builder_begin_object(builder);
    json_put_int(builder, "index", gid->index);
    json_put_string(builder, "kind",
                    (size_t)gid->kind < G_N_ELEMENTS(kinds) ? kinds[gid->kind] : NULL);
    json_put_string(builder, "gid", gid->text);
    json_put_text(builder, "address", gid->address);
    json_put_text(builder, "netdev", gid->netdev);
    json_builder_end_object(builder);
}

static void add_port(JsonBuilder *builder, const struct gpud_network_port_info *info)
{
    static const char *const layers[] = {
        [GPUD_LINK_LAYER_ETHERNET] = "ethernet",
        [GPUD_LINK_LAYER_INFINIBAND] = "infiniband",
    };
    json_builder_begin_object(builder);
    json_put_int(builder, "number", info->number);
    json_put_bool(builder, "active", info->active);
    json_put_text(builder, "state", info->state);
    json_put_text(builder, "reason", info->reason);
    json_put_string(builder, "link_layer",
                    (size_t)info->link_layer < G_N_ELEMENTS(layers) ? layers[info->link_layer]
                                                                    : NULL);
    json_put_positive(builder, "rate_mbps", info->rate);
    json_put_positive(builder, "mtu_bytes", info->mtu);
    json_put_positive(builder, "message_max_bytes", info->message_max);
    json_put_text(builder, "netdev", info->netdev);
    json_begin_array(builder, "gids");
    for (uint32_t i = 0; i < info->gids; i++)
        add_gid(builder, info->gid[i]);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

static void add_distances(JsonBuilder *builder, const struct info_report *report,
                          const struct info_card *card)
{
    json_begin_array(builder, "distances");
    for (size_t i = 0; i < report->devices; i++) {
        if (!info_has_location(report, i))
            continue;
        json_builder_begin_object(builder);
        json_put_string(builder, "to", report->device[i].name);
        json_put_string(builder, "distance", info_distance_name(card->distance[i]));
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

static void add_card(JsonBuilder *builder, const struct info_report *report,
                     const struct info_card *card)
{
    const struct gpud_network_card_info *info = &card->info;
    json_builder_begin_object(builder);
    json_put_string(builder, "name", info->name);
    json_put_text(builder, "model", info->model);
    json_put_text(builder, "driver", info->driver);
    json_put_text(builder, "firmware", info->firmware);
    json_put_text(builder, "pci", info->pci);
    json_put_int(builder, "numa_node", info->numa_node);
    json_put_bool(builder, "software", info->software);
    json_put_bool(builder, "available", info->available);
    json_put_text(builder, "reason", info->reason);
    json_put_bool(builder, "dmabuf", info->dmabuf);
    json_put_text(builder, "no_dmabuf", info->no_dmabuf);
    json_put_bool(builder, "peermem", info->peermem);
    json_put_text(builder, "no_peermem", info->no_peermem);
    json_begin_array(builder, "ports");
    for (uint32_t i = 0; i < info->ports; i++)
        add_port(builder, info->port[i]);
    json_builder_end_array(builder);
    add_distances(builder, report, card);
    add_auto(builder, &card->nearest);
    json_builder_end_object(builder);
}

static void add_exports(JsonBuilder *builder, const struct info_report *report)
{
    json_begin_array(builder, "exports");
    for (size_t i = 0; i < report->devices; i++) {
        const struct info_export *export = &report->network.export[i];
        if (!info_has_location(report, i))
            continue;
        json_builder_begin_object(builder);
        json_put_string(builder, "device", report->device[i].name);
        json_put_bool(builder, "dmabuf", export->dmabuf);
        json_put_text(builder, "no_dmabuf", export->reason);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

void info_add_network(JsonBuilder *builder, const struct info_report *report)
{
    const struct info_network *network = &report->network;
    json_begin_object(builder, "network");
    json_put_bool(builder, "usable", network->host.usable);
    json_put_text(builder, "reason", network->host.reason);
    json_put_int_if(builder, "pin_max_bytes", network->host.pin_max != UINT64_MAX,
                    (gint64)network->host.pin_max);
    json_put_text(builder, "pin_reason", network->host.pin_reason);
    json_begin_array(builder, "cards");
    for (guint i = 0; i < network->cards->len; i++)
        add_card(builder, report, &g_array_index(network->cards, struct info_card, i));
    json_builder_end_array(builder);
    add_exports(builder, report);
    json_builder_end_object(builder);
}
