/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The other end in a process of its own, to be stopped, paused and killed: runs the pipeline of its
 * command line until it ends. Where an element is called "src", and another one "end", "pause" and
 * "play" on its standard input are obeyed, then repeated on its standard output, and at the end of
 * the stream it says there how many frames came, and how many were lost: "end 200 0". */
#include <gst/gst.h>

#include <stdio.h>
#include <string.h>

static GstElement *pipeline, *src;

static void set_state(GstState state, const gchar *word)
{
    gst_element_set_state(pipeline, state);
    /* The source's own: a sink that has no picture never gets to PAUSED. */
    gst_element_get_state(src, NULL, NULL, GST_CLOCK_TIME_NONE);
    printf("%s\n", word);
    fflush(stdout);
}

static gpointer obey(gpointer nothing)
{
    gchar line[16];

    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "pause\n") == 0)
            set_state(GST_STATE_PAUSED, "pause");
        else if (strcmp(line, "play\n") == 0)
            set_state(GST_STATE_PLAYING, "play");
    }
    return NULL;
}

static GstPadProbeReturn count(GstPad *pad, GstPadProbeInfo *info, gpointer frames)
{
    g_atomic_int_inc((gint *)frames);
    return GST_PAD_PROBE_OK;
}

int main(int argc, char **argv)
{
    GError *error = NULL;
    gint frames = 0;

    gst_init(&argc, &argv);
    pipeline = gst_parse_launchv((const gchar **)argv + 1, &error);
    if (!pipeline || error) {
        g_printerr("%s\n", error ? error->message : "no pipeline");
        return 2;
    }
    src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    GstElement *end = gst_bin_get_by_name(GST_BIN(pipeline), "end");
    gboolean tells = src && end;
    if (tells) {
        g_autoptr(GstPad) pad = gst_element_get_static_pad(end, "sink");
        gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, count, &frames, NULL);
    }
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    if (tells)
        g_thread_unref(g_thread_new("obey", obey, NULL));
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    /* No test waits longer. */
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(bus, 120 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    gboolean ended = message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS;
    if (tells) {
        g_autoptr(GstStructure) stats = NULL;
        guint64 dropped = 0;
        g_object_get(src, "stats", &stats, NULL);
        gst_structure_get_uint64(stats, "dropped", &dropped);
        if (ended)
            printf("end %d %" G_GUINT64_FORMAT "\n", frames, dropped);
        else
            printf("no end\n");
        fflush(stdout);
        return 0; /* the command line's thread still reads */
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    return ended ? 0 : 1;
}
