/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The property `address` of a running gpudirectsrc. Two senders push a picture each at every tick,
 * and the test takes all of a tick before the next one: so the ticks, and no clock, say what is
 * missing. */
#include "pipes.h"

#include <dirent.h>

#define STRIDE                                                                         \
    1000000 /* between the numbers of the first sender's pictures and the second one's \
             */
#define CAPS_WIDE "video/x-raw,format=UYVY,width=128,height=16,framerate=25/1"
#define SENDER "slow-receiver=drop-oldest wait-for-connection=false slots=16"

static gboolean is_local;

static struct scene {
    gchar *addresses[2];
    const gchar *caps[2];
    GstHarness *sinks[2], *src;
    GstBus *bus;
    guint64 tick;    /* pushed last */
    guint64 taken;   /* that of the last picture */
    gint from;       /* which sender's it was; -1: none yet */
    GstClockTime at; /* its time */
    guint changes;   /* from one sender to the other */
} scene;

static void open_sink(guint sender, const gchar *caps)
{
    scene.caps[sender] = caps;
    scene.sinks[sender] = ends_sink_at(scene.addresses[sender], SENDER);
    gst_harness_set_src_caps_str(scene.sinks[sender], caps);
}

static void close_sink(guint sender)
{
    ends_close(g_steal_pointer(&scene.sinks[sender]));
}

static void push_tick(void)
{
    scene.tick++;
    for (guint i = 0; i < 2; i++) {
        if (!scene.sinks[i])
            continue;
        GstBuffer *picture = ends_picture(scene.caps[i], (guint)scene.tick);
        GST_BUFFER_OFFSET(picture) = i * STRIDE + scene.tick;
        GST_BUFFER_PTS(picture) = scene.tick * 40 * GST_MSECOND;
        GST_BUFFER_DURATION(picture) = 40 * GST_MSECOND;
        fail_unless_equals_int(gst_harness_push(scene.sinks[i], picture), GST_FLOW_OK);
    }
}

/* None is missing, none goes back in time, and only a change begins with DISCONT. The second sender
 * pushes its picture of a tick a moment later, so that one of the tick before may be its newest;
 * over a network one link may be more of these short ticks behind the other. */
static void take(void)
{
    g_autoptr(GstBuffer) buffer = ends_pull(scene.src);
    guint64 number = GST_BUFFER_OFFSET(buffer), tick = number % STRIDE;
    gint from = number >= STRIDE;
    gboolean changed = scene.from >= 0 && from != scene.from;

    if (scene.from >= 0)
        fail_unless(tick == scene.taken + 1 ||
                        (changed && tick <= scene.taken && (!is_local || tick + 1 >= scene.taken)),
                    "picture %" G_GUINT64_FORMAT " of sender %d comes after %" G_GUINT64_FORMAT
                    " of sender %d",
                    tick, from, scene.taken, scene.from);
    fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT) ==
                (scene.from < 0 || changed));
    fail_unless(scene.from < 0 || GST_BUFFER_PTS(buffer) > scene.at, "its time goes back");
    ends_check_picture(buffer, scene.caps[from], (guint)tick);
    scene.at = GST_BUFFER_PTS(buffer);
    scene.changes += changed;
    scene.from = from;
    scene.taken = tick;
}

static void run_ticks(guint ticks)
{
    for (; ticks; ticks--) {
        push_tick();
        do
            take();
        while (scene.taken < scene.tick);
    }
}

static void set_address(const gchar *address)
{
    g_object_set(ends_element(scene.src), "address", address, NULL);
}

static void run_until_from(gint sender)
{
    gint64 until = g_get_monotonic_time() + ENDS_WAIT * G_TIME_SPAN_SECOND;

    while (scene.from != sender) {
        fail_unless(g_get_monotonic_time() < until, "no change to sender %d", sender);
        run_ticks(1);
    }
}

static void open_scene(const gchar *properties)
{
    scene = (struct scene){.from = -1};
    for (guint i = 0; i < 2; i++) {
        scene.addresses[i] = ends_address();
        open_sink(i, CAPS_SMALL);
    }
    scene.src = ends_src_at(scene.addresses[0], properties);
    scene.bus = ends_bus(scene.src);
    ends_wait_clients(scene.sinks[0], 1);
    run_ticks(3);
    fail_unless_equals_int(scene.from, 0);
}

