/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on the kernel's test card in the guest, played, paused, made ready and stopped,
 * again and again: states_test CHANGES. What goes downstream keeps to GStreamer's rules each time,
 * a frame comes whenever it plays, none while it does not, and at the end nothing is left open. */
#include "card.h"
#include "../support/count.h"

#include <stdlib.h>
#include <string.h>

struct watch {
    GMutex lock;
    GCond changed;
    gboolean started, has_caps, has_segment; /* since the pad was last activated */
    guint frames, allowed;                   /* since the last change of state */
    GstClockTime last;
};

static GstPadProbeReturn on_data(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct watch *watch = user;

    g_mutex_lock(&watch->lock);
    if (info->type & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) {
        switch (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info))) {
        case GST_EVENT_STREAM_START:
            watch->started = TRUE;
            watch->has_caps = watch->has_segment = FALSE;
            watch->last = GST_CLOCK_TIME_NONE;
            break;
        case GST_EVENT_CAPS:
            check(watch->started, "caps before the start of the stream");
            watch->has_caps = TRUE;
            break;
        case GST_EVENT_SEGMENT:
            check(watch->has_caps, "a segment before caps");
            watch->has_segment = TRUE;
            break;
        default:
            break;
        }
    } else {
        GstClockTime pts = GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info));
        check(watch->started && watch->has_caps && watch->has_segment,
              "a frame before start, caps or segment");
        check(GST_CLOCK_TIME_IS_VALID(pts), "a frame without a time");
        check(!GST_CLOCK_TIME_IS_VALID(watch->last) || pts >= watch->last, "a time goes back");
        watch->last = pts;
        watch->frames++;
        g_cond_signal(&watch->changed);
    }
    g_mutex_unlock(&watch->lock);
    return GST_PAD_PROBE_OK;
}

static void check_bus(GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
    g_autoptr(GError) error = NULL;

    if (message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &error, NULL);
    check(!message, "%s", error ? error->message : "the stream ends");
}

static void change(GstElement *pipeline, GstState to, struct watch *watch)
{
    GstState now;

    g_mutex_lock(&watch->lock);
    check(watch->frames <= watch->allowed, "%u frames while it does not play", watch->frames);
    watch->allowed = G_MAXUINT;
    g_mutex_unlock(&watch->lock);
    GstStateChangeReturn result = gst_element_set_state(pipeline, to);
    if (result == GST_STATE_CHANGE_ASYNC)
        result = gst_element_get_state(pipeline, &now, NULL, CARD_WAIT);
    check_bus(pipeline);
    check(result == GST_STATE_CHANGE_SUCCESS || result == GST_STATE_CHANGE_NO_PREROLL,
          "%s gives %s", gst_element_state_get_name(to),
          gst_element_state_change_return_get_name(result));
    g_mutex_lock(&watch->lock);
    watch->frames = 0;
    if (to != GST_STATE_PLAYING) /* a live source is still; one may be on its way to a pause */
        watch->allowed = to == GST_STATE_PAUSED ? 1 : 0;
    g_mutex_unlock(&watch->lock);
}

static void await_frames(GstElement *pipeline, struct watch *watch, guint count)
{
    gint64 deadline = g_get_monotonic_time() + CARD_WAIT / GST_USECOND;
    gboolean waits = TRUE;

    g_mutex_lock(&watch->lock);
    while (watch->frames < count && waits)
        waits = g_cond_wait_until(&watch->changed, &watch->lock, deadline);
    g_mutex_unlock(&watch->lock);
    check_bus(pipeline);
    check(waits, "no frame although it plays");
}

int main(int argc, char **argv)
{
    /* Each way from each state; a round comes back to where it began. */
    static const GstState round[] = {
        GST_STATE_PLAYING, GST_STATE_PAUSED,  GST_STATE_PLAYING, GST_STATE_READY, GST_STATE_PAUSED,
        GST_STATE_READY,   GST_STATE_PLAYING, GST_STATE_NULL,    GST_STATE_READY, GST_STATE_NULL,
        GST_STATE_PAUSED,  GST_STATE_PLAYING, GST_STATE_PAUSED,  GST_STATE_NULL};
    struct watch watch = {.last = GST_CLOCK_TIME_NONE};
    GError *error = NULL;

    gst_init(&argc, &argv);
    check(argc == 2 && atoi(argv[1]) > 0, "usage: states_test CHANGES");
    g_autoptr(GstElement) pipeline =
        gst_parse_launch("gpudirectsrc name=src address=v4l2://" CARD
                         " ! video/x-raw,format=UYVY,width=320,height=180,framerate=60/1 ! "
                         "fakesink sync=false",
                         &error);
    check(pipeline && !error, "%s", error ? error->message : "no pipeline");
    g_autoptr(GstElement) src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    g_autoptr(GstPad) pad = gst_element_get_static_pad(src, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_data,
                      &watch, NULL);
    guint open_before = 0;
    for (gint i = 0; i < atoi(argv[1]); i++) {
        GstState to = round[(guint)i % G_N_ELEMENTS(round)];
        if (i == G_N_ELEMENTS(round)) /* what is made once, is */
            open_before = count_fds();
        change(pipeline, to, &watch);
        if (to == GST_STATE_PLAYING)
            await_frames(pipeline, &watch, 2);
    }
    change(pipeline, GST_STATE_NULL, &watch);
    if (open_before) {
        guint open_now = count_fds();
        check(open_now == open_before, "%u descriptors, %u before", open_now, open_before);
    }
    g_print("%s changes of state\n", argv[1]);
    return 0;
}
