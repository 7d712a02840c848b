/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cardrun.h"

#include <string.h>

static GstClockTime captured_at(GstBuffer *buffer)
{
    g_autoptr(GstCaps) caps = gst_caps_new_empty_simple("timestamp/x-gpudirect-capture");
    GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, caps);

    return meta ? meta->timestamp : GST_CLOCK_TIME_NONE;
}

/* The message about frames that were lost comes before the frame that follows them. */
static void on_frame(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct run *run)
{
    guint64 offset = GST_BUFFER_OFFSET(buffer);
    GstClockTime now = gst_element_get_current_running_time(run->src);

    g_mutex_lock(&run->lock);
    if (run->frames == 0)
        run->untold = run->told;
    else if (offset > run->offset)
        run->gaps += offset - run->offset - 1;
    if (run->told - run->untold != run->gaps)
        run->missing = run->gaps - (run->told - run->untold);
    run->backwards |= run->frames > 0 && GST_BUFFER_PTS(buffer) < run->pts;
    run->late = MAX(run->late, GST_CLOCK_DIFF(GST_BUFFER_PTS(buffer), now));
    run->pts = GST_BUFFER_PTS(buffer);
    run->offset = offset;
    run->captured = captured_at(buffer);
    run->corrupted += GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED) != 0;
    run->frames++;
    g_cond_signal(&run->changed);
    g_mutex_unlock(&run->lock);
}

static GstBusSyncReply on_message(GstBus *bus, GstMessage *message, gpointer user)
{
    struct run *run = user;

    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_QOS &&
        GST_MESSAGE_SRC(message) == GST_OBJECT(run->src)) {
        g_mutex_lock(&run->lock);
        gst_message_parse_qos_stats(message, NULL, NULL, &run->told);
        g_mutex_unlock(&run->lock);
    }
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        g_mutex_lock(&run->lock); /* waiting threads find it on the bus by then */
        g_cond_signal(&run->changed);
        g_mutex_unlock(&run->lock);
        return GST_BUS_PASS;
    }
    gst_message_unref(message);
    return GST_BUS_DROP;
}

void run_make(struct run *run, const gchar *properties)
{
    g_autofree gchar *launch = g_strdup_printf(
        "gpudirectsrc name=src address=v4l2://" CARD " %s ! "
        "video/x-raw,format=UYVY,width=320,height=180,framerate=60/1 ! fakesink name=sink "
        "sync=false signal-handoffs=true",
        properties);
    GError *error = NULL;

    memset(run, 0, sizeof(*run));
    g_mutex_init(&run->lock);
    g_cond_init(&run->changed);
    run->pipeline = gst_parse_launch(launch, &error);
    check(run->pipeline && !error, "%s: %s", launch, error ? error->message : "");
    run->src = gst_bin_get_by_name(GST_BIN(run->pipeline), "src");
    run->bus = gst_element_get_bus(run->pipeline);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(run->pipeline), "sink");
    g_signal_connect(sink, "handoff", G_CALLBACK(on_frame), run);
    gst_bus_set_sync_handler(run->bus, on_message, run, NULL);
}

void run_stop(struct run *run)
{
    GstMessage *message;

    gst_element_set_state(run->pipeline, GST_STATE_NULL);
    while ((message = gst_bus_pop(run->bus)))
        gst_message_unref(message);
}

void run_clear(struct run *run)
{
    run_stop(run);
    gst_bus_set_sync_handler(run->bus, NULL, NULL, NULL);
    gst_object_unref(run->bus);
    gst_object_unref(run->src);
    gst_object_unref(run->pipeline);
    g_cond_clear(&run->changed);
    g_mutex_clear(&run->lock);
}

void run_start(struct run *run)
{
    run_stop(run);
    g_mutex_lock(&run->lock);
    run->frames = run->corrupted = 0;
    run->gaps = run->told = run->untold = run->missing = 0;
    run->backwards = FALSE;
    run->late = 0;
    run->captured = GST_CLOCK_TIME_NONE;
    g_mutex_unlock(&run->lock);
    gst_element_set_state(run->pipeline, GST_STATE_PLAYING);
}

static gchar *take_error(struct run *run)
{
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(run->bus, GST_MESSAGE_ERROR);
    g_autoptr(GError) error = NULL;
    g_autofree gchar *debug = NULL;

    if (!message)
        return NULL;
    gst_message_parse_error(message, &error, &debug);
    gchar *text =
        g_strdup_printf("%s %d: %s", g_quark_to_string(error->domain), error->code, error->message);
    return text;
}

gboolean run_await(struct run *run, guint more, gchar **text)
{
    gint64 deadline = g_get_monotonic_time() + CARD_WAIT / GST_USECOND;
    gboolean waits = TRUE;

    g_mutex_lock(&run->lock);
    guint wanted = run->frames + more;
    /* A signal that comes between the look at the bus and the wait is seen a second later. */
    while ((*text = take_error(run)) == NULL && run->frames < wanted && waits) {
        gint64 slice = g_get_monotonic_time() + G_TIME_SPAN_SECOND;
        g_cond_wait_until(&run->changed, &run->lock, MIN(deadline, slice));
        waits = g_get_monotonic_time() < deadline;
    }
    gboolean came = run->frames >= wanted;
    check(!run->backwards, "a time goes back");
    check(run->missing == 0, "%" G_GINT64_FORMAT " lost frames of %" G_GUINT64_FORMAT " not told",
          (gint64)run->missing, run->gaps);
    g_mutex_unlock(&run->lock);
    check(came || *text, "neither a frame nor an error");
    if (*text)
        check(strlen(*text) > 30, "no sentence: %s", *text);
    return *text == NULL;
}

void run_pass(struct run *run, guint more)
{
    gchar *text;

    gboolean came = run_await(run, more, &text);
    check(came, "%s", text);
}

gchar *run_stat(struct run *run, const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL;

    g_object_get(run->src, "stats", &stats, NULL);
    const GValue *value = gst_structure_get_value(stats, name);
    gchar *text =
        value ? G_VALUE_HOLDS_STRING(value) ? g_value_dup_string(value) : gst_value_serialize(value)
              : NULL;
    return text;
}
