/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What goes in comes out: pictures of every shape, their times, flags and metas, and the events
 * between them. */
#include "pipes.h"

static GstHarness *sink, *src;

/* Not fixtures: gst-check joins all threads of tasks before it runs those. */
static void setup(const gchar *caps)
{
    sink = ends_sink(NULL);
    gst_harness_set_live(sink, FALSE); /* times here are a file's, and no clock's */
    src = ends_src(NULL);
    gst_harness_set_src_caps_str(sink, caps);
}

static GstClockTime base_times_apart(void)
{
    return gst_element_get_base_time(ends_element(sink)) -
           gst_element_get_base_time(ends_element(src));
}

static const gchar *const shapes[] = {
    "video/x-raw,format=UYVY,width=64,height=16,framerate=25/1,interlace-mode=progressive,"
    "pixel-aspect-ratio=1/1,colorimetry=bt709",
    "video/x-raw,format=UYVY,width=33,height=7,framerate=30000/1001",
    "video/x-raw,format=v210,width=50,height=9,framerate=50/1",
    "video/x-raw,format=NV12,width=97,height=35,framerate=25/1,colorimetry=bt2020",
    "video/x-raw,format=I420_10LE,width=31,height=17,framerate=0/1,max-framerate=60/1",
    "video/x-raw,format=P010_10LE,width=32,height=18,framerate=25/1,interlace-mode=interleaved,"
    "field-order=top-field-first",
    "video/x-raw,format=BGRx,width=5,height=3,framerate=25/1,multiview-mode=mono",
    "video/x-raw,format=RGB,width=7,height=3,framerate=25/1",
    "video/x-raw,format=UYVP,width=14,height=6,framerate=25/1",
    "video/x-raw,format=NV12_4L4,width=64,height=32,framerate=25/1",
    "video/x-raw,format=RGB8P,width=64,height=16,framerate=25/1",
    "video/x-raw,format=GRAY16_LE,width=1,height=1,framerate=25/1",
    "video/x-raw,format=A420,width=20,height=10,framerate=25/1",
};

TEST(test_shape, .times = G_N_ELEMENTS(shapes))
{
    /* Between hosts every fourth: the others' bytes are laid out by the same code, and each case
     * takes the emulated guest seconds. */
    if (g_getenv("GPUD_TEST_ADDRESS") && !g_getenv("GPUD_TEST_ALL") && __i__ % 4 != 0)
        return;
    const gchar *text = shapes[__i__];
    setup(text);
    ends_push(sink, text, 1);
    g_autoptr(GstBuffer) buffer = ends_pull(src);
    ends_check_picture(buffer, text, 1);

    GstVideoInfo info;
    g_autoptr(GstCaps) sent = gst_caps_from_string(text);
    gst_video_info_from_caps(&info, sent);
    GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    fail_unless(meta != NULL);
    fail_unless_equals_int(meta->n_planes, GST_VIDEO_INFO_N_PLANES(&info));
    expect_caps(src, text);
}

TEST(test_caps_change_in_band)
{
    const gchar *const sequence[] = {shapes[0], shapes[3], shapes[0], shapes[2]};

    setup(sequence[0]);
    for (guint round = 0; round < G_N_ELEMENTS(sequence); round++) {
        gst_harness_set_src_caps_str(sink, sequence[round]);
        for (guint i = 0; i < 3; i++)
            ends_push(sink, sequence[round], round * 3 + i);
        /* The old epoch drains before the new format comes: pull only now. */
        for (guint i = 0; i < 3; i++)
            ends_take(src, sequence[round], round * 3 + i);
        expect_caps(src, sequence[round]);
    }
    fail_unless_equals_uint64(ends_stat(src, "frames"), 12);
    fail_unless_equals_uint64(ends_stat(src, "dropped"), 0);
}

