/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as text. */
#include "info.h"

#include <stdio.h>
#include <string.h>

/* === print =================================================================================== */
/* What all text output shares. */

#define WIDTH 100

void info_print_wrapped(const char *text, int at)
{
    char *valid = g_utf8_make_valid(text, -1);
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
}

int info_longest_name(const struct info_report *report)
{
    size_t longest = 4;
    for (size_t i = 0; i < report->devices; i++)
        longest = MAX(longest, strlen(report->device[i].name));
    return (int)longest;
}

const char *info_chosen_route(const struct info_choice *choice)
{
    return choice->chosen < choice->count ? choice->route[choice->chosen].name : "none";
}

const char *info_distance_name(enum gpud_distance distance)
{
    static const char *const names[] = {
        [GPUD_DISTANCE_UNKNOWN] = "unknown", [GPUD_DISTANCE_SELF] = "self",
        [GPUD_DISTANCE_PIX] = "pix",         [GPUD_DISTANCE_PXB] = "pxb",
        [GPUD_DISTANCE_PHB] = "phb",         [GPUD_DISTANCE_NODE] = "node",
        [GPUD_DISTANCE_SYS] = "sys",
    };
    return (size_t)distance < G_N_ELEMENTS(names) ? names[distance] : "unknown";
}

/* === text ==================================================================================== */
/* The report as text: aligned columns, long sentences wrapped within their column. */

/* --- devices ---------------------------------------------------------------------------------- */

static void print_devices(const struct info_report *report, int names)
{
    puts("\nDevices");
    for (size_t i = 0; i < report->devices; i++) {
        const struct gpud_device_info *device = &report->device[i];
        int at = names + 4;
        printf("  %-*s  ", names, device->name);
        if (!device->available) {
            char *text = g_strdup_printf("not available: %s", device->reason);
            info_print_wrapped(text, at);
            g_free(text);
            continue;
        }
        GString *line = g_string_new(device->description);
        if (device->pci[0])
            g_string_append_printf(line, ", at %s", device->pci);
        if (report->location[i].numa_node >= 0)
            g_string_append_printf(line, ", NUMA node %d", report->location[i].numa_node);
        if (report->location[i].cpus[0])
            g_string_append_printf(line, ", CPUs %s", report->location[i].cpus);
        info_print_wrapped(line->str, at);
        if (device->direct_writes)
            g_string_assign(line, "others can write its memory directly");
        else
            g_string_printf(line, "no direct writes: %s", device->reason);
        printf("%*s", at, "");
        info_print_wrapped(line->str, at);
        g_string_free(line, TRUE);
    }
}

/* --- routes ----------------------------------------------------------------------------------- */

static void print_reasons(const struct info_choice *choice, int at)
{
    for (size_t i = 0; i < choice->chosen; i++) {
        char *text = g_strdup_printf("not %s: %s", choice->route[i].name, choice->route[i].reason);
        printf("%*s", at, "");
        info_print_wrapped(text, at);
        g_free(text);
    }
}

/* The distance between the two, and the link. */
static void print_distance(const struct info_report *report, const struct info_pair *pair)
{
    const struct info_link *link = info_find_link(report, pair->from, pair->to);
    const char *distance = info_distance_name(pair->distance);
    char *path = link && info_is_gpu_link(link->link.name) ? info_link_path(link) : NULL;
    if (path)
        printf(" (%s; PCI distance %s)", path, distance);
    else if (pair->distance > GPUD_DISTANCE_SELF)
        printf(" (distance %s)", distance);
    g_free(path);
}

static void print_routes(const struct info_report *report, int names)
{
    int at = 2 * names + 7;
    puts("\nRoutes between two processes");
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        printf("  %-*s → %-*s  %s", names, pair->from->name, names, pair->to->name,
               info_chosen_route(&pair->between));
        print_distance(report, pair);
        putchar('\n');
        print_reasons(&pair->between, at);
    }
    puts("\nWithin one process");
    bool differ = false;
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        if (!info_choices_differ(&pair->between, &pair->within))
            continue;
        differ = true;
        printf("  %-*s → %-*s  %s\n", names, pair->from->name, names, pair->to->name,
               info_chosen_route(&pair->within));
        print_reasons(&pair->within, at);
    }
    puts(differ ? "  all others are the same" : "  the same");
}

/* --- capture ---------------------------------------------------------------------------------- */

