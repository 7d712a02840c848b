/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on the kernel's test card in the guest: its handling of the driver's timestamps, and
 * of each error that can be injected, errors_test TIMES times each. */
#include "cardrun.h"

#include <stdlib.h>
#include <string.h>

#define FRAME (GST_SECOND / 60)

static void expect_stat(struct run *run, const gchar *name, const gchar *wanted)
{
    g_autofree gchar *text = run_stat(run, name);

    check(g_strcmp0(text, wanted) == 0, "%s is %s, not %s", name, text, wanted);
}

/* --- stamps ------------------------------------------------------------------------------- */

static GstClockTime least_latency(struct run *run)
{
    g_autoptr(GstQuery) query = gst_query_new_latency();
    GstClockTime min = 0;
    gboolean live;

    check(gst_element_query(run->src, query), "no latency");
    gst_query_parse_latency(query, &live, &min, NULL);
    check(live, "not live");
    return min;
}

static void expect_latencies(struct run *run)
{
    guint64 last = 0;
    static const gchar *const names[] = {"latency-p50", "latency-p99", "latency-max"};

    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree gchar *text = run_stat(run, names[i]);
        guint64 value = text ? g_ascii_strtoull(text, NULL, 10) : 0;
        check(value >= MAX(last, 1) && value < 10 * GST_SECOND, "%s is %s", names[i], text);
        g_print("  %s %.3f ms\n", names[i], (gdouble)value / GST_MSECOND);
        last = value;
    }
}

/* The picture's time is the driver's, on the pipeline's clock, and the driver's goes with it. */
static void check_times(struct run *run)
{
    g_mutex_lock(&run->lock);
    GstClockTime base = gst_element_get_base_time(run->src);
    check(GST_CLOCK_TIME_IS_VALID(run->captured), "a buffer without the driver's time");
    GstClockTimeDiff apart = GST_CLOCK_DIFF(base + run->pts, run->captured);
    g_mutex_unlock(&run->lock);
    check(ABS(apart) < GST_MSECOND, "a picture's time is %" G_GINT64_FORMAT " ns from its stamp",
          apart);
}

static void test_stamps(void)
{
    struct run run;

    run_make(&run, "add-reference-timestamp-meta=true");
    card_set("Timestamp Source", 1);
    run_start(&run);
    run_pass(&run, 1);
    check(least_latency(&run) >= FRAME - GST_MSECOND, "the first picture comes too late");
    run_pass(&run, 30);
    expect_stat(&run, "stamps", "start-of-exposure");
    expect_stat(&run, "clock", "same host");
    expect_latencies(&run);
    check_times(&run);

    card_set("Timestamp Source", 0);
    run_start(&run);
    run_pass(&run, 30);
    expect_stat(&run, "stamps", "end-of-frame");
    expect_latencies(&run);
    check(GST_CLOCK_TIME_IS_VALID(run.captured), "a buffer without the driver's time");

    /* Without the property no buffer has it. */
    g_object_set(run.src, "add-reference-timestamp-meta", FALSE, NULL);
    run_start(&run);
    run_pass(&run, 10);
    check(!GST_CLOCK_TIME_IS_VALID(run.captured), "a buffer has it");
    run_clear(&run);
}

/* --- injected errors ---------------------------------------------------------------------- */

/* A typed error, after which a new start streams; or the stream goes on by itself for a while. */
static void expect_end(struct run *run, const gchar *about)
{
    g_autofree gchar *text = NULL;

    if (run_await(run, 90, &text))
        return;
    check(g_str_has_prefix(text, "gst-resource-error-quark") && strstr(text, about), "%s", text);
    run_start(run);
    run_pass(run, 3);
}

static void wrap_sequence(struct run *run)
{
    card_set("Wrap Sequence Number", 1);
    run_start(run);
    run_pass(run, 1);
    while (run->offset <= G_MAXUINT32) /* what the driver counts beyond 32 bits */
        run_pass(run, 4);
    card_set("Wrap Sequence Number", 0);
}

