/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on the kernel's test card in the guest: its handling of the driver's timestamps, and
 * of each error that can be injected, errors_test TIMES times each. */
#include "card.h"

#include <stdlib.h>
#include <string.h>

#define FRAME (GST_SECOND / 60)

/* --- the source, each of whose buffers is looked at as it passes --------------------------- */

static struct {
    GstElement *pipeline, *src;
    GstBus *bus;

    GMutex lock;
    guint frames;          /* since it was started */
    guint corrupted;       /* flagged */
    guint64 offset;        /* the driver's number of the last one */
    guint64 gaps;          /* of these numbers */
    guint64 told, untold;  /* frames lost by the last QoS message, and by the first frame's */
    guint64 missing;       /* that no message told of, or too many: 0, or the test fails */
    GstClockTime pts;      /* of the last one */
    GstClockTime captured; /* its reference timestamp; NONE: it has none */
    gboolean backwards;    /* a PTS was before the last one */
    gint64 late;           /* running time beyond the last PTS, at most */
} run;

/* The message about frames that were lost comes before the frame that follows them. */
static void on_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    guint64 offset = GST_BUFFER_OFFSET(buffer);
    GstClockTime now = gst_element_get_current_running_time(run.src);
    g_autoptr(GstCaps) caps = gst_caps_new_empty_simple("timestamp/x-gpudirect-capture");
    GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, caps);

    g_mutex_lock(&run.lock);
    if (run.frames == 0)
        run.untold = run.told;
    else if (offset > run.offset)
        run.gaps += offset - run.offset - 1;
    if (run.told - run.untold != run.gaps)
        run.missing = run.gaps - (run.told - run.untold);
    run.backwards |= run.frames > 0 && GST_BUFFER_PTS(buffer) < run.pts;
    run.late = MAX(run.late, GST_CLOCK_DIFF(GST_BUFFER_PTS(buffer), now));
    run.pts = GST_BUFFER_PTS(buffer);
    run.offset = offset;
    run.captured = meta ? meta->timestamp : GST_CLOCK_TIME_NONE;
    run.corrupted += GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED) != 0;
    run.frames++;
    g_mutex_unlock(&run.lock);
}

static GstBusSyncReply on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_QOS &&
        GST_MESSAGE_SRC(message) == GST_OBJECT(run.src)) {
        g_mutex_lock(&run.lock);
        gst_message_parse_qos_stats(message, NULL, NULL, &run.told);
        g_mutex_unlock(&run.lock);
    }
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        return GST_BUS_PASS;
    gst_message_unref(message);
    return GST_BUS_DROP;
}

static void run_make(void)
{
    run.pipeline =
        launch("gpudirectsrc name=src address=v4l2://" CARD " add-reference-timestamp-meta=true ! "
               "video/x-raw,format=UYVY,width=320,height=180,framerate=60/1 ! "
               "fakesink name=sink sync=false signal-handoffs=true");
    run.src = gst_bin_get_by_name(GST_BIN(run.pipeline), "src");
    run.bus = GST_ELEMENT_BUS(run.pipeline);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(run.pipeline), "sink");
    g_signal_connect(sink, "handoff", G_CALLBACK(on_frame), NULL);
    gst_bus_set_sync_handler(run.bus, on_message, NULL, NULL);
}

static void run_stop(void)
{
    GstMessage *message;

    gst_element_set_state(run.pipeline, GST_STATE_NULL);
    while ((message = gst_bus_pop(run.bus)))
        gst_message_unref(message);
}

/* From NULL to PLAYING, with counters reset. */
static void run_start(void)
{
    run_stop();
    g_mutex_lock(&run.lock);
    run.frames = run.corrupted = 0;
    run.gaps = run.told = run.untold = run.missing = 0;
    run.backwards = FALSE;
    run.late = 0;
    run.captured = GST_CLOCK_TIME_NONE;
    g_mutex_unlock(&run.lock);
    gst_element_set_state(run.pipeline, GST_STATE_PLAYING);
}