static void close_scene(void)
{
    gst_clear_object(&scene.bus);
    g_free(scene.addresses[0]);
    g_free(scene.addresses[1]);
}

/* The next warning, while pictures go on. */
static gchar *run_until_warned(void)
{
    g_autoptr(GstMessage) message = NULL;
    gint64 until = g_get_monotonic_time() + ENDS_WAIT * G_TIME_SPAN_SECOND;

    while (!(message = gst_bus_pop_filtered(scene.bus, GST_MESSAGE_WARNING | GST_MESSAGE_ERROR))) {
        fail_unless(g_get_monotonic_time() < until, "no warning comes");
        run_ticks(1);
    }
    fail_unless_equals_int(GST_MESSAGE_TYPE(message), GST_MESSAGE_WARNING);
    return text_of(message);
}

static void expect_kept(const gchar *says)
{
    g_autofree gchar *text = run_until_warned();

    fail_unless(strstr(text, says) && strstr(text, "goes on"), "\"%s\" does not say \"%s\"", text,
                says);
    expect_text(ends_element(scene.src), "address", scene.addresses[0]);
    run_ticks(5);
    fail_unless_equals_int(scene.from, 0);
    ends_check_stat(ends_element(scene.src), "address", scene.addresses[0]);
}

TEST(test_there_and_back)
{
    open_scene(NULL);
    fail_unless_equals_uint64(ends_stat(scene.src, "switches"), 0);
    set_address(scene.addresses[1]);
    run_until_from(1);
    run_ticks(5);
    ends_expect_named(scene.bus, "gpudirect-switched", ENDS_WAIT, "address", scene.addresses[1]);
    ends_check_stat(ends_element(scene.src), "address", scene.addresses[1]);
    set_address(scene.addresses[0]);
    run_until_from(0);
    run_ticks(5);
    ends_expect_named(scene.bus, "gpudirect-switched", ENDS_WAIT, "address", scene.addresses[0]);
    fail_unless_equals_uint64(ends_stat(scene.src, "switches"), 2);
    fail_unless_equals_uint64(ends_stat(scene.src, "dropped"), 0);
    expect_no_complaint(scene.bus);
    close_scene();
}

TEST(test_no_sender)
{
    g_autofree gchar *nowhere = ends_address();

    open_scene("connection-timeout=1");
    set_address(nowhere);
    expect_text(ends_element(scene.src), "address", nowhere);
    expect_kept(nowhere);
    /* Another one, before the first one is given up. */
    set_address(nowhere);
    run_ticks(2);
    set_address(scene.addresses[1]);
    run_until_from(1);
    expect_no_complaint(scene.bus);
    close_scene();
}

TEST(test_other_formats)
{
    GstCaps *caps;
    gint width;

    open_scene(NULL);
    close_sink(1);
    open_sink(1, CAPS_WIDE);
    set_address(scene.addresses[1]);
    run_until_from(1);
    g_autoptr(GstEvent) event = NULL;
    do {
        gst_clear_event(&event);
        event = ends_wait_event(scene.src, GST_EVENT_CAPS);
        gst_event_parse_caps(event, &caps);
        gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
    } while (width != 128);
    set_address(scene.addresses[0]);
    run_until_from(0);
    close_scene();
}

/* What downstream does not take is found out while the old sender's pictures go on. */
TEST(test_refused_by_downstream)
{
    open_scene(NULL);
    close_sink(1);
    open_sink(1, CAPS_WIDE);
    gst_harness_set_sink_caps_str(scene.src, CAPS_SMALL);
    set_address(scene.addresses[1]);
    expect_kept("do not accept");
    close_scene();
}

TEST(test_another_kind)
{
    open_scene(NULL);
    close_sink(1);
    scene.sinks[1] = NULL;
    GstHarness *sound = ends_sink_at(scene.addresses[1], SENDER);
    gst_harness_set_src_caps_str(
        sound, "audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=2");
    gst_harness_push(sound, gst_buffer_new_allocate(NULL, 1920, NULL));
    set_address(scene.addresses[1]);
    expect_kept("sends sound, and this receiver gets a picture");
    close_scene();
}

