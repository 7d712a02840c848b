/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is on this machine's buses, the link from each to each, and the resulting routes, in the
 * form of `nvidia-smi topo -m` and `rocm-smi --showtopo`. */
#include "info.h"

#include <stdio.h>
#include <string.h>

/* --- collecting ------------------------------------------------------------------------------- */

enum gpud_status info_collect_topology(struct info_report *report, struct gpud_context *context,
                                       struct gpud_error *error)
{
    enum gpud_status status = gpud_topology_create(context, &report->topology, error);
    if (status != GPUD_OK)
        return status;
    report->machine.size = sizeof(report->machine);
    gpud_topology_get_info(report->topology, &report->machine);
    return GPUD_OK;
}

size_t info_find_part(const struct info_report *report, const char *pci)
{
    size_t at = 0;
    while (at < report->machine.parts &&
           g_ascii_strcasecmp(report->machine.part[at]->pci, pci) != 0)
        at++;
    return at;
}

const char *info_part_name(const struct gpud_part_info *part)
{
    const char *name = part->name;
    if (g_str_has_prefix(name, "/dev/"))
        return name + strlen("/dev/");
    return g_str_has_prefix(name, "0000:") ? name + strlen("0000:") : name;
}

const struct info_pair *info_find_pair(const struct info_report *report, size_t from, size_t to)
{
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        if (pair->from == &report->device[from] && pair->to == &report->device[to])
            return pair;
    }
    return NULL;
}

/* A reason without the names of its pair. To be freed with g_free(). */
static char *find_shape(const char *reason, const char *from, const char *to)
{
    GString *shape = g_string_new(reason);
    g_string_replace(shape, from, "\1", 0);
    g_string_replace(shape, to, "\2", 0);
    return g_string_free(shape, FALSE);
}

static void clear_objection(gpointer objection)
{
    g_free(((struct info_objection *)objection)->shape);
}

static void add_objection(GArray *found, const struct info_pair *pair,
                          const struct gpud_route_info *route)
{
    char *shape = find_shape(route->reason, pair->from->name, pair->to->name);
    for (guint i = 0; i < found->len; i++) {
        struct info_objection *known = &g_array_index(found, struct info_objection, i);
        if (strcmp(known->route, route->name) == 0 && strcmp(known->shape, shape) == 0) {
            known->pairs++;
            g_free(shape);
            return;
        }
    }
    struct info_objection made = {.from = pair->from->name,
                                  .to = pair->to->name,
                                  .route = route->name,
                                  .reason = route->reason,
                                  .shape = shape,
                                  .pairs = 1};
    g_array_append_val(found, made);
}

GArray *info_collect_objections(const struct info_report *report)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct info_objection));
    g_array_set_clear_func(found, clear_objection);
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        /* That frames are on another device is the question, not an objection. */
        for (size_t k = 0; k < pair->between.chosen; k++)
            if (pair->from != pair->to && info_is_on_bus(pair->from) && info_is_on_bus(pair->to) &&
                strcmp(pair->between.route[k].name, "map") != 0)
                add_objection(found, pair, &pair->between.route[k]);
    }
    return found;
}

/* --- the matrix ------------------------------------------------------------------------------- */

static int column_width(const struct info_report *report)
{
    size_t longest = strlen("XGMI2");
    for (size_t i = 0; i < report->machine.parts; i++)
        longest = MAX(longest, strlen(info_part_name(report->machine.part[i])));
    return (int)longest + 2;
}

static void print_place(const struct gpud_part_info *part)
{
    if (part->numa_node >= 0)
        printf("%-6d", part->numa_node);
    else
        printf("%-6s", "-");
    puts(part->cpus[0] ? part->cpus : "-");
}

static void print_matrix(const struct info_report *report)
{
    int width = column_width(report);
    printf("  %-*s", width, "");
    for (size_t i = 0; i < report->machine.parts; i++)
        printf("%-*s", width, info_part_name(report->machine.part[i]));
    puts("NUMA  CPUs");
    for (size_t i = 0; i < report->machine.parts; i++) {
        printf("  %-*s", width, info_part_name(report->machine.part[i]));
        for (size_t j = 0; j < report->machine.parts; j++) {
            const struct gpud_device_link *link = info_part_link(report, i, j);
            printf("%-*s", width, link->name);
        }
        print_place(report->machine.part[i]);
    }
    puts("");
}

static bool is_name_used(const struct info_report *report, const char *name)
{
    for (size_t i = 0; i < report->machine.parts; i++) {
        for (size_t j = 0; j < report->machine.parts; j++) {
            const struct gpud_device_link *link = info_part_link(report, i, j);
            if (g_str_has_prefix(link->name, name))
                return true;
        }
    }
    return false;
}

/* --- parts ------------------------------------------------------------------------------------ */

static void print_part(const struct gpud_part_info *part, int width)
{
    static const char *const kinds[] = {
        [GPUD_PART_GPU] = "GPU",
        [GPUD_PART_NETWORK] = "network card",
        [GPUD_PART_CAPTURE] = "capture card",
    };
    GString *line = g_string_new(kinds[part->kind]);
    if (part->description[0])
        g_string_append_printf(line, ", %s", part->description);
    g_string_append_printf(line, ", at %s", part->pci);
    if (part->others[0])
        g_string_append_printf(line, ", also %s", part->others);
    if (part->hive)
        g_string_append_printf(line, ", xGMI hive %" G_GINT64_MODIFIER "x", part->hive);
    if (part->memory > part->visible)
        g_string_append_printf(line, ", small BAR: %.2f of %.1f GB on the bus",
                               (double)part->visible / 1e9, (double)part->memory / 1e9);
    else if (part->memory)
        g_string_append_printf(line, ", %.0f GB, all on the bus", (double)part->memory / 1e9);
    printf("  %-*s", width, info_part_name(part));
    info_print_wrapped(line->str, width + 2);
    g_string_free(line, TRUE);
}