static void wrap_timestamp(struct run *run)
{
    gchar *latency;

    for (gint how = 1; how <= 2; how++) {
        card_set("Wrap Timestamp", how);
        run_start(run);
        run_pass(run, 5);
        expect_stat(run, "stamps", "unknown");
        expect_stat(run, "clock", "unknown");
        latency = run_stat(run, "latency-p50");
        check(!latency, "a latency by a clock that is not known");
        g_mutex_lock(&run->lock);
        check(!GST_CLOCK_TIME_IS_VALID(run->captured) && run->late < 10 * (gint64)GST_SECOND &&
                  run->pts <= gst_element_get_current_running_time(run->src),
              "not a time");
        g_mutex_unlock(&run->lock);
    }
    card_set("Wrap Timestamp", 0);
    run_start(run);
    run_pass(run, 3);
    expect_stat(run, "clock", "same host");
}

/* cardrun.c holds each gap against the messages. */
static void drop(struct run *run)
{
    guint64 gaps = run->gaps;

    card_set("Percentage of Dropped Buffers", 60);
    while (run->gaps < gaps + 5)
        run_pass(run, 4);
    card_set("Percentage of Dropped Buffers", 0);
    run_pass(run, 3);
}

static void flag_buffer(struct run *run)
{
    guint corrupted = run->corrupted;

    card_set("Inject V4L2_BUF_FLAG_ERROR", 1);
    while (run->corrupted == corrupted)
        run_pass(run, 1);
    run_pass(run, 8);
    check(run->corrupted == corrupted + 1, "%u buffers are flagged", run->corrupted - corrupted);
}

static void refuse_buffers(struct run *run)
{
    card_set("Inject VIDIOC_REQBUFS Error", 1);
    run_start(run);
    run_pass(run, 3);
    expect_stat(run, "active-path", "v4l2-mmap"); /* the next best */
}

static void refuse_queueing(struct run *run)
{
    card_set("Inject VIDIOC_QBUF Error", 1);
    run_pass(run, 12);
}

static void refuse_start(struct run *run)
{
    card_set("Inject VIDIOC_STREAMON Error", 1);
    run_start(run);
    expect_end(run, "does not start");
}

static void fail(struct run *run)
{
    card_set("Inject Fatal Streaming Error", 1);
    expect_end(run, CARD);
}

static void disconnect(struct run *run)
{
    card_set("Disconnect", 1);
    expect_end(run, "unplugged");
}

static const struct {
    const gchar *name;
    void (*inject)(struct run *run);
} errors[] = {
    {"Wrap Sequence Number", wrap_sequence},
    {"Wrap Timestamp", wrap_timestamp},
    {"Percentage of Dropped Buffers", drop},
    {"Inject V4L2_BUF_FLAG_ERROR", flag_buffer},
    {"Inject VIDIOC_REQBUFS Error", refuse_buffers},
    {"Inject VIDIOC_QBUF Error", refuse_queueing},
    {"Inject VIDIOC_STREAMON Error", refuse_start},
    {"Inject Fatal Streaming Error", fail},
    {"Disconnect", disconnect},
};

static void test_errors(guint times)
{
    struct run run;

    run_make(&run, "add-reference-timestamp-meta=true");
    for (guint i = 0; i < G_N_ELEMENTS(errors); i++) {
        gint64 begin = g_get_monotonic_time();
        for (guint round = 0; round < times; round++) {
            run_start(&run);
            run_pass(&run, 3);
            errors[i].inject(&run);
        }
        g_print("%-30s %u times, %.1f s\n", errors[i].name, times,
                (gdouble)(g_get_monotonic_time() - begin) / G_TIME_SPAN_SECOND);
    }
    run_clear(&run);
}

int main(int argc, char **argv)
{
    gst_init(&argc, &argv);
    check(argc == 2 && atoi(argv[1]) > 0, "usage: errors_test TIMES");
    test_stamps();
    test_errors((guint)atoi(argv[1]));
    g_print("ok\n");
    return 0;
}
