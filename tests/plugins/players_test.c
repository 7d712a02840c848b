/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A programme by its URI in players: picture and sound. */
#include "ends.h"

#define PICTURES "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s "
#define TONE "audiotestsrc is-live=true samplesperbuffer=480 ! gpudirectsink address=%s/audio "
#define DATA                                                               \
    "fakesrc is-live=true sizetype=fixed do-timestamp=true format=time ! " \
    "application/octet-stream ! gpudirectsink address=%s/data"
#define WAIT 20 /* s, for what takes a fraction of one */

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
    GstObject *pipeline = gst_object_get_parent(GST_OBJECT(decoder));
    GstPad *to = gst_element_get_static_pad(sink, "sink");

    g_object_set(sink, "async", FALSE, NULL);
    gst_bin_add(GST_BIN(pipeline), sink);
    fail_unless_equals_int(gst_pad_link(pad, to), GST_PAD_LINK_OK);
    gst_element_sync_state_with_parent(sink);
    gst_object_unref(to);
    gst_object_unref(pipeline);
}

static GstElement *make_player(const gchar *factory, const gchar *uri, gint *counts)
{
    GstElement *player = gst_element_factory_make(factory, NULL);

    fail_unless(player != NULL, "no %s", factory);
    g_object_set(player, "uri", uri, NULL);
    if (GST_IS_PIPELINE(player)) {
        /* Without deinterlace, for which playsink of GStreamer 1.22 rebuilds its chain while caps
         * are on their way through it: sometimes it loses them. */
        gst_util_set_object_arg(G_OBJECT(player), "flags", "video+audio+soft-volume");
        g_object_set(player, "video-sink", counter(counts), "audio-sink", counter(counts), NULL);
        return player;
    }
    GstElement *pipeline = gst_pipeline_new(NULL);
    g_signal_connect(player, "pad-added", G_CALLBACK(link_counter), counts);
    gst_bin_add(GST_BIN(pipeline), player);
    return pipeline;
}

static const struct {
    const gchar *factory, *data;
} players[] = {
    {"playbin", ""},
    {"playbin3", ""},
    {"uridecodebin", DATA},
    {"uridecodebin3", DATA},
};

TEST(test_player, .times = 2 * G_N_ELEMENTS(players))
{
    g_autofree gchar *address = ends_address(), *uri = g_strdup_printf("gpudirect://%s", address);
    g_autofree gchar *format = g_strconcat(PICTURES TONE, players[__i__ / 2].data, NULL);
    gboolean sender_first = __i__ % 2 == 0;
    gint counts[2] = {0};
    GstElement *player = make_player(players[__i__ / 2].factory, uri, counts);
    g_autoptr(EndsPipeline) sender = ends_pipeline(format, address, address, address);

    if (sender_first)
        gst_element_set_state(sender, GST_STATE_PLAYING);
    gst_element_set_state(player, GST_STATE_PLAYING);
    if (!sender_first)
        gst_element_set_state(sender, GST_STATE_PLAYING);
    ENDS_UNTIL(WAIT,
               (ends_fail_on_errors(player),
                MIN(g_atomic_int_get(&counts[0]), g_atomic_int_get(&counts[1])) >= 10),
               "%d pictures and %d blocks", counts[0], counts[1]);
    ends_stop(player);
}

/* A channel of sound alone. */
TEST(test_radio, .times = G_N_ELEMENTS(players))
{
    g_autofree gchar *address = ends_address(), *uri = g_strdup_printf("gpudirect://%s", address);
    gint counts[2] = {0};
    GstElement *player = make_player(players[__i__].factory, uri, counts);
    g_autoptr(EndsPipeline) sender = ends_pipeline(
        "audiotestsrc is-live=true samplesperbuffer=480 ! gpudirectsink address=%s", address);

    gst_element_set_state(sender, GST_STATE_PLAYING);
    gst_element_set_state(player, GST_STATE_PLAYING);
    ENDS_UNTIL(WAIT, (ends_fail_on_errors(player), g_atomic_int_get(&counts[1]) >= 10), "%d blocks",
               counts[1]);
    ends_stop(player);
}

ENDS_MAIN(60)