static void print_nodes(const struct info_report *report)
{
    for (size_t i = 0; i < report->machine.nodes; i++)
        printf("  NUMA node %d: CPUs %s, %.1f GB\n", report->machine.node[i]->number,
               report->machine.node[i]->cpus[0] ? report->machine.node[i]->cpus : "none",
               (double)report->machine.node[i]->memory / 1e9);
}

/* --- why GPUs do not reach each other --------------------------------------------------------- */

struct gap {
    size_t from, to;
    char reason[GPUD_REASON_MAX];
    char *shape;
    unsigned pairs;
};

static void clear_gap(gpointer gap)
{
    g_free(((struct gap *)gap)->shape);
}

/* Some reasons name devices, others bus addresses. */
static char *find_shape_of_gap(const struct gpud_part_info *from, const struct gpud_part_info *to,
                               const char *reason)
{
    char *named = find_shape(reason, from->name, to->name);
    char *shape = find_shape(named, from->pci, to->pci);
    g_free(named);
    return shape;
}

static void add_gap(GArray *gaps, const struct info_report *report, size_t from, size_t to,
                    const char *reason)
{
    char *shape = find_shape_of_gap(report->machine.part[from], report->machine.part[to], reason);
    for (guint i = 0; i < gaps->len; i++) {
        struct gap *known = &g_array_index(gaps, struct gap, i);
        if (strcmp(known->shape, shape) == 0) {
            known->pairs++;
            g_free(shape);
            return;
        }
    }
    struct gap made = {.from = from, .to = to, .shape = shape, .pairs = 1};
    g_strlcpy(made.reason, reason, sizeof(made.reason));
    g_array_append_val(gaps, made);
}

static void print_first(const char *from, const char *to, unsigned pairs, const char *reason)
{
    GString *line = g_string_new(NULL);
    g_string_printf(line, "%s → %s", from, to);
    if (pairs > 1)
        g_string_append_printf(line, " and %u more", pairs - 1);
    g_string_append_printf(line, ": %s", reason);
    fputs("  ", stdout);
    info_print_wrapped(line->str, 4);
    g_string_free(line, TRUE);
}

static void print_gaps(const struct info_report *report)
{
    GArray *gaps = g_array_new(FALSE, FALSE, sizeof(struct gap));
    g_array_set_clear_func(gaps, clear_gap);
    for (size_t i = 0; i < report->machine.parts; i++) {
        for (size_t j = 0; j < report->machine.parts; j++) {
            const struct gpud_device_link *link = info_part_link(report, i, j);
            if (link->reason[0])
                add_gap(gaps, report, i, j, link->reason);
        }
    }
    if (gaps->len > 0)
        puts("\nGPUs that do not write each other's memory");
    for (guint i = 0; i < gaps->len; i++) {
        const struct gap *gap = &g_array_index(gaps, struct gap, i);
        print_first(info_part_name(report->machine.part[gap->from]),
                    info_part_name(report->machine.part[gap->to]), gap->pairs, gap->reason);
    }
    g_array_unref(gaps);
}

/* --- routes ----------------------------------------------------------------------------------- */

static void print_routes(const struct info_report *report)
{
    int width = MAX(info_longest_name(report), (int)strlen("directgma")) + 2;
    puts("\nRoutes between two processes, from the left to the top");
    for (size_t from = 0; from <= report->devices; from++) {
        const struct gpud_device_info *row = from ? &report->device[from - 1] : NULL;
        if (row && !row->available)
            continue;
        GString *line = g_string_new(NULL);
        g_string_printf(line, "  %-*s", width, row ? row->name : "");
        for (size_t to = 0; to < report->devices; to++) {
            if (!report->device[to].available)
                continue;
            const struct info_pair *pair = row ? info_find_pair(report, from - 1, to) : NULL;
            g_string_append_printf(line, "%-*s", width,
                                   !row   ? report->device[to].name
                                   : pair ? info_chosen_route(&pair->between)
                                          : "?");
        }
        puts(g_strchomp(line->str));
        g_string_free(line, TRUE);
    }
    GArray *objections = info_collect_objections(report);
    if (objections->len > 0)
        puts("");
    for (guint i = 0; i < objections->len; i++) {
        const struct info_objection *one = &g_array_index(objections, struct info_objection, i);
        char *text = g_strdup_printf("not %s: %s", one->route, one->reason);
        print_first(one->from, one->to, one->pairs, text);
        g_free(text);
    }
    g_array_unref(objections);
}

void info_print_topology(const struct info_report *report)
{
    printf("gpudirect %s\n\nTopology\n", gpud_version_string());
    if (report->machine.parts > 0)
        print_matrix(report);
    else
        puts("  no GPU, network card or capture card is on a bus here");
    for (size_t i = 0; i < report->machine.parts; i++)
        print_part(report->machine.part[i], column_width(report));
    print_nodes(report);
    if (report->machine.parts > 1) {
        puts("");
        info_print_legend(is_name_used, report);
    }
    if (report->machine.reason[0]) {
        fputs("\nNot known: ", stdout);
        info_print_wrapped(report->machine.reason, 11);
    }
    print_gaps(report);
    print_routes(report);
}
