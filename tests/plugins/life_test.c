/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Senders and receivers that join, leave, die and come back. */
#include "pipes.h"

#define SEND "videotestsrc is-live=true ! " CAPS_SMALL " ! gpudirectsink address=%s"

static gboolean is_local;

TEST(test_killed_sender_is_no_eos)
{
    GstHarness *src = ends_src(NULL);
    g_autoptr(GstBus) bus = ends_bus(src);
    GPid pid = ends_spawn(SEND, ends_own());

    drop(src, 5);
    ends_kill(pid);
    g_autoptr(GstMessage) message =
        ends_wait_message(bus, GST_MESSAGE_WARNING | GST_MESSAGE_EOS | GST_MESSAGE_ERROR, 5);
    fail_unless(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING);
    g_autoptr(GError) warning = NULL;
    gst_message_parse_warning(message, &warning, NULL);
    fail_unless(g_error_matches(warning, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ));

    while (gst_harness_buffers_in_queue(src))
        gst_buffer_unref(gst_harness_pull(src));
    pid = ends_spawn(SEND, ends_own());
    g_autoptr(GstBuffer) fresh = ends_pull(src);
    fail_unless(GST_BUFFER_FLAG_IS_SET(fresh, GST_BUFFER_FLAG_DISCONT));
    drop(src, 5);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 1);
    ends_kill(pid);
}

TEST(test_on_disconnect, .times = 2)
{
    gboolean is_error = __i__ == 1;
    GstHarness *src = ends_src(is_error ? "on-disconnect=error" : "on-disconnect=eos");
    g_autoptr(GstBus) bus = ends_bus(src);
    GPid pid = ends_spawn(SEND, ends_own());

    drop(src, 3);
    ends_kill(pid);
    if (is_error) {
        g_autoptr(GError) error = ends_wait_error(bus, GST_MESSAGE_ERROR, 5);
        fail_unless(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ));
    } else {
        gst_event_unref(ends_wait_event(src, GST_EVENT_EOS));
    }
}

/* A pipeline in this process, with another base time: pictures keep their place in time. */
TEST(test_clock_time_across_processes)
{
    GstHarness *src = ends_src(NULL);
    GPid pid = ends_spawn(SEND, ends_own());

    drop(src, 5);
    g_autoptr(GstBuffer) buffer = ends_pull(src);
    GstClockTime now = (GstClockTime)g_get_monotonic_time() * 1000;
    GstClockTime due = GST_BUFFER_PTS(buffer) + gst_element_get_base_time(ends_element(src));
    /* A live test source stamps each picture when it makes it. */
    fail_unless(due <= now && now - due < GST_SECOND, "%" GST_TIME_FORMAT " late",
                GST_TIME_ARGS((GstClockTime)ABS(GST_CLOCK_DIFF(due, now))));
    ends_kill(pid);
}

/* What a receiver in PAUSED loses of 10 pictures, and what the QoS messages say of it, also when
 * the next sender loses it nothing. */
/* On one host, where the sender takes back what the receiver has not claimed. */
TEST(test_drops_are_told_once, .only_if = &is_local)
{
    GstHarness *src = ends_src(NULL);
    g_autoptr(GstBus) bus = ends_bus(src);
    guint64 told = 0;

    for (guint round = 0; round < 2; round++) {
        g_autoptr(GstHarness) sink = ends_sink("slow-receiver=drop-oldest");
        ends_start(sink, CAPS_SMALL);
        pass(sink, src, 0);
        if (round == 0) {
            gst_element_set_state(src->element, GST_STATE_PAUSED);
            for (guint i = 1; i <= 10; i++)
                gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
            gst_element_set_state(src->element, GST_STATE_PLAYING);
            drop(src, 1);
        }
    }
    GstMessage *message;
    while ((message = ends_wait_message(bus, GST_MESSAGE_QOS, 0))) {
        gst_message_parse_qos_stats(message, NULL, NULL, &told);
        gst_message_unref(message);
    }
    fail_unless_equals_uint64(ends_stat(src, "dropped"), 9);
    fail_unless_equals_uint64(told, 9);
}

