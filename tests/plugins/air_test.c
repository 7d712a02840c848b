/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A live pipeline never stalls, whatever its receivers do; one that is not live loses nothing; and
 * EOS ends every wait. Receivers are separate processes. Frames are counted at the end; the test
 * waits for states only. */
#include "ends.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define FRAMES 200
#define DEADLINE 40 /* s; of every wait */
#define CAPS_LIVE "video/x-raw,format=GRAY8,width=16,height=16,framerate=50/1"

/* --- the sender: a camera, a recorder, and a branch on air -------------------------------- */

static EndsPipeline *pipeline;
static GstElement *sender;
static gint recorded; /* atomic */

static void record(GstElement *recorder, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    g_atomic_int_inc(&recorded);
}

static void make_sender(const gchar *camera, const gchar *properties)
{
    pipeline = ends_pipeline(
        "videotestsrc num-buffers=%d %s ! " CAPS_LIVE " ! tee name=t ! queue ! fakesink "
        "name=recorder sync=false async=false t. ! queue ! gpudirectsink name=sink async=false "
        "sync=false address=%s %s",
        FRAMES, camera, ends_own(), properties);
    sender = ends_in(pipeline, "sink");
    recorded = 0;
    ends_on_buffer(pipeline, "recorder", G_CALLBACK(record), NULL);
}

static void wait_clients(guint count)
{
    guint clients = G_MAXUINT;

    ENDS_UNTIL(DEADLINE, (g_object_get(sender, "num-clients", &clients, NULL), clients == count),
               "%u receivers, not %u", clients, count);
}

static void wait_recorded(gint frames)
{
    ENDS_UNTIL(DEADLINE, g_atomic_int_get(&recorded) >= frames,
               "the recorder stands still: it has %d frames of %d", recorded, frames);
}

static void expect_stats(gboolean live, const gchar *policy, gboolean wait)
{
    ENDS_UNTIL(DEADLINE, ends_stat_true(sender, "live") == live, "a live upstream is not known");
    fail_unless_equals_int(ends_stat_true(sender, "wait-for-connection"), wait);
    ends_check_stat(sender, "slow-receiver", policy);
}

/* --- receivers ---------------------------------------------------------------------------- */

struct viewer {
    GPid pid;
    gint to;
    FILE *from;
};

static void viewer_start(struct viewer *viewer, const gchar *properties)
{
    g_autofree gchar *text = g_strdup_printf(
        "%s gpudirectsrc name=src address=%s %s ! fakesink name=end sync=false async=false",
        g_getenv("GPUDIRECT_TEST_PEER"), ends_own(), properties);
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    gint from;

    fail_unless(g_spawn_async_with_pipes(NULL, words, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL,
                                         &viewer->pid, &viewer->to, &from, NULL, NULL));
    viewer->from = fdopen(from, "r");
}

static void viewer_expect(struct viewer *viewer, const gchar *expected)
{
    gchar line[64] = "";

    fail_unless(fgets(line, sizeof(line), viewer->from) != NULL, "a viewer is gone");
    fail_unless_equals_string(g_strchomp(line), expected);
}

static void viewer_tell(struct viewer *viewer, const gchar *word)
{
    g_autofree gchar *line = g_strdup_printf("%s\n", word);

    fail_unless(write(viewer->to, line, strlen(line)) == (gssize)strlen(line));
    viewer_expect(viewer, word);
}

static void viewer_kill(struct viewer *viewer)
{
    ends_kill(viewer->pid);
    fclose(viewer->from);
    close(viewer->to);
}

/* --- live --------------------------------------------------------------------------------- */

static const struct scene {
    guint receivers;
    enum { FINE, STOPPED, PAUSED, GONE } fate; /* of the first of them */
} scenes[] = {{0, FINE}, {1, FINE},    {1, STOPPED}, {1, PAUSED}, {1, GONE},
              {4, FINE}, {4, STOPPED}, {4, PAUSED},  {4, GONE}};

/* Healthy receivers get a ring of 64 frames: more than a second, for which a busy machine may not
 * schedule a process. */
