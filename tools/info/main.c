/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-info: the devices of this machine, and which route frames would take between them; with
 * --channels, senders and their receivers as text, which needs no report. */
#include "info.h"

#include "channels/channels.h"

#include <inttypes.h>
#include <locale.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* === channels ================================================================================ */
/* The library has removed control characters from the senders' words. */

#define PERIOD GPUD_SEC

struct options {
    gboolean channels, metrics, json, watch, measure, topology, all_users, network, version;
    char *plot, **folders;
    const char *address;
};

/* --- one channel ------------------------------------------------------------------------------ */

static void append_time(GString *line, uint64_t ns)
{
    if (ns < 1000 * GPUD_USEC)
        g_string_append_printf(line, "%" PRIu64 " µs", ns / (uint64_t)GPUD_USEC);
    else if (ns < 10 * (uint64_t)GPUD_SEC)
        g_string_append_printf(line, "%" PRIu64 " ms", ns / (uint64_t)GPUD_MSEC);
    else
        g_string_append_printf(line, "%" PRIu64 " s", ns / (uint64_t)GPUD_SEC);
}

static void append_process(GString *line, int64_t pid, const char *program, const char *host)
{
    if (host[0])
        g_string_append_printf(line, "%s on %s", program[0] ? program : "a process", host);
    else if (pid > 0 && program[0])
        g_string_append_printf(line, "process %" PRId64 " (%s)", pid, program);
    else if (pid > 0)
        g_string_append_printf(line, "process %" PRId64, pid);
    else
        g_string_append_printf(line, "%s in another container", program[0] ? program : "a process");
}

static void append_media(GString *line, const struct gpud_media *media)
{
    const struct gpud_layout *layout = &media->picture.layout;
    char text[GPUD_MEDIA_TEXT_MAX] = "";
    if (media->kind == GPUD_MEDIA_PICTURE) {
        g_string_append_printf(line, "%s %ux%u", layout->format, layout->width, layout->height);
        return;
    }
    if (media->kind == GPUD_MEDIA_TENSOR)
        gpud_tensors_to_string(&media->tensors, text, sizeof(text));
    else
        gpud_media_to_string(media, text, sizeof(text), NULL);
    g_string_append(line, text);
}

static void describe_channel(GString *line, const struct gpud_channel_info *info)
{
    bool foreign = info->user >= 0 && info->user != geteuid();
    const struct passwd *known = foreign ? getpwuid((uid_t)info->user) : NULL;
    if (info->configured)
        append_media(line, &info->media);
    else
        g_string_append(line, "no format yet");
    if (info->rate > 0)
        g_string_append_printf(line, ", %.4g/s", info->rate);
    if (info->age_ns != GPUD_TIME_NONE) {
        g_string_append_printf(line, ", %" PRIu64 " frames, the last one ", info->frames);
        append_time(line, info->age_ns);
        g_string_append(line, " ago");
    } else {
        g_string_append(line, ", no frame yet");
    }
    if (info->ended)
        g_string_append(line, ", its stream has ended");
    if (info->dropped)
        g_string_append_printf(line, ", %" PRIu64 " dropped for slow receivers", info->dropped);
    g_string_append(line, "; ");
    const char *place = info->pid > 0 ? NULL : gpud_address_get_host(info->address);
    char *host = g_strndup(place ? place : "", place ? strcspn(place, "/") : 0);
    char *port = strrchr(host, ':');
    if (port && !strchr(port, ']'))
        *port = '\0';
    append_process(line, info->pid, info->name[0] ? info->name : info->program, host);
    g_free(host);
    if (known)
        g_string_append_printf(line, " of %s", known->pw_name);
    else if (foreign)
        g_string_append_printf(line, " of user %" PRId64, info->user);
    g_string_append_printf(line, ", on %s", info->device);
    if (info->links == 0)
        g_string_append(line, "; no receivers");
}

/* What another host says of a channel. */
static void describe_announced(GString *line, const struct gpud_channel_info *info)
{
    if (info->configured) {
        append_media(line, &info->media);
        g_string_append(line, "; ");
    }
    g_string_append_printf(line, "on %s (%s%s), %s", info->host, info->host_address,
                           info->own_host ? ", this host" : "",
                           info->encrypted ? "encrypted" : "not encrypted");
}

