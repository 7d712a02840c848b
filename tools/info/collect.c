/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Collects the report, and answers what all of its forms ask of it. Devices are opened, not only
 * listed: some show only then what they lack. */
#include "info.h"

#include "ceilings/ceilings.h"
#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *info_kind_name(enum gpud_part_kind kind)
{
    static const char *const names[] = {
        [GPUD_PART_GPU] = "gpu",
        [GPUD_PART_NETWORK] = "network",
        [GPUD_PART_CAPTURE] = "capture",
    };
    return (size_t)kind < G_N_ELEMENTS(names) ? names[kind] : "unknown";
}

const char *info_part_name(const struct gpud_part_info *part)
{
    const char *name = part->name;
    if (g_str_has_prefix(name, "/dev/"))
        return name + strlen("/dev/");
    return g_str_has_prefix(name, "0000:") ? name + strlen("0000:") : name;
}

const char *info_chosen_route(const struct info_choice *choice)
{
    return choice->chosen < choice->count ? choice->route[choice->chosen].name : "none";
}

bool info_is_gpu_link(const char *name)
{
    return g_str_has_prefix(name, "NV") || g_str_has_prefix(name, "XGMI");
}

char *info_link_path(const struct info_link *link)
{
    if (strcmp(link->link.name, "?") == 0 || strcmp(link->link.name, "X") == 0)
        return NULL;
    const char *family = g_str_has_prefix(link->link.name, "NV") ? "nvlink"
                         : info_is_gpu_link(link->link.name)     ? "xgmi"
                                                                 : "pcie";
    return g_strdup_printf("%s %s", family, link->link.name);
}

bool info_is_on_bus(const struct gpud_device_info *device)
{
    return device->pci[0] != '\0';
}

bool info_has_location(const struct info_report *report, size_t device)
{
    return report->device[device].available && info_is_on_bus(&report->device[device]);
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

const struct info_pair *info_find_pair(const struct info_report *report, size_t from, size_t to)
{
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        if (pair->from == &report->device[from] && pair->to == &report->device[to])
            return pair;
    }
    return NULL;
}

/* --- reasons -------------------------------------------------------------------------------- */

/* A reason without the names of its pair. */
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

static GArray *new_objections(void)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct info_objection));
    g_array_set_clear_func(found, clear_objection);
    return found;
}

/* Takes the shape of `made`. */
static void add_objection(GArray *found, struct info_objection made)
{
    for (guint i = 0; i < found->len; i++) {
        struct info_objection *known = &g_array_index(found, struct info_objection, i);
        if (g_strcmp0(known->route, made.route) == 0 && strcmp(known->shape, made.shape) == 0) {
            known->pairs++;
            g_free(made.shape);
            return;
        }
    }
    made.pairs = 1;
    g_array_append_val(found, made);
}

GArray *info_collect_objections(const struct info_report *report)
{
    GArray *found = new_objections();
    for (guint i = 0; i < report->pairs->len; i++) {
        const struct info_pair *pair = &g_array_index(report->pairs, struct info_pair, i);
        const char *from = pair->from->name, *to = pair->to->name;
        if (pair->from == pair->to || !info_is_on_bus(pair->from) || !info_is_on_bus(pair->to))
            continue;
        for (size_t k = 0; k < pair->between.chosen; k++) {
            const struct gpud_route_info *route = &pair->between.route[k];
            /* That frames are on another device is the question, not an objection. */
            if (strcmp(route->name, "map") != 0)
                add_objection(found, (struct info_objection){from, to, route->name, route->reason,
                                                             find_shape(route->reason, from, to)});
        }
    }
    return found;
}

GArray *info_collect_gaps(const struct info_report *report)
{
    GArray *found = new_objections();
    for (size_t i = 0; i < report->machine.parts; i++) {
        for (size_t j = 0; j < report->machine.parts; j++) {
            const struct gpud_part_info *from = report->machine.part[i];
            const struct gpud_part_info *to = report->machine.part[j];
            const char *reason = info_part_link(report, i, j)->reason;
            if (!reason[0])
                continue;
            /* Some reasons name devices, others bus addresses. */
            char *named = find_shape(reason, from->name, to->name);
            add_objection(found,
                          (struct info_objection){info_part_name(from), info_part_name(to), NULL,
                                                  reason, find_shape(named, from->pci, to->pci)});
            g_free(named);
        }
    }
    return found;
}

