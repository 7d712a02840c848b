/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lets graphviz draw a picture. */
#include "info.h"

#include <gio/gio.h>
#include <string.h>

#define DEADLINE_S 60

const char *info_plot_format(const char *file)
{
    static const char *const formats[] = {"svg", "png"};
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot && i < G_N_ELEMENTS(formats); i++)
        if (g_ascii_strcasecmp(dot + 1, formats[i]) == 0)
            return formats[i];
    return NULL;
}

static enum gpud_status refuse(struct gpud_error *error, enum gpud_status status, const char *text,
                               const char *detail)
{
    *error = (struct gpud_error){.status = status};
    g_snprintf(error->reason, sizeof(error->reason), "%s%s", text, detail);
    return status;
}

struct run {
    GMainLoop *loop;
    GSubprocess *dot;
    char *complaint; /* its standard error */
    GError *failed;
    bool late;
};

static void end(GObject *source, GAsyncResult *result, gpointer user)
{
    struct run *run = user;
    g_subprocess_communicate_utf8_finish(run->dot, result, NULL, &run->complaint, &run->failed);
    g_main_loop_quit(run->loop);
}

static gboolean stop(gpointer user)
{
    struct run *run = user;
    run->late = true;
    g_subprocess_force_exit(run->dot);
    return G_SOURCE_REMOVE;
}

static enum gpud_status explain(struct run *run, struct gpud_error *error)
{
    if (run->late)
        return refuse(error, GPUD_TIMEOUT, "dot did not finish within a minute", "");
    if (run->failed)
        return refuse(error, GPUD_IO, "cannot write to dot: ", run->failed->message);
    if (g_subprocess_get_successful(run->dot))
        return GPUD_OK;
    return refuse(error, GPUD_IO, "dot failed: ",
                  run->complaint && run->complaint[0] ? g_strchomp(run->complaint)
                                                      : "without a message");
}

enum gpud_status info_draw_plot(const char *description, const char *file, struct gpud_error *error)
{
    char *format = g_strdup_printf("-T%s", info_plot_format(file));
    const char *const command[] = {"dot", format, "-o", file, NULL};
    GError *failed = NULL;
    struct run run = {
        .dot = g_subprocess_newv(
            command, G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE, &failed)};
    g_free(format);
    if (!run.dot) {
        bool missing = g_error_matches(failed, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT);
        enum gpud_status status =
            refuse(error, missing ? GPUD_UNSUPPORTED : GPUD_IO,
                   missing ? "pictures are drawn by graphviz, which is not installed (Debian: apt "
                             "install graphviz); --topology prints the same as text"
                           : "cannot start dot: ",
                   missing ? "" : failed->message);
        g_error_free(failed);
        return status;
    }
    run.loop = g_main_loop_new(NULL, FALSE);
    guint watchdog = g_timeout_add_seconds(DEADLINE_S, stop, &run);
    g_subprocess_communicate_utf8_async(run.dot, description, NULL, end, &run);
    g_main_loop_run(run.loop);
    if (!run.late)
        g_source_remove(watchdog);
    enum gpud_status status = explain(&run, error);
    g_main_loop_unref(run.loop);
    g_object_unref(run.dot);
    g_clear_error(&run.failed);
    g_free(run.complaint);
    return status;
}
