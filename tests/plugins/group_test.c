/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sources with one group name: four cameras, of which one is late and one stops and comes back, and
 * a consumer that takes a picture of each at a time, as a compositor does. */
#include "ends.h"

#include <string.h>

#define CAMERAS 4
#define TICK (10 * GST_MSECOND)
#define INTERVAL (2 * TICK)
#define CAPS_CAMERA "video/x-raw,format=UYVY,width=64,height=16,framerate=50/1"

/* Cameras push pictures whose offset is their number, and whose time is that of the clock when the
 * first of them pushes it. */
struct camera {
    GstHarness *sink, *src;
    guint late;              /* ticks */
    gint stopped;            /* atomic */
    gboolean away;           /* the others go on without it */
    const gchar *caps, *set; /* the former atomic; set by the pusher */
    guint64 newest;          /* of those that the consumer took */
    GstBuffer *next;         /* that it has not taken yet */
};

static struct camera cameras[CAMERAS];
static GThread *pusher;
static gint pushing; /* atomic */

static GstClockTime clock_now(void)
{
    return (GstClockTime)g_get_monotonic_time() * GST_USECOND;
}

static void push(struct camera *camera, guint64 number, GstClockTime start)
{
    const gchar *caps = g_atomic_pointer_get(&camera->caps);
    GstBuffer *picture = ends_picture(caps, (guint)number);

    if (camera->set != caps)
        gst_harness_set_src_caps_str(camera->sink, caps);
    camera->set = caps;
    GST_BUFFER_PTS(picture) = start + number * INTERVAL;
    GST_BUFFER_OFFSET(picture) = number;
    gst_harness_push(camera->sink, picture);
}

static gpointer push_all(gpointer user)
{
    GstClockTime start = clock_now();

    for (guint64 tick = 0; g_atomic_int_get(&pushing); tick++) {
        gint64 wait =
            (gint64)((start + tick * TICK) / GST_USECOND) - (gint64)g_get_monotonic_time();
        if (wait > 0)
            g_usleep((gulong)wait);
        for (guint i = 0; i < CAMERAS; i++) {
            struct camera *camera = &cameras[i];
            if (tick >= camera->late && (tick - camera->late) % 2 == 0 &&
                !g_atomic_int_get(&camera->stopped))
                push(camera, (tick - camera->late) / 2, start);
        }
    }
    return user;
}

/* properties: of the sources. */
static void start(const gchar *properties)
{
    for (guint i = 0; i < CAMERAS; i++) {
        struct camera *camera = &cameras[i];
        g_autofree gchar *address = ends_address(),
                         *all = g_strdup_printf("name=cam%u %s", i, properties);
        memset(camera, 0, sizeof(*camera));
        camera->caps = camera->set = CAPS_CAMERA;
        camera->sink = ends_sink_at(address, "slow-receiver=drop-oldest wait-for-connection=false");
        gst_harness_set_src_caps_str(camera->sink, CAPS_CAMERA);
        camera->src = ends_src_at(address, all);
        ends_wait_clients(camera->sink, 1);
    }
}

static void run(void)
{
    g_atomic_int_set(&pushing, TRUE);
    pusher = g_thread_new("cameras", push_all, NULL);
}

static void stop(void)
{
    g_atomic_int_set(&pushing, FALSE);
    g_thread_join(pusher);
    for (guint i = 0; i < CAMERAS; i++)
        gst_clear_buffer(&cameras[i].next);
}

static guint64 look(struct camera *camera)
{
    if (!camera->next)
        camera->next = ends_pull(camera->src);
    return GST_BUFFER_OFFSET(camera->next);
}

static void take(struct camera *camera)
{
    camera->newest = look(camera);
    gst_clear_buffer(&camera->next);
}

/* Takes the next picture of each that is not away, all of which must be of one instant. */
static void check_together(guint times)
{
    for (guint k = 0; k < times; k++) {
        guint64 number = look(&cameras[0]);
        for (guint i = 0; i < CAMERAS; i++) {
            if (cameras[i].away)
                continue;
            fail_unless_equals_uint64(look(&cameras[i]), number);
            take(&cameras[i]);
        }
    }
}