TEST(test_receiver_comes_and_goes)
{
    GstHarness *sink = ends_sink(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint round = 0; round < 10; round++) {
        GstHarness *src = ends_src(NULL);
        ends_wait_clients(sink, 1);
        for (guint i = 0; i < 5; i++)
            pass(sink, src, i);
        ends_close(src);
        ends_wait_clients(sink, 0);
    }
    fail_unless_equals_uint64(ends_stat(sink, "connects"), 10);
}

TEST(test_sender_comes_and_goes)
{
    GstHarness *src = ends_src(NULL);

    for (guint round = 0; round < 10; round++) {
        g_autoptr(GstHarness) sink = ends_sink(NULL);
        gst_harness_set_src_caps_str(sink, CAPS_SMALL);
        for (guint i = 0; i < 5; i++) {
            gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
            g_autoptr(GstBuffer) buffer = ends_pull(src);
            ends_check_picture(buffer, CAPS_SMALL, i);
            fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT) == (i == 0));
        }
    }
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 9);
}

/* The element is stopped while a thread pushes: that one comes back at once. */
static void expect_prompt_stop(GstHarness *sink)
{
    GThread *thread = push_aside(sink);

    g_usleep(300000);
    gint64 before = g_get_monotonic_time();
    gst_element_set_state(sink->element, GST_STATE_NULL);
    fail_unless_equals_int(GPOINTER_TO_INT(g_thread_join(thread)), GST_FLOW_FLUSHING);
    fail_unless(g_get_monotonic_time() - before < G_TIME_SPAN_SECOND);
}

TEST(test_waiting_for_a_connection_can_be_ended)
{
    GstHarness *sink = ends_sink(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    expect_prompt_stop(sink);
}

/* Holds the first frame, and so GstBaseSink's lock, until the sink is about to go to PLAYING. */
static gint held;
static GstFlowReturn hold_preroll(GstBaseSink *sink, GstBuffer *buffer)
{
    if (g_atomic_int_compare_and_exchange(&held, FALSE, TRUE))
        ENDS_UNTIL(20, GST_STATE_PENDING(sink) == GST_STATE_PLAYING);
    return GST_FLOW_OK;
}

/* The frame is rendered before the change of state has that lock; its receiver gets it. */
TEST(test_playing_while_waiting_for_a_connection)
{
    g_autoptr(EndsPipeline) pipeline =
        ends_pipeline("videotestsrc ! " CAPS_SMALL " ! gpudirectsink name=sink async=false "
                      "address=%s",
                      ends_own());
    GstElement *sink = pipe_part(pipeline, "sink");

    GST_BASE_SINK_GET_CLASS(sink)->preroll = hold_preroll;
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    ENDS_UNTIL(20, g_atomic_int_get(&held));
    fail_unless(gst_element_set_state(pipeline, GST_STATE_PLAYING) != GST_STATE_CHANGE_FAILURE);
    gst_element_get_state(pipeline, NULL, NULL, 20 * GST_SECOND);
    fail_unless_equals_int(GST_STATE(sink), GST_STATE_PLAYING);
    drop(ends_src(NULL), 1);
}

TEST(test_no_waiting_for_a_connection)
{
    GstHarness *sink = ends_sink("wait-for-connection=false");

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint i = 0; i < 20; i++)
        ends_push(sink, CAPS_SMALL, i);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
}

/* A receiver that does not take its frames blocks the sender, but only until that is stopped. */
TEST(test_stop_while_blocked_by_a_receiver)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    ends_start(sink, CAPS_SMALL);
    gst_element_set_state(src->element, GST_STATE_PAUSED);
    for (guint i = 0; i < 4; i++)
        ends_push(sink, CAPS_SMALL, i);
    expect_prompt_stop(sink);
}

TEST(test_pause_and_play)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint i = 0; i < 10; i++) {
        pass(sink, src, i);
        fail_unless(gst_element_set_state(src->element, GST_STATE_PAUSED) !=
                    GST_STATE_CHANGE_FAILURE);
        gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
        g_usleep(20000);
        fail_unless_equals_int(gst_harness_buffers_in_queue(src), 0);
        gst_element_set_state(src->element, GST_STATE_PLAYING);
        drop(src, 1);
    }
}

