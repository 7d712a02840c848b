/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender in a process of its own, one of several of the same programme: picture k is of the
 * instant k times a picture's duration of CLOCK_MONOTONIC, says k as its offset, and is filled with
 * it. It ends its stream on SIGTERM; SIGUSR1 freezes the picture, whose times go on, and SIGUSR2
 * lets it move again. The command line: caps, the sink's properties, and the first instant, which
 * is sent when a receiver is connected; 0: the current one, at once. For sound (S32LE, one channel)
 * the instants are samples, each of which is its number, and two more arguments say how many are in
 * a block, and at which the blocks begin. For data they are packets, each with its number, and one
 * more argument says how many have the same time. GPUDIRECT_TEST_LATE: pictures are so many ns
 * later. */
#include <gst/video/video.h>
#include <signal.h>
#include <sys/prctl.h>

/* Of sound; and between packets of data. */
#define SAMPLES 48000
#define PACKETS_EVERY (40 * GST_MSECOND)

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

/* What is sent, counted in units: pictures, samples, or packets. */
static struct {
    GstVideoInfo picture;
    guint block, phase; /* of sound: samples of a block; its first sample's number modulo those */
    guint packets;      /* of data: of one time; 1: at irregular times */
    GstClockTime late;  /* of pictures: how much later than their instants their times are */
} stream;

static GstClockTime time_of(guint64 number)
{
    if (stream.block)
        return gst_util_uint64_scale(number, GST_SECOND, SAMPLES);
    if (stream.packets > 1)
        return number / stream.packets * PACKETS_EVERY;
    if (stream.packets)
        return number * PACKETS_EVERY / 2 + number * 7919 % 17 * GST_MSECOND;
    return stream.late + gst_util_uint64_scale(number, GST_SECOND * (guint64)stream.picture.fps_d,
                                               (guint64)stream.picture.fps_n);
}

/* The first unit that is due from now on. */
static guint64 number_of(GstClockTime time)
{
    guint64 number;

    if (stream.block) {
        number = gst_util_uint64_scale(time, SAMPLES, GST_SECOND);
        return number / stream.block * stream.block + stream.phase;
    }
    if (!stream.packets)
        return gst_util_uint64_scale(time, (guint64)stream.picture.fps_n,
                                     GST_SECOND * (guint64)stream.picture.fps_d) +
               1;
    for (number = time / PACKETS_EVERY * MAX(2, stream.packets); time_of(number) < time; number++)
        ;
    return number;
}

static GstBuffer *make_picture(guint64 number)
{
    static guint8 shown;
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, stream.picture.size, NULL);

    if (!g_atomic_int_get(&frozen))
        shown = (guint8)number;
    gst_buffer_memset(buffer, 0, shown, stream.picture.size);
    return buffer;
}

/* Numbers, the lower half of which is each sample. */
static GstBuffer *make_numbers(guint64 number, guint count)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, count * sizeof(guint32), NULL);

    for (guint i = 0; i < count; i++) {
        guint32 sample = GUINT32_TO_LE((guint32)(number + i));
        gst_buffer_fill(buffer, i * sizeof(sample), &sample, sizeof(sample));
    }
    return buffer;
}

static GstFlowReturn push(GstElement *source, guint64 number, guint units, GstClockTime base)
{
    gboolean picture = !stream.block && !stream.packets;
    GstBuffer *buffer = picture ? make_picture(number) : make_numbers(number, units);
    GstFlowReturn flow = GST_FLOW_ERROR;

    GST_BUFFER_OFFSET(buffer) = number;
    GST_BUFFER_PTS(buffer) = time_of(number) - base;
    GST_BUFFER_DURATION(buffer) =
        stream.packets ? PACKETS_EVERY : time_of(number + units) - time_of(number);
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

    gst_init(&argc, &argv);
    g_autoptr(GstCaps) caps = argc >= 4 ? gst_caps_from_string(argv[1]) : NULL;
    if (argc == 6) {
        stream.block = (guint)g_ascii_strtoull(argv[4], NULL, 10);
        stream.phase = (guint)g_ascii_strtoull(argv[5], NULL, 10);
    } else if (argc == 5) {
        stream.packets = (guint)g_ascii_strtoull(argv[4], NULL, 10);
    } else if (!caps || !gst_video_info_from_caps(&stream.picture, caps) ||
               stream.picture.fps_n <= 0) {
        return 2;
    }
    guint units = MAX(1, stream.block);
    const gchar *late = g_getenv("GPUDIRECT_TEST_LATE");
    stream.late = late ? g_ascii_strtoull(late, NULL, 10) : 0;
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
        number = number_of(now());
    while (flow == GST_FLOW_OK && !g_atomic_int_get(&ending)) {
        GstClockTime at = now(), due = time_of(number + (stream.block ? units : 0));
        if (at < due) {
            g_usleep((due - at) / GST_USECOND + 1);
            continue;
        }
        flow = push(source, number, units, base);
        number += units;
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
