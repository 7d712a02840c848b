/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as text: aligned columns, long sentences wrapped within their column. */
#include "info.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 100

static void print_words(int at, const char *format, va_list args)
{
    char *text = g_strdup_vprintf(format, args), *valid = g_utf8_make_valid(text, -1);
    char **words = g_strsplit(valid, " ", -1);
    int column = at;
    for (char **word = words; *word; word++) {
        int length = (int)g_utf8_strlen(*word, -1);
        if (column > at && column + 1 + length > WIDTH) {
            printf("\n%*s", at, "");
            column = at;
        } else if (column > at) {
            putchar(' ');
            column++;
        }
        fputs(*word, stdout);
        column += length;
    }
    putchar('\n');
    g_strfreev(words);
    g_free(valid);
    g_free(text);
}

void info_print_wrapped(int at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_words(at, format, args);
    va_end(args);
}

/* The same on a line of its own. */
static void print_line(int at, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void print_line(int at, const char *format, ...)
{
    va_list args;
    printf("%*s", at, "");
    va_start(args, format);
    print_words(at, format, args);
    va_end(args);
}

/* Length of the longest device name, at least 4. */
static int longest_name(const struct info_report *report)
{
    size_t longest = 4;
    for (size_t i = 0; i < report->devices; i++)
        longest = MAX(longest, strlen(report->device[i].name));
    return (int)longest;
}

/* === links =================================================================================== */
/* What connects GPUs, as a matrix like that of `nvidia-smi topo -m`. */

static bool has_links(const struct info_report *report, const struct gpud_device_info *device)
{
    for (guint i = 0; i < report->links->len; i++)
        if (g_array_index(report->links, struct info_link, i).from == device)
            return true;
    return false;
}

/* from NULL: the heading. */
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

/* Explains the names of links that a matrix has, one a line; "NV18" counts as "NV". Frees them. */
static void print_legend(GPtrArray *names)
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
    for (size_t k = 0; k < G_N_ELEMENTS(legend); k++) {
        guint i = 0;
        while (i < names->len && !g_str_has_prefix(names->pdata[i], legend[k][0]))
            i++;
        if (i < names->len)
            printf("  %s\n", legend[k][1]);
    }
    g_ptr_array_unref(names);
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
    info_print_wrapped(2 * names + 7, "%s", text->str);
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
    GPtrArray *used = g_ptr_array_new();
    for (guint i = 0; i < report->links->len; i++)
        g_ptr_array_add(used, g_array_index(report->links, struct info_link, i).link.name);
    print_legend(used);
    puts("");
    for (guint i = 0; i < report->links->len; i++) {
        const struct info_link *link = &g_array_index(report->links, struct info_link, i);
        /* Of two vendors' devices only what there is: "opencl:0" and "cuda:0" may be one GPU. */
        size_t kind = strcspn(link->from->name, ":") + 1;
        if (link->link.direct || strncmp(link->from->name, link->to->name, kind) == 0)
            print_access(link, names);
    }
    puts("");
}

