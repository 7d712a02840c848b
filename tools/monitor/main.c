/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* gpudirect-monitor: channels and their receivers, live, as a web page or on the terminal.
 *
 *     main.c      options
 *     model.c     asks the channels, in a thread; the answers: rates, ten minutes, events, what is
 *                 gone and what is expected
 *     server.c    HTTP: the page (page/), the model as JSON and as metrics, thumbnails
 *     pictures.c  receivers that take a picture, or the levels of sound, a second; the picture as
 *                 JPEG, by ../gstpicture.c; whether it moves, is lit, is loud
 *     tui.c       the model on a terminal  */
/* clang-format on */
#include "monitor/monitor.h"

#include "gstpicture.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define TOKEN_MIN 16
#define TOKEN_MAX 256

static const char summary[] =
    "Shows the channels of this user, and those of the given addresses (tcp://host:port/name): "
    "what\n"
    "they send, to whom, by which route and why by no better one, frames per second, losses by\n"
    "cause, latencies, ten minutes of each, and what happened; and for a day those that are gone,\n"
    "and receivers that wait for a sender. As a web page, with a picture a second of each "
    "channel,\n"
    "and as metrics for Prometheus under /metrics; or with --tui on the terminal.";

static const char description[] =
    "Exit status: 0 ended by Ctrl-C or q; 1 it does not work here; 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-monitor                                     # then open http://127.0.0.1:8477/\n"
    "  gpudirect-monitor --tui\n"
    "  gpudirect-monitor tcp://10.0.0.1:7175/cam1\n"
    "  gpudirect-monitor --expect channels.txt               # one that is not there is an alarm\n"
    "  (umask 077 && openssl rand -hex 32 > token)\n"
    "  gpudirect-monitor --listen 10.0.0.2:8477 --token-file token";

struct options {
    gboolean tui, all_users, network, no_thumbnails, watch_content;
    char *listen, *token_file;
    struct monitor_keys keys;
    char **folders, **expect, **addresses;
};

struct monitor {
    GMainLoop *loop;
    struct monitor_model *model;
    struct monitor_thumbnails *thumbnails;
    struct monitor_server *server;
    struct monitor_tui *tui;
    bool watches; /* what is in the channels */
};

static void complain(const char *text)
{
    fprintf(stderr, "gpudirect-monitor: %s\n", text);
}

/* --- the token ------------------------------------------------------------------------------- */

/* A file, because other users see the words of a command line. */
static char *read_token(const char *file, GError **error)
{
    char text[TOKEN_MAX + 64];
    struct stat st;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t size = -1;
    bool found = fd >= 0 && fstat(fd, &st) == 0;
    if (found && (!S_ISREG(st.st_mode) || (st.st_mode & 077)))
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED,
                    "%s is not a file that only its user can read (chmod 600)", file);
    else if (!found || (size = read(fd, text, sizeof(text) - 1)) < 0)
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot read %s: %s", file,
                    g_strerror(errno));
    if (fd >= 0)
        close(fd);
    if (size < 0)
        return NULL;
    text[size] = '\0';
    size_t length = strlen(g_strstrip(text));
    bool printable = true;
    for (size_t i = 0; i < length; i++)
        printable &= g_ascii_isgraph(text[i]);
    if (printable && length >= TOKEN_MIN && length <= TOKEN_MAX)
        return g_strdup(text);
    g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                "%s has no token of %d to %d letters, digits or signs without blanks (openssl rand "
                "-hex 32 makes one)",
                file, TOKEN_MIN, TOKEN_MAX);
    return NULL;
}

/* --- at work --------------------------------------------------------------------------------- */

/* Of what is sent, as far as it is known by now. */
static void watch_content(struct monitor *monitor)
{
    for (guint i = 0; i < monitor->model->channels->len; i++) {
        struct monitor_channel *channel = monitor->model->channels->pdata[i];
        const struct gpud_channel_info *info = &channel->info;
        if (info->answered && info->configured && !info->ended &&
            (info->media.kind == GPUD_MEDIA_PICTURE || info->media.kind == GPUD_MEDIA_AUDIO))
            monitor_thumbnails_watch(monitor->thumbnails, info->address, &channel->content);
    }
}

