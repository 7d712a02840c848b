/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as JSON. */
#include "info.h"

#include "json.h"

/* The member "auto": what device=auto means for frames over a card. */
static inline void add_auto(JsonBuilder *builder, const struct info_auto *nearest)
{
    json_begin_object(builder, "auto");
    json_put_text(builder, "device", nearest->device);
    json_put_text(builder, "reason", nearest->reason);
    json_builder_end_object(builder);
}

/* === network ================================================================================= */
/* Network cards as JSON. */

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
    for (uint32_t i = 0; i < info->gids; i++) {
        const struct gpud_network_gid_info *gid = info->gid[i];
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
    json_builder_end_array(builder);
    json_builder_end_object(builder);
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
    add_auto(builder, &card->nearest);
    json_builder_end_object(builder);
}

static void add_network(JsonBuilder *builder, const struct info_report *report)
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
    json_builder_end_object(builder);
}

/* === topology ================================================================================ */
/* The parts of the machine and their links, as JSON. */

static void add_words(JsonBuilder *builder, const char *key, const char *text)
{
    char **words = g_strsplit(text, " ", -1);
    json_begin_array(builder, key);
    for (char **word = words; *word; word++)
        if (**word)
            json_builder_add_string_value(builder, *word);
    json_builder_end_array(builder);
    g_strfreev(words);
}