static void channels_describe_link(GString *line, const struct gpud_link_info *link)
{
    append_process(line, link->pid, link->name, link->host);
    if (link->phase == GPUD_PHASE_CONNECTING) {
        g_string_append(line, ": connecting");
        return;
    }
    g_string_append_printf(line, ": %s to %s, %" PRIu64 " frames, %" PRIu64 " dropped, holds %u",
                           link->path, link->device, link->delivered, link->dropped, link->held);
    if (link->waiting)
        g_string_append_printf(line, ", %" PRIu64 " wait for it", link->waiting);
    if (link->latency_ns) {
        g_string_append(line, ", latency ");
        append_time(line, link->latency_ns);
    }
    if (link->encrypted[0])
        g_string_append_printf(line, "; encrypted: %s", link->encrypted);
    if (link->phase == GPUD_PHASE_LEAVING)
        g_string_append(line, "; it said goodbye");
    if (link->degraded)
        g_string_append_printf(line, "; worse than the devices allow (%s), because %s",
                               channels_degraded_name(link->degraded), link->fallback_reason);
    else if (link->fallback_reason[0])
        g_string_append_printf(line, "; not better, because %s", link->fallback_reason);
}

/* --- receivers without a sender ----------------------------------------------------------------
 */

static void print_waiting(const GPtrArray *folders)
{
    GPtrArray *waiters = channels_collect_waiting(folders);
    gint64 now = g_get_real_time();
    int names = 4;
    if (waiters->len > 0)
        printf("Receivers that wait for a sender\n");
    for (guint i = 0; i < waiters->len; i++)
        names = MAX(names, (int)strlen(((struct channels_waiter *)waiters->pdata[i])->address));
    for (guint i = 0; i < waiters->len; i++) {
        const struct channels_waiter *waiter = waiters->pdata[i];
        GString *line = g_string_new(NULL);
        append_process(line, waiter->pid, waiter->name, "");
        g_string_append_printf(line, ", for %" PRId64 " s",
                               MAX(now - waiter->since, 0) / G_USEC_PER_SEC);
        printf("  %-*s  ", MIN(names, 40), waiter->address);
        info_print_wrapped(MIN(names, 40) + 4, "%s", line->str);
        g_string_free(line, TRUE);
    }
    g_ptr_array_unref(waiters);
}

/* --- the list ------------------------------------------------------------------------------ */

/* Channels are sorted by folder, and each folder gets a heading. */
static void print_channels(const struct channels_folder *folder)
{
    size_t longest = 4;
    char *path = NULL;
    for (uint32_t i = 0; i < folder->count; i++)
        longest = MAX(longest, strlen(folder->channel[i].address));
    int names = (int)MIN(longest, 40);
    for (uint32_t i = 0; i < folder->count; i++) {
        const struct gpud_channel_info *info = &folder->channel[i];
        GString *line = g_string_new(NULL);
        /* Of an address on the network there is no socket, and no folder. */
        char *own = g_str_has_prefix(info->address, "unix:")
                        ? g_path_get_dirname(info->address + strlen("unix:"))
                    : strchr(info->address, ':') ? NULL
                                                 : g_strdup(folder->search.directory);
        if (own && g_strcmp0(own, path) != 0)
            printf("Channels in %s\n", own);
        g_free(path);
        path = own;
        if (info->answered)
            describe_channel(line, info);
        else if (info->announced)
            describe_announced(line, info);
        else
            g_string_assign(line, info->reason);
        printf("  %-*s  ", names, info->address);
        info_print_wrapped(names + 4, "%s", line->str);
        for (uint32_t k = 0; k < info->links; k++) {
            g_string_truncate(line, 0);
            channels_describe_link(line, info->link[k]);
            bool bold = info->link[k]->degraded && isatty(STDOUT_FILENO);
            printf("%*s→ %s", names + 4, "", bold ? "\033[1m" : "");
            info_print_wrapped(names + 6, "%s", line->str);
            if (bold)
                fputs("\033[0m", stdout);
        }
        g_string_free(line, TRUE);
    }
    g_free(path);
}