TEST(test_live, .times = G_N_ELEMENTS(scenes))
{
    const struct scene scene = scenes[__i__];
    struct viewer viewers[4];

    make_sender("is-live=true", "slots=64");
    /* In PAUSED a live source has caps, and no frame yet. */
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    for (guint i = 0; i < scene.receivers; i++)
        viewer_start(&viewers[i],
                     i == 0 && scene.fate != FINE ? "slots=4" : "slots=64 start=oldest");
    wait_clients(scene.receivers);
    ends_play(pipeline);
    wait_recorded(FRAMES / 4);
    expect_stats(TRUE, "drop-oldest", FALSE);
    if (scene.fate == PAUSED)
        viewer_tell(&viewers[0], "pause");
    else if (scene.fate != FINE)
        kill(viewers[0].pid, scene.fate == STOPPED ? SIGSTOP : SIGKILL);
    ends_wait_end(pipeline, DEADLINE);
    fail_unless_equals_int(g_atomic_int_get(&recorded), FRAMES);
    for (guint i = scene.fate == FINE ? 0 : 1; i < scene.receivers; i++)
        viewer_expect(&viewers[i], "end 200 0");
    for (guint i = 0; i < scene.receivers; i++)
        viewer_kill(&viewers[i]);
    ends_stop(pipeline);
}

/* --- not live ----------------------------------------------------------------------------- */

/* A first receiver that connects late, and sleeps for a while, misses nothing. */
TEST(test_not_live)
{
    struct viewer viewer;

    make_sender("", "");
    ends_play(pipeline);
    wait_recorded(1);
    g_usleep(300000); /* a frame that is not waited with would be gone by now */
    expect_stats(FALSE, "block", TRUE);
    viewer_start(&viewer, "! identity sleep-time=10000"); /* not at its end too soon */
    wait_clients(1);
    viewer_tell(&viewer, "pause");
    g_usleep(300000);
    viewer_tell(&viewer, "play");
    viewer_expect(&viewer, "end 200 0");
    ends_wait_end(pipeline, DEADLINE);
    viewer_kill(&viewer);
    ends_stop(pipeline);
}

/* A receiver that is stopped keeps a file waiting, which is said; and nothing is lost. */
TEST(test_standstill_is_told)
{
    struct viewer viewer;

    make_sender("", "");
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    viewer_start(&viewer, "! identity sleep-time=10000");
    wait_clients(1); /* else the sink's first message is about that */
    ends_play(pipeline);
    kill(viewer.pid, SIGSTOP);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    ends_expect(bus, GST_MESSAGE_INFO, DEADLINE, "Is a receiver paused or stopped?");
    kill(viewer.pid, SIGCONT);
    viewer_expect(&viewer, "end 200 0");
    ends_wait_end(pipeline, DEADLINE);
    viewer_kill(&viewer);
    ends_stop(pipeline);
}

/* The user's settings take precedence. */
TEST(test_explicit)
{
    make_sender("is-live=true", "slow-receiver=block wait-for-connection=true");
    ends_play(pipeline);
    wait_recorded(1);
    expect_stats(TRUE, "block", TRUE);
    ends_stop(pipeline);
    make_sender("", "slow-receiver=drop-newest wait-for-connection=false");
    ends_play(pipeline);
    ends_wait_end(pipeline, DEADLINE);
    expect_stats(FALSE, "drop-newest", FALSE);
    fail_unless_equals_int(g_atomic_int_get(&recorded), FRAMES);
    ends_stop(pipeline);
}

/* --- the end ------------------------------------------------------------------------------ */

/* Like Ctrl-C with gst-launch-1.0 -e: without a receiver, and while a receiver takes nothing. */
TEST(test_end_ends_every_wait, .times = 4)
{
    struct viewer viewer;

    make_sender(__i__ % 2 ? "is-live=true" : "", "slow-receiver=block wait-for-connection=true");
    ends_play(pipeline);
    if (__i__ >= 2) {
        viewer_start(&viewer, "! identity sleep-time=10000");
        wait_clients(1);
        kill(viewer.pid, SIGSTOP);
    }
    wait_recorded(1);
    g_usleep(500000); /* long enough to be blocked, mostly; else the end comes all the sooner */
    fail_unless(gst_element_send_event(pipeline, gst_event_new_eos()));
    ends_wait_end(pipeline, DEADLINE);
    if (__i__ >= 2)
        viewer_kill(&viewer);
    ends_stop(pipeline);
}

/* Sends a number of pictures to a receiver that is PAUSED, which then goes on; `begin` is what it
 * gets first. */
