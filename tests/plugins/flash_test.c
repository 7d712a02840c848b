/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A flash and a beep, made at the same time, every ten seconds of an hour: how far they are apart
 * where a programme is received. The hour takes no hour: only the times of what arrives count. */
#include "ends.h"

#include <string.h>

#define RATE 48000
#define BLOCK 1024 /* samples, so that blocks begin at other times than pictures */
#define BEEP 96
#define EVENTS 360
#define PERIOD (10 * GST_SECOND)
#define MOST GST_MSECOND
#define SIDE 16
#define WAIT 60 /* s, for what takes one or two */

static const struct {
    guint num, den;
    gboolean live;
} cases[] = {
    {25, 1, FALSE}, {30000, 1001, FALSE}, {50, 1, FALSE}, {60000, 1001, FALSE},
    {25, 1, TRUE},  {30000, 1001, TRUE},  {50, 1, TRUE},  {60000, 1001, TRUE},
};

/* --- made --------------------------------------------------------------------------------- */

struct sender {
    GstElement *pipeline, *picture, *sound;
    guint num, den;
};

static void push(GstElement *source, GstBuffer *buffer, GstClockTime time, GstClockTime end)
{
    GstFlowReturn flow;

    GST_BUFFER_PTS(buffer) = time;
    GST_BUFFER_DURATION(buffer) = end - time;
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    fail_unless_equals_int(flow, GST_FLOW_OK);
    gst_buffer_unref(buffer);
}

static GstClockTime picture_time(const struct sender *sender, guint64 number)
{
    return gst_util_uint64_scale(number, GST_SECOND * sender->den, sender->num);
}

static void push_picture(const struct sender *sender, guint64 number, gboolean flash)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, SIDE * SIDE, NULL);

    gst_buffer_memset(buffer, 0, flash ? 255 : 0, SIDE * SIDE);
    push(sender->picture, buffer, picture_time(sender, number), picture_time(sender, number + 1));
}

/* The beep begins with that sample. */
static void push_block(const struct sender *sender, guint64 number, guint64 beep)
{
    gint16 samples[BLOCK];
    guint64 first = number * BLOCK;

    for (guint64 i = 0; i < BLOCK; i++)
        samples[i] = first + i >= beep && first + i < beep + BEEP ? 20000 : 0;
    GstBuffer *buffer = gst_buffer_new_memdup(samples, sizeof(samples));
    push(sender->sound, buffer, gst_util_uint64_scale(first, GST_SECOND, RATE),
         gst_util_uint64_scale(first + BLOCK, GST_SECOND, RATE));
}

/* The picture that is nearest to this time, and the sample that is nearest to that picture's. */
static void make_event(const struct sender *sender, GstClockTime time)
{
    guint64 picture =
        gst_util_uint64_scale_round(time, sender->num, GST_SECOND * (guint64)sender->den);
    guint64 beep = gst_util_uint64_scale_round(picture * sender->den, RATE, sender->num);

    push_picture(sender, picture - 1, FALSE);
    push_block(sender, beep / BLOCK - 1, beep);
    push_picture(sender, picture, TRUE);
    push_block(sender, beep / BLOCK, beep);
    push_block(sender, beep / BLOCK + 1, beep);
    push_picture(sender, picture + 1, FALSE);
}

static void sender_open(struct sender *sender, const gchar *address, guint which)
{
    sender->num = cases[which].num;
    sender->den = cases[which].den;
    sender->pipeline = ends_pipeline(
        "appsrc name=picture format=time block=true is-live=%d caps=\"video/x-raw,format=GRAY8,"
        "width=%d,height=%d,framerate=%u/%u\" ! gpudirectsink sync=false slow-receiver=block "
        "wait-for-connection=true address=%s "
        "appsrc name=sound format=time block=true is-live=%d caps=\"audio/x-raw,format=S16LE,"
        "layout=interleaved,rate=%d,channels=1\" ! gpudirectsink sync=false slow-receiver=block "
        "wait-for-connection=true address=%s/audio",
        cases[which].live, SIDE, SIDE, sender->num, sender->den, address, cases[which].live, RATE,
        address);
    sender->picture = gst_bin_get_by_name(GST_BIN(sender->pipeline), "picture");
    sender->sound = gst_bin_get_by_name(GST_BIN(sender->pipeline), "sound");
    gst_element_set_state(sender->pipeline, GST_STATE_PLAYING);
}

static void sender_close(struct sender *sender)
{
    gst_object_unref(sender->picture);
    gst_object_unref(sender->sound);
    ends_stop(sender->pipeline);
}

/* --- seen --------------------------------------------------------------------------------- */

struct stream {
    GstSegment segment;
    gboolean is_on; /* the flash, or the beep, at the end of the last buffer */
};

static struct {
    GMutex lock;
    GArray *flashes, *beeps; /* when each began: running time */
} seen;

