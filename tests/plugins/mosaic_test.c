/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sensors' mosaics (video/x-bayer), which are no video formats of GStreamer's: their layouts, their
 * caps as bytes, and pictures of them through a link. */
#include "wires.h"

TEST(test_every_mosaic)
{
    g_autoptr(GstCaps) all = gst_caps_from_string(VIDEO_BAYER ",format=" VIDEO_BAYER_FORMATS);
    const GValue *names = gst_structure_get_value(gst_caps_get_structure(all, 0), "format");
    const gchar *before = "GRAY8";

    fail_unless_equals_int(gst_value_list_get_size(names), 20);
    for (guint i = 0; i < 20; i++) {
        const gchar *name = g_value_get_string(gst_value_list_get_value(names, i));
        for (guint size = 1; size <= 130; size += 43) {
            struct gpud_layout layout, core, other;
            GstVideoInfo info;
            struct gpud_media media;
            guint left_out;
            g_autoptr(GstCaps) caps = gst_caps_new_simple(
                VIDEO_BAYER, "format", G_TYPE_STRING, name, "width", G_TYPE_INT, (gint)size,
                "height", G_TYPE_INT, (gint)size + 1, "framerate", GST_TYPE_FRACTION, 30, 1, NULL);

            fail_unless(video_info_from_caps(&info, caps));
            fail_unless(layout_from_info(&layout, &info));
            fail_unless(gpud_layout_init(&core, name, size, size + 1, 4, NULL) == GPUD_OK);
            fail_unless(layout_is_equal(&layout, &core), "%s %u", name, size);
            fail_unless(gpud_layout_init(&other, before, size, size + 1, 4, NULL) == GPUD_OK);
            fail_if(layout_fits_info(&other, &info), "%s as %s", before, name);

            fail_unless(media_from_caps(&media, caps, &left_out));
            fail_unless(layout_is_equal(&media.picture.layout, &core), "%s %u", name, size);
            g_autoptr(GstCaps) back = caps_there_and_back(caps, &layout);
            fail_unless(gst_caps_is_equal(caps, back), "%s %u", name, size);
            fail_unless_equals_int(layout_interval(&info), GST_SECOND / 30);
        }
        before = name;
    }
}

TEST(test_no_mosaics)
{
    static const gchar *const bad[] = {
        VIDEO_BAYER,
        VIDEO_BAYER ",format=rggb,width=64",
        VIDEO_BAYER ",format=rggb,width=0,height=2",
        VIDEO_BAYER ",format=rggb,width=-64,height=2",
        VIDEO_BAYER ",format=rgbg,width=64,height=2",
        VIDEO_BAYER ",format=UYVY,width=64,height=2",
        VIDEO_BAYER ",format={rggb,bggr},width=64,height=2",
        VIDEO_RAW ",format=rggb,width=64,height=2",
    };
    GstVideoInfo info;

    for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GstCaps) caps = gst_caps_from_string(bad[i]);
        fail_if(video_info_from_caps(&info, caps), "%s", bad[i]);
    }
}

TEST(test_mosaic_through_a_link)
{
    const gchar *text = "video/x-bayer,format=grbg,width=62,height=10,framerate=25/1";
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    g_autoptr(GstCaps) caps = gst_caps_from_string(text);

    gst_harness_set_src_caps_str(sink, text);
    for (guint i = 0; i < 4; i++) {
        guint8 bytes[64 * 10];
        for (guint k = 0; k < sizeof(bytes); k++)
            bytes[k] = (guint8)(i + k * 7);
        gst_harness_push(sink, gst_buffer_new_memdup(bytes, sizeof(bytes)));
        g_autoptr(GstBuffer) buffer = ends_pull(src);
        for (guint row = 0; row < 10; row++)
            fail_unless(gst_buffer_memcmp(buffer, row * 64, bytes + row * 64, 62) == 0, "row %u",
                        row);
    }
    g_autoptr(GstCaps) got = gst_pad_get_current_caps(src->sinkpad);
    fail_unless(gst_caps_is_subset(got, caps), "%" GST_PTR_FORMAT, got);
}

ENDS_MAIN(60)