TEST(test_times_and_flags)
{
    const guint flags = GST_BUFFER_FLAG_MARKER | GST_BUFFER_FLAG_GAP |
                        GST_VIDEO_BUFFER_FLAG_INTERLACED | GST_VIDEO_BUFFER_FLAG_TFF |
                        GST_BUFFER_FLAG_CORRUPTED;

    setup(CAPS_SMALL);
    gst_element_set_base_time(ends_element(sink),
                              gst_element_get_base_time(ends_element(sink)) + 7 * GST_SECOND);
    GstBuffer *buffer = ends_picture(CAPS_SMALL, 1);
    GST_BUFFER_PTS(buffer) = 3 * GST_SECOND;
    GST_BUFFER_DTS(buffer) = 2 * GST_SECOND;
    GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
    GST_BUFFER_OFFSET(buffer) = 4711;
    GST_BUFFER_FLAG_SET(buffer, flags);
    gst_harness_push(sink, buffer);

    buffer = ends_pull(src);
    GstClockTime apart = base_times_apart();
    fail_unless_equals_uint64(GST_BUFFER_PTS(buffer), 3 * GST_SECOND + apart);
    fail_unless_equals_uint64(GST_BUFFER_DTS(buffer), 2 * GST_SECOND + apart);
    fail_unless_equals_uint64(GST_BUFFER_DURATION(buffer), 40 * GST_MSECOND);
    fail_unless_equals_uint64(GST_BUFFER_OFFSET(buffer), 4711);
    fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, flags));
    fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT), "the first buffer");
    fail_if(GST_BUFFER_FLAG_IS_SET(buffer, GST_VIDEO_BUFFER_FLAG_ONEFIELD));
    gst_buffer_unref(buffer);

    gst_harness_push(sink, ends_picture(CAPS_SMALL, 2));
    buffer = ends_pull(src);
    fail_if(GST_BUFFER_PTS_IS_VALID(buffer));
    fail_if(GST_BUFFER_FLAGS(buffer) & (flags | GST_BUFFER_FLAG_DISCONT));
    gst_buffer_unref(buffer);
}

/* The first reference timestamp of a buffer is what
 * gst_buffer_get_reference_timestamp_meta() returns without a given reference: the sender's, and,
 * where one is asked for and the sender gave none, that of the submit. */
TEST(test_submit_time, .times = 2)
{
    gboolean asked = __i__ == 1;
    g_autoptr(GstCaps) reference = gst_caps_new_empty_simple("timestamp/x-gpudirect-submit");
    g_autoptr(GstCaps) unix_time = gst_caps_new_empty_simple("timestamp/x-unix");

    setup(CAPS_SMALL);
    if (asked)
        g_object_set(ends_element(src), "add-reference-timestamp-meta", TRUE, NULL);
    for (guint i = 0; i < 10; i++) { /* more than slots: buffers are used again */
        GstClockTime before = (GstClockTime)g_get_monotonic_time() * 1000;
        GstBuffer *picture = ends_picture(CAPS_SMALL, i);
        if (i % 2)
            gst_buffer_add_reference_timestamp_meta(picture, unix_time, i, GST_CLOCK_TIME_NONE);
        gst_harness_push(sink, picture);
        g_autoptr(GstBuffer) got = ends_pull(src);
        GstReferenceTimestampMeta *first = gst_buffer_get_reference_timestamp_meta(got, NULL);
        GstReferenceTimestampMeta *submit = gst_buffer_get_reference_timestamp_meta(got, reference);
        fail_unless((submit != NULL) == asked);
        fail_unless((first != NULL) == (asked || i % 2));
        fail_unless(!first || gst_caps_is_equal(first->reference, i % 2 ? unix_time : reference));
        fail_unless(i % 2 == 0 || first->timestamp == i);
        fail_unless(!submit ||
                    (submit->timestamp >= before &&
                     submit->timestamp <= (GstClockTime)g_get_monotonic_time() * 1000 + 1000));
    }
}

TEST(test_latency)
{
    setup(CAPS_SMALL);
    pass(sink, src, 1);

    g_autoptr(GstQuery) query = gst_query_new_latency();
    gboolean live;
    GstClockTime min, max;
    fail_unless(gst_pad_peer_query(src->sinkpad, query));
    gst_query_parse_latency(query, &live, &min, &max);
    fail_unless(live);
    fail_unless(min < GST_SECOND);
    fail_if(GST_CLOCK_TIME_IS_VALID(max), "the sender waits, however long a picture is held");
}