static void take_answer(void *user, struct monitor_answer *answer)
{
    struct monitor *monitor = user;
    if (!answer->expect_error)
        monitor_model_expect(monitor->model, g_steal_pointer(&answer->expected));
    if (monitor->watches)
        watch_content(monitor);
    monitor_model_update(monitor->model, answer->asked, g_steal_pointer(&answer->folders),
                         answer->error.reason);
    if (answer->expect_error)
        monitor_model_note(monitor->model, answer->expect_error);
    if (monitor->tui)
        monitor_tui_draw(monitor->tui);
}

static void quit(void *user)
{
    struct monitor *monitor = user;
    g_main_loop_quit(monitor->loop);
}

static gboolean main_stop(gpointer user)
{
    quit(user);
    return G_SOURCE_CONTINUE;
}

static bool start_server(struct monitor *monitor, const struct options *options)
{
    GError *error = NULL;
    char *token = options->token_file ? read_token(options->token_file, &error) : NULL;
    if (!error)
        monitor->server =
            monitor_server_new(options->listen, token, monitor->model, monitor->thumbnails, &error);
    g_free(token);
    if (!monitor->server) {
        complain(error->message);
        g_error_free(error);
    } else if (!options->tui) {
        printf("gpudirect-monitor: %s%s\n", monitor_server_url(monitor->server),
               options->token_file ? " (it asks for the token)" : "");
        fflush(stdout);
    }
    return monitor->server;
}

static bool main_start(struct monitor *monitor, const struct options *options)
{
    struct gpud_error failure;
    bool serves = !options->tui || options->listen;
    monitor->watches = options->watch_content;
    if ((serves || options->watch_content) && !options->no_thumbnails) {
        monitor->thumbnails = monitor_thumbnails_new(&options->keys, &failure);
        if (!monitor->thumbnails) {
            complain(failure.reason);
            return false;
        }
    }
    if (serves && !start_server(monitor, options))
        return false;
    if (!options->tui)
        return true;
    monitor->tui = monitor_tui_new(monitor->model, quit, monitor);
    if (!monitor->tui)
        complain("--tui needs a terminal that it knows (see TERM)");
    return monitor->tui;
}