/* How far the host and cards are from a GPU. */
static void print_location(const char *name, const struct info_location *location, int names)
{
    printf("  %-*s → host: distance %s", names, name, info_distance_name(location->host));
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

static void print_links(const struct info_report *report, int names, size_t on_bus)
{
    if (on_bus > 0)
        puts("\nLinks");
    if (report->links->len > 0)
        print_matrix(report, names);
    else if (on_bus > 0)
        puts("  one GPU: there is no other to link it with");
    for (size_t i = 0; i < report->devices; i++)
        if (info_has_location(report, i))
            print_location(report->device[i].name, &report->location[i], names);
    if (report->measure_reason[0]) {
        printf("\nNot measured: ");
        info_print_wrapped(14, "%s", report->measure_reason);
    }
}

/* === network cards =========================================================================== */

static void print_port(const struct gpud_network_port_info *info, int at)
{
    static const char *const layers[] = {
        [GPUD_LINK_LAYER_ETHERNET] = "Ethernet",
        [GPUD_LINK_LAYER_INFINIBAND] = "InfiniBand",
    };
    static const char *const kinds[] = {
        [GPUD_GID_INFINIBAND] = "InfiniBand",
        [GPUD_GID_ROCE_V1] = "RoCE v1",
        [GPUD_GID_ROCE_V2] = "RoCE v2",
    };
    GString *line = g_string_new(NULL);
    g_string_printf(line, "port %u: %s", info->number, info->state[0] ? info->state : "unknown");
    if ((size_t)info->link_layer < G_N_ELEMENTS(layers) && layers[info->link_layer])
        g_string_append_printf(line, ", %s", layers[info->link_layer]);
    if (info->netdev[0])
        g_string_append_printf(line, ", %s", info->netdev);
    if (info->rate > 0)
        g_string_append_printf(line, ", %g Gbit/s", info->rate / 1e3);
    if (info->mtu > 0)
        g_string_append_printf(line, ", MTU %u", info->mtu);
    if (info->message_max > 0)
        g_string_append_printf(line, ", messages of up to %.0f MB",
                               (double)info->message_max / 1e6);
    print_line(at, "%s", line->str);
    g_string_free(line, TRUE);
    if (info->reason[0])
        print_line(at + 2, "%s", info->reason);
    for (uint32_t i = 0; i < info->gids; i++) {
        const struct gpud_network_gid_info *gid = info->gid[i];
        print_line(at + 2, "GID %u: %s, %s%s%s", gid->index,
                   (size_t)gid->kind < G_N_ELEMENTS(kinds) ? kinds[gid->kind] : "?",
                   gid->address[0] ? gid->address : gid->text, gid->netdev[0] ? ", " : "",
                   gid->netdev);
    }
}

static void print_card(const struct info_card *card, int names)
{
    const struct gpud_network_card_info *info = &card->info;
    int at = names + 4;
    GString *line = g_string_new(info->software ? "software" : info->model);
    if (info->driver[0])
        g_string_append_printf(line, "%sdriver %s", line->len ? ", " : "", info->driver);
    if (info->firmware[0])
        g_string_append_printf(line, "%sfirmware %s", line->len ? ", " : "", info->firmware);
    if (info->pci[0])
        g_string_append_printf(line, "%sat %s", line->len ? ", " : "", info->pci);
    if (info->numa_node >= 0)
        g_string_append_printf(line, "%sNUMA node %d", line->len ? ", " : "", info->numa_node);
    printf("  %-*s  ", names, info->name);
    info_print_wrapped(at, "%s", line->len ? line->str : "nothing is known of it");
    g_string_free(line, TRUE);
    if (!info->available)
        print_line(at, "not available: %s", info->reason);
    for (uint32_t i = 0; i < info->ports; i++)
        print_port(info->port[i], at);
    if (info->available) {
        print_line(at, "GPU memory by dma-buf: %s%s", info->dmabuf ? "yes" : "no, ",
                   info->dmabuf ? "" : info->no_dmabuf);
        print_line(at, "GPU memory by peermem: %s%s", info->peermem ? "yes" : "no, ",
                   info->peermem ? "" : info->no_peermem);
    }
    if (card->nearest.reason[0])
        print_line(at, "device=auto: %s", card->nearest.reason);
}

/* card NULL: the heading. Adds the names of distances, which are those in the matrix of links. */
static void network_print_row(const struct info_report *report, const struct info_card *card,
                              int names, GPtrArray *used)
{
    GString *line = g_string_new(NULL);
    g_string_printf(line, "  %-*s", names + 2, card ? card->info.name : "");
    for (size_t i = 0; i < report->devices; i++) {
        if (!info_has_location(report, i))
            continue;
        const char *device = report->device[i].name;
        const char *text = device;
        if (card) {
            bool known = card->distance[i] != GPUD_DISTANCE_UNKNOWN;
            text = known ? g_ascii_strup(info_distance_name(card->distance[i]), -1) : g_strdup("?");
            g_ptr_array_add(used, (gpointer)text);
        }
        g_string_append_printf(line, "%-*s", (int)MAX(strlen(device), 4) + 2, text);
    }
    puts(g_strchomp(line->str));
    g_string_free(line, TRUE);
}

static void print_sentence(const char *label, const char *text)
{
    printf("  %s: ", label);
    info_print_wrapped((int)strlen(label) + 4, "%s", text);
}

static void print_network(const struct info_report *report, size_t on_bus)
{
    const struct info_network *network = &report->network;
    const struct info_card *cards = (const struct info_card *)(const void *)network->cards->data;
    guint count = network->cards->len;
    size_t longest = 4;
    puts("\nNetwork cards");
    for (guint i = 0; i < count; i++)
        longest = MAX(longest, strlen(cards[i].info.name));
    int names = (int)longest;
    for (guint i = 0; i < count; i++)
        print_card(&cards[i], names);
    if (count == 0)
        print_sentence("none", network->host.reason);
    else if (!network->host.usable)
        print_sentence("none can be used now", network->host.reason);
    if (count > 0 && network->host.pin_reason[0])
        print_sentence("too little memory", network->host.pin_reason);
    /* The other half of "GPU memory by dma-buf", which is printed for each card. */
    for (size_t i = 0; i < report->devices; i++)
        if (info_has_location(report, i))
            print_line(2, "memory of %s as a dma-buf, for a card: %s%s", report->device[i].name,
                       network->export[i].dmabuf ? "yes" : "no, ", network->export[i].reason);
    if (count == 0 || on_bus == 0)
        return;
    /* How far each card is from each GPU. */
    puts("");
    GPtrArray *used = g_ptr_array_new_with_free_func(g_free);
    network_print_row(report, NULL, names, used);
    for (guint i = 0; i < count; i++)
        network_print_row(report, &cards[i], names, used);
    puts("");
    print_legend(used);
}

/* === the report ============================================================================== */

static void print_reasons(const struct info_choice *choice, int at)
{
    for (size_t i = 0; i < choice->chosen; i++)
        print_line(at, "not %s: %s", choice->route[i].name, choice->route[i].reason);
}

/* Whether the chosen routes differ, or a reason against a better one. */
static bool choices_differ(const struct info_choice *a, const struct info_choice *b)
{
    if (a->chosen != b->chosen || a->count != b->count)
        return true;
    for (size_t i = 0; i < a->chosen; i++)
        if (strcmp(a->route[i].reason, b->route[i].reason) != 0)
            return true;
    return false;
}

static void print_routes(const struct info_report *report, int names)
{
    int at = 2 * names + 7;
    puts("\nRoutes between two processes");
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        const struct info_link *link = info_find_link(report, pair->from, pair->to);
        const char *distance = info_distance_name(pair->distance);
        char *path = link && info_is_gpu_link(link->link.name) ? info_link_path(link) : NULL;
        printf("  %-*s → %-*s  %s", names, pair->from->name, names, pair->to->name,
               info_chosen_route(&pair->between));
        if (path)
            printf(" (%s; PCI distance %s)", path, distance);
        else if (pair->distance > GPUD_DISTANCE_SELF)
            printf(" (distance %s)", distance);
        g_free(path);
        putchar('\n');
        print_reasons(&pair->between, at);
    }
    puts("\nWithin one process");
    bool differ = false;
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        if (!choices_differ(&pair->between, &pair->within))
            continue;
        differ = true;
        printf("  %-*s → %-*s  %s\n", names, pair->from->name, names, pair->to->name,
               info_chosen_route(&pair->within));
        print_reasons(&pair->within, at);
    }
    puts(differ ? "  all others are the same" : "  the same");
}

