/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What connects GPUs, as a matrix like that of `nvidia-smi topo -m`. */
#include "info.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static void print_row(const struct info_report *report, const struct gpud_device_info *from,
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
    print_row(report, NULL, width);
    for (size_t i = 0; i < report->devices; i++)
        if (has_links(report, &report->device[i]))
            print_row(report, &report->device[i], width);
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