/* A sender may be out of sight, so an empty list says where it did not look. */
static void print_nothing(const struct options *options,
                          const struct gpud_channel_search_info *search)
{
    if (search->note[0]) {
        printf("%c", g_ascii_toupper(search->note[0]));
        info_print_wrapped(0, "%s", search->note + 1);
        return;
    }
    printf("No sender: there is no channel in %s\n", search->directory);
    if (!options->folders && !options->network)
        info_print_wrapped(
            0,
            "Not seen from here: senders %sin other containers, with another "
            "GPUDIRECT_DIR or XDG_RUNTIME_DIR, or on the network. --channels ADDRESS "
            "asks one of them, --directory FOLDER all with a socket there, --network "
            "what other hosts announce%s.",
            options->all_users ? "" : "of other users, ",
            options->all_users ? "" : ", and --all-users, as root, those of all users");
}

static bool is_network(const struct channels_folder *folder)
{
    return strcmp(folder->search.directory, GPUD_CHANNELS_NETWORK) == 0;
}

static void print_folders(const struct options *options, const GPtrArray *folders)
{
    const struct channels_folder *first = folders->pdata[0];
    size_t count = 0;
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        if (is_network(folder))
            continue;
        print_channels(folder);
        count += folder->count;
    }
    if (count == 0)
        print_nothing(options, &first->search);
    print_waiting(folders);
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        if (!is_network(folder)) {
            if (folder->count > 0 && folder->search.note[0])
                printf("%s: %s\n", folder->search.directory, folder->search.note);
            continue;
        }
        printf("Channels that hosts of the network announce%s\n",
               folder->count > 0 || folder->search.note[0] ? "" : ": none");
        print_channels(folder);
        if (folder->search.note[0]) {
            printf("  ");
            info_print_wrapped(2, "%s", folder->search.note);
        }
    }
}

/* --- once, or once a second ------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void channels_stop(int signal)
{
    stopped = 1;
}

/* *found: whether the channel of a single address answers. */
static bool show_once(const struct options *options, const struct channels_scope *scope,
                      bool *found)
{
    struct gpud_error error;
    bool terminal = options->watch && !options->json && isatty(STDOUT_FILENO);
    GPtrArray *folders = channels_ask(scope, &error);
    if (!folders) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        return false;
    }
    if (terminal)
        fputs("\033[H\033[2J", stdout);
    if (options->metrics) {
        GPtrArray *channels = metrics_collect(folders);
        GString *text = metrics_format(channels, false);
        fputs(text->str, stdout);
        g_ptr_array_unref(channels);
        g_string_free(text, TRUE);
    } else if (options->json) {
        channels_print_json(folders, !options->watch);
    } else {
        print_folders(options, folders);
    }
    if (options->watch && !options->json && !terminal)
        putchar('\n');
    const struct channels_folder *first = folders->pdata[0];
    *found = (first->count > 0 && first->channel[0].answered) || !scope->address ||
             g_str_has_suffix(scope->address, "/");
    g_ptr_array_unref(folders);
    return fflush(stdout) == 0;
}

/* Returns the exit status. */
static int show_channels(const struct options *options)
{
    struct gpud_error error;
    struct timespec next, now;
    char *network[] = {GPUD_CHANNELS_NETWORK, NULL};
    struct channels_scope scope = {.all_users = options->all_users,
                                   .address = options->address,
                                   .more = options->network ? network : NULL};
    if (options->all_users && geteuid() != 0) {
        fprintf(stderr, "gpudirect-info: --all-users needs root: the folders of other users are "
                        "closed to this one (sudo gpudirect-info --channels --all-users)\n");
        return EXIT_FAILURE;
    }
    char **folders = options->folders ? channels_resolve_folders(options->folders, &error) : NULL;
    if (options->folders && !folders) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        return EXIT_FAILURE;
    }
    scope.folders = folders;
    clock_gettime(CLOCK_MONOTONIC, &next);
    if (options->watch) {
        const struct sigaction action = {.sa_handler = channels_stop};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
    }
    bool found, shown = show_once(options, &scope, &found);
    while (shown && options->watch && !stopped) {
        next.tv_sec += PERIOD / GPUD_SEC;
        while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
            ;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > next.tv_sec) /* skips missed periods */
            next = now;
        if (!stopped)
            shown = show_once(options, &scope, &found);
    }
    g_strfreev(folders);
    /* Metrics have a value for a channel that is not there, and a watch waits for it to appear. */
    return shown && (found || options->metrics || options->watch) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* === main ==================================================================================== */

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
    "  gpudirect-info --channels --network\n"
    "  gpudirect-info --channels unix:/run/studio/cam1\n"
    "  gpudirect-info --metrics | sponge /var/lib/prometheus/node-exporter/gpudirect.prom\n"
    "  gpudirect-info --json | jq '.routes[] | {from, to, route: .two_processes.route}'";

