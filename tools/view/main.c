/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-view: shows a channel in a window, or says and writes what it would show. */
#include "view.h"

#include "ceilings/ceilings.h"
#include "clock.h"
#include "gstpicture.h"

#include <glib.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static int stages_measure(const char *const *arguments);

/* === stages ================================================================================== */

#define RUNS 5

static const char *const names[STAGES] = {
    [STAGE_PROCESS] = "the process, its libraries",
    [STAGE_GSTREAMER] = "GStreamer's formats",
    [STAGE_RECEIVER] = "the receiver",
    [STAGE_DISPLAY] = "SDL, the display",
    [STAGE_WINDOW] = "the window",
    [STAGE_RENDERER] = "the renderer, its driver",
    [STAGE_FONT] = "the font",
    [STAGE_FRAME] = "connection, first frame",
    [STAGE_PICTURE] = "texture, first picture shown",
};

static int64_t ended[STAGES];

void stages_end(enum stage stage)
{
    if (!ended[stage])
        ended[stage] = clock_now();
}

/* Writes what was noted to standard output, for stages_measure(). */
static void stages_write(void)
{
    for (int i = 0; i < STAGES && ended[STAGE_PICTURE]; i++)
        printf("%" PRId64 "\n", ended[i]);
    fflush(stdout);
}

static void die_with_parent(gpointer data)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* In ms, each from the end of the one before. What a second thread has done by then took none.
 * Returns the exit status of the start. */
static int stages_run_once(const char *const *arguments, double ms[STAGES])
{
    GError *error = NULL;
    gchar *text = NULL;
    gint status = 0;
    int64_t before = clock_now();
    bool good = g_spawn_sync(NULL, (gchar **)arguments, NULL, 0, die_with_parent, NULL, &text, NULL,
                             &status, &error) &&
                g_spawn_check_wait_status(status, &error);
    gchar **lines = g_strsplit(good ? text : "", "\n", 0);
    if (good && g_strv_length(lines) != STAGES + 1) {
        g_set_error(&error, G_SPAWN_ERROR, G_SPAWN_ERROR_FAILED, "no picture was shown");
        good = false;
    }
    for (int i = 0; good && i < STAGES; i++) {
        int64_t end = g_ascii_strtoll(lines[i], NULL, 10);
        ms[i] = (double)MAX(end - before, 0) / 1e6;
        before = MAX(before, end);
    }
    if (!good && error->domain != G_SPAWN_EXIT_ERROR) /* else it has said why */
        fprintf(stderr, "gpudirect-view: %s\n", error->message);
    int result = good                                  ? EXIT_SUCCESS
                 : error->domain == G_SPAWN_EXIT_ERROR ? error->code
                                                       : EXIT_FAILURE;
    g_clear_error(&error);
    g_strfreev(lines);
    g_free(text);
    return result;
}

/* Starts the program with these arguments several times, and prints the medians. Returns the exit
 * status. */
static int stages_measure(const char *const *arguments)
{
    double ms[RUNS][STAGES], sums[RUNS] = {0}, column[RUNS];
    for (int run = 0; run < RUNS; run++) {
        int result = stages_run_once(arguments, ms[run]);
        if (result != EXIT_SUCCESS)
            return result;
        for (int i = 0; i < STAGES; i++)
            sums[run] += ms[run][i];
    }
    printf("ms, medians of %d starts\n", RUNS);
    for (int i = 0; i < STAGES; i++) {
        for (int run = 0; run < RUNS; run++)
            column[run] = ms[run][i];
        printf("  %-30s%8.1f\n", names[i], stats_median(column, RUNS));
    }
    printf("  %-30s%8.1f\n", "in all", stats_median(sums, RUNS));
    return EXIT_SUCCESS;
}

/* === headless ================================================================================ */

/* Between two tries to connect that are refused at once. */
#define RETRY (200 * GPUD_MSEC)

static int64_t headless_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * GPUD_SEC + time.tv_nsec;
}

static bool save(struct source *source, struct gpud_frame *frame, const char *file,
                 struct gpud_error *error)
{
    struct picture picture;
    GstVideoFrame mapped;
    if (!picture_init(&picture, &source->media, error))
        return false;
    bool saved = picture_map(&picture, frame, &mapped, error);
    if (saved) {
        saved = png_write(&picture, &mapped, file, false, error);
        picture_unmap(frame, &mapped);
    }
    picture_finish(&picture);
    return saved;
}

