/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times that downstream can rely on: 10 s of frames make a file of 10 s, whatever happens between
 * them, and a live picture is never in the future. */
#include "pipes.h"

#include <glib/gstdio.h>
#include <unistd.h>

#define FRAMES 250
#define PERIOD (40 * GST_MSECOND)
#define CAPS_JUMPY "video/x-raw,format=I420,width=64,height=48,framerate=25/1"
#define CAPS_LIVE "video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1"

struct receiver {
    GstElement *pipeline, *src;
    GstBus *bus;
    gint frames; /* atomic */
    GstClockTime last;
    gint64 ahead;    /* of the clock: the most that a frame was */
    GMutex lock;     /* of the next three */
    guint64 picture; /* what came out last */
    guint pictures;  /* that differed from the one before */
    guint shown;     /* all of them */
};

static GstPadProbeReturn see_frame(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct receiver *receiver = user;
    GstClockTime pts = GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info));
    GstClockTime now = gst_element_get_current_running_time(receiver->src);

    fail_unless(receiver->frames == 0 || pts >= receiver->last, "a frame goes back in time");
    receiver->last = pts;
    receiver->ahead = MAX(receiver->ahead, GST_CLOCK_DIFF(now, pts));
    g_atomic_int_inc(&receiver->frames);
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn see_picture(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct receiver *receiver = user;
    GstMapInfo map;
    guint64 picture = 0;

    fail_unless(gst_buffer_map(GST_PAD_PROBE_INFO_BUFFER(info), &map, GST_MAP_READ));
    for (gsize i = 0; i < map.size; i++)
        picture = picture * 31 + map.data[i];
    gst_buffer_unmap(GST_PAD_PROBE_INFO_BUFFER(info), &map);
    g_mutex_lock(&receiver->lock);
    receiver->pictures += picture != receiver->picture;
    receiver->picture = picture;
    receiver->shown++;
    g_mutex_unlock(&receiver->lock);
    return GST_PAD_PROBE_OK;
}

/* What comes to its "out", if it has one, is seen from the first picture on. */
static void receiver_open(struct receiver *receiver, gboolean foreign_clock, const gchar *text)
{
    *receiver = (struct receiver){.pipeline = ends_pipeline("%s", text)};
    receiver->src = pipe_part(receiver->pipeline, "src");
    receiver->bus = gst_element_get_bus(receiver->pipeline);
    g_mutex_init(&receiver->lock);
    pipe_use_clock(receiver->pipeline, foreign_clock);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(receiver->src, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, see_frame, receiver, NULL);
    if (strstr(text, "name=out")) {
        g_autoptr(GstPad) out =
            gst_element_get_static_pad(pipe_part(receiver->pipeline, "out"), "sink");
        gst_pad_add_probe(out, GST_PAD_PROBE_TYPE_BUFFER, see_picture, receiver, NULL);
    }
    gst_element_set_state(receiver->pipeline, GST_STATE_PLAYING);
}

static void receiver_wait_frames(struct receiver *receiver, gint frames)
{
    ENDS_UNTIL(ENDS_WAIT, g_atomic_int_get(&receiver->frames) >= frames, "%d frames of %d",
               receiver->frames, frames);
}

static void receiver_close(struct receiver *receiver)
{
    gst_object_unref(receiver->bus);
    ends_stop(receiver->pipeline);
    g_mutex_clear(&receiver->lock);
}

/* A pause of a moment, which has to pass. */
static void pause_for(GstElement *pipeline, gulong microseconds)
{
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    g_usleep(microseconds);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
}

/* --- files -------------------------------------------------------------------------------- */

static const struct consumer {
    const gchar *consumer, *reader; /* reader: NULL where there is no file */
} consumers[] = {
    {"jpegenc ! qtmux ! filesink location=%s", "filesrc location=%s ! qtdemux ! fakesink"},
    {"jpegenc ! matroskamux ! filesink location=%s",
     "filesrc location=%s ! matroskademux ! fakesink"},
    {"openh264enc ! h264parse ! mp4mux ! filesink location=%s",
     "filesrc location=%s ! qtdemux ! fakesink"},
    {"videorate ! video/x-raw,framerate=25/1 ! fakesink name=out sync=false async=false", NULL},
};

enum event { LATE, PAUSE, FLUSH, RESTART, EVENTS };

