/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The channels as text. The library has removed control characters from the senders' words. */
#include "info.h"

#include "channels/channels.h"

#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD GPUD_SEC

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

static void append_user(GString *line, int64_t user)
{
    if (user < 0 || user == geteuid())
        return;
    const struct passwd *known = getpwuid((uid_t)user);
    if (known)
        g_string_append_printf(line, " of %s", known->pw_name);
    else
        g_string_append_printf(line, " of user %" PRId64, user);
}

static void append_media(GString *line, const struct gpud_media *media)
{
    const struct gpud_layout *layout = &media->picture.layout;
    char text[GPUD_MEDIA_TEXT_MAX];
    if (media->kind == GPUD_MEDIA_PICTURE)
        g_string_append_printf(line, "%s %ux%u", layout->format, layout->width, layout->height);
    else if (gpud_media_to_string(media, text, sizeof(text), NULL) == GPUD_OK)
        g_string_append(line, text);
}

static void describe_channel(GString *line, const struct gpud_channel_info *info)
{
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
    append_process(line, info->pid, info->name[0] ? info->name : info->program, "");
    append_user(line, info->user);
    g_string_append_printf(line, ", on %s", info->device);
    if (info->links == 0)
        g_string_append(line, "; no receivers");
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
    if (link->phase == GPUD_PHASE_LEAVING)
        g_string_append(line, "; it said goodbye");
    if (link->fallback_reason[0])
        g_string_append_printf(line, "; not better, because %s", link->fallback_reason);
}

static void print_channel(const struct gpud_channel_list *channels, uint32_t index, int names)
{
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    GString *line = g_string_new(NULL);
    gpud_channel_list_get_info(channels, index, &info, NULL);
    if (info.answered)
        describe_channel(line, &info);
    else
        g_string_assign(line, info.reason);
    printf("  %-*s  ", names, info.address);
    info_print_wrapped(line->str, names + 4);
    for (uint32_t i = 0; i < info.links; i++) {
        g_string_truncate(line, 0);
        channels_describe_link(line, info.link[i]);
        printf("%*s→ ", names + 4, "");
        info_print_wrapped(line->str, names + 6);
    }
    g_string_free(line, TRUE);
}

/* --- receivers without a sender ----------------------------------------------------------------
 */

static void print_waiting(const GPtrArray *folders)
{
    GPtrArray *waiters = channels_collect_waiting(folders);
    gint64 now = g_get_real_time();
    int names = 4;
    for (guint i = 0; i < waiters->len; i++)
        names = MAX(names, (int)strlen(((struct channels_waiter *)waiters->pdata[i])->address));
    if (waiters->len > 0)
        printf("Receivers that wait for a sender\n");
    for (guint i = 0; i < waiters->len; i++) {
        const struct channels_waiter *waiter = waiters->pdata[i];
        GString *line = g_string_new(NULL);
        append_process(line, waiter->pid, waiter->name, "");
        g_string_append_printf(line, ", for %" PRId64 " s",
                               MAX(now - waiter->since, 0) / G_USEC_PER_SEC);
        printf("  %-*s  ", MIN(names, 40), waiter->address);
        info_print_wrapped(line->str, MIN(names, 40) + 4);
        g_string_free(line, TRUE);
    }
    g_ptr_array_unref(waiters);
}

/* --- the list ------------------------------------------------------------------------------ */

/* The folder of an address's socket; NULL: it has none. To be freed with g_free(). */
static char *path_of(const struct channels_folder *folder, const char *address)
{
    if (g_str_has_prefix(address, "unix:"))
        return g_path_get_dirname(address + strlen("unix:"));
    return strchr(address, ':') ? NULL : g_strdup(folder->search.directory);
}

/* Channels are sorted by folder, and each folder gets a heading. */
static void print_channels(const struct channels_folder *folder)
{
    size_t names = 4;
    char *path = NULL;
    for (uint32_t i = 0; i < folder->count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        gpud_channel_list_get_info(folder->channels, i, &info, NULL);
        names = MAX(names, strlen(info.address));
    }
    for (uint32_t i = 0; i < folder->count; i++) {
        struct gpud_channel_info info = GPUD_INFO_INIT(info);
        gpud_channel_list_get_info(folder->channels, i, &info, NULL);
        char *own = path_of(folder, info.address);
        if (own && g_strcmp0(own, path) != 0)
            printf("Channels in %s\n", own);
        g_free(path);
        path = own;
        print_channel(folder->channels, i, (int)MIN(names, 40));
    }
    g_free(path);
}