/* "640x480" or "48x32 … 3840x2160". */
static void print_size(const struct gpud_capture_mode *mode)
{
    printf("%ux%u", mode->width_min, mode->height_min);
    if (mode->width_max != mode->width_min || mode->height_max != mode->height_min)
        printf(" … %ux%u", mode->width_max, mode->height_max);
}

/* "direct to host, cuda:0", and the reasons against the others. */
static void print_paths(const struct gpud_capture_card_info *info, int at)
{
    GString *text = g_string_new("");
    for (size_t i = 0; i < info->paths; i++)
        if (info->path[i]->direct)
            g_string_append_printf(text, "%s%s by %s", text->len ? ", " : "direct to ",
                                   info->path[i]->device, info->path[i]->path);
    printf("%*s", at, "");
    info_print_wrapped(text->len ? text->str : "direct to no device", at);
    for (size_t i = 0; i < info->paths; i++) {
        const struct gpud_capture_card_path *path = info->path[i];
        if (path->direct)
            continue;
        g_string_printf(text, "copied to %s from %s: %s", path->device, path->path, path->reason);
        printf("%*s", at, "");
        info_print_wrapped(text->str, at);
    }
    g_string_free(text, TRUE);
}

static void print_capture(const struct info_capture *capture)
{
    const struct gpud_capture_card_info *info = &capture->info;
    int at = 18;
    printf("  %-14s  ", info_capture_node(capture));
    if (!info->usable) {
        info_print_wrapped(info->reason, at);
        return;
    }
    char *who = g_strdup_printf("%s, driver %s", info->card, info->driver);
    info_print_wrapped(who, at);
    g_free(who);
    if (!info->signal) {
        printf("%*s", at, "");
        info_print_wrapped(info->signal_reason, at);
    }
    /* One line per format: a card may offer a dozen formats in a dozen sizes each. */
    for (size_t i = 0; i < info->modes; i++) {
        const struct gpud_capture_mode *mode = info->mode[i];
        bool first = i == 0 || strcmp(mode->format, info->mode[i - 1]->format) != 0;
        if (first)
            printf("%*s%-10s  ", at, "", mode->format);
        else
            fputs(", ", stdout);
        print_size(mode);
        if (mode->fps_num && mode->fps_den)
            printf(" at up to %g/s", (double)mode->fps_num / mode->fps_den);
        if (i + 1 == info->modes || strcmp(mode->format, info->mode[i + 1]->format) != 0)
            putchar('\n');
    }
    if (info->modes == 0)
        printf("%*sit offers no format that is known here\n", at, "");
    print_paths(info, at);
    char *nearest = g_strdup_printf("device=auto: %s", capture->nearest.reason);
    printf("%*s", at, "");
    info_print_wrapped(nearest, at);
    g_free(nearest);
}

static void print_captures(const struct info_report *report)
{
    puts("\nCapture");
    for (guint i = 0; i < report->captures->len; i++)
        print_capture(&g_array_index(report->captures, struct info_capture, i));
    if (report->captures->len == 0)
        puts("  none: there is no /dev/video*");
}

/* --- the layer -------------------------------------------------------------------------------- */

static void print_layer(const struct info_layer *layer)
{
    puts("\nSoftware DirectGMA");
    if (layer->loaded) {
        printf("  loaded: %s\n", layer->loaded);
        return;
    }
    if (!layer->path) {
        puts("  not loaded; libgpudirect-dgma-layer.so was not found beside the library");
        return;
    }
    if (!layer->hint) {
        printf("  not loaded, and no device here needs it (%s)\n", layer->path);
        return;
    }
    GString *who = g_string_new("not loaded; it gives direct writes to ");
    for (guint i = 0; i < layer->helps->len; i++)
        g_string_append_printf(who, "%s%s", i ? ", " : "", (const char *)layer->helps->pdata[i]);
    g_string_append(who, ". To try it:");
    fputs("  ", stdout);
    info_print_wrapped(who->str, 2);
    printf("  %s\n", layer->hint);
    g_string_free(who, TRUE);
}

void info_print_text(const struct info_report *report)
{
    int names = info_longest_name(report);
    printf("gpudirect %s\n", gpud_version_string());
    print_devices(report, names);
    info_print_links(report, names);
    info_print_network(report);
    print_routes(report, names);
    print_captures(report);
    print_layer(&report->layer);
}
