/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info: the devices of this machine, and which route frames would take between them. */
#include "channels.h"
#include "info.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

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
