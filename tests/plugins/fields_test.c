/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Caps whose buffers are single fields: interlace-mode=alternate. */
#include "ends.h"
#include "wire/codec.h"

#define FIELDS(format, height)                                                 \
    "video/x-raw(format:Interlaced),format=" format ",width=64,height=" height \
    ",interlace-mode=alternate,field-order=top-field-first,framerate=25/1"
#define CAPS_FIELDS FIELDS("UYVY", "32")

static GstBuffer *field(const gchar *caps, guint count)
{
    GstBuffer *buffer = ends_picture(caps, count);

    GST_BUFFER_FLAG_SET(buffer, count % 2 ? GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD
                                          : GST_VIDEO_BUFFER_FLAG_TOP_FIELD);
    return buffer;
}

static void check_side(GstBuffer *buffer, guint count)
{
    fail_unless(GST_VIDEO_BUFFER_IS_BOTTOM_FIELD(buffer) == (count % 2 == 1), "field %u", count);
    fail_unless(GST_VIDEO_BUFFER_IS_TOP_FIELD(buffer) == (count % 2 == 0), "field %u", count);
}

static void cross(const gchar *caps)
{
    g_autoptr(GstHarness) sink = ends_sink(NULL), src = ends_src(NULL);

    gst_harness_set_src_caps_str(sink, caps);
    for (guint i = 0; i < 8; i++) {
        gst_harness_push(sink, field(caps, i));
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        check_side(buffer, i);
        ends_check_picture(buffer, caps, i);
    }
    g_autoptr(GstCaps) got = gst_pad_get_current_caps(src->sinkpad),
                       wanted = gst_caps_from_string(caps);
    gst_check_caps_equal(got, wanted);
    fail_unless_equals_uint64(ends_stat(sink, "dropped-malformed"), 0);
}

TEST(test_fields_cross)
{
    cross(CAPS_FIELDS);
    cross(FIELDS("I420", "30"));
    cross(FIELDS("v210", "486"));
    cross(FIELDS("NV12", "31")); /* the larger half */
}

/* From the sink's own pool nothing is copied, as with frames. */
TEST(test_fields_in_slots)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_FIELDS);
    GstBufferPool *pool = ends_pool(sink, CAPS_FIELDS);
    for (guint i = 0; i < 8; i++) {
        GstBuffer *buffer = ends_acquire(pool);
        ends_paint(buffer, CAPS_FIELDS, i);
        gst_harness_push(sink, buffer);
        buffer = ends_pull(src);
        ends_check_picture(buffer, CAPS_FIELDS, i);
        gst_buffer_unref(buffer);
    }
    fail_unless_equals_uint64(ends_stat(sink, "copies-cpu"), 0);
}

/* Two fields are a frame, by the clock, too. */
TEST(test_time_of_a_field)
{
    static const struct {
        const gchar *caps;
        GstClockTime interval;
    } cases[] = {
        {CAPS_FIELDS, 20 * GST_MSECOND},
        {CAPS_SMALL, 40 * GST_MSECOND},
        {"video/x-raw,format=UYVY,width=64,height=16,framerate=0/1", GST_CLOCK_TIME_NONE},
    };

    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GstCaps) caps = gst_caps_from_string(cases[i].caps);
        GstVideoInfo info;
        fail_unless(gst_video_info_from_caps(&info, caps));
        fail_unless_equals_uint64(layout_interval(&info), cases[i].interval);
    }
}

/* What stands in for a sender that is gone are fields as well, one after the other. */
TEST(test_fields_that_stand_in)
{
    static const gchar *const cases[][2] = {
        {"freeze", CAPS_FIELDS}, {"black", CAPS_FIELDS}, {"black", FIELDS("I420", "34")}};

    for (guint c = 0; c < G_N_ELEMENTS(cases); c++) {
        const gchar *caps = cases[c][1];
        g_autofree gchar *address = ends_address(),
                         *on_disconnect = g_strdup_printf("on-disconnect=%s", cases[c][0]);
        GstHarness *sink = ends_sink_at(address, NULL);
        g_autoptr(GstHarness) src = ends_src_at(address, on_disconnect);
        gst_harness_set_src_caps_str(sink, caps);
        gst_harness_push(sink, field(caps, 0));
        ends_skip(src, 1);
        ends_close(sink);
        for (guint i = 0; i < 6; i++) {
            g_autoptr(GstBuffer) buffer = ends_pull(src);
            check_side(buffer, i);
            if (c == 0)
                ends_check_picture(buffer, caps, 0);
            else
                ends_check_black(buffer, caps);
            fail_unless_equals_uint64(GST_BUFFER_DURATION(buffer), 20 * GST_MSECOND);
        }
    }
}

/* --- as bytes ----------------------------------------------------------------------------- */

TEST(test_every_format_has_fields)
{
    guint count;
    const GstVideoFormat *formats = gst_video_formats_raw(&count);

    for (guint i = 0; i < count; i++) {
        for (guint height = 2; height <= 130; height += 43) {
            struct gpud_media media;
            struct gpud_layout layout;
            GstVideoInfo info, got;
            guint left_out;
            gchar *reason = NULL;
            gst_video_info_set_interlaced_format(&info, formats[i],
                                                 GST_VIDEO_INTERLACE_MODE_ALTERNATE, 66, height);
            fail_unless(layout_from_info(&layout, &info), "%s %u",
                        gst_video_format_to_string(formats[i]), height);
            fail_unless_equals_int(layout.height, (height + 1) / 2);
            fail_unless(layout_fits_info(&layout, &info));
            g_autoptr(GstCaps) caps = gst_video_info_to_caps(&info);
            fail_unless(media_from_caps(&media, caps, &(struct caps_rest){0}, &left_out) &&
                        left_out == 0);
            media.picture.layout = layout;
            g_autoptr(GstCaps) back = media_to_caps(&media, NULL, &got, &reason);
            fail_unless(back != NULL, "%s: %s", layout.format, reason);
            fail_unless(gst_caps_is_equal(caps, back));
            fail_unless(got.interlace_mode == GST_VIDEO_INTERLACE_MODE_ALTERNATE);
        }
    }
}

/* Pictures that have not two of the field's height are a lie. */
TEST(test_fields_that_contradict_the_layout)
{
    static const guint heights[] = {1, 16, 30, 33, 64, G_MAXINT, G_MAXUINT};

    for (guint i = 0; i < G_N_ELEMENTS(heights); i++) {
        struct gpud_media media = {.picture = {.scan = GPUD_SCAN_ALTERNATE}};
        g_autofree gchar *reason = NULL;
        GstVideoInfo info;
        gpud_layout_init(&media.picture.layout, "UYVY", 64, 16, 0, NULL);
        media.picture.picture_height = heights[i];
        fail_if(media_to_caps(&media, NULL, &info, &reason), "height %u", heights[i]);
        fail_unless(reason != NULL);
    }
}

ENDS_MAIN(60)
