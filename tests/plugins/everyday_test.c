/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Backups and standbys as they are used: on a tee beside a recorder, paused, with senders that come
 * late or are restarted, and ended at any moment. Groups are in group_test.c. */
#include "ends.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define INTERVAL (40 * GST_MSECOND) /* of CAPS_SMALL */
#define RECORDER "queue ! matroskamux ! filesink location=%s"

/* What a consumer has seen. Under the lock. */
struct view {
    GMutex lock;
    guint pictures, gaps, breaks; /* gaps: of their numbers; breaks: of numbers or times */
    guint64 last;
    gint64 step;            /* between the last picture's time and number */
    GstClockTime submitted; /* the last one, by CLOCK_MONOTONIC */
};

static struct {
    gchar *addresses[2];
    GPid pids[2];
    GstElement *pipeline, *src;
    GstBus *bus;
    gchar *directory, *file;
    struct view view;
    const gchar *senders; /* their properties */
} scene;

/* --- what is seen ------------------------------------------------------------------------- */

static void see(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    struct view *view = user;
    guint64 number = GST_BUFFER_OFFSET(buffer);
    gint64 step = (gint64)GST_BUFFER_PTS(buffer) - (gint64)(number * INTERVAL);
    guint8 contents;

    gst_buffer_extract(buffer, 0, &contents, 1);
    g_mutex_lock(&view->lock);
    gboolean discont = GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    if (view->pictures > 0 && number <= view->last)
        fail("picture %" G_GUINT64_FORMAT " after %" G_GUINT64_FORMAT, number, view->last);
    if (view->pictures > 0) {
        view->gaps += number != view->last + 1;
        view->breaks += number != view->last + 1 || step != view->step;
    }
    if (view->pictures > 0 && number != view->last + 1 && !discont)
        fail("pictures are missing before %" G_GUINT64_FORMAT ", and nothing says so", number);
    if (contents != (guint8)number)
        fail("picture %" G_GUINT64_FORMAT " is another one", number);
    view->pictures++;
    view->last = number;
    view->step = step;
    g_autoptr(GstCaps) kind = gst_caps_new_empty_simple("timestamp/x-gpudirect-submit");
    const GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, kind);
    fail_unless(meta != NULL);
    view->submitted = meta->timestamp;
    g_mutex_unlock(&view->lock);
}

static struct view look(void)
{
    g_mutex_lock(&scene.view.lock);
    struct view now = scene.view;
    g_mutex_unlock(&scene.view.lock);
    return now;
}

static void await(guint more)
{
    guint wanted = look().pictures + more;

    ENDS_UNTIL(20, look().pictures >= wanted, "no more pictures");
}

/* After a pause times that would go back catch up first. */
static void await_steps(void)
{
    guint gaps = look().gaps, breaks, tries = 0;

    do {
        breaks = look().breaks;
        await(10);
        fail_unless_equals_int(look().gaps, gaps);
    } while (look().breaks > breaks && tries++ < 10);
    fail_unless_equals_int(look().breaks, breaks);
}

static gboolean is_active(const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(scene.src, "stats", &stats, NULL);
    return g_strcmp0(gst_structure_get_string(stats, "active"), name) == 0;
}

static guint64 count_of(guint which, const gchar *field)
{
    g_autoptr(GstStructure) stats = NULL, one = NULL;
    guint64 count = 0;

    g_object_get(scene.src, "stats", &stats, NULL);
    fail_unless(
        gst_structure_get(stats, which ? "backup" : "main", GST_TYPE_STRUCTURE, &one, NULL) &&
        gst_structure_get_uint64(one, field, &count));
    return count;
}

/* --- a recording -------------------------------------------------------------------------- */

static void count_recorded(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    struct view *view = user;
    guint8 contents;

    gst_buffer_extract(buffer, 0, &contents, 1);
    if (view->pictures > 0 && contents != (guint8)(view->last + 1))
        view->breaks++;
    view->last = contents;
    view->pictures++;
}

/* Plays the file to its end: how many pictures it has, and how often one is missing. */
static void read_recording(struct view *recorded)
{
    g_autoptr(EndsPipeline) player = ends_pipeline("filesrc location=%s ! matroskademux ! fakesink "
                                                   "name=end sync=false signal-handoffs=true",
                                                   scene.file);
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(player), "end");
    g_autoptr(GstBus) bus = gst_element_get_bus(player);

    memset(recorded, 0, sizeof(*recorded));
    g_signal_connect(end, "handoff", G_CALLBACK(count_recorded), recorded);
    gst_element_set_state(player, GST_STATE_PLAYING);
    g_autoptr(GstMessage) last = ends_wait_message(bus, GST_MESSAGE_EOS | GST_MESSAGE_ERROR, 20);
    fail_unless(last && GST_MESSAGE_TYPE(last) == GST_MESSAGE_EOS, "the recording cannot be read");
}