static bool is_whole(const struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    return !(info.flags & GPUD_FRAME_CORRUPTED);
}

enum gpud_status headless_save(struct source *source, const char *file, int64_t timeout_ns,
                               struct gpud_error *error)
{
    int64_t end = headless_now() + timeout_ns;
    bool first = true;
    for (int64_t left = timeout_ns; first || left > 0; left = end - headless_now(), first = false) {
        struct gpud_frame *frame;
        enum gpud_status status = source_acquire(source, left, &frame, error);
        if (status == GPUD_OK && is_whole(frame)) {
            bool saved = save(source, frame, file, error);
            gpud_frame_release(&frame);
            return saved ? GPUD_OK : error->status;
        }
        if (status == GPUD_OK)
            gpud_frame_release(&frame);
        else if (status != GPUD_TIMEOUT) /* the next sender may do better */
            nanosleep(&(struct timespec){.tv_nsec = RETRY}, NULL);
    }
    return GPUD_TIMEOUT;
}

/* === main ==================================================================================== */
/* gpudirect-view: shows a channel in a window, or saves a picture of it. */

#define EXIT_USAGE 2
#define EXIT_TIMEOUT 3
#define TIMEOUT 10.0
#define TIMEOUT_MAX 86400.0

static const char summary[] =
    "Shows a channel of pictures in a window. It waits for a sender, and again after that has\n"
    "left; a slow display never makes the sender or other receivers wait.\n"
    "With --png: saves the next frame, and needs no display.";

static const char description[] =
    "ADDRESS is a sender's, as gpudirectsrc takes it: cam1, unix:/run/studio/cam1,\n"
    "rdma://10.0.0.1:7174/cam1.\n"
    "\n"
    "Keys:\n"
    "  i        show or hide the overlay: format, path and why there is no better one, frames a\n"
    "           second, the age of a picture when it is shown, frames lost at the sender "
    "(dropped)\n"
    "           and here (skipped, for a newer one)\n"
    "  s        save the next frame as a PNG file in the current folder\n"
    "  f        full screen\n"
    "  q, Esc   quit\n"
    "\n"
    "Formats that the display's driver takes are handed to it as they are; all others of\n"
    "GStreamer's raw formats are converted by the CPU. Pictures of a high dynamic range are not\n"
    "mapped to that of the display.\n"
    "\n"
    "Environment:\n"
    "  GPUDIRECT_LOG       error, warning, info or debug: the library's messages\n"
    "  SDL_VIDEODRIVER     x11 or wayland; SDL_RENDER_DRIVER: opengl, opengles2 or software\n"
    "\n"
    "Exit status: 0 success, also after Ctrl-C; 1 failure; 2 wrong usage; 3 with --png or\n"
    "--start-times: no frame in time.\n"
    "\n"
    "Examples:\n"
    "  gpudirect-view cam1\n"
    "  gpudirect-view --start-times cam1\n"
    "  gpudirect-view --png cam1.png --timeout 5 rdma://10.0.0.1:7174 --psk-file KEY";

struct options {
    struct source_options source;
    struct window_options window;
    const char *png;
    double timeout; /* negative: not given */
    bool start_times;
};

/* What is wrong with the options; NULL: nothing. */
static const char *find_mistake(const struct options *options, int arguments)
{
    if (arguments != 1)
        return "there is one argument, the address of a sender, such as cam1";
    if (options->timeout >= 0 && !options->png && !options->start_times &&
        !options->window.one_picture)
        return "--timeout goes with --png or --start-times";
    if (options->start_times && options->png)
        return "--start-times does not go with --png";
    if (options->window.full_screen && options->png)
        return "--full-screen does not go with --png";
    return NULL;
}

static int64_t patience_ns(const struct options *options)
{
    return (int64_t)((options->timeout >= 0 ? options->timeout : TIMEOUT) * 1e9);
}