/* Sources do not begin at the same instant: drops what the consumer got before. */
static void begin_together(void)
{
    guint64 first = 0;

    for (guint i = 0; i < CAMERAS; i++)
        if (!cameras[i].away)
            first = MAX(first, look(&cameras[i]));
    for (guint i = 0; i < CAMERAS; i++)
        while (!cameras[i].away && look(&cameras[i]) < first)
            take(&cameras[i]);
}

static gboolean has_format(struct camera *camera, const gchar *format)
{
    g_autoptr(GstCaps) caps = gst_caps_from_string(format);
    g_autoptr(GstCaps) now = gst_pad_get_current_caps(camera->src->sinkpad);

    return now && gst_caps_is_subset(now, caps);
}

/* Takes what has arrived from all but one. */
static void drain(guint but)
{
    for (guint i = 0; i < CAMERAS; i++)
        while (i != but && gst_harness_buffers_in_queue(cameras[i].src))
            take(&cameras[i]);
}

static guint64 stat(guint camera, const gchar *field)
{
    return ends_stat(cameras[camera].src, field);
}

/* However busy the machine is: the group waits longer than that. */
TEST(test_one_is_late)
{
    start("group=late group-latency=30000000000");
    cameras[2].late = 3;
    run();
    begin_together();
    check_together(50);
    for (guint i = 0; i < CAMERAS; i++)
        fail_unless_equals_uint64(stat(i, "group-missed"), 0);
    stop();
}

/* So late that its pictures never come in time: the others go on without it, and none of its
 * pictures is shown with others. */
TEST(test_one_is_too_late)
{
    start("group=toolate group-latency=20000000");
    cameras[3].late = 60;
    run();
    ENDS_UNTIL(20, (drain(3), stat(3, "group-dropped") > 10 && stat(3, "group-missed") > 10));
    fail_unless(stat(0, "frames") > 10);
    stop();
}

/* The others wait for it once. It comes back in step: with a picture that the others have, too. */
TEST(test_one_stops)
{
    g_autoptr(GstBus) bus = gst_bus_new();

    start("group=stops group-latency=500000000");
    for (guint i = 0; i < CAMERAS; i++)
        gst_element_set_bus(cameras[i].src->element, bus);
    run();
    begin_together();
    check_together(20);
    gst_bus_set_flushing(bus, TRUE);
    gst_bus_set_flushing(bus, FALSE);

    g_atomic_int_set(&cameras[1].stopped, TRUE);
    ends_expect_named(bus, "gpudirect-group-missing", 20, "missing", "cam1");
    guint64 missed = stat(1, "group-missed");
    gint64 before = g_get_monotonic_time();
    ENDS_UNTIL(20, (drain(1), stat(1, "group-missed") >= missed + 15));
    fail_unless(g_get_monotonic_time() - before < 6 * G_TIME_SPAN_SECOND); /* 15 at 0.5 s */
    while (gst_harness_buffers_in_queue(cameras[1].src))
        take(&cameras[1]);

    g_atomic_int_set(&cameras[1].stopped, FALSE);
    begin_together();
    check_together(20);
    fail_unless(cameras[1].newest > 15);
    stop();
}

/* --- states ------------------------------------------------------------------------------- */

#define IN_USE "group=%s group-latency=2000000000 slots=32"

/* Four in step, of which one goes away in some way. */
static void start_in_step(const gchar *group)
{
    g_autofree gchar *all = g_strdup_printf(IN_USE, group);

    start(all);
    run();
    begin_together();
    check_together(10);
}

/* The others wait for the third one once, and go on in step. */
static void go_on_without(void)
{
    cameras[2].away = TRUE;
    gst_clear_buffer(&cameras[2].next);
    ENDS_UNTIL(20, (drain(2), stat(0, "frames") > 30));
    begin_together();
    check_together(20);
}

static void come_back(void)
{
    ends_drop(cameras[2].src);
    cameras[2].away = FALSE;
    begin_together();
    check_together(20);
    stop();
}

