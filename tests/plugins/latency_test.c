/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The latency that gpudirectsrc reports: its use by pipelines, and its parts. */
#include "pipes.h"

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

/* A live sender, and its receiver with a gpudirectsrc "src". */
struct play {
    GstElement *sender, *receiver;
};

static void play_start(struct play *play, const gchar *caps, const gchar *send,
                       const gchar *receive)
{
    g_autofree gchar *address = ends_address();

    play->receiver = pipe_play("gpudirectsrc name=src address=%s %s", address, receive);
    play->sender =
        pipe_play("videotestsrc is-live=true ! %s ! gpudirectsink async=false address=%s %s", caps,
                  address, send);
}

static void play_stop(struct play *play)
{
    ends_stop(play->sender);
    ends_stop(play->receiver);
}

/* Until so many frames came, doing what every application does with a LATENCY message. Returns how
 * many there were. */
static guint play_frames(struct play *play, guint64 frames)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(play->receiver);
    guint told = 0;

    for (int i = 0; i < ENDS_WAIT * 100 && pipe_stat(play->receiver, "src", "frames") < frames;
         i++) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
            bus, 10 * GST_MSECOND, GST_MESSAGE_LATENCY | GST_MESSAGE_WARNING | GST_MESSAGE_ERROR);
        if (!message)
            continue;
        g_autofree gchar *text = text_of(message);
        /* A machine that stalls for longer than the ring lasts loses pictures, and says so. */
        fail_unless(GST_MESSAGE_TYPE(message) == GST_MESSAGE_LATENCY ||
                        strstr(text, "Pictures are lost"),
                    "%s", text);
        gst_bin_recalculate_latency(GST_BIN(play->receiver));
        told++;
    }
    fail_unless(pipe_stat(play->receiver, "src", "frames") >= frames);
    return told;
}

struct range {
    GstClockTime min, max;
};

static struct range ask(GstElement *element)
{
    g_autoptr(GstQuery) query = gst_query_new_latency();
    struct range range;
    gboolean live;

    fail_unless(gst_element_query(element, query));
    gst_query_parse_latency(query, &live, &range.min, &range.max);
    fail_unless(live);
    return range;
}

/* The least latency of a source that can hold each picture back for as long as a sink does. */
static GstClockTime least_of(GstElement *element)
{
    struct range range = ask(element);

    fail_unless(range.min + SINK_DEADLINE <= range.max,
                "%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, range.min, range.max);
    return range.min;
}

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
    struct play play;

    play_start(&play, caps, "", sinks[(guint)__i__ / G_N_ELEMENTS(rates)]);
    guint told = play_frames(&play, 40);
    fail_unless(told > 0, "the latency was never told");
    least_of(pipe_part(play.receiver, "src"));
    /* And no more than the ring can hold. */
    struct range range = ask(pipe_part(play.receiver, "src"));
    fail_unless(range.max <= range.min + SLOTS_MAX * duration,
                "%" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, range.min, range.max);
    play_stop(&play);
    fail_unless_equals_int(g_atomic_int_get(&complaints), 0);
}

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
    fail_unless_equals_uint64(pipe_stat(play.receiver, "src", "dropped"), 0);
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

static GstClockTime now_at_sink(void)
{
    return gst_element_get_current_running_time(ends_element(sink));
}

static GstClockTime minimum(void)
{
    return least_of(ends_element(src));
}

static void send_at(GstClockTime pts)
{
    GstBuffer *buffer = ends_picture(CAPS_SMALL, pushed++);

    GST_BUFFER_PTS(buffer) = pts;
    fail_unless_equals_int(gst_harness_push(sink, buffer), GST_FLOW_OK);
    drop(src, 1);
}

static GstClockTime send_on_time(guint frames)
{
    GstClockTime now = 0;

    for (guint i = 0; i < frames; i++) {
        now = now_at_sink();
        send_at(now);
    }
    return now;
}

/* However many slots both sides begin with, the ring can grow; a waiting sender loses nothing. */
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

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        open_pair(cases[i].send, cases[i].receive);
        send_at(GST_CLOCK_TIME_NONE);
        struct range range = ask(ends_element(src));
        GstClockTime most = cases[i].slots * 40 * GST_MSECOND;
        fail_unless_equals_uint64(range.max, most ? range.min + most : GST_CLOCK_TIME_NONE);
        ends_close(src);
        ends_close(sink);
    }
}

