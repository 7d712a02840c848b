/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How GPUs reach each other's memory, the software DirectGMA layer, and --topology: all on the
 * buses. */
#include "info.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === links =================================================================================== */
/* What connects GPUs, as a matrix like that of `nvidia-smi topo -m`. */

bool info_is_on_bus(const struct gpud_device_info *device)
{
    return device->pci[0] != '\0';
}

bool info_has_location(const struct info_report *report, size_t device)
{
    return report->device[device].available && info_is_on_bus(&report->device[device]);
}

void info_find_auto(struct gpud_context *context, const char *address, struct info_auto *found)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    struct gpud_error error;
    if (gpud_device_get_nearest(context, "auto", address, &info, found->reason, &error) == GPUD_OK)
        g_strlcpy(found->device, info.name, sizeof(found->device));
    else
        g_strlcpy(found->reason, error.reason, sizeof(found->reason));
}

void info_collect_links(struct info_report *report, struct gpud_device *const *open)
{
    for (size_t from = 0; from < report->devices; from++) {
        for (size_t to = 0; to < report->devices; to++) {
            struct info_link link = {.from = &report->device[from],
                                     .to = &report->device[to],
                                     .link = GPUD_INFO_INIT(link.link),
                                     .measured = NAN};
            if (from == to || !open[from] || !open[to] || !info_is_on_bus(link.from) ||
                !info_is_on_bus(link.to))
                continue;
            gpud_device_get_link(open[from], open[to], &link.link);
            g_array_append_val(report->links, link);
        }
    }
}

const struct info_link *info_find_link(const struct info_report *report,
                                       const struct gpud_device_info *from,
                                       const struct gpud_device_info *to)
{
    for (guint i = 0; i < report->links->len; i++) {
        const struct info_link *link = &g_array_index(report->links, struct info_link, i);
        if (link->from == from && link->to == to)
            return link;
    }
    return NULL;
}

bool info_is_gpu_link(const char *name)
{
    return g_str_has_prefix(name, "NV") || g_str_has_prefix(name, "XGMI");
}

static const char *link_family(const char *name)
{
    return g_str_has_prefix(name, "NV") ? "nvlink" : info_is_gpu_link(name) ? "xgmi" : "pcie";
}

char *info_link_path(const struct info_link *link)
{
    if (strcmp(link->link.name, "?") == 0 || strcmp(link->link.name, "X") == 0)
        return NULL;
    return g_strdup_printf("%s %s", link_family(link->link.name), link->link.name);
}

static bool has_links(const struct info_report *report, const struct gpud_device_info *device)
{
    for (guint i = 0; i < report->links->len; i++)
        if (g_array_index(report->links, struct info_link, i).from == device)
            return true;
    return false;
}

static void links_print_row(const struct info_report *report, const struct gpud_device_info *from,
                            int width)
{
    printf("  %-*s", width, from ? from->name : "");
    for (size_t i = 0; i < report->devices; i++) {
        const struct gpud_device_info *to = &report->device[i];
        if (!has_links(report, to))
            continue;
        const struct info_link *link = from ? info_find_link(report, from, to) : NULL;
        printf("%-*s", width, !from ? to->name : link ? link->link.name : "X");
    }
    putchar('\n');
}

void info_print_legend(bool (*is_used)(const struct info_report *report, const char *name),
                       const struct info_report *report)
{
    static const char *const legend[][2] = {
        {"NV", "NV#: so many NVLinks"},
        {"XGMI", "XGMI: AMD's link between GPUs; XGMI#: over # of them in turn"},
        {"PIX", "PIX: behind one PCIe bridge or switch"},
        {"PXB", "PXB: behind several PCIe switches, below one port of the host's"},
        {"PHB", "PHB: behind one PCIe host bridge"},
        {"NODE", "NODE: in one NUMA node, across its host bridges"},
        {"SYS", "SYS: across NUMA nodes"},
        {"?", "?: the position of one of them is unknown"},
    };
    for (size_t k = 0; k < G_N_ELEMENTS(legend); k++)
        if (is_used(report, legend[k][0]))
            printf("  %s\n", legend[k][1]);
}

/* "NV18" counts as "NV". */
static bool is_link_name(const struct info_report *report, const char *name)
{
    for (guint i = 0; i < report->links->len; i++)
        if (g_str_has_prefix(g_array_index(report->links, struct info_link, i).link.name, name))
            return true;
    return false;
}

/* "cuda:0" and "cuda:1", not "opencl:0" and "cuda:0". */
static bool is_one_kind(const struct info_link *link)
{
    size_t length = strcspn(link->from->name, ":");
    return strncmp(link->from->name, link->to->name, length + 1) == 0;
}

static void print_access(const struct info_link *link, int names)
{
    GString *text = g_string_new(NULL);
    if (!link->link.direct) {
        g_string_printf(text, "no access: %s", link->link.reason);
    } else {
        char *path = info_link_path(link);
        if (path)
            g_string_append(text, path);
        if (info_is_gpu_link(link->link.name))
            g_string_append_printf(text, " (PCI: %s)", info_distance_name(link->link.distance));
        g_string_append(text, path ? ": writes directly" : "writes directly");
        g_free(path);
        if (link->link.rank >= 0)
            g_string_append_printf(text, ", rank %d", link->link.rank);
        if (link->link.bandwidth > 0)
            g_string_append_printf(text, ", up to %.0f GB/s", link->link.bandwidth / 1e9);
        g_string_append(text, link->link.atomics ? ", atomics" : ", no atomics");
    }
    if (link->measured > 0)
        g_string_append_printf(text, "; measured %.1f GB/s", link->measured / 1e9);
    printf("  %-*s → %-*s  ", names, link->from->name, names, link->to->name);
    info_print_wrapped(text->str, 2 * names + 7);
    g_string_free(text, TRUE);
}