TEST(test_nothing_but_senders)
{
    g_autofree gchar *backup = ends_address();

    open_scene(NULL);
    set_address("v4l2:///dev/video0");
    expect_kept("from one sender to another");
    set_address("");
    expect_kept("address");
    set_address("\xff");
    expect_kept("UTF-8");
    close_scene();

    g_autofree gchar *properties = g_strdup_printf("backup-address=%s", backup);
    GstHarness *pair = ends_src(properties);
    g_autoptr(GstBus) bus = ends_bus(pair);
    g_object_set(ends_element(pair), "address", "another", NULL);
    expect_told(bus, GST_MESSAGE_WARNING, "without a backup-address");
    expect_text(ends_element(pair), "address", ends_own());
}

/* The end of the old stream during a switch does not end the source's stream. */
TEST(test_the_old_stream_ends)
{
    open_scene(NULL);
    close_sink(1);
    set_address(scene.addresses[1]);
    run_ticks(2);
    gst_harness_push_event(scene.sinks[0], gst_event_new_eos());
    close_sink(0);
    open_sink(1, CAPS_SMALL);
    ends_wait_clients(scene.sinks[1], 1);
    run_until_from(1);
    run_ticks(3);
    GstEvent *event;
    while ((event = gst_harness_try_pull_event(scene.src))) {
        fail_unless(GST_EVENT_TYPE(event) != GST_EVENT_EOS);
        gst_event_unref(event);
    }
    expect_no_complaint(scene.bus);
    close_scene();
}

/* The new sender has a format and no pictures; it is killed at any moment of its beginning. */
TEST(test_the_new_sender_is_killed, .only_if = &is_local)
{
    open_scene(NULL);
    for (guint round = 0; round < 10; round++) {
        g_autofree gchar *address = ends_address();
        g_autofree gchar *socket =
            g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "gpudirect", address, NULL);
        GPid pid = ends_spawn("videotestsrc is-live=true ! " CAPS_SMALL
                              " ! identity drop-probability=1 ! gpudirectsink address=%s",
                              address);
        set_address(address);
        ENDS_UNTIL(ENDS_WAIT, (run_ticks(1), g_file_test(socket, G_FILE_TEST_EXISTS)));
        run_ticks(1 + round * 10);
        ends_kill(pid);
        run_ticks(3);
        fail_unless_equals_int(scene.from, (gint)(round % 2));
        set_address(scene.addresses[1 - round % 2]);
        run_until_from((gint)(1 - round % 2));
    }
    expect_no_complaint(scene.bus);
    close_scene();
}

static guint count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    guint count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

TEST(test_two_hundred_times)
{
    open_scene(NULL);
    for (guint i = 1; i <= 2; i++) {
        set_address(scene.addresses[i % 2]);
        run_until_from((gint)(i % 2));
    }
    ends_wait_clients(scene.sinks[1], 0);
    guint before = count_fds();
    for (guint i = 1; i <= 200; i++) {
        set_address(scene.addresses[i % 2]);
        run_until_from((gint)(i % 2));
    }
    fail_unless_equals_int(scene.changes, 202);
    ENDS_UNTIL(ENDS_WAIT, count_fds() <= before, "%u descriptors, and %u before", count_fds(),
               before);
    fail_unless_equals_uint64(ends_stat(scene.src, "switches"), 202);
    close_scene();
}

/* Before PLAYING, and in a pause. */
TEST(test_in_other_states)
{
    open_scene(NULL);
    gst_element_set_state(scene.src->element, GST_STATE_PAUSED);
    set_address(scene.addresses[1]);
    gst_element_set_state(scene.src->element, GST_STATE_PLAYING);
    scene.from = -1;
    gint64 until = g_get_monotonic_time() + ENDS_WAIT * G_TIME_SPAN_SECOND;
    do {
        fail_unless(g_get_monotonic_time() < until);
        push_tick();
        g_autoptr(GstBuffer) buffer = ends_pull(scene.src);
        scene.taken = GST_BUFFER_OFFSET(buffer);
    } while (scene.taken < STRIDE);
    gst_element_set_state(scene.src->element, GST_STATE_NULL);
    set_address(scene.addresses[0]);
    gst_element_set_state(scene.src->element, GST_STATE_PLAYING);
    ends_wait_clients(scene.sinks[0], 1);
    expect_no_complaint(scene.bus);
    close_scene();
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    is_local = !g_getenv("GPUD_TEST_ADDRESS");
    return ends_run_tests(120);
}