/* Back in PLAYING before the streaming thread has seen that it was PAUSED. */
TEST(test_short_pauses)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint i = 0; i < 300; i++) {
        gst_element_set_state(src->element, GST_STATE_PAUSED);
        if (i % 3 == 1)
            g_usleep(i);
        gst_element_set_state(src->element, GST_STATE_PLAYING);
        if (i % 5 == 4)
            continue;
        pass(sink, src, i);
    }
}

/* Like gst-launch-1.0 -e: without a sender, with a silent sender, and while frames flow. */
TEST(test_end_by_the_application)
{
    for (guint i = 0; i < 3; i++) {
        GstHarness *sink = i > 0 ? ends_sink(NULL) : NULL, *src = ends_src(NULL);

        if (sink)
            gst_harness_set_src_caps_str(sink, CAPS_SMALL);
        for (guint n = 0; i == 2 && n < 20; n++)
            pass(sink, src, n);
        if (i == 1)
            ends_wait_clients(sink, 1);
        gst_element_send_event(ends_element(src), gst_event_new_eos());
        gst_event_unref(ends_wait_event(src, GST_EVENT_EOS));
        if (i == 2) { /* a flush takes the end back */
            gst_element_send_event(ends_element(src), gst_event_new_flush_start());
            gst_element_send_event(ends_element(src), gst_event_new_flush_stop(TRUE));
            g_usleep(300000); /* longer than one wait for a frame */
            pass(sink, src, 99);
        }
        ends_close(src);
        if (sink)
            ends_close(sink);
    }
}

/* What waits for a slow receiver when the application asks for the end arrives before it; what a
 * receiver does not take for seconds is given up, and a warning counts it. */
TEST(test_end_behind_a_slow_receiver, .times = 2)
{
    enum { ALL = 24 };
    GstHarness *src = ends_src(NULL);
    gulong holding = hold(src);
    g_autoptr(EndsPipeline) sender =
        pipe_play("videotestsrc num-buffers=%d ! " CAPS_SMALL " ! queue name=queue "
                  "max-size-buffers=30 ! gpudirectsink address=%s sync=false slots=2 "
                  "slow-receiver=block",
                  ALL, ends_own());
    g_autoptr(GstBus) bus = gst_element_get_bus(sender);
    guint waiting = 0;

    ENDS_UNTIL(ENDS_WAIT,
               (g_object_get(pipe_part(sender, "queue"), "current-level-buffers", &waiting, NULL),
                waiting >= ALL - 5 && is_holding(src)));
    gst_element_send_event(sender, gst_event_new_eos());
    if (__i__) {
        expect_told(bus, GST_MESSAGE_WARNING, "frames before the end of the stream are lost");
        release(src, holding);
        return;
    }
    g_usleep(G_USEC_PER_SEC); /* several waits of the sink */
    release(src, holding);
    for (guint i = 0; i < ALL; i++) {
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), i);
    }
    gst_event_unref(ends_wait_event(src, GST_EVENT_EOS));
    expect_no_complaint(bus);
}

static void cycle(GstElement *made)
{
    g_autoptr(GstElement) pipeline = made;
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);

    for (guint i = 0; i < 1000; i++) {
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        if (i % 10 == 0)
            g_usleep(1000);
        fail_unless_equals_int(gst_element_set_state(pipeline, GST_STATE_NULL),
                               GST_STATE_CHANGE_SUCCESS);
    }
    /* A clean stop posts nothing. */
    gst_bus_set_flushing(bus, FALSE);
    expect_no_complaint(bus);
}

TEST(test_sink_states_1000_times)
{
    cycle(ends_pipeline("videotestsrc ! " CAPS_SMALL " ! gpudirectsink address=%s", ends_own()));
}

TEST(test_src_states_1000_times, .times = 2)
{
    g_autoptr(EndsPipeline) sender = ends_pipeline(
        "videotestsrc ! " CAPS_SMALL " ! gpudirectsink sync=false address=%s", ends_own());

    if (__i__)
        gst_element_set_state(sender, GST_STATE_PLAYING);
    cycle(ends_pipeline("gpudirectsrc address=%s ! fakesink", ends_own()));
}

int main(int argc, char **argv)
{
    is_local = !g_getenv("GPUD_TEST_ADDRESS");
    ends_init_environment();
    gst_check_init(&argc, &argv);
    return ends_run_tests(60);
}
