/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The statistics that either end posts when its stream ends: once, whatever ends it, and, where it
 * ends by EOS, before an application that waits for that has stopped listening. */
#include "ends.h"

#include <string.h>

#define DEADLINE 40 /* s; of every wait */

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

static GstPadProbeReturn count(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    g_atomic_int_inc((gint *)user);
    return GST_PAD_PROBE_OK;
}

static void play_start(struct play *play, const gchar *format, const gchar *address)
{
    *play = (struct play){.pipeline = ends_pipeline(format, address)};
    fail_unless(GST_IS_PIPELINE(play->pipeline), "no pipeline: %s", format);
    play->bus = gst_element_get_bus(play->pipeline);
    gst_bus_set_sync_handler(play->bus, see_message, play, NULL);
    gst_element_set_state(play->pipeline, GST_STATE_PLAYING);
}

static void play_wait_end(struct play *play)
{
    g_autoptr(GstMessage) message =
        ends_wait_message(play->bus, GST_MESSAGE_EOS | GST_MESSAGE_ERROR, DEADLINE);

    fail_unless(message != NULL, "no end");
}

static void play_stop(struct play *play)
{
    gst_element_set_state(play->pipeline, GST_STATE_NULL);
    gst_bus_set_sync_handler(play->bus, NULL, NULL, NULL);
    gst_object_unref(play->bus);
    gst_object_unref(play->pipeline);
}

static void wait_frames(GstElement *pipeline, gint wanted)
{
    g_autoptr(GstElement) src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(src, "src");
    gint frames = 0;
    gulong probe = gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, count, &frames, NULL);

    ENDS_UNTIL(DEADLINE, g_atomic_int_get(&frames) >= wanted, "%d frames", frames);
    gst_pad_remove_probe(pad, probe);
}

#define SEND "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink async=false address=%s"
#define RECEIVE "gpudirectsrc name=src address=%s ! fakesink"

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
    [BY_NUM_BUFFERS] = "gpudirectsrc num-buffers=5 address=%s ! fakesink",
    [BY_EOS_HERE] = RECEIVE,
    [BY_SINK] = "gpudirectsrc address=%s ! identity eos-after=5 ! fakesink",
    [BY_ERROR] = "gpudirectsrc address=%s ! identity error-after=5 ! fakesink",
    [BY_OWN_ERROR] = "gpudirectsrc name=src on-disconnect=error address=%s ! fakesink",
    [BY_READY] = RECEIVE,
    [BY_NULL] = RECEIVE,
    [BY_SENDER] = RECEIVE,
};

TEST(test_end, .times = ENDS)
{
    enum end end = (enum end)__i__;
    struct play sender, receiver;

    play_start(&sender, SEND, ends_own());
    play_start(&receiver, receivers[end], ends_own());
    if (strstr(receivers[end], "name=src"))
        wait_frames(receiver.pipeline, 5);
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
