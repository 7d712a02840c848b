/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sinks that wait for the address of another sender, and take it over when that one ends. */
#include "pipes.h"

#include <glib/gstdio.h>
#include <sys/wait.h>

static gboolean stands_by(GstHarness *sink)
{
    return stats_flag(ends_element(sink), "stands-by");
}

/* A sink that waits with caps. */
static GstHarness *make_standby(void)
{
    GstHarness *sink = ends_sink("standby=true");

    fail_unless(stands_by(sink), "it does not stand by");
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    return sink;
}

/* The receiver gets the sink's pictures, after those that the first sender left behind. */
static void check_delivers(GstHarness *sink, GstHarness *src)
{
    ends_wait_clients(sink, 1);
    while (gst_harness_buffers_in_queue(src))
        gst_buffer_unref(gst_harness_pull(src));
    for (guint i = 1; i < 4; i++)
        pass(sink, src, i);
}

static void expect_take_over(GstHarness *sink, GstHarness *src)
{
    ENDS_UNTIL(10, !stands_by(sink), "the address was not taken over");
    check_delivers(sink, src);
}

/* Another process that sends, and its receiver, which has a picture. */
static GPid start_first(const gchar *more, GstHarness **src)
{
    GPid first =
        ends_spawn("videotestsrc is-live=true %s ! " CAPS_SMALL " ! gpudirectsink address=%s", more,
                   ends_own());

    *src = ends_src("on-eos=wait");
    drop(*src, 1);
    return first;
}

/* The sink blocks for the first receiver and for slow ones, as ends_sink() sets it: nothing of that
 * holds a pipeline that stands by. */
TEST(test_killed)
{
    GstHarness *src;
    GPid first = start_first("", &src);
    GstHarness *sink = make_standby();

    for (guint i = 0; i < 20; i++)
        ends_push(sink, CAPS_SMALL, i);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-standby"), 20);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
    drop(src, 1);

    ends_kill(first);
    expect_take_over(sink, src);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-standby"), 20);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 1);
}

TEST(test_at_a_path)
{
    g_autofree gchar *directory = g_dir_make_tmp("standby-XXXXXX", NULL);
    g_autofree gchar *address = g_strdup_printf("unix:%s/cam", directory);
    GstHarness *first = ends_sink_at(address, NULL), *src = ends_src_at(address, NULL);
    GstHarness *sink = ends_sink_at(address, "standby=true");

    ends_start(first, CAPS_SMALL);
    pass(first, src, 1);
    fail_unless(stands_by(sink));
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    ends_close(first);
    expect_take_over(sink, src);
    ends_close(src);
    ends_close(sink);
    fail_unless_equals_int(g_rmdir(directory), 0); /* nothing is left behind */
}

TEST(test_end_of_stream)
{
    GstHarness *src;
    GPid first = start_first("num-buffers=10", &src);
    GstHarness *sink = make_standby();

    waitpid(first, NULL, 0);
    expect_take_over(sink, src);
}

TEST(test_stopped_process_keeps_its_address)
{
    GstHarness *src;
    GPid first = start_first("", &src);
    GstHarness *sink = make_standby();

    kill(first, SIGSTOP);
    for (guint i = 0; i < 12; i++) { /* longer than the sender's thread sleeps */
        g_usleep(100000);
        gst_harness_push(sink, ends_picture(CAPS_SMALL, i));
        fail_unless(stands_by(sink), "taken from a stopped process");
    }
    kill(first, SIGCONT);
    drop(src, 1);
    fail_unless(stands_by(sink));
    ends_kill(first);
    expect_take_over(sink, src);
}

/* Each takes over once, and the others go on waiting. */
TEST(test_several)
{
    GstHarness *src, *sinks[3], *left[3];
    GPid first = start_first("", &src);
    guint count = G_N_ELEMENTS(sinks);

    for (guint i = 0; i < count; i++)
        sinks[i] = make_standby();
    ends_kill(first);
    while (count > 0) {
        guint waiting = count;
        GstHarness *active = NULL;
        for (guint tries = 0; tries < 1000 && waiting == count; tries++) {
            g_usleep(10000);
            waiting = 0;
            for (guint i = 0; i < count; i++)
                if (stands_by(sinks[i]))
                    left[waiting++] = sinks[i];
                else
                    active = sinks[i];
        }
        fail_unless_equals_int(waiting, count - 1);
        check_delivers(active, src);
        for (guint i = 0; i < waiting; i++)
            fail_unless(stands_by(left[i]));
        ends_close(active);
        memcpy(sinks, left, sizeof(sinks));
        count = waiting;
    }
}

/* One that gives up leaves the first sender and its receivers alone. */
TEST(test_given_up)
{
    GstHarness *src;
    GPid first = start_first("", &src);

    ends_close(make_standby());
    GstHarness *late = ends_src(NULL);
    drop(late, 1);
    drop(src, 1);
    fail_unless_equals_uint64(ends_stat(src, "reconnects"), 0);
    ends_kill(first);
}

TEST(test_without_another_sender)
{
    GstHarness *sink = ends_sink("standby=true"), *src = ends_src(NULL);

    fail_if(stands_by(sink));
    ends_start(sink, CAPS_SMALL);
    check_delivers(sink, src);
}

/* Something else lies where the socket belongs: the sink tries until it is gone. */
TEST(test_obstacle)
{
    g_autofree gchar *path =
        g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "gpudirect", ends_own(), NULL);
    GstHarness *src;
    GPid first = start_first("", &src);
    GstHarness *sink = make_standby();

    fail_unless_equals_int(g_unlink(path), 0);
    fail_unless(g_file_set_contents(path, "mine", -1, NULL));
    ends_kill(first);
    g_usleep(300000);
    fail_unless(stands_by(sink));
    fail_unless(g_file_test(path, G_FILE_TEST_IS_REGULAR));
    ends_push(sink, CAPS_SMALL, 1);
    fail_unless_equals_int(g_unlink(path), 0);
    expect_take_over(sink, src);
}

/* A pipeline that is not live does not wait for receivers that cannot come: it reaches its end. The
 * application is told at the beginning, and the count at the end. */
TEST(test_runs_to_its_end)
{
    GstHarness *first = ends_sink(NULL);
    g_autoptr(EndsPipeline) pipeline =
        pipe_play("videotestsrc num-buffers=10 ! " CAPS_SMALL
                  " ! gpudirectsink name=end address=%s standby=true",
                  ends_own());
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) info = ends_wait_message(bus, GST_MESSAGE_INFO, 5);
    const GstStructure *details = NULL;
    gboolean says = FALSE;

    fail_unless(info != NULL);
    gst_message_parse_info_details(info, &details);
    fail_unless(gst_structure_get_boolean(details, "stands-by", &says) && says);
    expect_end(pipeline);
    fail_unless_equals_uint64(pipe_stat(pipeline, "end", "dropped-standby"), 10);
    fail_unless(!stands_by(first));
}

ENDS_MAIN(60)
