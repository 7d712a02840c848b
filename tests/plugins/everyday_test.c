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
    return ends_stat_is(scene.src, "active", name);
}

static guint64 count_of(guint which, const gchar *field)
{
    return ends_stat_in(scene.src, which ? "backup" : "main", field);
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
                                                   "name=end sync=false",
                                                   scene.file);

    memset(recorded, 0, sizeof(*recorded));
    ends_on_buffer(player, "end", G_CALLBACK(count_recorded), recorded);
    ends_play(player);
    ends_wait_end(player, 20);
}

static void make_file(void)
{
    scene.directory = g_dir_make_tmp("everyday-XXXXXX", NULL);
    scene.file = g_build_filename(scene.directory, "recording.mkv", NULL);
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
                      "name=view sync=false t. ! " RECORDER,
                      scene.addresses[0], scene.addresses[1], scene.file);
    scene.src = ends_in(scene.pipeline, "src");
    ends_on_buffer(scene.pipeline, "view", G_CALLBACK(see), &scene.view);
    ends_play(scene.pipeline);
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
    ends_wait_end(scene.pipeline, 20);
}

static void close_scene(void)
{
    gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ends_fail_on_errors(scene.pipeline);
    for (guint i = 0; i < 2; i++) {
        end(i);
        g_free(scene.addresses[i]);
    }
    gst_object_unref(scene.pipeline);
    g_remove(scene.file);
    g_rmdir(scene.directory);
    g_free(scene.file);
    g_free(scene.directory);
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
        g_autoptr(GError) error =
            ends_wait_error(GST_ELEMENT_BUS(scene.pipeline), GST_MESSAGE_INFO, 20);
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
    ends_expect(GST_ELEMENT_BUS(scene.pipeline), GST_MESSAGE_WARNING, 20, "main:");
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

/* A pipeline that stands by for the sender pids[0], with a recorder beside. */
static GstHarness *open_standby(const gchar *source, gboolean queued)
{
    memset(&scene, 0, sizeof(scene));
    make_file();
    scene.pids[0] = ends_spawn_instants(ends_own(), CAPS_SMALL, "standby=true", 0);
    GstHarness *src = ends_src("on-eos=wait");
    ends_skip(src, 1);
    scene.pipeline =
        ends_pipeline("%s ! " CAPS_SMALL " ! tee name=t t. ! %s gpudirectsink name=src address=%s "
                      "standby=true async=%s t. ! " RECORDER,
                      source, queued ? "queue !" : "identity !", ends_own(),
                      queued ? "true" : "false", scene.file);
    scene.src = ends_in(scene.pipeline, "src");
    ends_play(scene.pipeline);
    ENDS_UNTIL(20, ends_stat_true(scene.src, "stands-by"));
    return src;
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
        ends_skip(src, 5);
        kill_first();
        ends_drop(src);
        ends_skip(src, 5);
        fail_if(ends_stat_true(scene.src, "stands-by"));
    }
    ends_wait_end(scene.pipeline, 30);
    read_recording(&recorded);
    fail_unless_equals_int(recorded.pictures, 100);
    close_scene();
}

TEST(test_standby_paused)
{
    GstHarness *src = open_standby("videotestsrc is-live=true", TRUE);

    pause_for(2);
    ends_skip(src, 5);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    fail_unless(ends_stat_true(scene.src, "stands-by"));
    pause_for(1);
    kill_first();
    ends_drop(src);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    ends_skip(src, 5);
    fail_if(ends_stat_true(scene.src, "stands-by"));
    pause_for(1); /* the receiver stays */
    ends_drop(src);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING);
    ends_skip(src, 5);
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
    ends_drop(src);
    ends_skip(src, 3);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 0);
    gst_element_set_state(scene.pipeline, GST_STATE_PLAYING); /* once more */
    ENDS_UNTIL(20, ends_stat_true(scene.src, "stands-by"));
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
    ends_drop(src);
    ends_skip(src, 5);
    gboolean waits = ends_stat_true(scene.src, "stands-by");
    if (waits)
        kill_first();
    else
        gst_element_set_state(scene.pipeline, GST_STATE_NULL);
    ENDS_UNTIL(20, ends_stat(src, "reconnects") == 2);
    ends_drop(src);
    ends_skip(src, 5);
    close_scene();
}

ENDS_MAIN(120)