/* The index of the part at a place on the bus; machine.parts if no part is there. */
static size_t find_part(const struct info_report *report, const char *pci)
{
    size_t at = 0;
    while (at < report->machine.parts &&
           g_ascii_strcasecmp(report->machine.part[at]->pci, pci) != 0)
        at++;
    return at;
}

/* === measure ================================================================================= */
/* Measures links between GPUs of one vendor: copies back to back, by the driver alone. */

#define SIZE ((size_t)64 << 20)
#define BUDGET GPUD_SEC
#define COPIES_MAX 256
#define DEADLINE (10 * GPUD_SEC)

struct copier {
    struct raw_driver *driver;
    unsigned entered;
    raw_address source, target;
    raw_stream stream;
    char *reason;
    size_t reason_size;
};

static bool succeeded(struct copier *copier, const char *what, int result)
{
    if (result != 0)
        raw_say(copier->driver, copier->reason, copier->reason_size, what, result);
    return result == 0;
}

/* The source is made current last: its stream copies. */
static bool set_up(struct copier *copier, unsigned from, unsigned to)
{
    struct raw_driver *driver = copier->driver;
    if (!raw_enter(driver, to, copier->reason, copier->reason_size))
        return false;
    copier->entered++;
    if (!succeeded(copier, "memory on the GPU", raw_alloc(driver, &copier->target, SIZE)) ||
        !raw_enter(driver, from, copier->reason, copier->reason_size))
        return false;
    copier->entered++;
    /* Without peer access the driver copies through the host, and that copy is measured. */
    (void)raw_enable_peer(driver, to);
    return succeeded(copier, "memory on the GPU", raw_alloc(driver, &copier->source, SIZE)) &&
           succeeded(copier, "a stream", raw_stream_create(driver, &copier->stream));
}

static void tear_down(struct copier *copier)
{
    struct raw_driver *driver = copier->driver;
    if (copier->entered == 2) {
        if (copier->stream)
            raw_stream_destroy(driver, copier->stream);
        if (copier->source)
            raw_free(driver, copier->source);
        raw_leave(driver);
    }
    if (copier->entered >= 1) {
        if (copier->target)
            raw_free(driver, copier->target);
        raw_leave(driver);
    }
}

static bool measure_copy(struct copier *copier, unsigned copies)
{
    int result = 0;
    for (unsigned i = 0; i < copies && result == 0; i++)
        result = raw_copy(copier->driver, copier->target, copier->source, SIZE, copier->stream);
    if (!succeeded(copier, "a copy", result))
        return false;
    if (raw_finish(copier->driver, copier->stream, clock_now() + DEADLINE, &result))
        return true;
    return succeeded(copier, "a copy from GPU to GPU", result);
}

/* Bytes per second over about `budget`, after copies that make mappings and raise clocks. */
static double measure_rate(struct copier *copier, int64_t budget)
{
    if (!measure_copy(copier, 2))
        return NAN;
    int64_t start = clock_now();
    if (!measure_copy(copier, 2))
        return NAN;
    int64_t each = MAX((clock_now() - start) / 2, 1);
    unsigned copies = (unsigned)CLAMP(budget / each, 2, COPIES_MAX);
    start = clock_now();
    if (!measure_copy(copier, copies))
        return NAN;
    return (double)copies * (double)SIZE * 1e9 / (double)(clock_now() - start);
}

/* The driver that copies between these GPUs; NULL: none does. */
static struct raw_driver *driver_of(const struct info_link *link, unsigned *from, unsigned *to)
{
    struct raw_driver *driver = raw_driver_of(link->from->name, from);
    return raw_driver_of(link->to->name, to) == driver ? driver : NULL;
}

