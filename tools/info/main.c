/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info: the devices of this machine, and which route frames would take between them. */
#include "channels.h"
#include "info.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_USAGE 2

static const char summary[] =
    "Shows the devices of this machine, the route that frames would take between each two of\n"
    "them and what speaks against the better ones, the network cards and what each of them can do\n"
    "for GPUs' memory, the capture cards, and the software DirectGMA layer. Where there are two\n"
    "GPUs or more, also what links them, as nvidia-smi topo -m has it.\n"
    "Moves no frame, and with --measure a second's worth of bytes.\n"
    "With --channels: who of this user sends what now, and to whom; a stream does not notice.";

static const char description[] =
    "Routes, best first:\n"
    "  map         receivers map the sender's memory: nothing is copied\n"
    "  peer        the sender's GPU writes into the receiver's GPU, by its copy engine\n"
    "  directgma   the sender's GPU writes into the receiver's GPU, over the bus\n"
    "  migrate     inside one process, the OpenCL driver moves the sender's slot to the other "
    "device\n"
    "  staged-push through host memory of the receiver's, where its driver pins no other\n"
    "  staged      through host memory of the sender's that both devices reach\n"
    "A route shown here is possible by what is known without moving a byte; when a link is made,\n"
    "a test frame decides. gpudirect-bench makes links and measures them.\n"
    "\n"
    "Environment:\n"
    "  OPENCL_LAYERS   layers for the OpenCL loader, such as libgpudirect-dgma-layer.so\n"
    "  GPUDIRECT_LOG   error, warning, info or debug: the library's messages, on standard error\n"
    "\n"
    "Exit status: 0, whatever was found; 1 the library does not work here; 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-info\n"
    "  gpudirect-info --plot machine.svg\n"
    "  gpudirect-info --channels --watch\n"
    "  gpudirect-info --json | jq '.routes[] | {from, to, route: .two_processes.route}'";

struct options {
    bool channels, watch, measure, topology;
    const char *plot;
};

/* What is wrong with the options together; NULL: nothing. */
static const char *find_contradiction(const struct options *options)
{
    if (options->watch && !options->channels)
        return "--watch goes with --channels";
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

int main(int argc, char **argv)
{
    gboolean topology = FALSE;
    char *plot = NULL;
    gboolean json = FALSE, measure = FALSE, version = FALSE, channels = FALSE, watch = FALSE;
    const GOptionEntry entries[] = {
        {"channels", 0, 0, G_OPTION_ARG_NONE, &channels,
         "Show the channels on which this user's programs send, and their receivers", NULL},
        {"watch", 0, 0, G_OPTION_ARG_NONE, &watch,
         "With --channels: once a second, until Ctrl-C; with --json one object a line", NULL},
        {"topology", 0, 0, G_OPTION_ARG_NONE, &topology,
         "Show GPUs, network cards and capture cards, what links each with each, and the routes",
         NULL},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &plot,
         "Draw the same into FILE, as SVG or PNG by its name (needs graphviz)", "FILE"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON, for programs", NULL},
        {"measure", 0, 0, G_OPTION_ARG_NONE, &measure,
         "Copy between each two CUDA devices, for a second in all, and say how fast it goes", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &version, "Print the version and exit", NULL},
        {NULL},
    };
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    GOptionContext *options = g_option_context_new("— devices and routes");
    g_option_context_set_summary(options, summary);
    g_option_context_set_description(options, description);
    g_option_context_add_main_entries(options, entries, NULL);
    GError *wrong = NULL;
    bool parsed = g_option_context_parse(options, &argc, &argv, &wrong);
    g_option_context_free(options);
    if (!parsed || argc > 1) {
        fprintf(stderr, "gpudirect-info: %s%s (see --help)\n",
                parsed ? "there are no arguments, only options: " : "",
                parsed ? argv[1] : wrong->message);
        g_clear_error(&wrong);
        return EXIT_USAGE;
    }
    if (version) {
        printf("gpudirect-info %s\n", gpud_version_string());
        return EXIT_SUCCESS;
    }

    const char *contradiction = find_contradiction(&(struct options){.channels = channels,
                                                                     .watch = watch,
                                                                     .measure = measure,
                                                                     .topology = topology,
                                                                     .plot = plot});
    if (contradiction) {
        fprintf(stderr, "gpudirect-info: %s (see --help)\n", contradiction);
        g_free(plot);
        return EXIT_USAGE;
    }
    if (channels)
        return info_show_channels(json, watch);

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
