/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network cards: what they are and lack, how far they are from each GPU, and whether they can use
 * its memory. */
#include "info.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Size of a trial ring: a driver shows only by making a dma-buf whether it can. */
#define TRIAL_SIZE (UINT64_C(1) << 20)

/* --- collecting ------------------------------------------------------------------------------- */

static void try_export(struct gpud_device *device, struct info_export *export)
{
    struct gpud_memory *memory = NULL;
    struct gpud_error error;
    uint64_t offset;
    int fd;
    enum gpud_status status =
        gpud_memory_alloc(device, TRIAL_SIZE, GPUD_MEMORY_PLAIN, &memory, &error);
    if (status == GPUD_OK)
        status = gpud_memory_export_dmabuf(memory, 0, TRIAL_SIZE, &fd, &offset, &error);
    export->dmabuf = status == GPUD_OK;
    if (status == GPUD_OK)
        close(fd);
    else
        g_strlcpy(export->reason, error.reason, sizeof(export->reason));
    gpud_memory_unref(&memory);
}

static enum gpud_distance find_distance(const struct info_report *report,
                                        const struct gpud_device_info *device,
                                        const struct gpud_network_card_info *card)
{
    size_t from = info_find_part(report, device->pci), to = info_find_part(report, card->pci);
    bool known = from < report->machine.parts && to < report->machine.parts;
    return known ? info_part_link(report, from, to)->distance : GPUD_DISTANCE_UNKNOWN;
}

enum gpud_status info_collect_network(struct info_report *report, struct gpud_context *context,
                                      struct gpud_device *const *open, struct gpud_error *error)
{
    struct info_network *network = &report->network;
    struct gpud_network_card_list *cards = NULL;
    uint32_t count;
    network->host.size = sizeof(network->host);
    enum gpud_status status = gpud_network_card_list_create(&cards, &count, &network->host, error);
    if (status != GPUD_OK)
        return status;
    network->list = cards;
    network->cards = g_array_new(FALSE, TRUE, sizeof(struct info_card));
    g_array_set_size(network->cards, count);
    for (guint i = 0; i < network->cards->len; i++) {
        struct info_card *card = &g_array_index(network->cards, struct info_card, i);
        card->info.size = sizeof(card->info);
        gpud_network_card_list_get_info(cards, i, &card->info, NULL);
        if (card->info.pci[0])
            info_find_auto(context, card->info.pci, &card->nearest);
        for (size_t device = 0; device < report->devices; device++)
            if (open[device])
                card->distance[device] =
                    find_distance(report, &report->device[device], &card->info);
    }
    for (size_t device = 0; device < report->devices; device++)
        if (open[device] && info_has_location(report, device))
            try_export(open[device], &network->export[device]);
    return GPUD_OK;
}

void info_free_network(struct info_network *network)
{
    gpud_network_card_list_destroy(&network->list);
    if (network->cards)
        g_array_unref(network->cards);
}

/* --- as text ---------------------------------------------------------------------------------- */

static void print_line(int at, GString *line)
{
    printf("%*s", at, "");
    info_print_wrapped(line->str, at);
    g_string_free(line, TRUE);
}

static void print_gid(const struct gpud_network_gid_info *gid, int at)
{
    static const char *const kinds[] = {
        [GPUD_GID_INFINIBAND] = "InfiniBand",
        [GPUD_GID_ROCE_V1] = "RoCE v1",
        [GPUD_GID_ROCE_V2] = "RoCE v2",
    };
    GString *line = g_string_new(NULL);
    g_string_printf(line, "GID %u: %s", gid->index,
                    (size_t)gid->kind < G_N_ELEMENTS(kinds) ? kinds[gid->kind] : "?");
    g_string_append_printf(line, ", %s", gid->address[0] ? gid->address : gid->text);
    if (gid->netdev[0])
        g_string_append_printf(line, ", %s", gid->netdev);
    print_line(at, line);
}