static void print_capture(const struct info_capture *capture)
{
    const struct gpud_capture_card_info *info = &capture->info;
    int at = 18;
    printf("  %-14s  ", info_capture_node(capture));
    if (!info->usable) {
        info_print_wrapped(at, "%s", info->reason);
        return;
    }
    info_print_wrapped(at, "%s, driver %s", info->card, info->driver);
    if (!info->signal)
        print_line(at, "%s", info->signal_reason);
    /* One line per format: a card may offer a dozen formats in a dozen sizes each. */
    for (size_t i = 0; i < info->modes; i++) {
        const struct gpud_capture_mode *mode = info->mode[i];
        if (i == 0 || strcmp(mode->format, info->mode[i - 1]->format) != 0)
            printf("%*s%-10s  ", at, "", mode->format);
        else
            fputs(", ", stdout);
        printf("%ux%u", mode->width_min, mode->height_min);
        if (mode->width_max != mode->width_min || mode->height_max != mode->height_min)
            printf(" … %ux%u", mode->width_max, mode->height_max);
        if (mode->fps_num && mode->fps_den)
            printf(" at up to %g/s", (double)mode->fps_num / mode->fps_den);
        if (i + 1 == info->modes || strcmp(mode->format, info->mode[i + 1]->format) != 0)
            putchar('\n');
    }
    if (info->modes == 0)
        printf("%*sit offers no format that is known here\n", at, "");
    GString *direct = g_string_new("");
    for (size_t i = 0; i < info->paths; i++)
        if (info->path[i]->direct)
            g_string_append_printf(direct, "%s%s by %s", direct->len ? ", " : "direct to ",
                                   info->path[i]->device, info->path[i]->path);
    print_line(at, "%s", direct->len ? direct->str : "direct to no device");
    g_string_free(direct, TRUE);
    for (size_t i = 0; i < info->paths; i++) {
        const struct gpud_capture_card_path *path = info->path[i];
        if (!path->direct)
            print_line(at, "copied to %s from %s: %s", path->device, path->path, path->reason);
    }
    print_line(at, "device=auto: %s", capture->nearest.reason);
}