TEST(test_one_is_paused)
{
    start_in_step("paused");
    for (guint i = 0; i < 2; i++) {
        cameras[2].away = FALSE;
        gst_element_set_state(cameras[2].src->element, GST_STATE_PAUSED);
        go_on_without();
        gst_element_set_state(cameras[2].src->element, GST_STATE_PLAYING);
    }
    come_back();
}

TEST(test_one_is_restarted)
{
    start_in_step("restarted");
    gst_element_set_state(cameras[2].src->element, GST_STATE_NULL);
    go_on_without();
    gst_element_set_state(cameras[2].src->element, GST_STATE_PLAYING);
    come_back();
}

/* Its sender ends the stream, and so does the source. */
TEST(test_one_ends)
{
    start_in_step("ends");
    g_atomic_int_set(&cameras[2].stopped, TRUE);
    g_usleep(INTERVAL / GST_USECOND);
    gst_harness_push_event(cameras[2].sink, gst_event_new_eos());
    gst_event_unref(ends_wait_event(cameras[2].src, GST_EVENT_EOS));
    go_on_without();
    stop();
}

/* The application ends the stream of one. */
TEST(test_one_is_ended)
{
    start_in_step("ended");
    gst_element_send_event(ends_element(cameras[2].src), gst_event_new_eos());
    gst_event_unref(ends_wait_event(cameras[2].src, GST_EVENT_EOS));
    go_on_without();
    stop();
}

/* A source whose sender never comes. */
TEST(test_one_never_comes)
{
    g_autofree gchar *all = g_strdup_printf(IN_USE, "never");
    GstHarness *src = ends_src_at("nowhere", all);

    start_in_step("never");
    ENDS_UNTIL(20, (drain(CAMERAS), ends_stat(src, "group-missed") > 20));
    begin_together();
    check_together(20);
    fail_unless_equals_int(gst_harness_buffers_in_queue(src), 0);
    stop();
}

/* A source whose picture waits for the others, which have no sender. */
static void start_held(const gchar *group)
{
    g_autofree gchar *all = g_strdup_printf("group=%s group-latency=3600000000000", group);

    start(all);
    GstClockTime now = clock_now();
    for (guint i = 0; i < 3; i++) {
        push(&cameras[0], i, now);
        g_usleep(20000);
    }
    ENDS_UNTIL(10, stat(0, "frames") > 0);
    g_usleep(100000);
    fail_unless_equals_int(gst_harness_buffers_in_queue(cameras[0].src), 0);
}

TEST(test_held_until_others_leave)
{
    start_held("leave");
    for (guint i = 1; i < CAMERAS; i++)
        ends_close(cameras[i].src);
    gst_buffer_unref(ends_pull(cameras[0].src));
}

TEST(test_held_and_stopped)
{
    start_held("stopped");
    gst_element_set_state(cameras[0].src->element, GST_STATE_PAUSED);
    gst_element_set_state(cameras[0].src->element, GST_STATE_PLAYING);
    push(&cameras[0], 0, clock_now());
    g_usleep(100000);
    fail_unless_equals_int(gst_harness_buffers_in_queue(cameras[0].src), 0);
    fail_unless(stat(0, "group-dropped") > 0);
    gst_element_set_state(cameras[0].src->element, GST_STATE_NULL);
    gst_element_set_state(cameras[0].src->element, GST_STATE_PLAYING);
}

TEST(test_held_and_flushed)
{
    start_held("flushed");
    GstElement *element = ends_element(cameras[0].src);

    gst_element_send_event(element, gst_event_new_flush_start());
    gst_element_send_event(element, gst_event_new_flush_stop(FALSE));
    gst_element_send_event(element, gst_event_new_eos());
    gst_event_unref(ends_wait_event(cameras[0].src, GST_EVENT_EOS));
}

/* --- properties --------------------------------------------------------------------------- */

TEST(test_latency)
{
    GstHarness *alone = ends_src("latency=5 group-latency=70000000");
    GstHarness *src = ends_src("latency=5 group=latency group-latency=70000000");

    fail_unless_equals_uint64(gst_harness_query_latency(alone), 5 * GST_MSECOND);
    fail_unless_equals_uint64(gst_harness_query_latency(src), 75 * GST_MSECOND);
    g_object_set(ends_element(src), "group-latency", (guint64)GST_MSECOND, NULL);
    fail_unless_equals_uint64(gst_harness_query_latency(src), 6 * GST_MSECOND);
    g_autoptr(GstStructure) stats = NULL;
    g_object_get(ends_element(alone), "stats", &stats, NULL);
    fail_if(gst_structure_has_field(stats, "group-missed"));
}