static void print_matrix(const struct info_report *report, int names)
{
    int width = MAX(names, 4) + 2;
    links_print_row(report, NULL, width);
    for (size_t i = 0; i < report->devices; i++)
        if (has_links(report, &report->device[i]))
            links_print_row(report, &report->device[i], width);
    puts("\n  X: one and the same GPU");
    info_print_legend(is_link_name, report);
    puts("");
    for (guint i = 0; i < report->links->len; i++) {
        const struct info_link *link = &g_array_index(report->links, struct info_link, i);
        if (link->link.direct || is_one_kind(link))
            print_access(link, names);
    }
    puts("");
}

/* How far the host and cards are from a GPU. */
static void print_location(const struct gpud_device_info *device,
                           const struct info_location *location, int names)
{
    printf("  %-*s → host: distance %s", names, device->name, info_distance_name(location->host));
    if (location->numa_node >= 0)
        printf("; it is next to NUMA node %d", location->numa_node);
    if (location->cpus[0])
        printf("%s CPUs %s", location->numa_node < 0 ? "; it is next to" : ",", location->cpus);
    else if (location->numa_node < 0)
        printf("; its position is unknown");
    putchar('\n');
    for (size_t i = 0; i < location->cards; i++) {
        const struct info_near *card = &location->card[i];
        printf("  %*s → %s (%s, at %s): distance %s\n", names, "", card->name,
               info_kind_name(card->part->kind), card->part->pci,
               info_distance_name(card->distance));
    }
}

void info_print_links(const struct info_report *report, int names)
{
    size_t on_bus = 0;
    for (size_t i = 0; i < report->devices; i++)
        on_bus += info_has_location(report, i);
    if (on_bus > 0)
        puts("\nLinks");
    if (report->links->len > 0)
        print_matrix(report, names);
    else if (on_bus > 0)
        puts("  one GPU: there is no other to link it with");
    for (size_t i = 0; i < report->devices; i++)
        if (info_has_location(report, i))
            print_location(&report->device[i], &report->location[i], names);
    if (report->measure_reason[0]) {
        printf("\nNot measured: ");
        info_print_wrapped(report->measure_reason, 14);
    }
}

/* === layer =================================================================================== */
/* The software DirectGMA layer. It is installed in the folder gpudirect beside libgpudirect, lies
 * beside it in a bundle, and in a folder of its own in a build. */

#define LAYER "libgpudirect-dgma-layer.so"

static char *absolute(const char *directory, const char *below)
{
    char *joined = g_build_filename(directory, below, LAYER, NULL);
    char *resolved = realpath(joined, NULL);
    char *path = g_strdup(resolved);
    free(resolved);
    g_free(joined);
    return path;
}

static char *find_beside_library(void)
{
    Dl_info library;
    if (!dladdr((void *)gpud_version_string, &library) || !library.dli_fname)
        return NULL;
    char *directory = g_path_get_dirname(library.dli_fname);
    static const char *const places[] = {"gpudirect", "", "../plugins/dgma-layer"};
    char *path = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(places) && !path; i++)
        path = absolute(directory, places[i]);
    g_free(directory);
    return path;
}

static int is_layer(struct dl_phdr_info *object, size_t size, void *user)
{
    char **loaded = user;
    if (!object->dlpi_name || !g_str_has_suffix(object->dlpi_name, "/" LAYER))
        return 0;
    *loaded = g_strdup(object->dlpi_name);
    return 1;
}

void info_find_layer(struct info_report *report)
{
    struct info_layer *layer = &report->layer;
    layer->path = find_beside_library();
    dl_iterate_phdr(is_layer, &layer->loaded);
    layer->helps = g_ptr_array_new();
    for (size_t i = 0; i < report->devices; i++) {
        struct gpud_device_info *device = &report->device[i];
        if (device->available && !device->direct_writes &&
            g_str_has_prefix(device->name, "opencl:"))
            g_ptr_array_add(layer->helps, device->name);
    }
    if (!layer->path || layer->loaded || layer->helps->len == 0)
        return;
    const char *others = g_getenv("OPENCL_LAYERS");
    bool first = !others || !others[0];
    char *layers = g_strdup_printf("%s%s%s", first ? "" : others, first ? "" : ":", layer->path);
    char *quoted = g_shell_quote(layers);
    bool plain = !strpbrk(layers, " \t'\"\\$`&;()<>|*?[]#~");
    layer->hint =
        g_strdup_printf("OPENCL_LAYERS=%s %s", plain ? layers : quoted, program_invocation_name);
    g_free(quoted);
    g_free(layers);
}

/* === topology ================================================================================ */
/* What is on this machine's buses, the link from each to each, and the resulting routes, in the
 * form of `nvidia-smi topo -m` and `rocm-smi --showtopo`. */

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

static void topology_print_matrix(const struct info_report *report)
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
        topology_print_matrix(report);
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