static GstClockTime duration_of(const struct consumer *consumer, const gchar *file)
{
    g_autoptr(EndsPipeline) pipeline = ends_pipeline(consumer->reader, file);
    gint64 duration = -1;

    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    fail_unless_equals_int(gst_element_get_state(pipeline, NULL, NULL, ENDS_WAIT * GST_SECOND),
                           GST_STATE_CHANGE_SUCCESS);
    fail_unless(gst_element_query_duration(pipeline, GST_FORMAT_TIME, &duration));
    return (GstClockTime)duration;
}

static GstHarness *send_file(const gchar *address)
{
    GstHarness *sink = ends_sink_at(address, NULL);

    gst_harness_set_live(sink, FALSE);
    gst_harness_set_src_caps_str(sink, CAPS_JUMPY);
    return sink;
}

/* Pictures of a stream that begins at 0, as fast as they are taken. */
static void push_frames(GstHarness *sink, guint from, guint to)
{
    for (guint i = from; i < to; i++) {
        GstBuffer *buffer = ends_picture(CAPS_JUMPY, i);
        GST_BUFFER_PTS(buffer) = i * PERIOD;
        GST_BUFFER_DURATION(buffer) = PERIOD;
        fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
    }
}

static void send_halves(struct receiver *receiver, const gchar *address, enum event event)
{
    GstHarness *sink = send_file(address);
    GstSegment segment;

    push_frames(sink, 0, FRAMES / 2);
    receiver_wait_frames(receiver, FRAMES / 2);
    if (event == FLUSH) {
        gst_harness_push_event(sink, gst_event_new_flush_start());
        gst_harness_push_event(sink, gst_event_new_flush_stop(TRUE));
        gst_segment_init(&segment, GST_FORMAT_TIME);
        gst_harness_push_event(sink, gst_event_new_segment(&segment));
    } else {
        ends_close(sink);
        sink = send_file(address);
    }
    push_frames(sink, 0, FRAMES / 2);
    gst_harness_push_event(sink, gst_event_new_eos());
    expect_end_on(receiver->bus);
    ends_close(sink);
}

/* The sender waited for this receiver; or this one was paused meanwhile. */
TEST(test_files, .times = 2 * EVENTS * G_N_ELEMENTS(consumers))
{
    const struct consumer *consumer = &consumers[__i__ % G_N_ELEMENTS(consumers)];
    enum event event = (enum event)(__i__ / G_N_ELEMENTS(consumers) % EVENTS);
    gboolean foreign_clock = __i__ / G_N_ELEMENTS(consumers) / EVENTS > 0;
    g_autofree gchar *address = ends_address(),
                     *file = g_strdup_printf("/tmp/%s-%d", address, getpid());
    g_autofree gchar *tail = g_strdup_printf(consumer->consumer, file);
    g_autofree gchar *text =
        g_strdup_printf("gpudirectsrc name=src address=%s ! %s%s", address,
                        event == PAUSE ? "identity sleep-time=4000 ! " : "", tail);
    g_autoptr(EndsPipeline) sender = NULL;
    struct receiver receiver;

    if (event == LATE || event == PAUSE)
        sender = pipe_play("videotestsrc num-buffers=%d ! " CAPS_JUMPY
                           " ! gpudirectsink sync=false async=false address=%s",
                           FRAMES, address);
    if (event == LATE)
        g_usleep(700000); /* frames of this time were put at 0, all of them */
    receiver_open(&receiver, foreign_clock, text);
    if (event == PAUSE) {
        receiver_wait_frames(&receiver, FRAMES / 4);
        pause_for(receiver.pipeline, 700000);
    }
    if (sender)
        expect_end_on(receiver.bus);
    else
        send_halves(&receiver, address, event);
    fail_unless_equals_int(g_atomic_int_get(&receiver.frames), FRAMES);
    receiver_close(&receiver);
    GstClockTime duration =
        consumer->reader ? duration_of(consumer, file) : receiver.shown * PERIOD;
    fail_unless(ABS(GST_CLOCK_DIFF(duration, FRAMES * PERIOD)) <= (gint64)(2 * PERIOD),
                "%d frames last %" GST_TIME_FORMAT " by %s", FRAMES, GST_TIME_ARGS(duration),
                consumer->consumer);
    g_unlink(file);
}