static int main_run(const struct options *options, const struct channels_scope *scope)
{
    struct monitor monitor = {.loop = g_main_loop_new(NULL, FALSE), .model = monitor_model_new()};
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    guint sources[G_N_ELEMENTS(signals)];
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
        sources[i] = g_unix_signal_add(signals[i], main_stop, &monitor);
    bool works = main_start(&monitor, options);
    if (works) {
        struct monitor_poll *poll =
            monitor_poll_start(scope, options->expect, take_answer, &monitor);
        g_main_loop_run(monitor.loop);
        monitor_poll_stop(poll);
    }
    g_clear_pointer(&monitor.tui, monitor_tui_free);
    g_clear_pointer(&monitor.server, monitor_server_free);
    g_clear_pointer(&monitor.thumbnails, monitor_thumbnails_free);
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++)
        g_source_remove(sources[i]);
    monitor_model_free(monitor.model);
    g_main_loop_unref(monitor.loop);
    return works ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run_in_scope(const struct options *options)
{
    struct gpud_error error;
    if (options->all_users && geteuid() != 0) {
        complain("--all-users needs root: the folders of other users are closed to this one");
        return EXIT_FAILURE;
    }
    GError *wrong = NULL;
    GHashTable *expected = options->expect ? monitor_expect_read(options->expect, &wrong) : NULL;
    g_clear_pointer(&expected, g_hash_table_unref);
    if (wrong) {
        complain(wrong->message);
        g_error_free(wrong);
        return EXIT_FAILURE;
    }
    char **folders = options->folders ? channels_resolve_folders(options->folders, &error) : NULL;
    if (options->folders && !folders) {
        complain(error.reason);
        return EXIT_FAILURE;
    }
    GPtrArray *more = g_ptr_array_new();
    if (options->network)
        g_ptr_array_add(more, (char *)GPUD_CHANNELS_NETWORK);
    for (char *const *given = options->addresses; *given; given++)
        g_ptr_array_add(more, *given);
    g_ptr_array_add(more, NULL);
    int result = main_run(options, &(struct channels_scope){.all_users = options->all_users,
                                                            .folders = folders,
                                                            .more = (char **)more->pdata,
                                                            .tolerant = true});
    g_ptr_array_unref(more);
    g_strfreev(folders);
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    gboolean version = FALSE;
    const GOptionEntry entries[] = {
        {"listen", 0, 0, G_OPTION_ARG_STRING, &options.listen,
         "Serve the page there instead of on 127.0.0.1:8477; what is not loopback needs a token",
         "ADDRESS:PORT"},
        {"token-file", 0, 0, G_OPTION_ARG_FILENAME, &options.token_file,
         "Answer only requests with the token in FILE (chmod 600)", "FILE"},
        {"tui", 0, 0, G_OPTION_ARG_NONE, &options.tui,
         "Show it on the terminal; no page without --listen", NULL},
        {"directory", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options.folders,
         "The channels with a socket in FOLDER, of any user; may be given again", "FOLDER"},
        {"all-users", 0, 0, G_OPTION_ARG_NONE, &options.all_users,
         "As root: the channels of all users, and of services", NULL},
        {"network", 0, 0, G_OPTION_ARG_NONE, &options.network,
         "Also the channels that hosts of the network announce (DNS-SD)", NULL},
        {"expect", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options.expect,
         "Report the channels of FILE that are not there: an address a line, and comments behind "
         "#; or a folder of such files; may be given again",
         "FILE"},
        {"no-thumbnails", 0, 0, G_OPTION_ARG_NONE, &options.no_thumbnails,
         "Connect to no channel, so that there are no pictures", NULL},
        {"watch-content", 0, 0, G_OPTION_ARG_NONE, &options.watch_content,
         "Connect to all channels, all the time, and report pictures that freeze or are black, and "
         "silent sound",
         NULL},
        {"psk-file", 0, 0, G_OPTION_ARG_FILENAME, &options.keys.psk_file,
         "The key of channels over a network, for their pictures", "FILE"},
        {"tls-certificate", 0, 0, G_OPTION_ARG_FILENAME, &options.keys.tls_certificate,
         "For channels at tcp:// addresses, instead of a key: this monitor's certificate", "FILE"},
        {"tls-key", 0, 0, G_OPTION_ARG_FILENAME, &options.keys.tls_key,
         "The certificate's private key", "FILE"},
        {"tls-ca", 0, 0, G_OPTION_ARG_FILENAME, &options.keys.tls_ca,
         "The authorities that the senders' certificates must be from", "FILE"},
        {"version", 0, 0, G_OPTION_ARG_NONE, &version, "Print the version and exit", NULL},
        {NULL},
    };
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    GOptionContext *context = g_option_context_new("[ADDRESS…] — channels, live");
    g_option_context_set_summary(context, summary);
    g_option_context_set_description(context, description);
    g_option_context_add_main_entries(context, entries, NULL);
    GError *wrong = NULL;
    int result = EXIT_USAGE;
    if (!g_option_context_parse(context, &argc, &argv, &wrong)) {
        fprintf(stderr, "gpudirect-monitor: %s (see --help)\n", wrong->message);
        g_error_free(wrong);
    } else if (version) {
        printf("gpudirect-monitor %s\n", gpud_version_string());
        result = EXIT_SUCCESS;
    } else if (options.folders && options.all_users) {
        complain("--directory and --all-users do not go together (see --help)");
    } else if (options.watch_content && options.no_thumbnails) {
        complain("--watch-content and --no-thumbnails do not go together (see --help)");
    } else if (!options.keys.tls_certificate != !options.keys.tls_key ||
               !options.keys.tls_certificate != !options.keys.tls_ca) {
        complain("--tls-certificate, --tls-key and --tls-ca go together (see --help)");
    } else {
        picture_start();
        options.addresses = &argv[1];
        result = run_in_scope(&options);
    }
    g_option_context_free(context);
    g_free(options.listen);
    g_free(options.token_file);
    g_strfreev(options.folders);
    g_strfreev(options.expect);
    g_free(options.keys.psk_file);
    g_free(options.keys.tls_certificate);
    g_free(options.keys.tls_key);
    g_free(options.keys.tls_ca);
    return result;
}