static void make_file(void)
{
    scene.directory = g_dir_make_tmp("everyday-XXXXXX", NULL);
    scene.file = g_build_filename(scene.directory, "recording.mkv", NULL);
}

static void remove_file(void)
{
    if (scene.file)
        g_remove(scene.file);
    if (scene.directory)
        g_rmdir(scene.directory);
    g_free(scene.file);
    g_free(scene.directory);
}

/* --- a scene: a receiver of two senders --------------------------------------------------- */

static void start_at(guint which, guint64 first)
{
    scene.pids[which] =
        ends_spawn_instants(scene.addresses[which], CAPS_SMALL, scene.senders, first);
}

static void start(guint which)
{
    struct view now = look();

    start_at(which, now.pictures ? now.last + 1 : 0);
}

static void end(guint which)
{
    if (scene.pids[which])
        ends_kill(scene.pids[which]);
    scene.pids[which] = 0;
}

/* Senders that wait for a slow receiver lose nothing on a slow machine. */
#define WAITS "slots=32 slow-receiver=block"
#define DROPS "slots=32"

static void open_scene(const gchar *senders)
{
    memset(&scene, 0, sizeof(scene));
    scene.senders = senders;
    for (guint i = 0; i < 2; i++)
        scene.addresses[i] = ends_address();
    make_file();
    scene.pipeline =
        ends_pipeline("gpudirectsrc name=src address=%s backup-address=%s slots=32 "
                      "add-reference-timestamp-meta=true ! tee name=t t. ! queue ! fakesink "
                      "name=view sync=false signal-handoffs=true t. ! " RECORDER,
                      scene.addresses[0], scene.addresses[1], scene.file);
    scene.src = gst_bin_get_by_name(GST_BIN(scene.pipeline), "src");
    scene.bus = gst_element_get_bus(scene.pipeline);
    g_autoptr(GstElement) end = gst_bin_get_by_name(GST_BIN(scene.pipeline), "view");
    g_signal_connect(end, "handoff", G_CALLBACK(see), &scene.view);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
}

static void open_with_both(const gchar *senders)
{
    open_scene(senders);
    start(0);
    await(3);
    start(1);
    ENDS_UNTIL(20, count_of(1, "frames") >= 3);
}

/* As after Ctrl-C of gst-launch -e. */
static void end_stream(void)
{
    gst_element_send_event(scene.pipeline, gst_event_new_eos());
    g_autoptr(GstMessage) last =
        ends_wait_message(scene.bus, GST_MESSAGE_EOS | GST_MESSAGE_ERROR, 20);
    ends_fail_on_errors(scene.pipeline);
    fail_unless(last && GST_MESSAGE_TYPE(last) == GST_MESSAGE_EOS, "the stream does not end");
}

static void close_scene(void)
{
    gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ends_fail_on_errors(scene.pipeline);
    for (guint i = 0; i < 2; i++) {
        end(i);
        g_free(scene.addresses[i]);
    }
    remove_file();
    gst_object_unref(scene.src);
    gst_object_unref(scene.bus);
    gst_object_unref(scene.pipeline);
}

/* --- a source with a backup --------------------------------------------------------------- */

/* A supervisor restarts each at once: neither the view nor the recording lacks a picture. */
TEST(test_backup_beside_recorder)
{
    struct view recorded;

    open_with_both(WAITS);
    for (guint i = 0; i < 2; i++) {
        guint64 connects = count_of(i, "connects");
        end(i);
        start(i);
        ENDS_UNTIL(20, count_of(i, "connects") > connects);
        await(5);
    }
    end_stream();
    fail_unless_equals_int(look().breaks, 0);
    read_recording(&recorded);
    fail_unless_equals_int(recorded.breaks, 0);
    fail_unless_equals_int(recorded.pictures, look().pictures);
    fail_unless_equals_int((guint8)recorded.last, (guint8)look().last);
    close_scene();
}

