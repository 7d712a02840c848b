/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender in a process of its own, one of several of the same programme: picture k is of the
 * instant k times a picture's duration of CLOCK_MONOTONIC, says k as its offset, and is filled with
 * it. It ends its stream on SIGTERM; SIGUSR1 freezes the picture, whose times go on, and SIGUSR2
 * lets it move again. The command line: caps, the sink's properties, and the first instant, which
 * is sent when a receiver is connected; 0: the current one, at once. */
#include <gst/video/video.h>
#include <signal.h>
#include <sys/prctl.h>

static gint ending, frozen; /* atomic */

static void end(int number)
{
    (void)number;
    g_atomic_int_set(&ending, TRUE);
}

static void freeze(int number)
{
    g_atomic_int_set(&frozen, number == SIGUSR1);
}

static GstClockTime now(void)
{
    return (GstClockTime)g_get_monotonic_time() * GST_USECOND;
}

static GstClockTime time_of(const GstVideoInfo *info, guint64 number)
{
    return gst_util_uint64_scale(number, GST_SECOND * (guint64)info->fps_d, (guint64)info->fps_n);
}

static GstFlowReturn push(GstElement *source, const GstVideoInfo *info, guint64 number,
                          GstClockTime base)
{
    static guint8 shown;
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, info->size, NULL);
    GstFlowReturn flow = GST_FLOW_ERROR;

    if (!g_atomic_int_get(&frozen))
        shown = (guint8)number;
    gst_buffer_memset(buffer, 0, shown, info->size);
    GST_BUFFER_OFFSET(buffer) = number;
    GST_BUFFER_PTS(buffer) = time_of(info, number) - base;
    GST_BUFFER_DURATION(buffer) = time_of(info, 1);
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    gst_buffer_unref(buffer);
    return flow;
}

static void wait_for_receiver(GstElement *pipeline)
{
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    guint clients = 0;

    while (clients == 0 && !g_atomic_int_get(&ending)) {
        g_usleep(1000);
        g_object_get(sink, "num-clients", &clients, NULL);
    }
}

int main(int argc, char **argv)
{
    GstFlowReturn flow = GST_FLOW_OK;
    GstVideoInfo info;

    gst_init(&argc, &argv);
    g_autoptr(GstCaps) caps = argc == 4 ? gst_caps_from_string(argv[1]) : NULL;
    if (!caps || !gst_video_info_from_caps(&info, caps) || info.fps_n <= 0)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left of a test that fails */
    signal(SIGTERM, end);
    signal(SIGUSR1, freeze);
    signal(SIGUSR2, freeze);
    g_autofree gchar *launch =
        g_strdup_printf("appsrc name=source is-live=true format=time caps=%s ! "
                        "gpudirectsink name=sink sync=false async=false %s",
                        argv[1], argv[2]);
    GstElement *pipeline = gst_parse_launch(launch, NULL);
    if (!pipeline)
        return 2;
    /* The first instants may be older than this process. */
    GstClockTime base = now() - 60 * GST_SECOND;
    gst_element_set_start_time(pipeline, GST_CLOCK_TIME_NONE);
    gst_element_set_base_time(pipeline, base);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    gst_element_get_state(pipeline, NULL, NULL, 10 * GST_SECOND);
    GstElement *source = gst_bin_get_by_name(GST_BIN(pipeline), "source");
    guint64 number = g_ascii_strtoull(argv[3], NULL, 10);
    if (number > 0)
        wait_for_receiver(pipeline);
    else
        number =
            gst_util_uint64_scale(now(), (guint64)info.fps_n, GST_SECOND * (guint64)info.fps_d) + 1;
    while (flow == GST_FLOW_OK && !g_atomic_int_get(&ending)) {
        GstClockTime at = now(), due = time_of(&info, number);
        if (at < due)
            g_usleep((due - at) / GST_USECOND + 1);
        else
            flow = push(source, &info, number++, base);
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
