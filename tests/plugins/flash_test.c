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

static GstElement *pictures, *sound; /* the sources */
static guint num, den;

static void push(GstElement *source, GstBuffer *buffer, GstClockTime time, GstClockTime end)
{
    GstFlowReturn flow;

    GST_BUFFER_PTS(buffer) = time;
    GST_BUFFER_DURATION(buffer) = end - time;
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    fail_unless_equals_int(flow, GST_FLOW_OK);
    gst_buffer_unref(buffer);
}

static void push_picture(guint64 number, gboolean flash)
{
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, SIDE * SIDE, NULL);

    gst_buffer_memset(buffer, 0, flash ? 255 : 0, SIDE * SIDE);
    push(pictures, buffer, gst_util_uint64_scale(number, GST_SECOND * den, num),
         gst_util_uint64_scale(number + 1, GST_SECOND * den, num));
}

/* The beep begins with that sample. */
static void push_block(guint64 number, guint64 beep)
{
    gint16 samples[BLOCK];
    guint64 first = number * BLOCK;

    for (guint64 i = 0; i < BLOCK; i++)
        samples[i] = first + i >= beep && first + i < beep + BEEP ? 20000 : 0;
    GstBuffer *buffer = gst_buffer_new_memdup(samples, sizeof(samples));
    push(sound, buffer, gst_util_uint64_scale(first, GST_SECOND, RATE),
         gst_util_uint64_scale(first + BLOCK, GST_SECOND, RATE));
}

/* The picture that is nearest to this time, and the sample that is nearest to that picture's. */
static void make_event(GstClockTime time)
{
    guint64 picture = gst_util_uint64_scale_round(time, num, GST_SECOND * (guint64)den);
    guint64 beep = gst_util_uint64_scale_round(picture * den, RATE, num);

    push_picture(picture - 1, FALSE);
    push_block(beep / BLOCK - 1, beep);
    push_picture(picture, TRUE);
    push_block(beep / BLOCK, beep);
    push_block(beep / BLOCK + 1, beep);
    push_picture(picture + 1, FALSE);
}

/* --- seen --------------------------------------------------------------------------------- */

static GMutex lock;
static struct seen {
    GArray *began;  /* when each flash or beep did: running time */
    gboolean is_on; /* at the end of the last buffer */
} flashes, beeps;

static void see(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct seen *seen)
{
    g_autoptr(GstEvent) event = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0);
    gboolean is_sound = seen == &beeps;
    const GstSegment *segment;
    GstMapInfo map;

    gst_event_parse_segment(event, &segment);
    GstClockTime time =
        gst_segment_to_running_time(segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
    fail_unless(gst_buffer_map(buffer, &map, GST_MAP_READ));
    for (gsize i = 0; i < (is_sound ? map.size / 2 : 1); i++) {
        gint16 sample = 0;
        memcpy(&sample, map.data + 2 * i, is_sound ? 2 : 1);
        if (sample > 100 && !seen->is_on) {
            GstClockTime began = time + gst_util_uint64_scale(i, GST_SECOND, RATE);
            g_mutex_lock(&lock);
            g_array_append_val(seen->began, began);
            g_mutex_unlock(&lock);
        }
        seen->is_on = sample > 100;
    }
    gst_buffer_unmap(buffer, &map);
}

static gboolean all_seen(void)
{
    g_mutex_lock(&lock);
    gboolean all = flashes.began->len == EVENTS && beeps.began->len == EVENTS;
    g_mutex_unlock(&lock);
    return all;
}

TEST(test_flash_and_beep, .times = G_N_ELEMENTS(cases))
{
    gboolean live = cases[__i__].live;
    gint64 worst = 0, first = 0, last = 0;

    num = cases[__i__].num;
    den = cases[__i__].den;
    flashes = beeps = (struct seen){0};
    flashes.began = g_array_new(FALSE, FALSE, sizeof(GstClockTime));
    beeps.began = g_array_new(FALSE, FALSE, sizeof(GstClockTime));
    g_autoptr(EndsPipeline) sender = ends_pipeline(
        "appsrc name=picture format=time block=true is-live=%d caps=\"video/x-raw,format=GRAY8,"
        "width=%d,height=%d,framerate=%u/%u\" ! gpudirectsink sync=false slow-receiver=block "
        "wait-for-connection=true address=%s "
        "appsrc name=sound format=time block=true is-live=%d caps=\"audio/x-raw,format=S16LE,"
        "layout=interleaved,rate=%d,channels=1\" ! gpudirectsink sync=false slow-receiver=block "
        "wait-for-connection=true address=%s/audio",
        live, SIDE, SIDE, num, den, ends_own(), live, RATE, ends_own());
    pictures = ends_in(sender, "picture");
    sound = ends_in(sender, "sound");
    ends_play(sender);
    g_autoptr(EndsPipeline) receiver =
        ends_pipeline("gpudirectprogramsrc name=p address=%s "
                      "p. ! audio/x-raw ! fakesink name=beeps sync=false async=false "
                      "p. ! video/x-raw ! fakesink name=flashes sync=false async=false",
                      ends_own());
    ends_on_buffer(receiver, "flashes", G_CALLBACK(see), &flashes);
    ends_on_buffer(receiver, "beeps", G_CALLBACK(see), &beeps);
    ends_play(receiver);
    for (guint i = 1; i <= EVENTS; i++)
        make_event(i * PERIOD);
    for (guint tries = 0; tries < WAIT * 100 && !all_seen(); tries++) {
        ends_fail_on_errors(receiver);
        g_usleep(10000);
    }
    fail_unless(all_seen(), "%u flashes and %u beeps of %d", flashes.began->len, beeps.began->len,
                EVENTS);
    for (guint i = 0; i < EVENTS; i++) {
        last = (gint64)g_array_index(beeps.began, GstClockTime, i) -
               (gint64)g_array_index(flashes.began, GstClockTime, i);
        worst = MAX(worst, ABS(last));
        first = i == 0 ? last : first;
    }
    GstClockTime span = g_array_index(flashes.began, GstClockTime, EVENTS - 1) -
                        g_array_index(flashes.began, GstClockTime, 0);
    g_print("%u/%u%s: the beep comes %" G_GINT64_FORMAT
            " ns after the flash at first, %" G_GINT64_FORMAT " at last, %" G_GINT64_FORMAT
            " at most\n",
            num, den, live ? ", live" : "", first, last, worst);
    fail_unless(worst <= (gint64)MOST, "%" G_GINT64_FORMAT " ns", worst);
    /* The hour is one here, too: to the length of a picture. */
    fail_unless(ABS((gint64)span - (gint64)((EVENTS - 1) * PERIOD)) < 50 * GST_MSECOND);
    ends_stop(g_steal_pointer(&receiver));
    g_array_unref(flashes.began);
    g_array_unref(beeps.began);
}

ENDS_MAIN(120)