static void add_topology(JsonBuilder *builder, const struct info_report *report)
{
    json_begin_object(builder, "topology");
    json_put_text(builder, "reason", report->machine.reason);
    json_begin_array(builder, "nodes");
    for (size_t i = 0; i < report->machine.nodes; i++) {
        json_builder_begin_object(builder);
        json_put_int(builder, "number", report->machine.node[i]->number);
        json_put_text(builder, "cpus", report->machine.node[i]->cpus);
        json_put_positive(builder, "memory_bytes", report->machine.node[i]->memory);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "parts");
    for (size_t i = 0; i < report->machine.parts; i++) {
        const struct gpud_part_info *part = report->machine.part[i];
        char *hive = part->hive ? g_strdup_printf("0x%" G_GINT64_MODIFIER "x", part->hive) : NULL;
        json_builder_begin_object(builder);
        json_put_string(builder, "name", part->name);
        json_put_string(builder, "kind", info_kind_name(part->kind));
        add_words(builder, "others", part->others);
        json_put_text(builder, "description", part->description);
        json_put_string(builder, "pci", part->pci);
        json_put_int(builder, "numa_node", part->numa_node);
        json_put_text(builder, "cpus", part->cpus);
        add_words(builder, "bridges", part->bridges);
        json_put_string(builder, "hive", hive);
        json_put_positive(builder, "memory_bytes", part->memory);
        json_put_positive(builder, "visible_bytes", part->visible);
        json_builder_end_object(builder);
        g_free(hive);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "links");
    for (size_t i = 0; i < report->machine.parts; i++)
        for (size_t j = 0; j < report->machine.parts; j++)
            if (i != j) {
                const struct gpud_device_link *link = info_part_link(report, i, j);
                json_builder_begin_object(builder);
                json_put_string(builder, "from", report->machine.part[i]->name);
                json_put_string(builder, "to", report->machine.part[j]->name);
                json_put_string(builder, "link", link->name);
                json_put_bool(builder, "direct", link->direct);
                json_put_positive(builder, "hops", link->hops);
                json_put_positive(builder, "weight", link->weight);
                json_put_rate(builder, "bandwidth_bytes_per_second", link->bandwidth);
                json_put_text(builder, "reason", link->reason);
                json_builder_end_object(builder);
            }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

/* === report ================================================================================== */
/* The report as JSON. tools/schema/info.json describes it: a new key needs an entry there, and a
 * test compares them. No key is removed or changes its meaning. */

static void add_distance(JsonBuilder *builder, const char *to, const char *kind, const char *pci,
                         enum gpud_distance distance)
{
    json_builder_begin_object(builder);
    json_put_string(builder, "to", to);
    json_put_string(builder, "kind", kind);
    json_put_string(builder, "pci", pci);
    json_put_string(builder, "distance", info_distance_name(distance));
    json_builder_end_object(builder);
}

static void add_device(JsonBuilder *builder, const struct gpud_device_info *device,
                       const struct info_location *location)
{
    json_builder_begin_object(builder);
    json_put_string(builder, "name", device->name);
    json_put_string(builder, "description", device->description);
    json_put_text(builder, "pci", device->pci);
    json_put_int(builder, "numa_node", location->numa_node);
    json_put_text(builder, "cpus", location->cpus);
    /* Empty for devices that are not on a bus. */
    json_begin_array(builder, "distances");
    if (device->available && info_is_on_bus(device))
        add_distance(builder, "host", "host", NULL, location->host);
    for (size_t i = 0; i < location->cards; i++) {
        const struct info_near *card = &location->card[i];
        add_distance(builder, card->name, info_kind_name(card->part->kind), card->part->pci,
                     card->distance);
    }
    json_builder_end_array(builder);
    json_put_bool(builder, "available", device->available);
    json_put_bool(builder, "direct_writes", device->direct_writes);
    json_put_text(builder, "reason", device->reason);
    json_builder_end_object(builder);
}

static void add_choice(JsonBuilder *builder, const char *key, const struct info_choice *choice)
{
    json_begin_object(builder, key);
    json_put_string(builder, "route",
                    choice->chosen < choice->count ? choice->route[choice->chosen].name : NULL);
    json_begin_array(builder, "against_better");
    for (size_t i = 0; i < choice->chosen; i++) {
        json_builder_begin_object(builder);
        json_put_string(builder, "route", choice->route[i].name);
        json_put_string(builder, "reason", choice->route[i].reason);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}

/* link: may be NULL */
static void add_path(JsonBuilder *builder, const struct info_link *link)
{
    char *path = link ? info_link_path(link) : NULL;
    json_put_string(builder, "path", path);
    g_free(path);
}

static void add_capture(JsonBuilder *builder, const struct info_capture *capture)
{
    const struct gpud_capture_card_info *info = &capture->info;
    json_builder_begin_object(builder);
    json_put_string(builder, "node", info_capture_node(capture));
    json_put_bool(builder, "opened", info->usable);
    json_put_string(builder, "reason", info->usable ? NULL : info->reason);
    json_put_string(builder, "card", info->usable ? info->card : NULL);
    json_put_string(builder, "driver", info->usable ? info->driver : NULL);
    json_put_bool(builder, "signal", info->signal);
    json_put_string(builder, "signal_reason", info->signal ? NULL : info->signal_reason);
    json_begin_array(builder, "modes");
    for (size_t i = 0; i < info->modes; i++) {
        const struct gpud_capture_mode *mode = info->mode[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "format", mode->format);
        json_put_int(builder, "width_min", mode->width_min);
        json_put_int(builder, "width_max", mode->width_max);
        json_put_int(builder, "width_step", mode->width_step);
        json_put_int(builder, "height_min", mode->height_min);
        json_put_int(builder, "height_max", mode->height_max);
        json_put_int(builder, "height_step", mode->height_step);
        json_put_int(builder, "fps_num", mode->fps_num);
        json_put_int(builder, "fps_den", mode->fps_den);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "paths");
    for (size_t i = 0; i < info->paths; i++) {
        const struct gpud_capture_card_path *path = info->path[i];
        json_builder_begin_object(builder);
        json_put_string(builder, "device", path->device);
        json_put_bool(builder, "direct", path->direct);
        json_put_string(builder, "path", path->path);
        json_put_string(builder, "reason", path->direct ? NULL : path->reason);
        json_put_string(builder, "distance", info_distance_name(path->distance));
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    add_auto(builder, &capture->nearest);
    json_builder_end_object(builder);
}

void info_print_json(const struct info_report *report)
{
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_string(builder, "version", gpud_version_string());
    json_begin_array(builder, "devices");
    for (size_t i = 0; i < report->devices; i++)
        add_device(builder, &report->device[i], &report->location[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "routes");
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        json_builder_begin_object(builder);
        json_put_string(builder, "from", pair->from->name);
        json_put_string(builder, "to", pair->to->name);
        add_path(builder, info_find_link(report, pair->from, pair->to));
        json_put_string(builder, "distance", info_distance_name(pair->distance));
        add_choice(builder, "two_processes", &pair->between);
        add_choice(builder, "one_process", &pair->within);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "links");
    for (guint i = 0; i < report->links->len; i++) {
        const struct info_link *link = &g_array_index(report->links, struct info_link, i);
        json_builder_begin_object(builder);
        json_put_string(builder, "from", link->from->name);
        json_put_string(builder, "to", link->to->name);
        json_put_string(builder, "link", link->link.name);
        add_path(builder, link);
        json_put_string(builder, "distance", info_distance_name(link->link.distance));
        json_put_bool(builder, "direct", link->link.direct);
        json_put_bool(builder, "atomics", link->link.atomics);
        json_put_int(builder, "rank", link->link.rank);
        json_put_rate(builder, "bandwidth_bytes_per_second", link->link.bandwidth);
        json_put_rate(builder, "measured_bytes_per_second", link->measured);
        json_put_text(builder, "reason", link->link.reason);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "captures");
    for (guint i = 0; i < report->captures->len; i++)
        add_capture(builder, &g_array_index(report->captures, struct info_capture, i));
    json_builder_end_array(builder);
    add_topology(builder, report);
    add_network(builder, report);
    const struct info_layer *layer = &report->layer;
    json_begin_object(builder, "dgma_layer");
    json_put_string(builder, "path", layer->path);
    json_put_bool(builder, "loaded", layer->loaded != NULL);
    json_put_string(builder, "loaded_path", layer->loaded);
    json_begin_array(builder, "helps");
    for (guint i = 0; i < layer->helps->len; i++)
        json_builder_add_string_value(builder, layer->helps->pdata[i]);
    json_builder_end_array(builder);
    json_put_string(builder, "hint", layer->hint);
    json_builder_end_object(builder);
    json_builder_end_object(builder);
    json_print(builder, true);
}