/* With both restarted some pictures were never sent. Then it goes on as before. */
TEST(test_both_restarted)
{
    open_with_both(WAITS);
    end(0);
    end(1);
    start_at(0, 0);
    start_at(1, 0);
    ENDS_UNTIL(20, count_of(0, "connects") >= 2 && count_of(1, "connects") >= 2);
    await(1);
    ENDS_UNTIL(20, is_active("main"));
    guint breaks = look().breaks;
    fail_unless(breaks == 1 || breaks == 2, "%u breaks", breaks);
    await(10);
    fail_unless_equals_int(look().breaks, breaks);
    end_stream();
    close_scene();
}

static void pause_for(guint seconds)
{
    fail_unless(gst_element_set_state(scene.pipeline, GST_STATE_PAUSED) !=
                GST_STATE_CHANGE_FAILURE);
    gst_element_get_state(scene.pipeline, NULL, NULL, 5 * GST_SECOND);
    g_usleep(seconds * G_USEC_PER_SEC);
}

/* What was captured during the pause is not shown after it, and nothing is shown twice. */
TEST(test_paused)
{
    open_with_both(DROPS);
    for (guint i = 0; i < 2; i++) {
        pause_for(2);
        struct view before = look();
        GstClockTime resumed_at = (GstClockTime)g_get_monotonic_time() * GST_USECOND;
        gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
        await(1);
        fail_unless(look().submitted >= resumed_at, "a picture of the pause");
        fail_unless(look().last > before.last + 10);
        await_steps();
        guint breaks = look().breaks;
        end(i); /* it goes on with the other one */
        start(i);
        ENDS_UNTIL(20, count_of(i, "connects") >= 2);
        await(5);
        fail_unless_equals_int(look().breaks, breaks);
    }
    end_stream();
    close_scene();
}

/* Both die in a pause, and one of them is back after it. */
TEST(test_lost_in_pause)
{
    open_with_both(DROPS);
    pause_for(1);
    end(0);
    end(1);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    start(1);
    ENDS_UNTIL(20, count_of(1, "connects") >= 2);
    await(5);
    fail_unless(is_active("backup"));
    end_stream();
    close_scene();
}

static void await_info(void)
{
    for (guint i = 0; i < 100; i++) {
        g_autoptr(GError) error = ends_wait_error(scene.bus, GST_MESSAGE_INFO, 20);
        if (strstr(error->message, scene.addresses[0]))
            return;
    }
    fail("nothing says that a sender is waited for");
}

TEST(test_nobody_at_first)
{
    open_scene(WAITS);
    await_info();
    start(1);
    await(5);
    fail_unless(is_active("backup"));
    start(0);
    ENDS_UNTIL(20, is_active("main"));
    await(5);
    fail_unless_equals_int(look().breaks, 0);
    end_stream();
    close_scene();
}

/* --- the end at any moment ---------------------------------------------------------------- */

static void kill_both(void)
{
    end(0);
    end(1);
}

static void stop_both(void)
{
    kill(scene.pids[0], SIGSTOP);
    kill(scene.pids[1], SIGSTOP);
}

static void end_first(void)
{
    kill(scene.pids[0], SIGTERM);
}

static void kill_first(void)
{
    end(0);
}

static void restart_both(void)
{
    kill_both();
    start(0);
    start(1);
}

static void await_loss(void)
{
    kill_both();
    g_autoptr(GError) warning = ends_wait_error(scene.bus, GST_MESSAGE_WARNING, 20);
    fail_unless(strstr(warning->message, "main:"), "\"%s\"", warning->message);
}

static void pause_and_play(void)
{
    pause_for(1);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
}

static void nothing(void)
{
}

static const struct {
    gboolean senders;
    void (*before)(void);
} moments[] = {
    {FALSE, nothing},   {FALSE, await_info},  {FALSE, pause_and_play}, {TRUE, nothing},
    {TRUE, kill_both},  {TRUE, await_loss},   {TRUE, stop_both},       {TRUE, end_first},
    {TRUE, kill_first}, {TRUE, restart_both}, {TRUE, pause_and_play},
};

TEST(test_ended, .times = 2 * G_N_ELEMENTS(moments))
{
    guint moment = (guint)__i__ / 2;
    gboolean by_state = __i__ % 2;

    if (moments[moment].senders)
        open_with_both(DROPS);
    else
        open_scene(DROPS);
    moments[moment].before();
    if (!by_state)
        end_stream();
    close_scene();
}

/* --- a sink that stands by ---------------------------------------------------------------- */