TEST(test_segment_keeps_stream_time)
{
    GstSegment segment;

    setup(CAPS_SMALL);
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.time = 100 * GST_SECOND;
    gst_harness_push_event(sink, gst_event_new_segment(&segment));
    GstBuffer *buffer = ends_picture(CAPS_SMALL, 1);
    GST_BUFFER_PTS(buffer) = 101 * GST_SECOND;
    gst_harness_push(sink, buffer);

    buffer = ends_pull(src);
    g_autoptr(GstEvent) event = gst_pad_get_sticky_event(src->sinkpad, GST_EVENT_SEGMENT, 0);
    gst_event_copy_segment(event, &segment);
    GstClockTime apart = base_times_apart();
    fail_unless_equals_uint64(
        gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer)),
        1 * GST_SECOND + apart);
    fail_unless_equals_uint64(
        gst_segment_to_stream_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer)),
        101 * GST_SECOND);
    gst_buffer_unref(buffer);
}

TEST(test_tags_and_custom_events)
{
    GstTagList *tags =
        gst_tag_list_new(GST_TAG_TITLE, "Pferde am Ufer", GST_TAG_TRACK_NUMBER, 3u, NULL);

    setup(CAPS_SMALL);
    pass(sink, src, 1);
    gst_harness_push_event(sink, gst_event_new_tag(tags));
    gst_harness_push_event(sink,
                           gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
                                                gst_structure_new("x-cue", "splice", G_TYPE_INT64,
                                                                  G_GINT64_CONSTANT(-5), NULL)));

    g_autoptr(GstEvent) tag = ends_wait_event(src, GST_EVENT_TAG);
    g_autofree gchar *title = NULL;
    guint track;
    gst_event_parse_tag(tag, &tags);
    fail_unless(gst_tag_list_get_string(tags, GST_TAG_TITLE, &title));
    fail_unless_equals_string(title, "Pferde am Ufer");
    fail_unless(gst_tag_list_get_uint(tags, GST_TAG_TRACK_NUMBER, &track));
    fail_unless_equals_int(track, 3);

    gint64 splice;
    g_autoptr(GstEvent) cue = ends_wait_event(src, GST_EVENT_CUSTOM_DOWNSTREAM);
    fail_unless(gst_event_has_name(cue, "x-cue"));
    fail_unless(gst_structure_get_int64(gst_event_get_structure(cue), "splice", &splice));
    fail_unless(splice == -5);
}

TEST(test_gap)
{
    GstClockTime time, duration;

    setup(CAPS_SMALL);
    GstBuffer *buffer = ends_picture(CAPS_SMALL, 1);
    GST_BUFFER_PTS(buffer) = 0;
    gst_harness_push(sink, buffer);
    drop(src, 1);
    gst_harness_push_event(sink, gst_event_new_gap(1 * GST_SECOND, 2 * GST_SECOND));

    g_autoptr(GstEvent) event = ends_wait_event(src, GST_EVENT_GAP);
    gst_event_parse_gap(event, &time, &duration);
    GstClockTime apart = base_times_apart();
    fail_unless_equals_uint64(time, 1 * GST_SECOND + apart);
    fail_unless_equals_uint64(duration, 2 * GST_SECOND);
}

TEST(test_late_receiver_gets_segment_and_tags)
{
    setup(CAPS_SMALL);
    gst_harness_push_event(sink, gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "late", NULL)));
    pass(sink, src, 1);

    GstHarness *late = ends_src(NULL);
    ends_wait_clients(sink, 2);
    gst_harness_push(sink, ends_picture(CAPS_SMALL, 2));
    ends_take(late, CAPS_SMALL, 2);
    gst_event_unref(ends_wait_event(late, GST_EVENT_TAG));
    drop(src, 1);
}

TEST(test_eos)
{
    setup(CAPS_SMALL);
    gst_harness_push(sink, ends_picture(CAPS_SMALL, 1));
    gst_harness_push_event(sink, gst_event_new_eos());
    ends_take(src, CAPS_SMALL, 1);
    gst_event_unref(ends_wait_event(src, GST_EVENT_EOS));
}

