/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info: options, and what is collected and measured for all reports. */
#include "info.h"

#include "ceilings/ceilings.h"
#include "clock.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void measure_measure(struct info_link *link, int64_t budget, struct info_report *report)
{
    unsigned from, to;
    struct copier copier = {.driver = driver_of(link, &from, &to),
                            .reason = report->measure_reason,
                            .reason_size = sizeof(report->measure_reason)};
    if (!copier.driver || !raw_open(copier.driver, copier.reason, copier.reason_size))
        return;
    if (set_up(&copier, from, to))
        link->measured = measure_rate(&copier, budget);
    tear_down(&copier);
}

void info_measure_links(struct info_report *report)
{
    unsigned count = 0, from, to;
    for (guint i = 0; i < report->links->len; i++)
        count += driver_of(&g_array_index(report->links, struct info_link, i), &from, &to) != NULL;
    if (count == 0)
        g_strlcpy(report->measure_reason,
                  "this machine has fewer than two CUDA devices, and fewer than two HIP devices",
                  sizeof(report->measure_reason));
    for (guint i = 0; count && i < report->links->len; i++)
        measure_measure(&g_array_index(report->links, struct info_link, i), BUDGET / count, report);
}

/* === collect ================================================================================= */
/* Collects the report. Devices are opened, not only listed: some show only then what they lack. */

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