static void resume(const gchar *policy, const gchar *start, guint pictures, guint begin)
{
    g_autoptr(GstHarness) sink = ends_sink(policy), src = ends_src(start);

    ends_start(sink, CAPS_SMALL);
    ends_push(sink, CAPS_SMALL, 0);
    ends_skip(src, 1);
    gst_element_set_state(src->element, GST_STATE_PAUSED);
    for (guint i = 1; i <= pictures; i++)
        ends_push(sink, CAPS_SMALL, i);
    gst_element_set_state(src->element, GST_STATE_PLAYING);
    for (guint i = begin; i <= pictures; i++) {
        g_autoptr(GstBuffer) got = ends_pull(src);
        ends_check_picture(got, CAPS_SMALL, i);
        gboolean discont = GST_BUFFER_FLAG_IS_SET(got, GST_BUFFER_FLAG_DISCONT);
        fail_unless_equals_int(discont, i == begin && begin > 1);
    }
    fail_unless_equals_uint64(ends_stat(src, "dropped"), begin - 1);
    fail_unless_equals_uint64(ends_stat(src, "frames"), 1 + pictures - (begin - 1));
    ends_push(sink, CAPS_SMALL, 99);
    g_autoptr(GstBuffer) next = ends_pull(src);
    ends_check_picture(next, CAPS_SMALL, 99);
    fail_if(GST_BUFFER_FLAG_IS_SET(next, GST_BUFFER_FLAG_DISCONT));
}

/* What waited in the ring of 4 meanwhile is stale, but the newest; nothing is that comes from a
 * sender which waits for its receivers. */
TEST(test_start_after_a_pause)
{
    resume("slow-receiver=drop-oldest", NULL, 20, 20);
    resume("slow-receiver=drop-oldest", "start=oldest", 20, 17);
    resume("slow-receiver=block", NULL, 4, 1);
}

/* A receiver that waits at the end goes on with what the sender sends then, and with the next
 * sender, as if nothing had been: no end, no warning, but a new segment and DISCONT. */
TEST(test_receiver_outlives_senders)
{
    GstHarness *src = ends_src("on-eos=wait on-disconnect=error");
    g_autoptr(GstBus) bus = ends_bus(src);

    for (guint i = 0; i < 6; i += 2) {
        g_autoptr(GstHarness) sink = ends_sink(NULL);
        gst_harness_set_src_caps_str(sink, CAPS_SMALL);
        for (guint k = 0; k < 2; k++) {
            ends_push(sink, CAPS_SMALL, i + k);
            GstBuffer *buffer = ends_pull(src);
            ends_check_picture(buffer, CAPS_SMALL, i + k);
            fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT));
            gst_buffer_unref(buffer);
            gst_event_unref(ends_wait_event(src, GST_EVENT_SEGMENT));
            gst_harness_push_event(sink, gst_event_new_eos());
            if (k == 0) {
                GstSegment segment;
                gst_harness_push_event(sink, gst_event_new_flush_start());
                gst_harness_push_event(sink, gst_event_new_flush_stop(TRUE));
                gst_segment_init(&segment, GST_FORMAT_TIME);
                gst_harness_push_event(sink, gst_event_new_segment(&segment));
            }
        }
    }
    GstMessage *bad = ends_wait_message(bus, GST_MESSAGE_WARNING | GST_MESSAGE_ERROR, 0);
    fail_unless(bad == NULL, "the receiver complains");
}

/* --- a pipeline that does not say whether it is live ---------------------------------------- */

static gint asked, answers; /* atomic */

static gboolean answer(GstPad *pad, GstObject *parent, GstQuery *query)
{
    if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY)
        return gst_pad_query_default(pad, parent, query);
    g_atomic_int_inc(&asked);
    gst_query_set_latency(query, TRUE, 0, GST_CLOCK_TIME_NONE);
    return g_atomic_int_get(&answers);
}

static gint push_frames(GstHarness *sink, guint count)
{
    gint before = g_atomic_int_get(&asked);

    for (guint i = 0; i < count; i++)
        ends_push(sink, CAPS_SMALL, i);
    return g_atomic_int_get(&asked) - before;
}

/* Upstream is queried soon, and then ever more rarely, until it answers that it is live. */
TEST(test_silent_upstream)
{
    GstHarness *sink = ends_sink("wait-for-connection=false");

    gst_pad_set_query_function(sink->srcpad, answer);
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    gint soon = push_frames(sink, 4), later = push_frames(sink, 60), then = push_frames(sink, 64);
    fail_unless(soon >= 3 && later <= 4 && then <= 1,
                "asked %d times in 4 frames, %d in 60, %d in 64", soon, later, then);
    g_atomic_int_set(&answers, TRUE);
    push_frames(sink, 64);
    fail_unless_equals_int(push_frames(sink, 64), 0); /* it is known */
    fail_unless(ends_stat_true(ends_element(sink), "live"));
}

ENDS_MAIN(60)