/* Copies between each two CUDA devices, for one second altogether. */
static void measure_links(struct info_report *report)
{
    struct info_link *links = (struct info_link *)(void *)report->links->data;
    unsigned count = 0, from, to;
    for (guint i = 0; i < report->links->len; i++)
        count += driver_of(&links[i], &from, &to) != NULL;
    if (count == 0)
        g_strlcpy(report->measure_reason,
                  "this machine has fewer than two CUDA devices, and fewer than two HIP devices",
                  sizeof(report->measure_reason));
    for (guint i = 0; count && i < report->links->len; i++) {
        struct copier copier = {.driver = driver_of(&links[i], &from, &to),
                                .reason = report->measure_reason,
                                .reason_size = sizeof(report->measure_reason)};
        if (!copier.driver || !raw_open(copier.driver, copier.reason, copier.reason_size))
            continue;
        if (set_up(&copier, from, to))
            links[i].measured = measure_rate(&copier, BUDGET / count);
        tear_down(&copier);
    }
}

/* === network ================================================================================= */

/* Size of a trial ring: a driver shows only by making a dma-buf whether it can. */
#define TRIAL_SIZE (UINT64_C(1) << 20)

/* address: as in gpud_device_get_nearest(). */
static void find_auto(struct gpud_context *context, const char *address, struct info_auto *found)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    struct gpud_error error;
    if (gpud_device_get_nearest(context, "auto", address, &info, found->reason, &error) == GPUD_OK)
        g_strlcpy(found->device, info.name, sizeof(found->device));
    else
        g_strlcpy(found->reason, error.reason, sizeof(found->reason));
}

/* The cards, their distance from each open device, and how they can use its memory. */
static enum gpud_status collect_network(struct info_report *report, struct gpud_context *context,
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
            find_auto(context, card->info.pci, &card->nearest);
        size_t to = find_part(report, card->info.pci);
        for (size_t device = 0; device < report->devices; device++) {
            size_t from = find_part(report, report->device[device].pci);
            if (open[device] && from < report->machine.parts && to < report->machine.parts)
                card->distance[device] = info_part_link(report, from, to)->distance;
        }
    }
    for (size_t device = 0; device < report->devices; device++) {
        struct info_export *export = &network->export[device];
        struct gpud_memory *memory = NULL;
        struct gpud_error refusal;
        uint64_t offset;
        int fd;
        if (!open[device] || !info_has_location(report, device))
            continue;
        export->dmabuf =
            gpud_memory_alloc(open[device], TRIAL_SIZE, GPUD_MEMORY_PLAIN, &memory, &refusal) ==
                GPUD_OK &&
            gpud_memory_export_dmabuf(memory, 0, TRIAL_SIZE, &fd, &offset, &refusal) == GPUD_OK;
        if (export->dmabuf)
            close(fd);
        else
            g_strlcpy(export->reason, refusal.reason, sizeof(export->reason));
        gpud_memory_unref(&memory);
    }
    return GPUD_OK;
}

/* === layer =================================================================================== */
/* The software DirectGMA layer. It is installed in the folder gpudirect beside libgpudirect, lies
 * beside it in a bundle, and in a folder of its own in a build. */

#define LAYER "libgpudirect-dgma-layer.so"

static int is_layer(struct dl_phdr_info *object, size_t size, void *user)
{
    char **loaded = user;
    if (!object->dlpi_name || !g_str_has_suffix(object->dlpi_name, "/" LAYER))
        return 0;
    *loaded = g_strdup(object->dlpi_name);
    return 1;
}

