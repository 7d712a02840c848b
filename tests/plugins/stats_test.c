/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The statistics that either end posts when its stream ends: once, whatever ends it, and, where it
 * ends by EOS, before an application that waits for that has stopped listening. */
#include "pipes.h"

struct play {
    GstElement *pipeline;
    GstBus *bus;
    gint posted, ended, posted_late; /* atomic: statistics; EOS or ERROR; the former after these */
    gint frames;                     /* atomic: by the last statistics */
};

static GstBusSyncReply see_message(GstBus *bus, GstMessage *message, gpointer user)
{
    const GstStructure *structure = gst_message_get_structure(message);
    struct play *play = user;
    guint64 frames = 0;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS ||
        GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        g_atomic_int_set(&play->ended, TRUE);
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_ELEMENT ||
        !gst_structure_has_name(structure, "gpudirect-stats"))
        return GST_BUS_PASS;
    gst_structure_get_uint64(structure, "frames", &frames);
    g_atomic_int_set(&play->frames, (gint)frames);
    if (g_atomic_int_get(&play->ended))
        g_atomic_int_inc(&play->posted_late);
    g_atomic_int_inc(&play->posted);
    return GST_BUS_PASS;
}

static void play_start(struct play *play, const gchar *format)
{
    g_autofree gchar *line = pipe_line(format);

    *play = (struct play){.pipeline = ends_pipeline("%s", line)};
    play->bus = gst_element_get_bus(play->pipeline);
    gst_bus_set_sync_handler(play->bus, see_message, play, NULL);
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
}

static void play_wait_end(struct play *play)
{
    g_autoptr(GstMessage) message =
        ends_wait_message(play->bus, GST_MESSAGE_EOS | GST_MESSAGE_ERROR, ENDS_WAIT);

    fail_unless(message != NULL, "no end");
}

static void play_stop(struct play *play)
{
    gst_element_set_state(play->pipeline, GST_STATE_NULL);
    gst_bus_set_sync_handler(play->bus, NULL, NULL, NULL);
    gst_object_unref(play->bus);
    gst_object_unref(play->pipeline);
}

#define SEND \
    "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink async=false address=ADDRESS"
#define RECEIVE "gpudirectsrc address=ADDRESS ! fakesink name=out"

enum end {
    BY_NUM_BUFFERS,
    BY_EOS_HERE,
    BY_SINK,
    BY_ERROR,
    BY_OWN_ERROR,
    BY_READY,
    BY_NULL,
    BY_SENDER,
    ENDS
};

static const gchar *const receivers[ENDS] = {
    [BY_NUM_BUFFERS] = "gpudirectsrc num-buffers=5 address=ADDRESS ! fakesink",
    [BY_EOS_HERE] = RECEIVE,
    [BY_SINK] = "gpudirectsrc address=ADDRESS ! identity eos-after=5 ! fakesink",
    [BY_ERROR] = "gpudirectsrc address=ADDRESS ! identity error-after=5 ! fakesink",
    [BY_OWN_ERROR] = "gpudirectsrc on-disconnect=error address=ADDRESS ! fakesink name=out",
    [BY_READY] = RECEIVE,
    [BY_NULL] = RECEIVE,
    [BY_SENDER] = RECEIVE,
};

TEST(test_end, .times = ENDS)
{
    enum end end = (enum end)__i__;
    struct play sender, receiver;

    play_start(&sender, SEND);
    play_start(&receiver, receivers[end]);
    if (strstr(receivers[end], "name=out"))
        ENDS_UNTIL(ENDS_WAIT, pipe_stat(receiver.pipeline, "out", "rendered") >= 5);
    if (end == BY_EOS_HERE)
        gst_element_send_event(receiver.pipeline, gst_event_new_eos());
    if (end == BY_OWN_ERROR)
        gst_element_set_state(sender.pipeline, GST_STATE_NULL);
    if (end == BY_SENDER)
        gst_element_send_event(sender.pipeline, gst_event_new_eos());
    if (end == BY_READY)
        gst_element_set_state(receiver.pipeline, GST_STATE_READY);
    else if (end != BY_NULL)
        play_wait_end(&receiver);
    if (end != BY_NULL && end != BY_ERROR)
        fail_unless_equals_int(g_atomic_int_get(&receiver.posted), 1);
    play_stop(&receiver);
    fail_unless_equals_int(receiver.posted, 1);
    fail_unless(receiver.frames >= 4, "%d frames", receiver.frames);
    fail_unless(end == BY_ERROR || receiver.posted_late == 0, "posted after the end");
    if (end == BY_SENDER)
        play_wait_end(&sender);
    fail_unless_equals_int(g_atomic_int_get(&sender.posted),
                           end == BY_SENDER || end == BY_OWN_ERROR);
    play_stop(&sender);
    fail_unless_equals_int(sender.posted, 1);
    fail_unless_equals_int(sender.posted_late, 0);
    fail_unless(sender.frames >= 5, "%d frames", sender.frames);
}

ENDS_MAIN(60)