/* One picture that comes very late does not make the latency of all so large that the ring cannot
 * hold what comes in time. */
TEST(test_late_picture)
{
    open_pair("slow-receiver=drop-oldest", NULL);
    GstClockTime last = send_on_time(20);
    g_usleep(900000); /* LATENCY is told once a second */
    send_at(last + 40 * GST_MSECOND);
    g_usleep(200000);
    send_on_time(2);
    fail_unless(minimum() > 0);
}

/* A sender whose own pipeline takes 3 s, or 55 s: its pictures do not follow the clock. They get
 * the time at which they come, and nothing else in the pipeline has to wait for them. */
TEST(test_late_sender, .times = 2)
{
    const GstClockTime late = __i__ ? 55 * GST_SECOND : 3 * GST_SECOND;

    /* A harness has played since the machine was started. */
    open_pair("slow-receiver=drop-oldest", NULL);
    for (guint i = 0; i < 20; i++)
        send_at(now_at_sink() - late);
    fail_unless(minimum() < GST_SECOND);
}

/* If the user sets a longer latency, they keep their own times. */
TEST(test_late_sender_that_is_right)
{
    open_pair("slow-receiver=drop-oldest", "latency=4000");
    for (guint i = 0; i < 10; i++) {
        GstClockTime late = now_at_sink() - 3 * GST_SECOND;
        GstBuffer *picture = ends_picture(CAPS_SMALL, i);
        GST_BUFFER_PTS(picture) = late;
        fail_unless_equals_int(gst_harness_push(sink, picture), GST_FLOW_OK);
        g_autoptr(GstBuffer) got = ends_pull(src);
        fail_unless_equals_uint64(GST_BUFFER_PTS(got) +
                                      gst_element_get_base_time(ends_element(src)),
                                  late + gst_element_get_base_time(ends_element(sink)));
    }
    struct range range = ask(ends_element(src));
    fail_unless_equals_uint64(range.min, 4 * GST_SECOND);
    fail_unless(range.max >= range.min);
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
        send_at(now_at_sink() - i * 10 * GST_MSECOND);
    fail_unless_equals_int(count_latency_messages(bus), 0);
    fail_unless_equals_uint64(minimum(), 100 * GST_MSECOND);
    g_object_set(ends_element(src), "latency", 250, NULL);
    fail_unless_equals_int(count_latency_messages(bus), 1);
    fail_unless_equals_uint64(minimum(), 250 * GST_MSECOND);
    g_object_set(ends_element(src), "latency", -1, NULL);
    fail_unless_equals_int(count_latency_messages(bus), 1);
    fail_unless(minimum() != 250 * GST_MSECOND);
}

/* When a machine is no longer busy, the latency falls. */
TEST(test_latency_comes_back)
{
    const gint64 until = g_get_monotonic_time() + 80 * G_TIME_SPAN_SECOND;
    GstClockTime highest, lowest;

    open_pair("slow-receiver=drop-oldest slots=16", "slots=16");
    send_on_time(20);
    do {
        send_at(now_at_sink() - 400 * GST_MSECOND);
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
}

/* Pictures that wait in the ring while downstream holds the thread are in time. */
TEST(test_held_thread)
{
    open_pair("slow-receiver=block", NULL); /* so that nothing else bounds it */
    send_on_time(20);
    g_usleep(1100000); /* LATENCY is told once a second */
    gulong holding = hold(src);
    for (guint i = 0; i < 4; i++) {
        GstBuffer *buffer = ends_picture(CAPS_SMALL, pushed++);
        GST_BUFFER_PTS(buffer) = now_at_sink();
        gst_harness_push(sink, buffer);
    }
    ENDS_UNTIL(ENDS_WAIT, is_holding(src));
    g_usleep(800000);
    release(src, holding);
    drop(src, 4);
    GstClockTime min = ask(ends_element(src)).min;
    fail_unless(min < 500 * GST_MSECOND, "a latency of %" G_GUINT64_FORMAT, min);
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
