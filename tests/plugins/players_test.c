/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme by its URI in players: picture and sound. */
#include "pipes.h"

#define PICTURES "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=ADDRESS "
#define BEEPS "audiotestsrc is-live=true samplesperbuffer=480 ! gpudirectsink address=ADDRESS"
#define DATA                                                               \
    "fakesrc is-live=true sizetype=fixed do-timestamp=true format=time ! " \
    "application/octet-stream ! gpudirectsink address=ADDRESS/data"

/* counts: of pictures, and of blocks of sound. */
static void count(GstElement *sink, GstBuffer *buffer, GstPad *pad, gint *counts)
{
    GstCaps *caps = gst_pad_get_current_caps(pad);
    const gchar *type = gst_structure_get_name(gst_caps_get_structure(caps, 0));

    if (g_str_has_prefix(type, "video/"))
        g_atomic_int_inc(&counts[0]);
    if (g_str_has_prefix(type, "audio/"))
        g_atomic_int_inc(&counts[1]);
    gst_caps_unref(caps);
}

static GstElement *counter(gint *counts)
{
    GstElement *sink = gst_element_factory_make("fakesink", NULL);

    g_object_set(sink, "signal-handoffs", TRUE, NULL);
    g_signal_connect(sink, "handoff", G_CALLBACK(count), counts);
    return sink;
}

/* For decoders: each pad gets a sink. */
static void link_counter(GstElement *decoder, GstPad *pad, gpointer counts)
{
    GstElement *sink = counter(counts);
    g_autoptr(GstObject) pipeline = gst_object_get_parent(GST_OBJECT(decoder));
    g_autoptr(GstPad) to = gst_element_get_static_pad(sink, "sink");

    g_object_set(sink, "async", FALSE, NULL);
    gst_bin_add(GST_BIN(pipeline), sink);
    fail_unless_equals_int(gst_pad_link(pad, to), GST_PAD_LINK_OK);
    gst_element_sync_state_with_parent(sink);
}

static GstElement *make_player(const gchar *factory, const gchar *parameters, gint *counts)
{
    g_autofree gchar *uri = g_strdup_printf(
        "gpudirect%s%s%s", strstr(ends_own(), "://") ? "+" : "://", ends_own(), parameters);
    GstElement *player = gst_element_factory_make(factory, NULL);

    fail_unless(player != NULL, "no %s", factory);
    g_object_set(player, "uri", uri, NULL);
    if (GST_IS_PIPELINE(player)) {
        /* With sound without deinterlace, for which playsink of GStreamer 1.22 rebuilds its chain
         * while caps are on their way through it: sometimes it loses them. */
        if (!*parameters)
            gst_util_set_object_arg(G_OBJECT(player), "flags", "video+audio+soft-volume");
        g_object_set(player, "video-sink", counter(counts), "audio-sink", counter(counts), NULL);
        return player;
    }
    GstElement *pipeline = gst_pipeline_new(NULL);
    g_signal_connect(player, "pad-added", G_CALLBACK(link_counter), counts);
    gst_bin_add(GST_BIN(pipeline), player);
    return pipeline;
}

static const gchar *const players[] = {"playbin", "playbin3", "uridecodebin", "uridecodebin3"};
#define PLAYERS G_N_ELEMENTS(players)

static void await_ten(GstElement *player, const gint *counts, gboolean pictures, gboolean blocks)
{
    ENDS_UNTIL(ENDS_WAIT,
               (ends_fail_on_errors(player), (!pictures || g_atomic_int_get(&counts[0]) >= 10) &&
                                                 (!blocks || g_atomic_int_get(&counts[1]) >= 10)),
               "%d pictures and %d blocks", counts[0], counts[1]);
}

/* Picture and sound, and for what decodes data, too; before the sender and after it. */
TEST(test_player, .times = 2 * PLAYERS)
{
    guint which = (guint)__i__ / 2;
    gboolean sender_first = __i__ % 2 == 0;
    gint counts[2] = {0};
    g_autofree gchar *line =
        pipe_line(which < 2 ? PICTURES BEEPS "/audio" : PICTURES BEEPS "/audio " DATA);
    g_autoptr(EndsPipeline) sender = ends_pipeline("%s", line);
    g_autoptr(EndsPipeline) player = make_player(players[which], "", counts);

    gst_element_set_state(sender_first ? sender : player, GST_STATE_PLAYING);
    gst_element_set_state(sender_first ? player : sender, GST_STATE_PLAYING);
    await_ten(player, counts, TRUE, TRUE);
}

/* A channel of sound alone. */
TEST(test_radio, .times = PLAYERS)
{
    gint counts[2] = {0};
    g_autoptr(EndsPipeline) sender = pipe_play_line(BEEPS);
    g_autoptr(EndsPipeline) player = make_player(players[__i__], "", counts);

    gst_element_set_state(player, GST_STATE_PLAYING);
    await_ten(player, counts, FALSE, TRUE);
}

/* One of pictures alone, to its end. */
TEST(test_silent_film, .times = PLAYERS)
{
    gint counts[2] = {0};
    g_autoptr(EndsPipeline) player = make_player(players[__i__], "?slots=6", counts);

    gst_element_set_state(player, GST_STATE_PLAYING);
    g_autoptr(EndsPipeline) sender = pipe_play_line(PICTURES);
    await_ten(player, counts, TRUE, FALSE);
    gst_element_send_event(sender, gst_event_new_eos());
    expect_end(player);
}

ENDS_MAIN(60)