static void see(struct stream *stream, GstBuffer *buffer, gboolean is_sound)
{
    GstMapInfo map;
    GstClockTime time =
        gst_segment_to_running_time(&stream->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));

    fail_unless(gst_buffer_map(buffer, &map, GST_MAP_READ));
    for (gsize i = 0; i < (is_sound ? map.size / 2 : 1); i++) {
        gint16 sample = 0;
        memcpy(&sample, map.data + 2 * i, is_sound ? 2 : 1);
        if (sample > 100 && !stream->is_on) {
            GstClockTime began = time + gst_util_uint64_scale(i, GST_SECOND, RATE);
            g_mutex_lock(&seen.lock);
            g_array_append_val(is_sound ? seen.beeps : seen.flashes, began);
            g_mutex_unlock(&seen.lock);
        }
        stream->is_on = sample > 100;
    }
    gst_buffer_unmap(buffer, &map);
}

static GstPadProbeReturn on_data(GstPad *pad, GstPadProbeInfo *info, gpointer user)
{
    struct stream *stream = g_object_get_data(G_OBJECT(pad), "stream");

    if (info->type & GST_PAD_PROBE_TYPE_BUFFER)
        see(stream, GST_PAD_PROBE_INFO_BUFFER(info), user != NULL);
    else if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_SEGMENT)
        gst_event_copy_segment(GST_PAD_PROBE_INFO_EVENT(info), &stream->segment);
    return GST_PAD_PROBE_OK;
}

static void on_pad_added(GstElement *source, GstPad *pad, GstElement *pipeline)
{
    GstElement *sink = gst_element_factory_make("fakesink", NULL);
    GstPad *to = gst_element_get_static_pad(sink, "sink");
    gboolean is_sound = g_str_has_suffix(GST_OBJECT_NAME(pad), "audio");

    g_object_set(sink, "sync", FALSE, "async", FALSE, NULL);
    g_object_set_data_full(G_OBJECT(to), "stream", g_new0(struct stream, 1), g_free);
    gst_pad_add_probe(to, GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, on_data,
                      is_sound ? source : NULL, NULL);
    gst_bin_add(GST_BIN(pipeline), sink);
    gst_element_sync_state_with_parent(sink);
    fail_unless_equals_int(gst_pad_link(pad, to), GST_PAD_LINK_OK);
    gst_object_unref(to);
}

static GstElement *receive(const gchar *address)
{
    g_autofree gchar *line = g_strdup_printf("gpudirectprogramsrc address=%s", address);
    GstElement *pipeline = gst_pipeline_new(NULL), *source = gst_parse_launch(line, NULL);

    g_signal_connect(source, "pad-added", G_CALLBACK(on_pad_added), pipeline);
    gst_bin_add(GST_BIN(pipeline), source);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

static gboolean all_seen(void)
{
    g_mutex_lock(&seen.lock);
    gboolean all = seen.flashes->len == EVENTS && seen.beeps->len == EVENTS;
    g_mutex_unlock(&seen.lock);
    return all;
}

/* --- the hour ----------------------------------------------------------------------------- */

TEST(test_flash_and_beep, .times = G_N_ELEMENTS(cases))
{
    g_autofree gchar *address = ends_address();
    struct sender sender;
    gint64 worst = 0, first = 0, last = 0;

    seen.flashes = g_array_new(FALSE, FALSE, sizeof(GstClockTime));
    seen.beeps = g_array_new(FALSE, FALSE, sizeof(GstClockTime));
    sender_open(&sender, address, (guint)__i__);
    GstElement *receiver = receive(address);
    for (guint i = 1; i <= EVENTS; i++)
        make_event(&sender, i * PERIOD);
    for (guint tries = 0; tries < WAIT * 100 && !all_seen(); tries++) {
        ends_fail_on_errors(receiver);
        g_usleep(10000);
    }
    fail_unless(all_seen(), "%u flashes and %u beeps of %d", seen.flashes->len, seen.beeps->len,
                EVENTS);
    for (guint i = 0; i < EVENTS; i++) {
        last = (gint64)g_array_index(seen.beeps, GstClockTime, i) -
               (gint64)g_array_index(seen.flashes, GstClockTime, i);
        worst = MAX(worst, ABS(last));
        first = i == 0 ? last : first;
    }
    GstClockTime span = g_array_index(seen.flashes, GstClockTime, EVENTS - 1) -
                        g_array_index(seen.flashes, GstClockTime, 0);
    g_print("%u/%u%s: the beep comes %" G_GINT64_FORMAT
            " ns after the flash at first, %" G_GINT64_FORMAT " at last, %" G_GINT64_FORMAT
            " at most\n",
            sender.num, sender.den, cases[__i__].live ? ", live" : "", first, last, worst);
    fail_unless(worst <= (gint64)MOST, "%" G_GINT64_FORMAT " ns", worst);
    /* The hour is one here, too: to the length of a picture. */
    fail_unless(ABS((gint64)span - (gint64)((EVENTS - 1) * PERIOD)) < 50 * GST_MSECOND);
    ends_stop(receiver);
    sender_close(&sender);
    g_array_unref(seen.flashes);
    g_array_unref(seen.beeps);
}

ENDS_MAIN(120)
