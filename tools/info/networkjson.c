/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network cards as JSON. */
#include "info.h"
#include "jsonfields.h"

/* 0: unknown. */
static void add_known(JsonBuilder *builder, const char *key, guint64 value)
{
    json_builder_set_member_name(builder, key);
    if (value > 0)
        json_builder_add_int_value(builder, (gint64)value);
    else
        json_builder_add_null_value(builder);
}

static void add_gid(JsonBuilder *builder, const struct gpud_network_gid_info *gid)
{
    static const char *const kinds[] = {
        [GPUD_GID_INFINIBAND] = "infiniband",
        [GPUD_GID_ROCE_V1] = "roce-v1",
        [GPUD_GID_ROCE_V2] = "roce-v2",
    };
    json_builder_begin_object(builder);
    add_int(builder, "index", gid->index);
    add_string(builder, "kind", (size_t)gid->kind < G_N_ELEMENTS(kinds) ? kinds[gid->kind] : NULL);
    add_string(builder, "gid", gid->text);
    add_text(builder, "address", gid->address);
    add_text(builder, "netdev", gid->netdev);
    json_builder_end_object(builder);
}

static void add_port(JsonBuilder *builder, const struct info_port *port)
{
    static const char *const layers[] = {
        [GPUD_LINK_LAYER_ETHERNET] = "ethernet",
        [GPUD_LINK_LAYER_INFINIBAND] = "infiniband",
    };
    const struct gpud_network_port_info *info = &port->info;
    json_builder_begin_object(builder);
    add_int(builder, "number", info->number);
    add_bool(builder, "active", info->active);
    add_text(builder, "state", info->state);
    add_text(builder, "reason", info->reason);
    add_string(builder, "link_layer",
               (size_t)info->link_layer < G_N_ELEMENTS(layers) ? layers[info->link_layer] : NULL);
    add_known(builder, "rate_mbps", info->rate);
    add_known(builder, "mtu", info->mtu);
    add_known(builder, "message_max", info->message_max);
    add_text(builder, "netdev", info->netdev);
    json_builder_set_member_name(builder, "gids");
    json_builder_begin_array(builder);
    for (guint i = 0; i < port->gids->len; i++)
        add_gid(builder, &g_array_index(port->gids, struct gpud_network_gid_info, i));
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

static void add_distances(JsonBuilder *builder, const struct info_report *report,
                          const struct info_card *card)
{
    json_builder_set_member_name(builder, "distances");
    json_builder_begin_array(builder);
    for (size_t i = 0; i < report->devices; i++) {
        if (!info_has_location(report, i))
            continue;
        json_builder_begin_object(builder);
        add_string(builder, "to", report->device[i].name);
        add_string(builder, "distance", info_distance_name(card->distance[i]));
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

static void add_card(JsonBuilder *builder, const struct info_report *report,
                     const struct info_card *card)
{
    const struct gpud_network_card_info *info = &card->info;
    json_builder_begin_object(builder);
    add_string(builder, "name", info->name);
    add_text(builder, "model", info->model);
    add_text(builder, "driver", info->driver);
    add_text(builder, "firmware", info->firmware);
    add_text(builder, "pci", info->pci);
    add_int(builder, "numa_node", info->numa_node);
    add_bool(builder, "software", info->software);
    add_bool(builder, "available", info->available);
    add_text(builder, "reason", info->reason);
    add_bool(builder, "dmabuf", info->dmabuf);
    add_text(builder, "no_dmabuf", info->no_dmabuf);
    add_bool(builder, "peermem", info->peermem);
    add_text(builder, "no_peermem", info->no_peermem);
    json_builder_set_member_name(builder, "ports");
    json_builder_begin_array(builder);
    for (guint i = 0; i < card->ports->len; i++)
        add_port(builder, &g_array_index(card->ports, struct info_port, i));
    json_builder_end_array(builder);
    add_distances(builder, report, card);
    add_auto(builder, &card->nearest);
    json_builder_end_object(builder);
}

static void add_exports(JsonBuilder *builder, const struct info_report *report)
{
    json_builder_set_member_name(builder, "exports");
    json_builder_begin_array(builder);
    for (size_t i = 0; i < report->devices; i++) {
        const struct info_export *export = &report->network.export[i];
        if (!info_has_location(report, i))
            continue;
        json_builder_begin_object(builder);
        add_string(builder, "device", report->device[i].name);
        add_bool(builder, "dmabuf", export->dmabuf);
        add_text(builder, "no_dmabuf", export->reason);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

void info_add_network(JsonBuilder *builder, const struct info_report *report)
{
    const struct info_network *network = &report->network;
    json_builder_set_member_name(builder, "network");
    json_builder_begin_object(builder);
    add_bool(builder, "usable", network->host.usable);
    add_text(builder, "reason", network->host.reason);
    json_builder_set_member_name(builder, "pin_max");
    if (network->host.pin_max == UINT64_MAX)
        json_builder_add_null_value(builder);
    else
        json_builder_add_int_value(builder, (gint64)network->host.pin_max);
    add_text(builder, "pin_reason", network->host.pin_reason);
    json_builder_set_member_name(builder, "cards");
    json_builder_begin_array(builder);
    for (guint i = 0; i < network->cards->len; i++)
        add_card(builder, report, &g_array_index(network->cards, struct info_card, i));
    json_builder_end_array(builder);
    add_exports(builder, report);
    json_builder_end_object(builder);
}