/* Call it after listing the devices: the OpenCL loader loads layers at its first call. */
static void find_layer(struct info_report *report)
{
    static const char *const places[] = {"gpudirect", "", "../plugins/dgma-layer"};
    struct info_layer *layer = &report->layer;
    Dl_info library;
    if (dladdr((void *)gpud_version_string, &library) && library.dli_fname) {
        char *directory = g_path_get_dirname(library.dli_fname);
        for (size_t i = 0; i < G_N_ELEMENTS(places) && !layer->path; i++) {
            char *joined = g_build_filename(directory, places[i], LAYER, NULL);
            layer->path = realpath(joined, NULL);
            g_free(joined);
        }
        g_free(directory);
    }
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

/* === collect ================================================================================= */

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

/* The routes from each open device to each, and the links between those on a bus. */
static void collect_pairs(struct info_report *report, struct gpud_device **open)
{
    for (size_t from = 0; from < report->devices; from++) {
        for (size_t to = 0; to < report->devices; to++) {
            struct info_pair pair = {.from = &report->device[from], .to = &report->device[to]};
            struct info_link link = {.from = pair.from,
                                     .to = pair.to,
                                     .link = GPUD_INFO_INIT(link.link),
                                     .measured = NAN};
            if (!open[from] || !open[to])
                continue;
            gpud_device_get_link(open[from], open[to], &link.link);
            pair.distance = link.link.distance;
            find_routes(open[from], open[to], false, &pair.between);
            find_routes(open[from], open[to], true, &pair.within);
            g_array_append_val(report->pairs, pair);
            if (from != to && info_is_on_bus(link.from) && info_is_on_bus(link.to))
                g_array_append_val(report->links, link);
        }
    }
}

/* host: may be NULL. */
static void find_location(const struct info_report *report, const struct gpud_device *device,
                          const struct gpud_device *host, const char *pci,
                          struct info_location *location)
{
    struct gpud_device_locality locality = GPUD_INFO_INIT(locality);
    struct gpud_device_link link = GPUD_INFO_INIT(link);
    size_t own = find_part(report, pci);
    gpud_device_get_locality(device, &locality);
    location->numa_node = locality.numa_node;
    g_strlcpy(location->cpus, locality.cpus, sizeof(location->cpus));
    if (host) {
        gpud_device_get_link(device, host, &link);
        location->host = link.distance;
    }
    for (size_t i = 0; own < report->machine.parts && i < report->machine.parts; i++) {
        const struct gpud_part_info *part = report->machine.part[i];
        bool is_network = part->kind == GPUD_PART_NETWORK;
        if (part->kind == GPUD_PART_GPU)
            continue;
        /* A network card has a name for each of its parts: "mlx5_0" and "eth0". */
        char *names = g_strdup_printf("%s %s", part->name, part->others);
        char **each = g_strsplit(g_strchomp(names), " ", is_network ? 0 : 2);
        size_t count = is_network ? g_strv_length(each) : 1;
        for (size_t k = 0; k < count && location->cards < G_N_ELEMENTS(location->card); k++) {
            struct info_near *card = &location->card[location->cards++];
            *card = (struct info_near){.part = part,
                                       .distance = info_part_link(report, own, i)->distance};
            g_strlcpy(card->name, each[k], sizeof(card->name));
        }
        g_strfreev(each);
        g_free(names);
    }
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
        struct gpud_device_info *info = &report->device[i];
        struct gpud_error refusal;
        info->size = sizeof(*info);
        gpud_device_list_get_info(list, i, info, NULL);
        if (info->available &&
            gpud_device_open(context, info->name, &open[i], &refusal) == GPUD_OK) {
            gpud_device_get_info(open[i], info);
        } else if (info->available) {
            info->available = false;
            g_strlcpy(info->reason, refusal.reason, sizeof(info->reason));
        }
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
    status = collect_network(report, context, open, error);
    if (measure)
        measure_links(report);
    for (size_t i = 0; i < report->devices; i++)
        gpud_device_close(&open[i]);
    return status;
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
    uint32_t count;
    enum gpud_status status = gpud_context_create(&params, &context, error);
    if (status != GPUD_OK)
        return status;
    report->pairs = g_array_new(FALSE, FALSE, sizeof(struct info_pair));
    report->captures = g_array_new(FALSE, FALSE, sizeof(struct info_capture));
    report->links = g_array_new(FALSE, FALSE, sizeof(struct info_link));
    status = gpud_topology_create(context, &report->topology, error);
    if (status == GPUD_OK) {
        report->machine.size = sizeof(report->machine);
        gpud_topology_get_info(report->topology, &report->machine);
        status = collect_devices(report, context, measure, error);
    }
    if (status == GPUD_OK)
        status = gpud_capture_card_list_create(context, &report->cards, &count, error);
    for (uint32_t i = 0; status == GPUD_OK && i < count; i++) {
        struct info_capture found = {.info = GPUD_INFO_INIT(found.info)};
        gpud_capture_card_list_get_info(report->cards, i, &found.info, NULL);
        find_auto(context, found.info.address, &found.nearest);
        g_array_append_val(report->captures, found);
    }
    find_layer(report);
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
    gpud_network_card_list_destroy(&report->network.list);
    if (report->network.cards)
        g_array_unref(report->network.cards);
    gpud_topology_destroy(&report->topology);
    g_ptr_array_unref(report->layer.helps);
    free(report->layer.path);
    g_free(report->layer.loaded);
    g_free(report->layer.hint);
}