static void print_layer(const struct info_layer *layer)
{
    puts("\nSoftware DirectGMA");
    if (layer->loaded) {
        printf("  loaded: %s\n", layer->loaded);
    } else if (!layer->path) {
        puts("  not loaded; libgpudirect-dgma-layer.so was not found beside the library");
    } else if (!layer->hint) {
        printf("  not loaded, and no device here needs it (%s)\n", layer->path);
    } else {
        GString *who = g_string_new(NULL);
        for (guint i = 0; i < layer->helps->len; i++)
            g_string_append_printf(who, "%s%s", i ? ", " : "",
                                   (const char *)layer->helps->pdata[i]);
        print_line(2, "not loaded; it gives direct writes to %s. To try it:", who->str);
        printf("  %s\n", layer->hint);
        g_string_free(who, TRUE);
    }
}

void info_print_text(const struct info_report *report)
{
    int names = longest_name(report);
    size_t on_bus = 0;
    printf("gpudirect %s\n", gpud_version_string());
    puts("\nDevices");
    for (size_t i = 0; i < report->devices; i++) {
        const struct gpud_device_info *device = &report->device[i];
        int at = names + 4;
        on_bus += info_has_location(report, i);
        printf("  %-*s  ", names, device->name);
        if (!device->available) {
            info_print_wrapped(at, "not available: %s", device->reason);
            continue;
        }
        GString *line = g_string_new(device->description);
        if (device->pci[0])
            g_string_append_printf(line, ", at %s", device->pci);
        if (report->location[i].numa_node >= 0)
            g_string_append_printf(line, ", NUMA node %d", report->location[i].numa_node);
        if (report->location[i].cpus[0])
            g_string_append_printf(line, ", CPUs %s", report->location[i].cpus);
        info_print_wrapped(at, "%s", line->str);
        g_string_free(line, TRUE);
        if (device->direct_writes)
            print_line(at, "others can write its memory directly");
        else
            print_line(at, "no direct writes: %s", device->reason);
    }
    print_links(report, names, on_bus);
    print_network(report, on_bus);
    print_routes(report, names);
    puts("\nCapture");
    for (guint i = 0; i < report->captures->len; i++)
        print_capture(&g_array_index(report->captures, struct info_capture, i));
    if (report->captures->len == 0)
        puts("  none: there is no /dev/video*");
    print_layer(&report->layer);
}

