/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as JSON. tools/schema/info.json describes it: a new key needs an entry there, and a
 * test compares them. No key is removed or changes its meaning. */
#include "info.h"
#include "jsonfields.h"

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

/* Empty for devices that are not on a bus. */
static void add_distances(JsonBuilder *builder, const struct gpud_device_info *device,
                          const struct info_location *location)
{
    json_begin_array(builder, "distances");
    if (device->available && info_is_on_bus(device))
        add_distance(builder, "host", "host", NULL, location->host);
    for (size_t i = 0; i < location->cards; i++) {
        const struct info_near *card = &location->card[i];
        add_distance(builder, card->name, info_kind_name(card->part->kind), card->part->pci,
                     card->distance);
    }
    json_builder_end_array(builder);
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
    add_distances(builder, device, location);
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

static void add_pair(JsonBuilder *builder, const struct info_report *report,
                     const struct info_pair *pair)
{
    json_builder_begin_object(builder);
    json_put_string(builder, "from", pair->from->name);
    json_put_string(builder, "to", pair->to->name);
    add_path(builder, info_find_link(report, pair->from, pair->to));
    json_put_string(builder, "distance", info_distance_name(pair->distance));
    add_choice(builder, "two_processes", &pair->between);
    add_choice(builder, "one_process", &pair->within);
    json_builder_end_object(builder);
}

static void add_link(JsonBuilder *builder, const struct info_link *link)
{
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

static void add_mode(JsonBuilder *builder, const struct gpud_capture_mode *mode)
{
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

static void add_way(JsonBuilder *builder, const struct gpud_capture_card_path *path)
{
    json_builder_begin_object(builder);
    json_put_string(builder, "device", path->device);
    json_put_bool(builder, "direct", path->direct);
    json_put_string(builder, "path", path->path);
    json_put_string(builder, "reason", path->direct ? NULL : path->reason);
    json_put_string(builder, "distance", info_distance_name(path->distance));
    json_builder_end_object(builder);
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
    for (size_t i = 0; i < info->modes; i++)
        add_mode(builder, info->mode[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "paths");
    for (size_t i = 0; i < info->paths; i++)
        add_way(builder, info->path[i]);
    json_builder_end_array(builder);
    add_auto(builder, &capture->nearest);
    json_builder_end_object(builder);
}

static void add_layer(JsonBuilder *builder, const struct info_layer *layer)
{
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
}

static void add_report(JsonBuilder *builder, const struct info_report *report)
{
    json_builder_begin_object(builder);
    json_put_string(builder, "version", gpud_version_string());
    json_begin_array(builder, "devices");
    for (size_t i = 0; i < report->devices; i++)
        add_device(builder, &report->device[i], &report->location[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "routes");
    for (guint i = 0; i < report->pairs->len; i++)
        add_pair(builder, report, &g_array_index(report->pairs, struct info_pair, i));
    json_builder_end_array(builder);
    json_begin_array(builder, "links");
    for (guint i = 0; i < report->links->len; i++)
        add_link(builder, &g_array_index(report->links, struct info_link, i));
    json_builder_end_array(builder);
    json_begin_array(builder, "captures");
    for (guint i = 0; i < report->captures->len; i++)
        add_capture(builder, &g_array_index(report->captures, struct info_capture, i));
    json_builder_end_array(builder);
    info_add_topology(builder, report);
    info_add_network(builder, report);
    add_layer(builder, &report->layer);
    json_builder_end_object(builder);
}

void info_print_json(const struct info_report *report)
{
    JsonBuilder *builder = json_builder_new();
    add_report(builder, report);
    json_print(builder, true);
}