static gchar *take_error(void)
{
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(run.bus, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;

    if (!message)
        return NULL;
    gst_message_parse_error(message, &error, NULL);
    return g_strdup_printf("%s %d: %s", g_quark_to_string(error->domain), error->code,
                           error->message);
}

/* Waits until so many more frames came; FALSE: an error came first, *text is its sentence and what
 * it is about (g_free it). Nothing at all ends the test. */
static gboolean run_await(guint more, gchar **text)
{
    gint64 deadline = g_get_monotonic_time() + CARD_WAIT / GST_USECOND;

    g_mutex_lock(&run.lock);
    guint wanted = run.frames + more;
    while ((*text = take_error()) == NULL && run.frames < wanted &&
           g_get_monotonic_time() < deadline) {
        g_mutex_unlock(&run.lock);
        g_usleep(5000);
        g_mutex_lock(&run.lock);
    }
    gboolean came = run.frames >= wanted;
    check(!run.backwards, "a time goes back");
    check(run.missing == 0, "%" G_GINT64_FORMAT " lost frames of %" G_GUINT64_FORMAT " not told",
          (gint64)run.missing, run.gaps);
    g_mutex_unlock(&run.lock);
    check(came || *text, "neither a frame nor an error");
    if (*text)
        check(strlen(*text) > 30, "no sentence: %s", *text);
    return *text == NULL;
}

/* The same where an error ends the test. */
static void run_pass(guint more)
{
    gchar *text;

    gboolean came = run_await(more, &text);
    check(came, "%s", text);
}

/* A field of the source's stats; NULL: none (g_free it). */
static gchar *run_stat(const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(run.src, "stats", &stats, NULL);
    const GValue *value = gst_structure_get_value(stats, name);
    return !value                        ? NULL
           : G_VALUE_HOLDS_STRING(value) ? g_value_dup_string(value)
                                         : gst_value_serialize(value);
}

static void expect_stat(const gchar *name, const gchar *wanted)
{
    g_autofree gchar *text = run_stat(name);

    check(g_strcmp0(text, wanted) == 0, "%s is %s, not %s", name, text, wanted);
}

/* --- stamps ------------------------------------------------------------------------------- */

static void expect_latencies(void)
{
    guint64 last = 0;
    static const gchar *const names[] = {"latency-p50", "latency-p99", "latency-max"};

    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree gchar *text = run_stat(names[i]);
        guint64 value = text ? g_ascii_strtoull(text, NULL, 10) : 0;
        check(value >= MAX(last, 1) && value < 10 * GST_SECOND, "%s is %s", names[i], text);
        g_print("  %s %.3f ms\n", names[i], (gdouble)value / GST_MSECOND);
        last = value;
    }
}

static void test_stamps(void)
{
    card_set("Timestamp Source", 1);
    run_start();
    run_pass(1);
    g_autoptr(GstQuery) query = gst_query_new_latency();
    GstClockTime min = 0;
    gboolean live;
    check(gst_element_query(run.src, query), "no latency");
    gst_query_parse_latency(query, &live, &min, NULL);
    check(live, "not live");
    check(min >= FRAME - GST_MSECOND, "the first picture comes too late");
    run_pass(30);
    expect_stat("stamps", "start-of-exposure");
    expect_stat("clock", "same host");
    expect_latencies();
    /* A picture's time is the driver's stamp on the pipeline's clock; the stamp goes with it. */
    g_mutex_lock(&run.lock);
    check(GST_CLOCK_TIME_IS_VALID(run.captured), "a buffer without the driver's time");
    GstClockTimeDiff apart =
        GST_CLOCK_DIFF(gst_element_get_base_time(run.src) + run.pts, run.captured);
    g_mutex_unlock(&run.lock);
    check(ABS(apart) < GST_MSECOND, "a picture's time is %" G_GINT64_FORMAT " ns from its stamp",
          apart);

    card_set("Timestamp Source", 0);
    run_start();
    run_pass(30);
    expect_stat("stamps", "end-of-frame");
    expect_latencies();
    check(GST_CLOCK_TIME_IS_VALID(run.captured), "a buffer without the driver's time");

    /* Without the property no buffer has it. */
    g_object_set(run.src, "add-reference-timestamp-meta", FALSE, NULL);
    run_start();
    run_pass(10);
    check(!GST_CLOCK_TIME_IS_VALID(run.captured), "a buffer has it");
    g_object_set(run.src, "add-reference-timestamp-meta", TRUE, NULL);
}

/* --- injected errors ---------------------------------------------------------------------- */