/* The contradiction between the options; NULL: none. */
static const char *find_contradiction(const struct options *options)
{
    if (options->metrics && (options->json || options->watch))
        return "--json and --watch do not go with --metrics";
    if ((options->watch || options->folders || options->all_users || options->network) &&
        !options->channels)
        return "--watch, --directory, --all-users and --network go with --channels";
    if (options->network && (options->address || options->metrics))
        return "--network does not go with an address or --metrics";
    if (!!options->address + !!options->folders + options->all_users > 1)
        return "an address, --directory and --all-users do not go together";
    if (options->channels && (options->measure || options->topology || options->plot))
        return "--measure, --topology and --plot do not go with --channels";
    if (options->plot && !info_plot_format(options->plot))
        return "--plot draws FILE.svg or FILE.png";
    return NULL;
}

static int show_report(const struct options *options)
{
    struct info_report *report = g_new0(struct info_report, 1);
    struct gpud_error error;
    if (info_collect(report, options->measure, &error) != GPUD_OK) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        g_free(report);
        return EXIT_FAILURE;
    }
    int result = EXIT_SUCCESS;
    if (options->plot && info_draw_plot(report, options->plot, &error) != GPUD_OK) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        result = EXIT_FAILURE;
    }
    if (options->json)
        info_print_json(report);
    else if (options->topology)
        info_print_topology(report);
    else if (!options->plot)
        info_print_text(report);
    info_free(report);
    g_free(report);
    return fflush(stdout) == 0 ? result : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct options given = {0};
    const GOptionEntry entries[] = {
        {"channels", 0, 0, G_OPTION_ARG_NONE, &given.channels,
         "Show this user's senders and their receivers; with an address only that one, of any "
         "user",
         NULL},
        {"directory", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &given.folders,
         "With --channels: the senders with a socket in FOLDER, of any user; may be given again",
         "FOLDER"},
        {"all-users", 0, 0, G_OPTION_ARG_NONE, &given.all_users,
         "With --channels, as root: the senders of all users", NULL},
        {"network", 0, 0, G_OPTION_ARG_NONE, &given.network,
         "With --channels: also what hosts of the network announce (DNS-SD), in about a second",
         NULL},
        {"watch", 0, 0, G_OPTION_ARG_NONE, &given.watch,
         "With --channels: repeat every second until Ctrl-C; with --json one object a line", NULL},
        {"metrics", 0, 0, G_OPTION_ARG_NONE, &given.metrics,
         "Show the same as --channels as metrics, for the textfile collector of Prometheus", NULL},
        {"topology", 0, 0, G_OPTION_ARG_NONE, &given.topology,
         "Show GPUs, network cards and capture cards, the links between them, and the routes",
         NULL},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &given.plot,
         "Draw the same into FILE.svg or FILE.png (needs graphviz)", "FILE"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &given.json, "Print JSON", NULL},
        {"measure", 0, 0, G_OPTION_ARG_NONE, &given.measure,
         "Measure copies between each two GPUs of one vendor, for about a second in all", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &given.version, "Print the version and exit", NULL},
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
    given.channels |= given.metrics;
    given.address = argv[1];
    const char *surplus = argc > 1 + given.channels ? argv[1 + given.channels] : NULL;
    const char *contradiction = find_contradiction(&given);
    int result = EXIT_USAGE;
    if (!parsed || surplus) {
        fprintf(stderr, "gpudirect-info: %s%s (see --help)\n",
                !parsed          ? ""
                : given.channels ? "there is one address at most, and not also "
                                 : "there are no arguments without --channels, only options: ",
                parsed ? surplus : wrong->message);
        g_clear_error(&wrong);
    } else if (given.version) {
        printf("gpudirect-info %s\n", gpud_version_string());
        result = EXIT_SUCCESS;
    } else if (contradiction) {
        fprintf(stderr, "gpudirect-info: %s (see --help)\n", contradiction);
    } else {
        result = given.channels ? show_channels(&given) : show_report(&given);
    }
    g_free(given.plot);
    g_strfreev(given.folders);
    return result;
}