TEST(test_flush)
{
    setup(CAPS_SMALL);
    pass(sink, src, 1);
    for (guint i = 0; i < 20; i++) {
        GstSegment segment;
        gst_harness_push_event(sink, gst_event_new_flush_start());
        gst_harness_push_event(sink, gst_event_new_flush_stop(TRUE));
        gst_segment_init(&segment, GST_FORMAT_TIME);
        gst_harness_push_event(sink, gst_event_new_segment(&segment));
        ends_push(sink, CAPS_SMALL, i);
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        ends_check_picture(buffer, CAPS_SMALL, i);
        fail_unless(GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT));
    }
    fail_unless_equals_uint64(ends_stat(src, "connects"), 1);
}

TEST(test_two_receivers)
{
    setup(CAPS_SMALL);
    GstHarness *other = ends_src(NULL);
    ends_wait_clients(sink, 2);
    for (guint i = 0; i < 50; i++) {
        pass(sink, src, i);
        ends_take(other, CAPS_SMALL, i);
    }
    fail_unless_equals_uint64(ends_stat(sink, "delivered"), 100);
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 50);
}

#define MALFORMED 5

/* By the caps' size: nothing, less, rows outside, another format, a lent slot cut short. */
static GstBuffer *malformed_picture(guint kind)
{
    static const GstVideoFormat formats[] = {GST_VIDEO_FORMAT_UYVY, GST_VIDEO_FORMAT_GRAY8};
    GstBuffer *buffer = kind == 0 ? gst_buffer_new() : ends_picture(CAPS_SMALL, kind);
    gsize size = gst_buffer_get_size(buffer);
    gsize offset[GST_VIDEO_MAX_PLANES] = {size / 2};
    gint stride[GST_VIDEO_MAX_PLANES] = {64 * 2};

    if (kind == 1)
        gst_buffer_resize(buffer, 0, (gssize)size - 1);
    if (kind == 2 || kind == 3)
        gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, formats[kind - 2], 64, 16,
                                       1, offset, stride);
    if (kind == 4) {
        GstBufferPool *pool = ends_pool(sink, CAPS_SMALL);
        gst_buffer_unref(buffer);
        buffer = ends_acquire(pool);
        gst_buffer_resize(buffer, 0, (gssize)size / 2);
    }
    return buffer;
}

/* A buffer that is no picture of the caps costs itself, and nothing else. */
TEST(test_malformed_buffers)
{
    setup(CAPS_SMALL);
    g_autoptr(GstBus) bus = ends_bus(sink);
    for (guint i = 0; i < MALFORMED; i++) {
        fail_unless_equals_int(gst_harness_push(sink, malformed_picture(i)), GST_FLOW_OK);
        pass(sink, src, i);
    }
    fail_unless_equals_uint64(ends_stat(sink, "dropped-malformed"), MALFORMED);
    fail_unless_equals_uint64(ends_stat(sink, "frames"), MALFORMED);
    fail_unless_equals_uint64(ends_stat(src, "dropped"), 0);
    g_autoptr(GstMessage) message =
        ends_wait_message(bus, GST_MESSAGE_WARNING | GST_MESSAGE_ERROR, 5);
    fail_unless(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING);
    expect_no_complaint(bus);
}

/* A sink that drops frames of slow receivers loses none when its caps change. */
TEST(test_live_changes_of_caps)
{
    sink = ends_sink("slow-receiver=drop-oldest");
    src = ends_src("start=oldest");
    for (guint change = 0; change < 100; change++) {
        g_autofree gchar *caps = g_strdup_printf(
            "video/x-raw,format=UYVY,width=%u,height=16,framerate=25/1", 64 + change % 3 * 2);

        if (change == 0)
            ends_start(sink, caps);
        else
            gst_harness_set_src_caps_str(sink, caps);
        ends_push(sink, caps, 2 * change);
        ends_push(sink, caps, 2 * change + 1);
        ends_take(src, caps, 2 * change);
        ends_take(src, caps, 2 * change + 1);
    }
    fail_unless_equals_uint64(ends_stat(sink, "dropped-slow-receiver"), 0);
}

ENDS_MAIN(30)