/* A typed error, after which a new start streams; or the stream goes on by itself for a while. */
static void expect_end(const gchar *about)
{
    g_autofree gchar *text = NULL;

    if (run_await(90, &text))
        return;
    check(g_str_has_prefix(text, "gst-resource-error-quark") && strstr(text, about), "%s", text);
    run_start();
    run_pass(3);
}

static void wrap_sequence(void)
{
    card_set("Wrap Sequence Number", 1);
    run_start();
    run_pass(1);
    while (run.offset <= G_MAXUINT32) /* what the driver counts beyond 32 bits */
        run_pass(4);
    card_set("Wrap Sequence Number", 0);
}

static void wrap_timestamp(void)
{
    gchar *latency;

    for (gint how = 1; how <= 2; how++) {
        card_set("Wrap Timestamp", how);
        run_start();
        run_pass(5);
        expect_stat("stamps", "unknown");
        expect_stat("clock", "unknown");
        latency = run_stat("latency-p50");
        check(!latency, "a latency by a clock that is not known");
        g_mutex_lock(&run.lock);
        check(!GST_CLOCK_TIME_IS_VALID(run.captured) && run.late < 10 * (gint64)GST_SECOND &&
                  run.pts <= gst_element_get_current_running_time(run.src),
              "not a time");
        g_mutex_unlock(&run.lock);
    }
    card_set("Wrap Timestamp", 0);
    run_start();
    run_pass(3);
    expect_stat("clock", "same host");
}

/* on_frame() holds each gap against the messages. */
static void drop(void)
{
    guint64 gaps = run.gaps;

    card_set("Percentage of Dropped Buffers", 60);
    while (run.gaps < gaps + 5)
        run_pass(4);
    card_set("Percentage of Dropped Buffers", 0);
    run_pass(3);
}

static void flag_buffer(void)
{
    guint corrupted = run.corrupted;

    card_set("Inject V4L2_BUF_FLAG_ERROR", 1);
    while (run.corrupted == corrupted)
        run_pass(1);
    run_pass(8);
    check(run.corrupted == corrupted + 1, "%u buffers are flagged", run.corrupted - corrupted);
}

static void refuse_buffers(void)
{
    card_set("Inject VIDIOC_REQBUFS Error", 1);
    run_start();
    run_pass(3);
    expect_stat("active-path", "v4l2-mmap"); /* the next best */
}

/* Without a function the control is set, the source is restarted or not, and goes on, or ends with
 * an error about this. */
static const struct {
    const gchar *name;
    void (*inject)(void);
    gboolean restarts;
    const gchar *about;
} errors[] = {
    {"Wrap Sequence Number", wrap_sequence},
    {"Wrap Timestamp", wrap_timestamp},
    {"Percentage of Dropped Buffers", drop},
    {"Inject V4L2_BUF_FLAG_ERROR", flag_buffer},
    {"Inject VIDIOC_REQBUFS Error", refuse_buffers},
    {"Inject VIDIOC_QBUF Error"},
    {"Inject VIDIOC_STREAMON Error", .restarts = TRUE, .about = "does not start"},
    {"Inject Fatal Streaming Error", .about = CARD},
    {"Disconnect", .about = "unplugged"},
};

static void inject(guint which)
{
    if (errors[which].inject) {
        errors[which].inject();
        return;
    }
    card_set(errors[which].name, 1);
    if (errors[which].restarts)
        run_start();
    if (errors[which].about)
        expect_end(errors[which].about);
    else
        run_pass(12);
}

int main(int argc, char **argv)
{
    gst_init(&argc, &argv);
    check(argc == 2 && atoi(argv[1]) > 0, "usage: errors_test TIMES");
    run_make();
    test_stamps();
    for (guint i = 0; i < G_N_ELEMENTS(errors); i++) {
        gint64 begin = g_get_monotonic_time();
        for (gint round = 0; round < atoi(argv[1]); round++) {
            run_start();
            run_pass(3);
            inject(i);
        }
        g_print("%-30s %s times, %.1f s\n", errors[i].name, argv[1],
                (gdouble)(g_get_monotonic_time() - begin) / G_TIME_SPAN_SECOND);
    }
    run_stop();
    gst_object_unref(run.src);
    gst_object_unref(run.pipeline);
    g_print("ok\n");
    return 0;
}
