/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parts of the machine and their links, as JSON. */
#include "info.h"
#include "jsonfields.h"

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

const char *info_kind_name(enum gpud_part_kind kind)
{
    static const char *const names[] = {
        [GPUD_PART_GPU] = "gpu",
        [GPUD_PART_NETWORK] = "network",
        [GPUD_PART_CAPTURE] = "capture",
    };
    return (size_t)kind < G_N_ELEMENTS(names) ? names[kind] : "unknown";
}

static void add_part(JsonBuilder *builder, const struct gpud_part_info *part)
{
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

static void add_link(JsonBuilder *builder, const struct info_report *report, size_t from, size_t to)
{
    const struct gpud_device_link *link = info_part_link(report, from, to);
    json_builder_begin_object(builder);
    json_put_string(builder, "from", report->machine.part[from]->name);
    json_put_string(builder, "to", report->machine.part[to]->name);
    json_put_string(builder, "link", link->name);
    json_put_bool(builder, "direct", link->direct);
    json_put_positive(builder, "hops", link->hops);
    json_put_positive(builder, "weight", link->weight);
    json_put_rate(builder, "bandwidth_bytes_per_second", link->bandwidth);
    json_put_text(builder, "reason", link->reason);
    json_builder_end_object(builder);
}

void info_add_topology(JsonBuilder *builder, const struct info_report *report)
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
    for (size_t i = 0; i < report->machine.parts; i++)
        add_part(builder, report->machine.part[i]);
    json_builder_end_array(builder);
    json_begin_array(builder, "links");
    for (size_t i = 0; i < report->machine.parts; i++)
        for (size_t j = 0; j < report->machine.parts; j++)
            if (i != j)
                add_link(builder, report, i, j);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
}