/* A sender may be out of sight, so an empty list says where it did not look. */
static void print_nothing(const struct channels_scope *scope,
                          const struct gpud_channel_search_info *search)
{
    if (search->note[0]) {
        printf("%c", g_ascii_toupper(search->note[0]));
        info_print_wrapped(search->note + 1, 0);
        return;
    }
    printf("No sender: there is no channel in %s\n", search->directory);
    if (!scope->folders)
        info_print_wrapped(
            scope->all_users
                ? "Not seen from here: senders in other containers, with another "
                  "XDG_RUNTIME_DIR, or on the network (rdma://). --channels ADDRESS asks one of "
                  "them, --directory FOLDER all with a socket there."
                : "Not seen from here: senders of other users, in other containers, with another "
                  "XDG_RUNTIME_DIR, or on the network (rdma://). --channels ADDRESS asks one of "
                  "them, --directory FOLDER all with a socket there, and --all-users, as root, "
                  "those of all users.",
            0);
}

static void print_folders(const struct channels_scope *scope, const GPtrArray *folders)
{
    const struct channels_folder *first = folders->pdata[0];
    size_t count = 0;
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        print_channels(folder);
        count += folder->count;
    }
    if (count == 0)
        print_nothing(scope, &first->search);
    print_waiting(folders);
    for (guint i = 0; i < folders->len; i++) {
        const struct channels_folder *folder = folders->pdata[i];
        if (folder->count > 0 && folder->search.note[0])
            printf("%s: %s\n", folder->search.directory, folder->search.note);
    }
}

/* --- once, or once a second ------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;

static void channels_stop(int signal)
{
    stopped = 1;
}

/* Waits for the next period, or until a signal. */
static void wait_for_period(struct timespec *next)
{
    next->tv_sec += PERIOD / GPUD_SEC;
    while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL) != 0)
        ;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > next->tv_sec) /* skips missed periods */
        *next = now;
}

static void print_metrics(const GPtrArray *folders)
{
    GPtrArray *channels = metrics_collect(folders);
    GString *text = metrics_format(channels, false);
    fputs(text->str, stdout);
    g_ptr_array_unref(channels);
    g_string_free(text, TRUE);
}

/* Of a channel that was asked for by its address: whether it answers. */
static bool answers(const struct channels_scope *scope, const GPtrArray *folders)
{
    const struct channels_folder *first = folders->pdata[0];
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    if (!scope->address || g_str_has_suffix(scope->address, "/")) /* all of a port */
        return true;
    if (first->count > 0)
        gpud_channel_list_get_info(first->channels, 0, &info, NULL);
    return info.answered;
}

/* *found: see answers(). */
static bool channels_show(const struct info_channels_options *options, bool *found)
{
    struct gpud_error error;
    bool terminal = options->watch && !options->json && isatty(STDOUT_FILENO);
    GPtrArray *folders = channels_ask(&options->scope, &error);
    if (!folders) {
        fprintf(stderr, "gpudirect-info: %s\n", error.reason);
        return false;
    }
    if (terminal)
        fputs("\033[H\033[2J", stdout);
    if (options->metrics)
        print_metrics(folders);
    else if (options->json)
        channels_print_json(folders, !options->watch);
    else
        print_folders(&options->scope, folders);
    if (options->watch && !options->json && !terminal)
        putchar('\n');
    *found = answers(&options->scope, folders);
    g_ptr_array_unref(folders);
    return fflush(stdout) == 0;
}

int info_show_channels(const struct info_channels_options *options)
{
    struct timespec next;
    if (options->scope.all_users && geteuid() != 0) {
        fprintf(stderr, "gpudirect-info: --all-users needs root: the folders of other users are "
                        "closed to this one (sudo gpudirect-info --channels --all-users)\n");
        return EXIT_FAILURE;
    }
    clock_gettime(CLOCK_MONOTONIC, &next);
    if (options->watch) {
        const struct sigaction action = {.sa_handler = channels_stop};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
    }
    bool found, shown = channels_show(options, &found);
    while (shown && options->watch && !stopped) {
        wait_for_period(&next);
        if (!stopped)
            shown = channels_show(options, &found);
    }
    /* Metrics have a value for a channel that is not there, and a watch waits for it to appear. */
    return shown && (found || options->metrics || options->watch) ? EXIT_SUCCESS : EXIT_FAILURE;
}