static void collect_open_device(struct gpud_context *context, struct gpud_device_info *info,
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
static void collect_add_card(struct info_location *location, const struct gpud_part_info *part,
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
            collect_add_card(location, report->machine.part[i],
                             info_part_link(report, own, i)->distance);
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
            collect_open_device(context, &report->device[i], &open[i]);
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

/* === main ==================================================================================== */
/* gpudirect-info: the devices of this machine, and which route frames would take between them. */

#define EXIT_USAGE 2

static const char summary[] =
    "Shows the devices of this machine, the route that frames would take between each two of\n"
    "them and the reasons against better ones, the network cards and how they can use GPUs'\n"
    "memory, the capture cards, and the software DirectGMA layer. With two GPUs or more, also\n"
    "the links between them, like nvidia-smi topo -m.\n"
    "Moves no frames; --measure copies for about a second.\n"
    "With --channels: senders and their receivers. Streams are not disturbed.";

static const char description[] =
    "Routes, best first:\n"
    "  map         receivers map the sender's memory: nothing is copied\n"
    "  peer        the sender's GPU writes into the receiver's GPU, by its copy engine\n"
    "  directgma   the sender's GPU writes into the receiver's GPU, over the bus\n"
    "  migrate     inside one process, the OpenCL driver moves the sender's slot to the other "
    "device\n"
    "  staged-push through host memory of the receiver, if its driver can pin no other\n"
    "  staged      through host memory of the sender that both devices can reach\n"
    "The routes shown here are possible as far as is known without moving data; a test frame\n"
    "decides when a link is made. gpudirect-bench makes links and measures them.\n"
    "\n"
    "Environment:\n"
    "  OPENCL_LAYERS   layers for the OpenCL loader, such as libgpudirect-dgma-layer.so\n"
    "  GPUDIRECT_LOG   error, warning, info or debug: the library's messages, on standard error\n"
    "\n"
    "Exit status: 0 success; 1 the library does not work here, or the channel of --channels\n"
    "ADDRESS does not answer; 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-info\n"
    "  gpudirect-info --plot machine.svg\n"
    "  gpudirect-info --channels --watch\n"
    "  gpudirect-info --channels unix:/run/studio/cam1\n"
    "  gpudirect-info --metrics | sponge /var/lib/prometheus/node-exporter/gpudirect.prom\n"
    "  gpudirect-info --json | jq '.routes[] | {from, to, route: .two_processes.route}'";

struct options {
    bool channels, metrics, json, watch, measure, topology, all_users;
    const char *plot, *address;
    char **folders;
};

/* The contradiction between the options; NULL: none. */
static const char *find_contradiction(const struct options *options)
{
    if (options->metrics && (options->json || options->watch))
        return "--json and --watch do not go with --metrics";
    if ((options->watch || options->folders || options->all_users) && !options->channels)
        return "--watch, --directory and --all-users go with --channels";
    if (!!options->address + !!options->folders + options->all_users > 1)
        return "an address, --directory and --all-users do not go together";
    if (options->channels && (options->measure || options->topology || options->plot))
        return "--measure, --topology and --plot do not go with --channels";
    if (options->plot && !info_plot_format(options->plot))
        return "--plot draws FILE.svg or FILE.png";
    return NULL;
}

static int draw(const struct info_report *report, const char *file)
{
    struct gpud_error error;
    char *picture = info_describe_plot(report);
    enum gpud_status status = info_draw_plot(picture, file, &error);
    g_free(picture);
    if (status == GPUD_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gpudirect-info: %s\n", error.reason);
    return EXIT_FAILURE;
}

static int show_channels(const struct options *options)
{
    struct gpud_error error;
    char **folders = options->folders ? channels_resolve_folders(options->folders, &error) : NULL;
    if (options->folders && !folders) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        return EXIT_FAILURE;
    }
    int result = info_show_channels(&(struct info_channels_options){
        .scope = {.all_users = options->all_users, .address = options->address, .folders = folders},
        .json = options->json,
        .metrics = options->metrics,
        .watch = options->watch,
    });
    g_strfreev(folders);
    return result;
}

int main(int argc, char **argv)
{
    gboolean topology = FALSE, all_users = FALSE, metrics = FALSE;
    char *plot = NULL, **folders = NULL;
    gboolean json = FALSE, measure = FALSE, version = FALSE, channels = FALSE, watch = FALSE;
    const GOptionEntry entries[] = {
        {"channels", 0, 0, G_OPTION_ARG_NONE, &channels,
         "Show this user's senders and their receivers; with an address only that one, of any "
         "user",
         NULL},
        {"directory", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &folders,
         "With --channels: the senders with a socket in FOLDER, of any user; may be given again",
         "FOLDER"},
        {"all-users", 0, 0, G_OPTION_ARG_NONE, &all_users,
         "With --channels, as root: the senders of all users", NULL},
        {"watch", 0, 0, G_OPTION_ARG_NONE, &watch,
         "With --channels: repeat every second until Ctrl-C; with --json one object a line", NULL},
        {"metrics", 0, 0, G_OPTION_ARG_NONE, &metrics,
         "Show the same as --channels as metrics, for the textfile collector of Prometheus", NULL},
        {"topology", 0, 0, G_OPTION_ARG_NONE, &topology,
         "Show GPUs, network cards and capture cards, the links between them, and the routes",
         NULL},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &plot,
         "Draw the same into FILE.svg or FILE.png (needs graphviz)", "FILE"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL},
        {"measure", 0, 0, G_OPTION_ARG_NONE, &measure,
         "Measure copies between each two GPUs of one vendor, for about a second in all", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &version, "Print the version and exit", NULL},
        {NULL},
    };
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    GOptionContext *options = g_option_context_new("[--channels [ADDRESS]] — devices and routes");
    g_option_context_set_summary(options, summary);
    g_option_context_set_description(options, description);
    g_option_context_add_main_entries(options, entries, NULL);
    GError *wrong = NULL;
    bool parsed = g_option_context_parse(options, &argc, &argv, &wrong);
    g_option_context_free(options);
    channels |= metrics;
    const char *surplus = argc > 1 + channels ? argv[1 + channels] : NULL;
    if (!parsed || surplus) {
        fprintf(stderr, "gpudirect-info: %s%s (see --help)\n",
                !parsed    ? ""
                : channels ? "there is one address at most, and not also "
                           : "there are no arguments without --channels, only options: ",
                parsed ? surplus : wrong->message);
        g_clear_error(&wrong);
        return EXIT_USAGE;
    }
    if (version) {
        printf("gpudirect-info %s\n", gpud_version_string());
        return EXIT_SUCCESS;
    }

    const struct options given = {.channels = channels,
                                  .metrics = metrics,
                                  .json = json,
                                  .watch = watch,
                                  .measure = measure,
                                  .topology = topology,
                                  .all_users = all_users,
                                  .plot = plot,
                                  .folders = folders,
                                  .address = argv[1]};
    const char *contradiction = find_contradiction(&given);
    if (contradiction) {
        fprintf(stderr, "gpudirect-info: %s (see --help)\n", contradiction);
        g_free(plot);
        g_strfreev(folders);
        return EXIT_USAGE;
    }
    if (channels) {
        int shown = show_channels(&given);
        g_strfreev(folders);
        return shown;
    }

    struct info_report *report = g_new0(struct info_report, 1);
    struct gpud_error error;
    if (info_collect(report, measure, &error) != GPUD_OK) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        g_free(report);
        return EXIT_FAILURE;
    }
    int result = EXIT_SUCCESS;
    if (plot)
        result = draw(report, plot);
    if (json)
        info_print_json(report);
    else if (topology)
        info_print_topology(report);
    else if (!plot)
        info_print_text(report);
    info_free(report);
    g_free(report);
    g_free(plot);
    return fflush(stdout) == 0 ? result : EXIT_FAILURE;
}
