/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parts of the machine and what links them, as JSON. */
#include "info.h"
#include "jsonfields.h"

static void add_words(JsonBuilder *builder, const char *key, const char *text)
{
    char **words = g_strsplit(text, " ", -1);
    json_builder_set_member_name(builder, key);
    json_builder_begin_array(builder);
    for (char **word = words; *word; word++)
        if (**word)
            json_builder_add_string_value(builder, *word);
    json_builder_end_array(builder);
    g_strfreev(words);
}

/* 0: unknown. A hive's number has 64 bits, which JSON's numbers have not. */
static void add_number(JsonBuilder *builder, const char *key, guint64 value)
{
    json_builder_set_member_name(builder, key);
    if (value > 0 && value <= G_MAXINT64)
        json_builder_add_int_value(builder, (gint64)value);
    else
        json_builder_add_null_value(builder);
}

static void add_part(JsonBuilder *builder, const struct gpud_part_info *part)
{
    static const char *const kinds[] = {
        [GPUD_PART_GPU] = "gpu",
        [GPUD_PART_NETWORK] = "network",
        [GPUD_PART_CAPTURE] = "capture",
    };
    char *hive = part->hive ? g_strdup_printf("0x%" G_GINT64_MODIFIER "x", part->hive) : NULL;
    json_builder_begin_object(builder);
    add_string(builder, "name", part->name);
    add_string(builder, "kind", kinds[part->kind]);
    add_words(builder, "others", part->others);
    add_text(builder, "description", part->description);
    add_string(builder, "pci", part->pci);
    add_int(builder, "numa_node", part->numa_node);
    add_text(builder, "cpus", part->cpus);
    add_words(builder, "bridges", part->bridges);
    add_string(builder, "hive", hive);
    add_number(builder, "memory", part->memory);
    add_number(builder, "visible", part->visible);
    json_builder_end_object(builder);
    g_free(hive);
}

static void add_link(JsonBuilder *builder, const struct info_report *report, size_t from, size_t to)
{
    struct gpud_device_link link = GPUD_INFO_INIT(link);
    gpud_topology_get_link(report->topology, from, to, &link);
    json_builder_begin_object(builder);
    add_string(builder, "from", report->part[from].name);
    add_string(builder, "to", report->part[to].name);
    add_string(builder, "link", link.name);
    add_bool(builder, "direct", link.direct);
    add_number(builder, "hops", link.hops);
    add_number(builder, "weight", link.weight);
    add_rate(builder, "bandwidth", link.bandwidth);
    add_text(builder, "reason", link.reason);
    json_builder_end_object(builder);
}

void info_add_topology(JsonBuilder *builder, const struct info_report *report)
{
    struct gpud_topology_info info = GPUD_INFO_INIT(info);
    gpud_topology_get_info(report->topology, &info);
    json_builder_set_member_name(builder, "topology");
    json_builder_begin_object(builder);
    add_text(builder, "reason", info.reason);
    json_builder_set_member_name(builder, "nodes");
    json_builder_begin_array(builder);
    for (size_t i = 0; i < report->nodes; i++) {
        json_builder_begin_object(builder);
        add_int(builder, "number", report->node[i].number);
        add_text(builder, "cpus", report->node[i].cpus);
        add_number(builder, "memory", report->node[i].memory);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_set_member_name(builder, "parts");
    json_builder_begin_array(builder);
    for (size_t i = 0; i < report->parts; i++)
        add_part(builder, &report->part[i]);
    json_builder_end_array(builder);
    json_builder_set_member_name(builder, "links");
    json_builder_begin_array(builder);
    for (size_t i = 0; i < report->parts; i++)
        for (size_t j = 0; j < report->parts; j++)
            if (i != j)
                add_link(builder, report, i, j);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}
