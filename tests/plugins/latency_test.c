/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The latency that gpudirectsrc reports: its use by pipelines, and its parts. */
#include "ends.h"

#include <string.h>

#define DEADLINE 40 /* s; of every wait */
#define SINK_DEADLINE (20 * GST_MSECOND)
#define SLOTS_MAX 64 /* that a ring of small pictures has for a receiver which asks for them */

/* --- what GStreamer says of a pipeline ---------------------------------------------------- */

static gint complaints; /* atomic */

static void hear(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
                 const gchar *function, gint line, GObject *object, GstDebugMessage *message,
                 gpointer user)
{
    const gchar *text = gst_debug_message_get(message);

    if (level > GST_LEVEL_WARNING || !text ||
        (!strstr(text, "Impossible to configure latency") && !strstr(text, "Not enough buffering")))
        return;
    g_printerr("%s\n", text);
    g_atomic_int_inc(&complaints);
}

struct play {
    GstElement *sender, *receiver, *src;
    GstBus *bus;
    gint frames; /* atomic */
};

static GstPadProbeReturn see_frame(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    g_atomic_int_inc((gint *)user);
    return GST_PAD_PROBE_OK;
}

static void play_start(struct play *play, const gchar *caps, const gchar *send,
                       const gchar *receive)
{
    g_autofree gchar *address = ends_address();

    play->frames = 0;
    play->sender =
        ends_pipeline("videotestsrc is-live=true ! %s ! gpudirectsink async=false address=%s %s",
                      caps, address, send);
    play->receiver = ends_pipeline("gpudirectsrc name=src address=%s %s", address, receive);
    play->src = gst_bin_get_by_name(GST_BIN(play->receiver), "src");
    play->bus = gst_element_get_bus(play->receiver);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(play->src, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, see_frame, &play->frames, NULL);
    gst_element_set_state(play->receiver, GST_STATE_PLAYING);
    gst_element_set_state(play->sender, GST_STATE_PLAYING);
}

static void play_stop(struct play *play)
{
    gst_element_set_state(play->sender, GST_STATE_NULL);
    gst_element_set_state(play->receiver, GST_STATE_NULL);
    gst_object_unref(play->bus);
    gst_object_unref(play->src);
    gst_object_unref(play->sender);
    gst_object_unref(play->receiver);
}

static void complain(GstMessage *message)
{
    GError *error = NULL;
    gchar *debug = NULL;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING)
        gst_message_parse_warning(message, &error, &debug);
    else
        gst_message_parse_error(message, &error, &debug);
    /* A machine that stalls for longer than the ring lasts loses pictures, and says so. */
    if (!strstr(error->message, "Pictures are lost"))
        fail("%s (%s)", error->message, debug);
    g_error_free(error);
    g_free(debug);
}

/* Until so many frames came, doing what every application does with a LATENCY message. Returns how
 * many there were. */
static guint play_frames(struct play *play, gint frames)
{
    guint told = 0;

    for (int i = 0; i < DEADLINE * 100 && g_atomic_int_get(&play->frames) < frames; i++) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
            play->bus, 10 * GST_MSECOND,
            GST_MESSAGE_LATENCY | GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);
        if (!message)
            continue;
        if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_LATENCY)
            complain(message);
        gst_bin_recalculate_latency(GST_BIN(play->receiver));
        told++;
    }
    fail_unless(g_atomic_int_get(&play->frames) >= frames, "%d frames", play->frames);
    return told;
}

static void ask(GstElement *src, GstClockTime *min, GstClockTime *max)
{
    g_autoptr(GstQuery) query = gst_query_new_latency();
    gboolean live;

    fail_unless(gst_element_query(src, query));
    gst_query_parse_latency(query, &live, min, max);
    fail_unless(live);
}

/* --- the README's receiver ---------------------------------------------------------------- */

static const struct rate {
    gint num, den;
} rates[] = {{25, 1}, {50, 1}, {60000, 1001}, {120, 1}, {240, 1}};

static const gchar *const sinks[] = {
    "! videoconvert ! fakesink sync=true",
    "! videoconvert ! fakevideosink",
    "! queue ! videoconvert ! fakesink sync=true",
    "do-timestamp=true ! videoconvert ! fakesink sync=true",
};

/* The defaults on either side hold enough for a sink that holds each picture back for 20 ms, and
 * no sink says otherwise. */