/* Others of other names are no part of it; a source alone in its group is not held. */
TEST(test_names)
{
    GstHarness *sink = ends_sink(NULL);
    GstHarness *one = ends_src("group=one group-latency=3600000000000");
    GstHarness *two = ends_src_at("elsewhere", "group=two group-latency=3600000000000");

    ends_start(sink, CAPS_CAMERA);
    for (guint i = 0; i < 5; i++) {
        GstBuffer *picture = ends_picture(CAPS_CAMERA, i);
        GST_BUFFER_PTS(picture) = clock_now();
        gst_harness_push(sink, picture);
        ends_skip(one, 1);
    }
    fail_unless_equals_uint64(ends_stat(two, "group-missed"), 0);
}

/* Times of two clocks cannot be compared. */
TEST(test_other_clock)
{
    g_autofree gchar *address = ends_address();
    GstHarness *sink = ends_sink(NULL), *other_sink = ends_sink_at(address, NULL);
    GstHarness *src = ends_src("group=clocks group-latency=100000000");
    g_autoptr(EndsPipeline) pipeline =
        ends_pipeline("gpudirectsrc name=end address=%s group=clocks ! fakesink", address);
    g_autoptr(GstClock) clock =
        g_object_new(GST_TYPE_SYSTEM_CLOCK, "clock-type", GST_CLOCK_TYPE_REALTIME, NULL);

    gst_pipeline_use_clock(GST_PIPELINE(pipeline), clock);
    ends_play(pipeline);
    ends_start(sink, CAPS_CAMERA);
    ends_start(other_sink, CAPS_CAMERA);
    g_autoptr(GstMessage) warning = NULL;
    for (guint i = 0; i < 500 && !warning; i++) {
        GstBuffer *picture = ends_picture(CAPS_CAMERA, i);
        GST_BUFFER_PTS(picture) = clock_now();
        gst_harness_push(sink, gst_buffer_ref(picture));
        gst_harness_push(other_sink, picture);
        gst_buffer_unref(ends_pull(src));
        warning = ends_wait_message(GST_ELEMENT_BUS(pipeline), GST_MESSAGE_WARNING, 0);
    }
    g_autoptr(GError) error = NULL;
    fail_unless(warning != NULL);
    gst_message_parse_warning(warning, &error, NULL);
    fail_unless(strstr(error->message, "different clocks"), "\"%s\"", error->message);
}

/* Frames far ahead of the clock pass by, and cost the others nothing. */
TEST(test_one_is_ahead)
{
    start("group=ahead group-latency=2000000000");
    GstClockTime now = clock_now();

    for (guint64 k = 0; k < 10; k++) {
        push(&cameras[3], k, now + 3600 * GST_SECOND);
        gst_buffer_unref(ends_pull(cameras[3].src));
        for (guint i = 0; i < 3; i++)
            push(&cameras[i], k, now);
        for (guint i = 0; i < 3; i++) {
            g_autoptr(GstBuffer) buffer = ends_pull(cameras[i].src);
            fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), k);
        }
    }
    fail_unless_equals_uint64(stat(0, "group-dropped"), 0);
}

/* Two change their formats, at different times: still in step. */
TEST(test_other_formats)
{
    start("group=format group-latency=30000000000");
    cameras[3].late = 3;
    run();
    begin_together();
    for (guint i = 0; i < CAMERAS; i += 2) {
        check_together(10);
        g_atomic_pointer_set(&cameras[i].caps, CAPS_SMALL);
    }
    ENDS_UNTIL(20, (drain(CAMERAS), has_format(&cameras[0], CAPS_SMALL)) &&
                       has_format(&cameras[2], CAPS_SMALL));
    begin_together();
    check_together(20);
    stop();
}

ENDS_MAIN(60)
