/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender in a process of its own, one of several of the same programme: picture k is of the
 * instant k * 40 ms of CLOCK_MONOTONIC, and says k as its offset. It ends its stream on SIGTERM.
 * The command line: caps, and the sink's properties. */
#include <gst/gst.h>
#include <signal.h>

#define INTERVAL (40 * GST_MSECOND)

static gint ending; /* atomic */

static void end(int number)
{
    (void)number;
    g_atomic_int_set(&ending, TRUE);
}

static GstClockTime now(void)
{
    return (GstClockTime)g_get_monotonic_time() * GST_USECOND;
}

static GstFlowReturn push(GstElement *source, gsize size, guint64 number, GstClockTime base)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, size, NULL);
    GstFlowReturn flow = GST_FLOW_ERROR;

    gst_buffer_memset(buffer, 0, (guint8)number, size);
    GST_BUFFER_OFFSET(buffer) = number;
    GST_BUFFER_PTS(buffer) = number * INTERVAL - base;
    GST_BUFFER_DURATION(buffer) = INTERVAL;
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    gst_buffer_unref(buffer);
    return flow;
}

int main(int argc, char **argv)
{
    GstFlowReturn flow = GST_FLOW_OK;

    gst_init(&argc, &argv);
    if (argc != 4)
        return 2;
    signal(SIGTERM, end);
    g_autofree gchar *launch =
        g_strdup_printf("appsrc name=source is-live=true format=time caps=%s ! "
                        "gpudirectsink name=sink sync=false async=false %s",
                        argv[1], argv[3]);
    GstElement *pipeline = gst_parse_launch(launch, NULL);
    if (!pipeline)
        return 2;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    gst_element_get_state(pipeline, NULL, NULL, 10 * GST_SECOND);
    GstElement *source = gst_bin_get_by_name(GST_BIN(pipeline), "source");
    GstClockTime base = gst_element_get_base_time(pipeline);
    /* No test waits longer. */
    guint64 number = now() / INTERVAL + 1, last = number + 120 * GST_SECOND / INTERVAL;
    while (flow == GST_FLOW_OK && number < last && !g_atomic_int_get(&ending)) {
        GstClockTime at = now();
        if (at < number * INTERVAL)
            g_usleep((number * INTERVAL - at) / GST_USECOND);
        else
            flow = push(source, (gsize)g_ascii_strtoull(argv[2], NULL, 10), number++, base);
    }
    g_signal_emit_by_name(source, "end-of-stream", &flow);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 5 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    g_clear_pointer(&message, gst_message_unref);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(source);
    gst_object_unref(pipeline);
    return 0;
}