static gboolean stands_by(GstElement *sink)
{
    g_autoptr(GstStructure) stats = NULL;
    gboolean stands = FALSE;

    g_object_get(sink, "stats", &stats, NULL);
    return gst_structure_get_boolean(stats, "stands-by", &stands) && stands;
}

/* A pipeline that stands by for the sender pids[0], with a recorder beside. */
static GstHarness *open_standby(const gchar *source, gboolean queued)
{
    memset(&scene, 0, sizeof(scene));
    make_file();
    scene.pids[0] = ends_spawn_instants(ends_own(), CAPS_SMALL, "standby=true", 0);
    GstHarness *src = ends_src("on-eos=wait");
    gst_buffer_unref(ends_pull(src));
    scene.pipeline =
        ends_pipeline("%s ! " CAPS_SMALL " ! tee name=t t. ! %s gpudirectsink name=src address=%s "
                      "standby=true async=%s t. ! " RECORDER,
                      source, queued ? "queue !" : "identity !", ends_own(),
                      queued ? "true" : "false", scene.file);
    scene.src = gst_bin_get_by_name(GST_BIN(scene.pipeline), "src");
    scene.bus = gst_element_get_bus(scene.pipeline);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    ENDS_UNTIL(20, stands_by(scene.src));
    return src;
}

static void drop_received(GstHarness *src)
{
    while (gst_harness_buffers_in_queue(src))
        gst_buffer_unref(gst_harness_pull(src));
}

static void await_received(GstHarness *src, guint count)
{
    while (count-- > 0)
        gst_buffer_unref(ends_pull(src));
}

/* The recording has each picture of the source, however the sink waits and takes over: behind a
 * queue, and in the thread of a live source. */
TEST(test_standby_beside_recorder, .times = 3)
{
    struct view recorded;
    gboolean live = __i__ > 0;
    g_autofree gchar *source =
        g_strdup_printf("videotestsrc num-buffers=100 is-live=%s", live ? "true" : "false");
    GstHarness *src = open_standby(source, __i__ < 2);

    if (live) {
        await_received(src, 5);
        kill_first();
        drop_received(src);
        await_received(src, 5);
        fail_if(stands_by(scene.src));
    }
    g_autoptr(GstMessage) last =
        ends_wait_message(scene.bus, GST_MESSAGE_EOS | GST_MESSAGE_ERROR, 30);
    ends_fail_on_errors(scene.pipeline);
    fail_unless(last && GST_MESSAGE_TYPE(last) == GST_MESSAGE_EOS);
    read_recording(&recorded);
    fail_unless_equals_int(recorded.pictures, 100);
    close_scene();
}

TEST(test_standby_paused)
{
    GstHarness *src = open_standby("videotestsrc is-live=true", TRUE);

    pause_for(2);
    await_received(src, 5);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    fail_unless(stands_by(scene.src));
    pause_for(1);
    kill_first();
    drop_received(src);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    await_received(src, 5);
    fail_if(stands_by(scene.src));
    pause_for(1); /* the receiver stays */
    drop_received(src);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    await_received(src, 5);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 1);
    close_scene();
}

/* Stopped while it waits, by EOS or at once; the first sender and its receiver notice nothing. */
TEST(test_standby_stopped, .times = 4)
{
    GstHarness *src =
        open_standby(__i__ < 2 ? "videotestsrc is-live=true" : "videotestsrc is-live=false", TRUE);

    if (__i__ % 2)
        end_stream();
    gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    drop_received(src);
    await_received(src, 3);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 0);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING); /* once more */
    ENDS_UNTIL(20, stands_by(scene.src));
    close_scene();
}

/* The first one is restarted at once: one of the two has the address, the other one stands by, and
 * the receiver goes on. */
TEST(test_first_restarted, .times = 3)
{
    GstHarness *src = open_standby("videotestsrc is-live=true", TRUE);

    kill_first();
    scene.pids[0] = ends_spawn_instants(ends_own(), CAPS_SMALL, "standby=true", 0);
    ENDS_UNTIL(20, ends_stat(src, "reconnects") == 1);
    drop_received(src);
    await_received(src, 5);
    gboolean waits = stands_by(scene.src);
    if (waits)
        kill_first();
    else
        gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ENDS_UNTIL(20, ends_stat(src, "reconnects") == 2);
    drop_received(src);
    await_received(src, 5);
    close_scene();
}

ENDS_MAIN(120)