TEST(test_no_warning, .times = G_N_ELEMENTS(rates) * G_N_ELEMENTS(sinks))
{
    const struct rate *rate = &rates[__i__ % G_N_ELEMENTS(rates)];
    const GstClockTime duration = gst_util_uint64_scale_int(GST_SECOND, rate->den, rate->num);
    g_autofree gchar *caps = g_strdup_printf(
        "video/x-raw,format=GRAY8,width=16,height=16,framerate=%d/%d", rate->num, rate->den);
    GstClockTime min, max;
    struct play play;

    play_start(&play, caps, "", sinks[(guint)__i__ / G_N_ELEMENTS(rates)]);
    guint told = play_frames(&play, 40);
    fail_unless(told > 0, "the latency was never told");
    ask(play.src, &min, &max);
    fail_unless(min + SINK_DEADLINE <= max, "%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, min,
                max);
    /* And no more than the ring can hold. */
    fail_unless(max <= min + SLOTS_MAX * duration, "%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT,
                min, max);
    play_stop(&play);
    fail_unless_equals_int(g_atomic_int_get(&complaints), 0);
}

/* --- do-timestamp ------------------------------------------------------------------------- */

/* Whatever its sink waits for, without a queue between: the thread that waits is the one that takes
 * pictures. A ring of more than a second, in which a busy machine may forget a process. */
TEST(test_full_rate, .times = 2)
{
    struct play play;

    play_start(&play, "video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1",
               "slots=64 wait-for-connection=true",
               __i__ ? "slots=64 start=oldest do-timestamp=true ! fakesink sync=true"
                     : "slots=64 start=oldest ! fakesink sync=true");
    play_frames(&play, 250);
    fail_unless_equals_uint64(ends_stat_of(play.src, "dropped"), 0);
    play_stop(&play);
}

/* --- what it is made of ------------------------------------------------------------------- */

static GstHarness *sink, *src;
static guint pushed;

static void open_pair(const gchar *send, const gchar *receive)
{
    pushed = 0;
    sink = ends_sink(send);
    src = ends_src(receive);
    ends_start(sink, CAPS_SMALL);
}

static void close_pair(void)
{
    ends_close(src);
    ends_close(sink);
}

static void send_at(GstClockTime pts)
{
    GstBuffer *buffer = ends_picture(CAPS_SMALL, pushed++);

    GST_BUFFER_PTS(buffer) = pts;
    fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
    gst_buffer_unref(ends_pull(src));
}

static GstClockTime send_on_time(guint frames)
{
    GstClockTime now = 0;

    for (guint i = 0; i < frames; i++) {
        now = gst_element_get_current_running_time(ends_element(sink));
        send_at(now);
    }
    return now;
}

/* However many slots both sides begin with, the ring can grow; a sender that waits loses nothing.
 */
TEST(test_max_is_what_the_ring_holds)
{
    static const struct {
        const gchar *send, *receive;
        guint slots; /* 0: any number */
    } cases[] = {
        {"slots=2 slow-receiver=drop-oldest", "slots=6", SLOTS_MAX},
        {"slots=6 slow-receiver=drop-oldest", "slots=3", SLOTS_MAX},
        {"slots=6 slow-receiver=drop-newest", "slots=16", SLOTS_MAX},
        {"slots=2 slow-receiver=block", "slots=2", 0},
    };
    GstClockTime min, max;

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        open_pair(cases[i].send, cases[i].receive);
        send_at(GST_CLOCK_TIME_NONE);
        ask(ends_element(src), &min, &max);
        GstClockTime hold = cases[i].slots * 40 * GST_MSECOND;
        fail_unless_equals_uint64(max, hold ? min + hold : GST_CLOCK_TIME_NONE);
        close_pair();
    }
}

/* One picture that comes very late does not make the latency of all so large that the ring cannot
 * hold what comes in time. */
TEST(test_late_picture)
{
    GstClockTime min, max;

    open_pair("slow-receiver=drop-oldest", NULL);
    GstClockTime last = send_on_time(20);
    g_usleep(900000); /* LATENCY is told once a second */
    send_at(last + 40 * GST_MSECOND);
    g_usleep(200000);
    send_on_time(2);
    ask(ends_element(src), &min, &max);
    fail_unless(min > 0);
    fail_unless(min + SINK_DEADLINE <= max, "%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, min,
                max);
    close_pair();
}

static GstClockTime minimum(void)
{
    GstClockTime min, max;

    ask(ends_element(src), &min, &max);
    fail_unless(min + SINK_DEADLINE <= max, "%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, min,
                max);
    return min;
}

/* A sender whose own pipeline takes 3 s, or 55 s: its pictures do not follow the clock. They get
 * the time at which they come, and nothing else in the pipeline has to wait for them. */
TEST(test_late_sender, .times = 2)
{
    const GstClockTime late = __i__ ? 55 * GST_SECOND : 3 * GST_SECOND;

    /* A harness has played since the machine was started. */
    open_pair("slow-receiver=drop-oldest", NULL);
    for (guint i = 0; i < 20; i++)
        send_at(gst_element_get_current_running_time(ends_element(sink)) - late);
    fail_unless(minimum() < GST_SECOND);
    close_pair();
}