static int main_run(const struct options *options)
{
    struct source source;
    struct gpud_error error;
    enum gpud_status status;
    stages_end(STAGE_PROCESS);
    picture_start();
    stages_end(STAGE_GSTREAMER);
    if (!source_open(&source, &options->source, &error)) {
        fprintf(stderr, "gpudirect-view: %s\n", error.reason);
        return error.status == GPUD_INVALID ? EXIT_USAGE : EXIT_FAILURE;
    }
    stages_end(STAGE_RECEIVER);
    if (options->png)
        status = headless_save(&source, options->png, patience_ns(options), &error);
    else
        status = window_run(&source, &options->window, &error) ? GPUD_OK : error.status;
    source_close(&source);
    if (options->window.one_picture)
        stages_write();
    if (status == GPUD_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "gpudirect-view: %s\n", error.reason);
    return status == GPUD_TIMEOUT ? EXIT_TIMEOUT : EXIT_FAILURE;
}

static int measure_start(const struct options *options)
{
    const struct source_options *source = &options->source;
    char timeout[32];
    g_snprintf(timeout, sizeof(timeout), "%g", (double)patience_ns(options) / 1e9);
    const char *arguments[10] = {"/proc/self/exe", "--one-picture", "--timeout", timeout};
    int count = 4;
    if (source->access) {
        arguments[count++] = "--access";
        arguments[count++] = source->access;
    }
    if (source->psk_file) {
        arguments[count++] = "--psk-file";
        arguments[count++] = source->psk_file;
    }
    arguments[count] = source->address;
    return stages_measure(arguments);
}

static gboolean parse_timeout(const gchar *name, const gchar *value, gpointer data, GError **error)
{
    struct options *options = data;
    char *end;
    options->timeout = g_ascii_strtod(value, &end);
    if (end != value && !*end && options->timeout >= 0 && options->timeout <= TIMEOUT_MAX)
        return TRUE;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--timeout takes a number of seconds up to 86400, not \"%s\"", value);
    return FALSE;
}

int main(int argc, char **argv)
{
    struct options options = {.timeout = -1};
    char *png = NULL, *access = NULL, *psk_file = NULL;
    gboolean full_screen = FALSE, start_times = FALSE, one_picture = FALSE, version = FALSE;
    const GOptionEntry entries[] = {
        {"png", 0, 0, G_OPTION_ARG_FILENAME, &png, "Save the next frame in FILE and exit", "FILE"},
        {"timeout", 0, 0, G_OPTION_ARG_CALLBACK, parse_timeout,
         "With --png or --start-times: how long to wait for a frame (default: 10)", "SECONDS"},
        {"full-screen", 0, 0, G_OPTION_ARG_NONE, &full_screen, "Begin with the full screen", NULL},
        {"access", 0, 0, G_OPTION_ARG_STRING, &access,
         "Whose sender it may be: user (default: this user), group:NAME, all", "WHO"},
        {"psk-file", 0, 0, G_OPTION_ARG_FILENAME, &psk_file,
         "The sender's key, for an address over a network", "FILE"},
        {"start-times", 0, 0, G_OPTION_ARG_NONE, &start_times,
         "Open the window five times, beside a sender, and print where the time goes", NULL},
        {"one-picture", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &one_picture,
         "Quit with the first picture, and print when each stage ended", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &version, "Print the version and exit", NULL},
        {NULL},
    };
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    GOptionContext *context = g_option_context_new("ADDRESS — shows a channel");
    GOptionGroup *group = g_option_group_new("", "", "", &options, NULL);
    g_option_group_add_entries(group, entries);
    g_option_context_set_main_group(context, group);
    g_option_context_set_summary(context, summary);
    g_option_context_set_description(context, description);
    GError *wrong = NULL;
    bool parsed = g_option_context_parse(context, &argc, &argv, &wrong);
    g_option_context_free(context);
    options.source = (struct source_options){argc > 1 ? argv[1] : NULL, access, psk_file};
    options.window = (struct window_options){options.source.address, full_screen, one_picture,
                                             one_picture ? patience_ns(&options) : -1};
    options.start_times = start_times;
    options.png = png;
    const char *mistake = !parsed   ? wrong->message
                          : version ? NULL
                                    : find_mistake(&options, argc - 1);
    int result = EXIT_SUCCESS;
    if (mistake) {
        fprintf(stderr, "gpudirect-view: %s (see --help)\n", mistake);
        result = EXIT_USAGE;
    } else if (version) {
        printf("gpudirect-view %s\n", gpud_version_string());
    } else if (start_times) {
        result = measure_start(&options);
    } else {
        result = main_run(&options);
    }
    g_clear_error(&wrong);
    g_free(png);
    g_free(access);
    g_free(psk_file);
    return result;
}