static void print_port(const struct gpud_network_port_info *info, int at)
{
    static const char *const layers[] = {
        [GPUD_LINK_LAYER_ETHERNET] = "Ethernet",
        [GPUD_LINK_LAYER_INFINIBAND] = "InfiniBand",
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
    print_line(at, line);
    if (info->reason[0])
        print_line(at + 2, g_string_new(info->reason));
    for (uint32_t i = 0; i < info->gids; i++)
        print_gid(info->gid[i], at + 2);
}

static void print_way(const char *way, bool there, const char *reason, int at)
{
    GString *line = g_string_new(NULL);
    g_string_printf(line, "GPU memory by %s: %s%s", way, there ? "yes" : "no, ",
                    there ? "" : reason);
    print_line(at, line);
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
    info_print_wrapped(line->len ? line->str : "nothing is known of it", at);
    g_string_free(line, TRUE);
    if (!info->available) {
        line = g_string_new(NULL);
        g_string_printf(line, "not available: %s", info->reason);
        print_line(at, line);
    }
    for (uint32_t i = 0; i < info->ports; i++)
        print_port(info->port[i], at);
    if (info->available) {
        print_way("dma-buf", info->dmabuf, info->no_dmabuf, at);
        print_way("peermem", info->peermem, info->no_peermem, at);
    }
    if (card->nearest.reason[0]) {
        line = g_string_new(NULL);
        g_string_printf(line, "device=auto: %s", card->nearest.reason);
        print_line(at, line);
    }
}

/* The same names as in the matrix of links. */
static char *distance_text(enum gpud_distance distance)
{
    return distance == GPUD_DISTANCE_UNKNOWN ? g_strdup("?")
                                             : g_ascii_strup(info_distance_name(distance), -1);
}

static bool is_distance(const struct info_report *report, const char *name)
{
    bool found = false;
    for (guint i = 0; i < report->network.cards->len; i++) {
        const struct info_card *card = &g_array_index(report->network.cards, struct info_card, i);
        for (size_t device = 0; device < report->devices; device++) {
            char *text = distance_text(card->distance[device]);
            found |= info_has_location(report, device) && strcmp(text, name) == 0;
            g_free(text);
        }
    }
    return found;
}

/* card NULL: the heading. */
static void network_print_row(const struct info_report *report, const struct info_card *card,
                              int names)
{
    GString *line = g_string_new(NULL);
    g_string_printf(line, "  %-*s", names + 2, card ? card->info.name : "");
    for (size_t i = 0; i < report->devices; i++) {
        if (!info_has_location(report, i))
            continue;
        const char *device = report->device[i].name;
        char *text = card ? distance_text(card->distance[i]) : g_strdup(device);
        g_string_append_printf(line, "%-*s", (int)MAX(strlen(device), 4) + 2, text);
        g_free(text);
    }
    puts(g_strchomp(line->str));
    g_string_free(line, TRUE);
}

/* How far each card is from each GPU. */
static void print_distances(const struct info_report *report, int names)
{
    bool any = false;
    for (size_t i = 0; i < report->devices; i++)
        any |= info_has_location(report, i);
    if (!any)
        return;
    puts("");
    network_print_row(report, NULL, names);
    for (guint i = 0; i < report->network.cards->len; i++)
        network_print_row(report, &g_array_index(report->network.cards, struct info_card, i),
                          names);
    puts("");
    info_print_legend(is_distance, report);
}

static void print_sentence(const char *label, const char *text)
{
    printf("  %s: ", label);
    info_print_wrapped(text, (int)strlen(label) + 4);
}

/* The other half of "GPU memory by dma-buf", which is printed for each card. */
static void print_exports(const struct info_report *report)
{
    for (size_t i = 0; i < report->devices; i++) {
        const struct info_export *export = &report->network.export[i];
        if (!info_has_location(report, i))
            continue;
        GString *line = g_string_new(NULL);
        g_string_printf(line, "memory of %s as a dma-buf, for a card: %s%s", report->device[i].name,
                        export->dmabuf ? "yes" : "no, ", export->reason);
        print_line(2, line);
    }
}

void info_print_network(const struct info_report *report)
{
    const struct info_network *network = &report->network;
    size_t names = 4;
    puts("\nNetwork cards");
    if (network->cards->len == 0) {
        print_sentence("none", network->host.reason);
        print_exports(report);
        return;
    }
    for (guint i = 0; i < network->cards->len; i++)
        names = MAX(names, strlen(g_array_index(network->cards, struct info_card, i).info.name));
    for (guint i = 0; i < network->cards->len; i++)
        print_card(&g_array_index(network->cards, struct info_card, i), (int)names);
    if (!network->host.usable)
        print_sentence("none can be used now", network->host.reason);
    if (network->host.pin_reason[0])
        print_sentence("too little memory", network->host.pin_reason);
    print_exports(report);
    print_distances(report, (int)names);
}