/* If the user sets a longer latency, they keep their own times. */
TEST(test_late_sender_that_is_right)
{
    GstClockTime min, max;

    open_pair("slow-receiver=drop-oldest", "latency=4000");
    for (guint i = 0; i < 10; i++) {
        GstClockTime now = gst_element_get_current_running_time(ends_element(sink));
        GstBuffer *buffer = ends_picture(CAPS_SMALL, i);
        GST_BUFFER_PTS(buffer) = now - 3 * GST_SECOND;
        fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
        buffer = ends_pull(src);
        fail_unless_equals_uint64(
            GST_BUFFER_PTS(buffer) + gst_element_get_base_time(ends_element(src)),
            now - 3 * GST_SECOND + gst_element_get_base_time(ends_element(sink)));
        gst_buffer_unref(buffer);
    }
    ask(ends_element(src), &min, &max);
    fail_unless_equals_uint64(min, 4 * GST_SECOND);
    fail_unless(max >= min);
    close_pair();
}

static guint count_latency_messages(GstBus *bus)
{
    GstMessage *message;
    guint count = 0;

    while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_LATENCY))) {
        gst_message_unref(message);
        count++;
    }
    return count;
}

/* The user's latency is reported, however late pictures are, and can change meanwhile. */
TEST(test_fixed_latency)
{
    open_pair("slow-receiver=drop-oldest slots=16", "latency=100 slots=16");
    g_autoptr(GstBus) bus = ends_bus(src);
    send_on_time(1);
    count_latency_messages(bus);
    for (guint i = 0; i < 30; i++)
        send_at(gst_element_get_current_running_time(ends_element(sink)) - i * 10 * GST_MSECOND);
    fail_unless_equals_int(count_latency_messages(bus), 0);
    fail_unless_equals_uint64(minimum(), 100 * GST_MSECOND);
    g_object_set(ends_element(src), "latency", 250, NULL);
    fail_unless_equals_int(count_latency_messages(bus), 1);
    fail_unless_equals_uint64(minimum(), 250 * GST_MSECOND);
    g_object_set(ends_element(src), "latency", -1, NULL);
    fail_unless_equals_int(count_latency_messages(bus), 1);
    fail_unless(minimum() != 250 * GST_MSECOND);
    close_pair();
}

/* When a machine is no longer busy, the latency falls. */
TEST(test_latency_comes_back)
{
    const gint64 until = g_get_monotonic_time() + 80 * G_TIME_SPAN_SECOND;
    GstClockTime highest, lowest;

    open_pair("slow-receiver=drop-oldest slots=16", "slots=16");
    send_on_time(20);
    do {
        send_at(gst_element_get_current_running_time(ends_element(sink)) - 400 * GST_MSECOND);
        g_usleep(10000);
        highest = minimum();
    } while (highest < 400 * GST_MSECOND && g_get_monotonic_time() < until);
    fail_unless(highest >= 400 * GST_MSECOND, "it does not rise");
    do {
        send_on_time(1);
        g_usleep(20000);
        lowest = minimum();
    } while (lowest >= highest && g_get_monotonic_time() < until);
    fail_unless(lowest < highest, "it stays at %" G_GUINT64_FORMAT, lowest);
    close_pair();
}

static GstPadProbeReturn hold(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    return GST_PAD_PROBE_OK; /* the pad stays blocked */
}

/* Pictures that wait in the ring while downstream holds the thread are in time. */
TEST(test_held_thread)
{
    GstClockTime min, max;

    open_pair("slow-receiver=block", NULL); /* so that nothing else bounds it */
    send_on_time(20);
    g_usleep(1100000); /* LATENCY is told once a second */
    g_autoptr(GstPad) pad = gst_element_get_static_pad(ends_element(src), "src");
    gulong probe = gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER,
                                     hold, NULL, NULL);
    for (guint i = 0; i < 4; i++) {
        GstBuffer *buffer = ends_picture(CAPS_SMALL, pushed++);
        GST_BUFFER_PTS(buffer) = gst_element_get_current_running_time(ends_element(sink));
        gst_harness_push(sink, buffer);
    }
    for (int i = 0; i < DEADLINE * 1000 && !gst_pad_is_blocking(pad); i++)
        g_usleep(1000);
    g_usleep(800000);
    gst_pad_remove_probe(pad, probe);
    for (guint i = 0; i < 4; i++)
        gst_buffer_unref(ends_pull(src));
    ask(ends_element(src), &min, &max);
    fail_unless(min < 500 * GST_MSECOND, "a latency of %" G_GUINT64_FORMAT, min);
    close_pair();
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    gst_debug_remove_log_function(gst_debug_log_default);
    gst_debug_set_active(TRUE);
    gst_debug_set_default_threshold(GST_LEVEL_WARNING);
    gst_debug_add_log_function(hear, NULL, NULL);
    return ends_run_tests(90);
}
