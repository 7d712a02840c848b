/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Collects the report. Devices are opened, not only listed: some show only then what they lack. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

static void find_routes(struct gpud_device *from, struct gpud_device *to, bool same_process,
                        struct info_choice *choice)
{
    choice->route[0].size = sizeof(choice->route[0]);
    size_t count = gpud_route_explain(from, to, same_process, choice->route, INFO_ROUTES_MAX);
    choice->count = MIN(count, INFO_ROUTES_MAX);
    choice->chosen = 0;
    while (choice->chosen < choice->count && !choice->route[choice->chosen].possible)
        choice->chosen++;
}

bool info_choices_differ(const struct info_choice *a, const struct info_choice *b)
{
    if (a->chosen != b->chosen || a->count != b->count)
        return true;
    for (size_t i = 0; i < a->chosen; i++)
        if (strcmp(a->route[i].reason, b->route[i].reason) != 0)
            return true;
    return false;
}

static void collect_pairs(struct info_report *report, struct gpud_device **open)
{
    for (size_t from = 0; from < report->devices; from++) {
        for (size_t to = 0; to < report->devices; to++) {
            if (!open[from] || !open[to])
                continue;
            struct info_pair pair = {.from = &report->device[from], .to = &report->device[to]};
            struct gpud_device_link link = GPUD_INFO_INIT(link);
            gpud_device_get_link(open[from], open[to], &link);
            pair.distance = link.distance;
            find_routes(open[from], open[to], false, &pair.between);
            find_routes(open[from], open[to], true, &pair.within);
            g_array_append_val(report->pairs, pair);
        }
    }
}

static void open_device(struct gpud_context *context, struct gpud_device_info *info,
                        struct gpud_device **device)
{
    struct gpud_error error;
    if (gpud_device_open(context, info->name, device, &error) != GPUD_OK) {
        info->available = false;
        g_strlcpy(info->reason, error.reason, sizeof(info->reason));
        return;
    }
    gpud_device_get_info(*device, info);
}

/* A network card has a name for each of its parts: "mlx5_0" and "eth0". */
static void add_card(struct info_location *location, const struct gpud_part_info *part,
                     enum gpud_distance distance)
{
    char *names = g_strdup_printf("%s %s", part->name, part->others);
    char **each = g_strsplit(g_strchomp(names), " ", part->kind == GPUD_PART_NETWORK ? 0 : 2);
    size_t count = part->kind == GPUD_PART_NETWORK ? g_strv_length(each) : 1;
    for (size_t i = 0; i < count && location->cards < G_N_ELEMENTS(location->card); i++) {
        struct info_near *card = &location->card[location->cards++];
        *card = (struct info_near){.part = part, .distance = distance};
        g_strlcpy(card->name, each[i], sizeof(card->name));
    }
    g_strfreev(each);
    g_free(names);
}

/* host: may be NULL. */
static void find_location(const struct info_report *report, const struct gpud_device *device,
                          const struct gpud_device *host, const char *pci,
                          struct info_location *location)
{
    struct gpud_device_locality locality = GPUD_INFO_INIT(locality);
    struct gpud_device_link link = GPUD_INFO_INIT(link);
    size_t own = info_find_part(report, pci);
    gpud_device_get_locality(device, &locality);
    location->numa_node = locality.numa_node;
    g_strlcpy(location->cpus, locality.cpus, sizeof(location->cpus));
    if (host) {
        gpud_device_get_link(device, host, &link);
        location->host = link.distance;
    }
    for (size_t i = 0; own < report->machine.parts && i < report->machine.parts; i++)
        if (report->machine.part[i]->kind != GPUD_PART_GPU)
            add_card(location, report->machine.part[i], info_part_link(report, own, i)->distance);
}

static enum gpud_status collect_devices(struct info_report *report, struct gpud_context *context,
                                        bool measure, struct gpud_error *error)
{
    struct gpud_device *open[INFO_DEVICES_MAX] = {NULL};
    struct gpud_device_list *list;
    uint32_t count;
    enum gpud_status status = gpud_device_list_create(context, &list, &count, error);
    if (status != GPUD_OK)
        return status;
    report->devices = MIN(count, INFO_DEVICES_MAX);
    for (uint32_t i = 0; i < report->devices; i++) {
        report->device[i].size = sizeof(report->device[i]);
        gpud_device_list_get_info(list, i, &report->device[i], NULL);
        if (report->device[i].available)
            open_device(context, &report->device[i], &open[i]);
    }
    gpud_device_list_destroy(&list);
    const struct gpud_device *host = NULL;
    for (size_t i = 0; i < report->devices && !host; i++)
        if (strcmp(report->device[i].name, "host") == 0)
            host = open[i];
    for (size_t i = 0; i < report->devices; i++) {
        report->location[i] = (struct info_location){.numa_node = -1};
        if (open[i] && info_is_on_bus(&report->device[i]))
            find_location(report, open[i], host, report->device[i].pci, &report->location[i]);
    }
    collect_pairs(report, open);
    info_collect_links(report, open);
    status = info_collect_network(report, context, open, error);
    if (measure)
        info_measure_links(report);
    for (size_t i = 0; i < report->devices; i++)
        gpud_device_close(&open[i]);
    return status;
}

static void collect_capture(struct info_report *report, struct gpud_context *context,
                            const struct gpud_capture_card_list *cards, uint32_t index)
{
    struct info_capture found = {.info = GPUD_INFO_INIT(found.info)};
    gpud_capture_card_list_get_info(cards, index, &found.info, NULL);
    info_find_auto(context, found.info.address, &found.nearest);
    g_array_append_val(report->captures, found);
}

static enum gpud_status collect_captures(struct info_report *report, struct gpud_context *context,
                                         struct gpud_error *error)
{
    uint32_t count;
    enum gpud_status status = gpud_capture_card_list_create(context, &report->cards, &count, error);
    if (status != GPUD_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        collect_capture(report, context, report->cards, i);
    return GPUD_OK;
}

/* The report says what a device cannot do; the log would repeat it. */
static void log_nothing(void *user, enum gpud_log_level level, const char *area, const char *text)
{
}

enum gpud_status info_collect(struct info_report *report, bool measure, struct gpud_error *error)
{
    struct gpud_context_params params = GPUD_PARAMS_INIT(params);
    params.log = g_getenv("GPUDIRECT_LOG") ? NULL : log_nothing;
    struct gpud_context *context;
    enum gpud_status status = gpud_context_create(&params, &context, error);
    if (status != GPUD_OK)
        return status;
    report->pairs = g_array_new(FALSE, FALSE, sizeof(struct info_pair));
    report->captures = g_array_new(FALSE, FALSE, sizeof(struct info_capture));
    report->links = g_array_new(FALSE, FALSE, sizeof(struct info_link));
    status = info_collect_topology(report, context, error);
    if (status == GPUD_OK)
        status = collect_devices(report, context, measure, error);
    if (status == GPUD_OK)
        status = collect_captures(report, context, error);
    info_find_layer(report);
    gpud_context_destroy(&context);
    if (status != GPUD_OK)
        info_free(report);
    return status;
}

void info_free(struct info_report *report)
{
    g_array_unref(report->pairs);
    g_array_unref(report->links);
    g_array_unref(report->captures);
    gpud_capture_card_list_destroy(&report->cards);
    info_free_network(&report->network);
    gpud_topology_destroy(&report->topology);
    g_ptr_array_unref(report->layer.helps);
    g_free(report->layer.path);
    g_free(report->layer.loaded);
    g_free(report->layer.hint);
}