static GstElement *go_live(const gchar *address, gboolean foreign_clock)
{
    GstElement *pipeline = ends_pipeline("videotestsrc is-live=true pattern=snow ! " CAPS_LIVE
                                         " ! gpudirectsink async=false address=%s",
                                         address);

    pipe_use_clock(pipeline, foreign_clock);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

/* Until the picture behind compositor has moved so often from now on. */
static void wait_for_pictures(struct receiver *receiver, guint more)
{
    g_mutex_lock(&receiver->lock);
    guint until = receiver->pictures + more, seen = 0;
    g_mutex_unlock(&receiver->lock);
    for (int i = 0; i < ENDS_WAIT * 100 && seen < until; i++) {
        g_autoptr(GstMessage) message =
            gst_bus_timed_pop_filtered(receiver->bus, 10 * GST_MSECOND, GST_MESSAGE_LATENCY);
        if (message) /* as every application does */
            gst_bin_recalculate_latency(GST_BIN(receiver->pipeline));
        g_mutex_lock(&receiver->lock);
        seen = receiver->pictures;
        g_mutex_unlock(&receiver->lock);
    }
    fail_unless(seen >= until, "the picture stands still");
}

/* Behind compositor, which shows at each time what belongs there: a receiver that is paused, and
 * goes on with what came meanwhile or with the newest; a sender that is paused; one that is started
 * again. With clocks that know each other, or that do not on either side. */
TEST(test_live, .times = 8)
{
    gboolean ours_foreign = __i__ & 1, theirs_foreign = (__i__ & 2) != 0;
    struct receiver receiver;
    g_autofree gchar *text =
        g_strdup_printf("gpudirectsrc name=src address=%s start=%s ! compositor ! " CAPS_LIVE
                        " ! fakesink name=out sync=true qos=false",
                        ends_own(), __i__ & 4 ? "oldest" : "newest");
    GstElement *sender = go_live(ends_own(), theirs_foreign);

    receiver_open(&receiver, ours_foreign, text);
    wait_for_pictures(&receiver, 10);
    pause_for(receiver.pipeline, 2500000);
    wait_for_pictures(&receiver, 10);
    pause_for(sender, 500000);
    wait_for_pictures(&receiver, 10);
    ends_stop(sender);
    sender = go_live(ends_own(), theirs_foreign);
    wait_for_pictures(&receiver, 10);
    receiver_close(&receiver);
    /* Some frames that waited in the ring may come behind each other. */
    fail_unless(receiver.ahead < (gint64)GST_SECOND, "a frame is %" G_GINT64_FORMAT " ns ahead",
                receiver.ahead);
    ends_stop(sender);
}

#define PERIOD_LIVE (20 * GST_MSECOND)
#define COLD_FRAMES 12

struct cold {
    gint frames; /* atomic */
    GstClockTime pts[COLD_FRAMES];
};

static GstPadProbeReturn note_pts(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct cold *cold = user;

    if (cold->frames < COLD_FRAMES) {
        cold->pts[cold->frames] = GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info));
        g_atomic_int_inc(&cold->frames);
    }
    return GST_PAD_PROBE_OK;
}

/* The first pictures that a receiver gets from a sender that runs, and sends them 200 ms late,
 * belong before the receiver's own start. Those that it hands on are each at their own time all the
 * same, to the nanosecond: the sender's are 20 ms apart. */
TEST(test_cold_start)
{
    g_autofree gchar *late = g_strdup_printf("%s ts-offset=200000000", ends_own());
    g_autoptr(EndsPipeline) sender = go_live(late, FALSE);

    for (guint start = 0; start < 10; start++) {
        struct cold cold = {0};
        g_autoptr(EndsPipeline) pipeline =
            ends_pipeline("gpudirectsrc name=src address=%s ! fakesink", ends_own());
        g_autoptr(GstPad) pad = gst_element_get_static_pad(pipe_part(pipeline, "src"), "src");
        pipe_use_clock(pipeline, FALSE);
        gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, note_pts, &cold, NULL);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        ENDS_UNTIL(ENDS_WAIT, g_atomic_int_get(&cold.frames) == COLD_FRAMES);
        for (guint i = 1; i < COLD_FRAMES; i++)
            fail_unless_equals_uint64((cold.pts[i] - cold.pts[0]) % PERIOD_LIVE, 0);
    }
}

ENDS_MAIN(120)