/* === topology ================================================================================ */
/* What is on this machine's buses, the link from each to each, and the resulting routes, in the
 * form of `nvidia-smi topo -m` and `rocm-smi --showtopo`. */

static void topology_print_matrix(const struct info_report *report, int width, GPtrArray *used)
{
    printf("  %-*s", width, "");
    for (size_t i = 0; i < report->machine.parts; i++)
        printf("%-*s", width, info_part_name(report->machine.part[i]));
    puts("NUMA  CPUs");
    for (size_t i = 0; i < report->machine.parts; i++) {
        const struct gpud_part_info *part = report->machine.part[i];
        printf("  %-*s", width, info_part_name(part));
        for (size_t j = 0; j < report->machine.parts; j++) {
            const char *name = info_part_link(report, i, j)->name;
            printf("%-*s", width, name);
            g_ptr_array_add(used, (gpointer)name);
        }
        if (part->numa_node >= 0)
            printf("%-6d", part->numa_node);
        else
            printf("%-6s", "-");
        puts(part->cpus[0] ? part->cpus : "-");
    }
    puts("");
}

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
    info_print_wrapped(width + 2, "%s", line->str);
    g_string_free(line, TRUE);
}

/* Frees the objections. */
static void print_objections(GArray *objections, const char *heading)
{
    if (objections->len > 0)
        puts(heading);
    for (guint i = 0; i < objections->len; i++) {
        const struct info_objection *one = &g_array_index(objections, struct info_objection, i);
        GString *line = g_string_new(NULL);
        g_string_printf(line, "%s → %s", one->from, one->to);
        if (one->pairs > 1)
            g_string_append_printf(line, " and %u more", one->pairs - 1);
        if (one->route)
            g_string_append_printf(line, ": not %s", one->route);
        fputs("  ", stdout);
        info_print_wrapped(4, "%s: %s", line->str, one->reason);
        g_string_free(line, TRUE);
    }
    g_array_unref(objections);
}

void info_print_topology(const struct info_report *report)
{
    size_t longest = strlen("XGMI2");
    for (size_t i = 0; i < report->machine.parts; i++)
        longest = MAX(longest, strlen(info_part_name(report->machine.part[i])));
    int width = (int)longest + 2;
    GPtrArray *used = g_ptr_array_new();
    printf("gpudirect %s\n\nTopology\n", gpud_version_string());
    if (report->machine.parts > 0)
        topology_print_matrix(report, width, used);
    else
        puts("  no GPU, network card or capture card is on a bus here");
    for (size_t i = 0; i < report->machine.parts; i++)
        print_part(report->machine.part[i], width);
    for (size_t i = 0; i < report->machine.nodes; i++)
        printf("  NUMA node %d: CPUs %s, %.1f GB\n", report->machine.node[i]->number,
               report->machine.node[i]->cpus[0] ? report->machine.node[i]->cpus : "none",
               (double)report->machine.node[i]->memory / 1e9);
    if (report->machine.parts > 1)
        puts("");
    else
        g_ptr_array_set_size(used, 0); /* without others there is nothing to explain */
    print_legend(used);
    if (report->machine.reason[0]) {
        fputs("\nNot known: ", stdout);
        info_print_wrapped(11, "%s", report->machine.reason);
    }
    print_objections(info_collect_gaps(report), "\nGPUs that do not write each other's memory");

    width = MAX(longest_name(report), (int)strlen("directgma")) + 2;
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
    print_objections(info_collect_objections(report), "");
}
