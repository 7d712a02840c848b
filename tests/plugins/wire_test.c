/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What travels beside the pictures: metas and caps as bytes, there and back. And metas that are not
 * transmitted, or that not every GStreamer has: ancillary data, and types with a serializer of
 * their own. And sensors' mosaics (video/x-bayer), which are no video formats of GStreamer's.
 *     wire_test [metas|mosaics] */
#include "wires.h"

#include <gst/audio/audio.h>
#ifdef WIRE_ANALYTICS
#include <gst/analytics/analytics.h>
#include <math.h>
#endif
#include <gst/video/gstvideoaffinetransformationmeta.h>
#include <gst/video/video-sei.h>

static gboolean usual, metas, mosaics; /* what is tested */

TEST(test_timecode, .only_if = &usual)
{
    GDateTime *jam = g_date_time_new_utc(2026, 3, 1, 6, 0, 0.123456);
    GstVideoTimeCode *code = gst_video_time_code_new(
        30000, 1001, jam, GST_VIDEO_TIME_CODE_FLAGS_DROP_FRAME, 10, 11, 12, 13, 0);
    g_autoptr(GstBuffer) buffer = gst_buffer_new();

    gst_buffer_add_video_time_code_meta(buffer, code);
    buffer = there_and_back(buffer, 0, 0);
    GstVideoTimeCodeMeta *meta = gst_buffer_get_video_time_code_meta(buffer);
    fail_unless(meta != NULL);
    fail_unless_equals_int(gst_video_time_code_compare(&meta->tc, code), 0);
    fail_unless(g_date_time_equal(meta->tc.config.latest_daily_jam, jam));
    fail_unless_equals_int(meta->tc.config.flags, GST_VIDEO_TIME_CODE_FLAGS_DROP_FRAME);
    gst_video_time_code_free(code);
    g_date_time_unref(jam);
}

TEST(test_captions_and_bars, .only_if = &usual)
{
    static const guint8 words[] = {0xfc, 0x94, 0x2c, 0xfd, 0x80, 0x80};
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(buffer);

    crop->x = 1;
    crop->y = 2;
    crop->width = 3;
    crop->height = 4;
    gst_buffer_add_video_caption_meta(buffer, GST_VIDEO_CAPTION_TYPE_CEA708_RAW, words,
                                      sizeof(words));
    gst_buffer_add_video_afd_meta(buffer, 1, GST_VIDEO_AFD_SPEC_SMPTE_ST2016_1,
                                  GST_VIDEO_AFD_14_9_LETTER_14_9_PILLAR);
    gst_buffer_add_video_bar_meta(buffer, 1, TRUE, 60, 1020);
    buffer = there_and_back(buffer, 0, 0);
    GstVideoCaptionMeta *caption = gst_buffer_get_video_caption_meta(buffer);
    fail_unless(caption && caption->caption_type == GST_VIDEO_CAPTION_TYPE_CEA708_RAW);
    fail_unless(caption->size == sizeof(words) && memcmp(caption->data, words, sizeof(words)) == 0);
    GstVideoAFDMeta *afd = gst_buffer_get_video_afd_meta(buffer);
    fail_unless(afd && afd->field == 1 && afd->afd == GST_VIDEO_AFD_14_9_LETTER_14_9_PILLAR);
    GstVideoBarMeta *bar = gst_buffer_get_video_bar_meta(buffer);
    fail_unless(bar && bar->is_letterbox && bar->bar_data1 == 60 && bar->bar_data2 == 1020);
    crop = gst_buffer_get_video_crop_meta(buffer);
    fail_unless(crop && crop->x == 1 && crop->y == 2 && crop->width == 3 && crop->height == 4);
}

static void add_region(GstBuffer *buffer, const gchar *type, gint id, gint parent)
{
    GstVideoRegionOfInterestMeta *roi =
        gst_buffer_add_video_region_of_interest_meta(buffer, type, (guint)id, 2, 30, 4);

    roi->id = id;
    roi->parent_id = parent;
    gst_video_region_of_interest_meta_add_param(
        roi, gst_structure_new("detection", "confidence", G_TYPE_DOUBLE, 0.75, "label",
                               G_TYPE_STRING, "Pferd", "score", G_TYPE_FLOAT, 0.5f, NULL));
    gst_video_region_of_interest_meta_add_param(
        roi, gst_structure_new("roi/vaapi", "delta-qp", G_TYPE_INT, -id, NULL));
}

static GstVideoRegionOfInterestMeta *next_region(GstBuffer *buffer, gpointer *state)
{
    return (GstVideoRegionOfInterestMeta *)gst_buffer_iterate_meta_filtered(
        buffer, state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE);
}

TEST(test_regions_of_interest, .only_if = &usual)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    gpointer state = NULL;

    add_region(buffer, "face", 7, -1);
    add_region(buffer, "left eye, Größe 3", 8, 7);
    gst_buffer_add_video_region_of_interest_meta_id(buffer, 0, 1, 2, 3, 4);
    buffer = there_and_back(buffer, 0, 0);
    for (gint id = 7; id < 9; id++) {
        GstVideoRegionOfInterestMeta *roi = next_region(buffer, &state);
        gdouble confidence;
        gfloat score;
        gint qp;
        fail_unless(roi && roi->id == id && roi->parent_id == (id == 7 ? -1 : 7));
        fail_unless_equals_string(g_quark_to_string(roi->roi_type),
                                  id == 7 ? "face" : "left eye, Größe 3");
        fail_unless(roi->x == (guint)id && roi->y == 2 && roi->w == 30 && roi->h == 4);
        fail_unless_equals_int(g_list_length(roi->params), 2);
        GstStructure *param = gst_video_region_of_interest_meta_get_param(roi, "detection");
        fail_unless(gst_structure_get(param, "confidence", G_TYPE_DOUBLE, &confidence, "score",
                                      G_TYPE_FLOAT, &score, NULL));
        fail_unless(confidence == 0.75 && score == 0.5f);
        fail_unless_equals_string(gst_structure_get_string(param, "label"), "Pferd");
        param = gst_video_region_of_interest_meta_get_param(roi, "roi/vaapi");
        fail_unless(gst_structure_get_int(param, "delta-qp", &qp) && qp == -id);
    }
    GstVideoRegionOfInterestMeta *last = next_region(buffer, &state);
    fail_unless(last && last->roi_type == 0 && last->params == NULL && last->h == 4);
}

TEST(test_sei_user_data, .only_if = &usual)
{
    guint8 uuid[16] = "0123456789abcde", data[] = {1, 2, 3, 0, 5};
    g_autoptr(GstBuffer) buffer = gst_buffer_new();

    gst_buffer_add_video_sei_user_data_unregistered_meta(buffer, uuid, data, sizeof(data));
    buffer = there_and_back(buffer, 0, 0);
    GstVideoSEIUserDataUnregisteredMeta *sei =
        gst_buffer_get_video_sei_user_data_unregistered_meta(buffer);
    fail_unless(sei && sei->size == sizeof(data));
    fail_unless(memcmp(sei->uuid, uuid, sizeof(uuid)) == 0);
    fail_unless(memcmp(sei->data, data, sizeof(data)) == 0);
}

TEST(test_reference_timestamps, .only_if = &usual)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    g_autoptr(GstCaps) ptp =
        gst_caps_from_string("timestamp/x-ptp, version=IEEE1588-2008, domain=5");

    gst_buffer_add_reference_timestamp_meta(buffer, ptp, 1234, 99);
    meta_add_submit_time(buffer, 55); /* means nothing on the other side */
    buffer = there_and_back(buffer, 0, 0);
    GstReferenceTimestampMeta *meta = gst_buffer_get_reference_timestamp_meta(buffer, ptp);
    fail_unless(meta && meta->timestamp == 1234 && meta->duration == 99);
    fail_unless(gst_caps_is_equal(meta->reference, ptp));
    fail_if(gst_buffer_get_reference_timestamp_meta(buffer, meta_submit_reference()));
}

TEST(test_custom_metas, .only_if = &usual)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    gint number = 0;

    register_meta("GpudirectTestMeta");
    gst_structure_set(add_custom(buffer, "GpudirectTestMeta"), "number", G_TYPE_INT, -7, "text",
                      G_TYPE_STRING, "Grüße", "ratio", GST_TYPE_FRACTION, 16, 9, "yes",
                      G_TYPE_BOOLEAN, TRUE, "pi", G_TYPE_DOUBLE, 3.25, "untold", G_TYPE_POINTER,
                      &number, NULL);
    buffer = there_and_back(buffer, 1, 0);
    GstStructure *structure = find_custom(buffer, "GpudirectTestMeta");
    fail_unless(gst_structure_get_int(structure, "number", &number) && number == -7);
    fail_unless_equals_string(gst_structure_get_string(structure, "text"), "Grüße");
    fail_if(gst_structure_has_field(structure, "untold"));
}

/* Fields of types that contain others. */
static GstStructure *make_fields(void)
{
    GstStructure *fields = gst_structure_from_string(
        "fields, names=(string){ a, b }, none=(int)<>, matrix=(int)<<0>, <1>, <2>, <3>>", NULL);
    g_autoptr(GstStructure) inner =
        gst_structure_from_string("inner, depth=(int)2, name=(string)Tiefe", NULL);
    g_autoptr(GstCaps) caps = gst_caps_from_string(
        "video/x-raw(memory:CUDAMemory, meta:GstVideoOverlayComposition), width=(int)[ 16, 4096, 2 "
        "], format=(string){ NV12, UYVY }, framerate=(fraction)[ 0/1, 60/1 ]; video/x-raw(ANY); "
        "meta/x-klv, parsed=(boolean)true");
    g_autoptr(GstBuffer) buffer = gst_buffer_new_memdup("bytes", 5);

    fail_unless(fields != NULL);
    GST_BUFFER_PTS(buffer) = 77;
    gst_structure_set(fields, "structure", GST_TYPE_STRUCTURE, inner, "caps", GST_TYPE_CAPS, caps,
                      "buffer", GST_TYPE_BUFFER, buffer, NULL);
    return fields;
}

static void check_fields(const GstStructure *got)
{
    static const gchar *const compared[] = {"matrix", "names", "none", "structure", "caps"};
    g_autoptr(GstStructure) made = make_fields();
    g_autoptr(GstBuffer) buffer = NULL;

    for (guint i = 0; i < G_N_ELEMENTS(compared); i++)
        fail_unless(gst_structure_has_field(got, compared[i]) &&
                        gst_value_compare(gst_structure_get_value(got, compared[i]),
                                          gst_structure_get_value(made, compared[i])) ==
                            GST_VALUE_EQUAL,
                    "%s: %" GST_PTR_FORMAT, compared[i], got);
    fail_unless(gst_structure_get(got, "buffer", GST_TYPE_BUFFER, &buffer, NULL));
    fail_unless(gst_buffer_memcmp(buffer, 0, "bytes", 5) == 0);
    fail_unless(gst_buffer_get_size(buffer) == 5 && GST_BUFFER_PTS(buffer) == 77);
}

/* With the offset behind the last. */
TEST(test_nested_fields, .only_if = &usual)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    g_autoptr(GstStructure) fields = make_fields();

    register_meta("GpudirectNestedMeta");
    GstStructure *to = add_custom(buffer, "GpudirectNestedMeta");
    for (gint i = 0; i < gst_structure_n_fields(fields); i++) {
        const gchar *name = gst_structure_nth_field_name(fields, (guint)i);
        gst_structure_set_value(to, name, gst_structure_get_value(fields, name));
    }
    GST_BUFFER_OFFSET_END(buffer) = 4711;
    buffer = there_and_back(buffer, 0, 0);
    check_fields(find_custom(buffer, "GpudirectNestedMeta"));
    fail_unless_equals_uint64(GST_BUFFER_OFFSET_END(buffer), 4711);
}

TEST(test_metas_of_sound_and_others, .only_if = &usual)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new();

    gst_buffer_add_audio_clipping_meta(buffer, GST_FORMAT_DEFAULT, 5, 7);
    gst_buffer_add_audio_level_meta(buffer, 42, TRUE);
    gst_buffer_add_video_affine_transformation_meta(buffer)->matrix[3] = -0.5f;
    gst_buffer_add_protection_meta(buffer, make_fields());
    buffer = there_and_back(buffer, 0, 0);
    GstAudioClippingMeta *clipping = gst_buffer_get_audio_clipping_meta(buffer);
    fail_unless(clipping && clipping->format == GST_FORMAT_DEFAULT);
    fail_unless(clipping->start == 5 && clipping->end == 7);
    GstAudioLevelMeta *level = gst_buffer_get_audio_level_meta(buffer);
    fail_unless(level && level->level == 42 && level->voice_activity);
    GstVideoAffineTransformationMeta *affine =
        gst_buffer_get_video_affine_transformation_meta(buffer);
    fail_unless(affine && affine->matrix[3] == -0.5f && affine->matrix[0] == 1.0f);
    GstProtectionMeta *protection = gst_buffer_get_protection_meta(buffer);
    fail_unless(protection != NULL);
    check_fields(protection->info);
}

/* A buffer of 1,000,000 bytes as a field, beside a picture. */
TEST(test_large_field_through_a_link, .only_if = &usual)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    g_autofree gchar *bytes = g_strnfill(1000000, 0x5a);
    g_autoptr(GstBuffer) field = gst_buffer_new_memdup(bytes, 1000000), arrived = NULL;
    GstBuffer *picture = ends_picture(CAPS_SMALL, 1);

    register_meta("GpudirectLargeMeta");
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    gst_structure_set(add_custom(picture, "GpudirectLargeMeta"), "field", GST_TYPE_BUFFER, field,
                      NULL);
    GST_BUFFER_OFFSET_END(picture) = 2;
    gst_harness_push(sink, picture);
    g_autoptr(GstBuffer) got = ends_pull(src);
    fail_unless_equals_uint64(GST_BUFFER_OFFSET_END(got), 2);
    fail_unless(gst_structure_get(find_custom(got, "GpudirectLargeMeta"), "field", GST_TYPE_BUFFER,
                                  &arrived, NULL));
    fail_unless(gst_buffer_get_size(arrived) == 1000000 &&
                gst_buffer_memcmp(arrived, 0, bytes, 1000000) == 0);
    fail_unless_equals_uint64(ends_stat(sink, "lost-metas"), 0);
}

TEST(test_metas_that_do_not_fit, .only_if = &usual)
{
    static guint8 much[META_LARGE_DEFAULT];
    g_autoptr(GstBuffer) buffer = gst_buffer_new();

    gst_buffer_add_video_afd_meta(buffer, 0, GST_VIDEO_AFD_SPEC_ATSC_A53,
                                  GST_VIDEO_AFD_4_3_FULL_16_9_FULL);
    gst_buffer_add_video_caption_meta(buffer, GST_VIDEO_CAPTION_TYPE_CEA708_CDP, much,
                                      sizeof(much));
    gst_buffer_add_video_bar_meta(buffer, 0, FALSE, 1, 2);
    buffer = there_and_back(buffer, 1, 0);
    fail_unless(gst_buffer_get_video_afd_meta(buffer) && gst_buffer_get_video_bar_meta(buffer));
    fail_if(gst_buffer_get_video_caption_meta(buffer));
}

/* Hundreds of regions, some of which fit into the small bytes: all come, in their order. */
TEST(test_many_metas, .only_if = &usual)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new(), many = gst_buffer_new();
    GstVideoRegionOfInterestMeta *roi;
    gpointer state = NULL;
    guint next = 0;

    for (guint i = 0; i < 900; i++)
        gst_buffer_add_video_region_of_interest_meta(buffer, "face", i, i + 1, i + 2, i + 3);
    gst_buffer_add_video_bar_meta(buffer, 0, FALSE, 1, 2);
    buffer = there_and_back(buffer, 0, 0);
    for (; (roi = next_region(buffer, &state)); next++)
        fail_unless(roi->x == next && roi->h == next + 3);
    fail_unless_equals_int(next, 900);
    fail_unless(gst_buffer_get_video_bar_meta(buffer) != NULL);

    for (guint i = 0; i < 20000; i++)
        gst_buffer_add_video_bar_meta(many, 0, FALSE, i, 2);
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    struct meta_large large = {NULL};
    uint8_t bytes[GPUD_FRAME_META_MAX];
    meta_encode(many, &head, bytes, &large, &loss);
    fail_unless(large.used > META_LARGE_DEFAULT - 100 && lost_metas_count(loss.lost) > 15000);
    g_free(large.data);
    lost_metas_free(loss.lost);
}

/* Large metas in every other frame, of changing sizes: each frame has its own. */
TEST(test_large_metas_through_a_link, .only_if = &usual)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint i = 0; i < 40; i++) {
        GstBuffer *picture = ends_picture(CAPS_SMALL, i);
        gsize size = i % 2 ? 600 + i * 1600 : 0;
        g_autofree guint8 *bytes = g_malloc0(size + 1);
        memset(bytes, (int)i, size);
        if (size)
            gst_buffer_add_video_caption_meta(picture, GST_VIDEO_CAPTION_TYPE_CEA708_CDP, bytes,
                                              size);
        gst_harness_push(sink, picture);
        g_autoptr(GstBuffer) got = ends_pull(src);
        const GstVideoCaptionMeta *caption = gst_buffer_get_video_caption_meta(got);
        fail_unless((caption != NULL) == (size > 0));
        fail_unless(!caption || (caption->size == size && memcmp(caption->data, bytes, size) == 0));
    }
    fail_unless_equals_uint64(ends_stat(sink, "lost-metas"), 0);
    fail_unless_equals_uint64(ends_stat(src, "lost-metas"), 0);
}

TEST(test_metas_through_a_link, .only_if = &usual)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    static guint8 much[GPUD_LARGE_META_MAX];

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint i = 0; i < 10; i++) { /* buffers are used again: nothing may stay on them */
        GstBuffer *picture = ends_picture(CAPS_SMALL, i);
        if (i % 2)
            gst_buffer_add_video_bar_meta(picture, 0, TRUE, i, i + 1);
        gst_buffer_add_video_caption_meta(picture, GST_VIDEO_CAPTION_TYPE_CEA708_CDP, much,
                                          sizeof(much));
        gst_harness_push(sink, picture);
        g_autoptr(GstBuffer) got = ends_pull(src);
        GstVideoBarMeta *bar = gst_buffer_get_video_bar_meta(got);
        fail_unless((bar != NULL) == (i % 2 == 1));
        fail_unless(!bar || bar->bar_data1 == i);
    }
    fail_unless_equals_uint64(ends_stat(sink, "lost-metas"), 10);
    fail_unless_equals_uint64(ends_stat(src, "lost-metas"), 0);
}

/* --- formats ------------------------------------------------------------------------------ */

/* What a stride times a row is no gint of is out of the reach of elements. */
TEST(test_far_rows_do_not_fit, .only_if = &usual)
{
    struct gpud_layout layout;
    GstVideoInfo info;

    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 64, 2);
    fail_unless(layout_from_info(&layout, &info) && layout_fits_info(&layout, &info));
    layout.size = GPUD_FRAME_SIZE_MAX;
    layout.plane[0].stride = G_MAXINT / 2;
    fail_unless(layout_fits_info(&layout, &info));
    layout.plane[0].stride = 1u << 30;
    fail_unless(gpud_layout_check(&layout, NULL) == GPUD_OK);
    fail_if(layout_fits_info(&layout, &info));
    layout.plane[0].stride = 0x80000040;
    fail_unless(gpud_layout_check(&layout, NULL) == GPUD_OK);
    fail_if(layout_fits_info(&layout, &info));
}

/* The core's own idea of a format, where it has one, is the same as GStreamer's. */
TEST(test_every_format_has_a_layout, .only_if = &usual)
{
    guint count, known = 0;
    const GstVideoFormat *formats = gst_video_formats_raw(&count);

    fail_unless(count > 80);
    for (guint i = 0; i < count; i++) {
        const gchar *name = gst_video_format_to_string(formats[i]);
        struct gpud_layout layout, core;
        GstVideoInfo info;

        for (guint size = 1; size <= 130; size += 43) {
            struct video_planes planes;
            struct gpud_error error = {0};

            gst_video_info_set_format(&info, formats[i], size, size + 1);
            fail_unless(layout_from_info(&layout, &info), "%s %u", name, size);
            fail_unless(gpud_layout_check(&layout, &error) == GPUD_OK, "%s", error.reason);
            fail_unless(layout_fits_info(&layout, &info));
            layout_to_planes(&layout, &info, &planes);
            fail_unless(planes_are_default(&planes, &info));
            g_autoptr(GstCaps) caps = gst_video_info_to_caps(&info);
            g_autoptr(GstCaps) back = caps_there_and_back(caps, &layout);
            fail_unless(gst_caps_is_equal(caps, back), "%s %u", name, size);
        }
        if (gpud_layout_init(&core, name, 96, 50, 4, NULL) != GPUD_OK)
            continue;
        known++;
        gst_video_info_set_format(&info, formats[i], 96, 50);
        fail_unless(layout_from_info(&layout, &info));
        fail_unless_equals_int(core.planes, layout.planes);
        for (guint p = 0; p < core.planes; p++) {
            fail_unless(core.plane[p].row_bytes == layout.plane[p].row_bytes,
                        "%s plane %u: %u and %u bytes", name, p, core.plane[p].row_bytes,
                        layout.plane[p].row_bytes);
            fail_unless(core.plane[p].rows == layout.plane[p].rows, "%s plane %u", name, p);
        }
    }
    fail_unless(known > 20);
}

TEST(test_a_sender_that_is_no_element, .only_if = &usual)
{
    struct gpud_media media = {.extra = "hello=(string)\"from \\303\\244\", width=(int)7"};
    struct gpud_layout *layout = &media.picture.layout;
    GstVideoInfo info;
    gchar *reason = NULL;

    gpud_layout_init(layout, "NV12", 64, 32, 256, NULL);
    g_autoptr(GstCaps) caps = media_to_caps(&media, NULL, &info, &reason);
    fail_unless(caps != NULL, "%s", reason);
    fail_unless_equals_int(info.width, 64);
    fail_unless_equals_int(GST_VIDEO_INFO_FORMAT(&info), GST_VIDEO_FORMAT_NV12);
    struct video_planes planes;
    layout_to_planes(layout, &info, &planes);
    fail_unless_equals_int(planes.stride[0], 256);
    fail_if(planes_are_default(&planes, &info));
    fail_unless_equals_string(gst_structure_get_string(gst_caps_get_structure(caps, 0), "hello"),
                              "from ä");

    g_strlcpy(layout->format, "XY99", sizeof(layout->format));
    expect_no_caps(&media, "XY99", "a format that there is not");
}

/* Every field of caps comes out as it went in, whether the core has a member for it or not. */
TEST(test_every_field_of_caps, .only_if = &usual)
{
    static const gchar *const texts[] = {
        "video/x-raw,format=UYVY,width=1920,height=1080,framerate=25/1,interlace-mode=interleaved,"
        "field-order=top-field-first,colorimetry=bt709,chroma-site=mpeg2,pixel-aspect-ratio=1/1,"
        "multiview-mode=mono,multiview-flags=(GstVideoMultiviewFlagsSet)0:ffffffff,views=1",
        "video/x-raw,format=P010_10LE,width=64,height=32,framerate=0/1,max-framerate=60000/1001,"
        "colorimetry=bt2100-pq,mastering-display-info=(string)1:2:3:4:5:6:7:8:9:10,"
        "content-light-level=(string)1000:400",
        "video/x-raw,format=UYVY,width=64,height=32,framerate=25/1,colorimetry=2:3:16:7,"
        "interlace-mode=mixed,chroma-site=alt-line,multiview-mode=top-bottom,views=2,"
        "multiview-flags=(GstVideoMultiviewFlagsSet)1:ffffffff:+right-view-first",
        "video/x-raw,format=RGBA,width=64,height=32,framerate=25/1,colorimetry=1:1:7:1,a=(int)-1,"
        "b=(uint)3,c=(gint64)-5,d=(guint64)5,e=(double)0.1,f=(float)0.5,g=(boolean)true,"
        "h=(string)\"a \\\"b\\\", c = 7; \\303\\244\",i=(fraction)-25/3,j=(bitmask)0x3,"
        "k=(string)\"\",t=(datetime)2020-01-02T03:04:05Z,colorimetries=(string)bt709",
        "video/x-raw,format=UYVY,width=64,height=32,framerate=25/1,interlace-mode=spiral,"
        "colorimetry=9:9:9:9,pixel-aspect-ratio=16/11",
    };

    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GstCaps) caps = gst_caps_from_string(texts[i]);
        g_autoptr(GstCaps) back = caps_there_and_back(caps, NULL);
        /* "2:3:5:1" is "bt709", and so on. */
        g_autofree gchar *wanted = gst_caps_to_string(caps), *got = gst_caps_to_string(back);
        if (!strstr(wanted, "1:1:7:1"))
            fail_unless(gst_caps_is_equal(caps, back), "%s\nbecame\n%s", wanted, got);
        else
            fail_unless_equals_int(gst_structure_n_fields(gst_caps_get_structure(back, 0)),
                                   gst_structure_n_fields(gst_caps_get_structure(caps, 0)));
    }
}

/* What does not travel: values that are not plain, and the longest fields of too many. */
TEST(test_fields_that_do_not_travel, .only_if = &usual)
{
    g_autofree gchar *much = g_strnfill(GPUD_MEDIA_EXTRA_MAX, 'x');
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    g_autoptr(GstCaps) caps = gst_caps_from_string("video/x-raw,format=UYVY,width=64,height=32");
    struct gpud_media media;
    guint left_out;

    gst_caps_set_simple(caps, "data", GST_TYPE_BUFFER, buffer, "much", G_TYPE_STRING, much,
                        "little", G_TYPE_STRING, "two\nlines", NULL);
    fail_unless(media_from_caps(&media, caps, &(struct caps_rest){0}, &left_out));
    fail_unless_equals_int(left_out, 1);
    fail_unless_equals_string(media.extra, "little=(string)\"two\\ lines\"");
}

/* A frame is shown by caps made for another layout only if the two are the same to the byte. */
TEST(test_layouts_are_compared, .only_if = &usual)
{
    struct gpud_layout one, other;

    gpud_layout_init(&one, "NV12", 64, 32, 0, NULL);
    memset(one.format, 'x', sizeof(one.format)); /* behind the end of the name anything may be */
    strcpy(one.format, "NV12");
    gpud_layout_init(&other, "NV12", 64, 32, 0, NULL);
    fail_unless(layout_is_equal(&one, &other));
#define DIFFERS(field)                                 \
    do {                                               \
        struct gpud_layout bent = one;                 \
        bent.field++;                                  \
        fail_if(layout_is_equal(&one, &bent), #field); \
        fail_if(layout_is_equal(&bent, &one), #field); \
    } while (0)
    DIFFERS(size);
    DIFFERS(modifier);
    DIFFERS(width);
    DIFFERS(height);
    DIFFERS(format[3]);
    DIFFERS(planes);
    DIFFERS(plane[1].offset);
    DIFFERS(plane[1].stride);
    DIFFERS(plane[1].row_bytes);
    DIFFERS(plane[1].rows);

    struct gpud_layout moved = one;
    moved.plane[1].offset += 16;
    fail_unless(layout_is_moved(&one, &moved));
    moved.plane[1].stride += 16;
    fail_if(layout_is_moved(&one, &moved));
}

/* --- metas that stay behind, or that are of newer types -------------------------------------- */

/* Of the types in stats. */
static guint64 lost_of_type(const GstStructure *stats, const gchar *type)
{
    g_autoptr(GstStructure) types = NULL;
    guint64 count = 0;

    fail_unless(gst_structure_get(stats, "lost-meta-types", GST_TYPE_STRUCTURE, &types, NULL));
    gst_structure_get_uint64(types, type, &count);
    return count;
}

static GPtrArray *lines; /* of the log, about metas */

static void keep_line(GstDebugCategory *category, GstDebugLevel level, const gchar *file,
                      const gchar *function, gint line, GObject *object, GstDebugMessage *message,
                      gpointer user)
{
    const gchar *text = gst_debug_message_get(message);

    if (level == GST_LEVEL_INFO && strstr(text, "is not transmitted"))
        g_ptr_array_add(lines, g_strdup(text));
}

static gboolean unknown_init(GstMeta *meta, gpointer params, GstBuffer *buffer)
{
    return TRUE;
}

/* Also of an application's own type, without a serializer. */
TEST(test_lost_metas_are_named, .only_if = &metas)
{
    static const gchar *tags[] = {NULL};
    static guint8 much[GPUD_LARGE_META_MAX];
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    g_autoptr(GstStructure) stats = NULL;
    const GstMetaInfo *unknown =
        gst_meta_register(gst_meta_api_type_register("GpudirectUnknownMetaAPI", tags),
                          "GpudirectUnknownMeta", sizeof(GstMeta), unknown_init, NULL, NULL);

    lines = g_ptr_array_new_with_free_func(g_free);
    gst_debug_add_log_function(keep_line, NULL, NULL);
    gst_debug_set_threshold_for_name("gpudirectsink", GST_LEVEL_INFO);
    register_meta("GpudirectNamedMeta");
    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    g_autoptr(GstBus) bus = ends_bus(sink);
    for (guint i = 0; i < 5; i++) {
        GstBuffer *buffer = ends_picture(CAPS_SMALL, i);
        gst_buffer_add_video_caption_meta(buffer, GST_VIDEO_CAPTION_TYPE_CEA708_CDP, much,
                                          sizeof(much));
        gst_structure_set(add_custom(buffer, "GpudirectNamedMeta"), "untold", G_TYPE_POINTER, &sink,
                          NULL);
        gst_buffer_add_meta(buffer, unknown, NULL);
        gst_harness_push(sink, buffer);
        drop(src, 1);
    }
    gst_debug_remove_log_function(keep_line);
    fail_unless_equals_uint64(ends_stat(sink, "lost-metas"), 15);
    expect_told(bus, GST_MESSAGE_WARNING, "lost-meta-types");
    expect_no_complaint(bus);
    g_object_get(ends_element(sink), "stats", &stats, NULL);
    fail_unless_equals_uint64(lost_of_type(stats, "GstVideoCaptionMeta"), 5);
    fail_unless_equals_uint64(lost_of_type(stats, "GpudirectNamedMeta"), 5);
    fail_unless_equals_uint64(lost_of_type(stats, "GpudirectUnknownMeta"), 5);
    fail_unless_equals_int(lines->len, 3);
    fail_unless(strstr(g_ptr_array_index(lines, 0), "GstVideoCaptionMeta") != NULL);
    g_ptr_array_unref(lines);
}

/* The names come from the sender. */
TEST(test_names_of_lost_metas_are_bounded, .only_if = &metas)
{
    struct lost_metas *lost = lost_metas_new(NULL);
    g_autoptr(GstStructure) stats = gst_structure_new_empty("stats"), types = NULL;

    for (guint i = 0; i < 100; i++) {
        g_autofree gchar *name = g_strdup_printf("Meta%u", i);
        lost_metas_note(lost, NULL, name, "so it is");
    }
    lost_metas_tell(lost, stats);
    fail_unless(gst_structure_get(stats, "lost-meta-types", GST_TYPE_STRUCTURE, &types, NULL));
    fail_unless_equals_int(gst_structure_n_fields(types), 33);
    fail_unless_equals_uint64(lost_of_type(stats, "other-types"), 68);
    fail_unless_equals_uint64(lost_metas_count(lost), 100);
    lost_metas_free(lost);
}

/* --- hostile bytes ------------------------------------------------------------------------ */

static void pack_item(struct pack *pack, uint16_t kind, const void *inside, size_t size)
{
    pack_u16(pack, kind);
    pack_text(pack, inside, size);
}

/* One item is refused, and counted for this type. */
static void expect_refused(uint16_t kind, const void *inside, size_t size, const gchar *type)
{
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    g_autoptr(GstStructure) stats = gst_structure_new_empty("stats");
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    struct pack pack = PACK(GPUD_FRAME_META_MAX);
    gpointer state = NULL;

    wire_head_pack(&pack, &head);
    pack_item(&pack, kind, inside, size);
    fail_if(pack.full);
    fail_unless(read_metas(pack.data, pack.used, buffer, &loss));
    fail_if(gst_buffer_iterate_meta(buffer, &state), "taken: a %s", type);
    fail_unless_equals_uint64(lost_metas_count(loss.lost), 1);
    lost_metas_tell(loss.lost, stats);
    fail_unless(lost_of_type(stats, type) == 1, "not named: %s", type);
    lost_metas_free(loss.lost);
}

#define KIND_ANC 10
#define KIND_SERIALIZED 11
#define KIND_TENSORS 17
#define KIND_RELATIONS 18

/* As gst_meta_serialize() writes it; lengths may lie. */
static void expect_serialized_refused(const gchar *name, gint size_off, gint length_off,
                                      const gchar *type)
{
    struct pack pack = PACK(256);
    size_t length = strlen(name);

    pack_u32(&pack, (uint32_t)(8 + length + 1 + 1 + 4 + size_off));
    pack_u32(&pack, (uint32_t)(length + length_off));
    pack_bytes(&pack, name, length + 1);
    pack_u8(&pack, 0);
    pack_u32(&pack, 42);
    expect_refused(KIND_SERIALIZED, pack.data, pack.used, type);
}

/* Metas with a code of their own, that move planes, or of unknown types are refused serialized. */
TEST(test_serialized_metas_that_lie, .only_if = &metas)
{
    gst_video_meta_get_info();
    gst_video_caption_meta_get_info();
    gst_reference_timestamp_meta_get_info();
    expect_serialized_refused("GstVideoMeta", 0, 0, "GstVideoMeta");
    expect_serialized_refused("GstVideoCaptionMeta", 0, 0, "GstVideoCaptionMeta");
    expect_serialized_refused("GstReferenceTimestampMeta", 0, 0, "GstReferenceTimestampMeta");
    expect_serialized_refused("GpudirectUnheardOfMeta", 0, 0, "GpudirectUnheardOfMeta");
    expect_serialized_refused("GpudirectNumberMeta", 1, 0, "kind-11");
    expect_serialized_refused("GpudirectNumberMeta", -1, 0, "kind-11");
    expect_serialized_refused("GpudirectNumberMeta", 0, -1, "kind-11");
    expect_serialized_refused("GpudirectNumberMeta", 0, 1, "kind-11");
    expect_serialized_refused("GpudirectNumberMeta", 0, -100, "kind-11"); /* nearly 2^32 */
    expect_serialized_refused("\x1b[2J", 0, 0, "kind-11");
    expect_refused(KIND_SERIALIZED, "", 0, "kind-11");
}

TEST(test_kinds_of_later_releases, .only_if = &metas)
{
    expect_refused(1234, "abc", 3, "kind-1234");
    expect_refused(KIND_ANC, "abc", 3, "GstAncillaryMeta");
    expect_refused(KIND_TENSORS, "\1\0\0", 3, "GstTensorMeta");
    expect_refused(KIND_RELATIONS, "\1\0\3", 3, "GstAnalyticsRelationMeta");
}

#if GST_CHECK_VERSION(1, 24, 0)

/* --- ancillary data ----------------------------------------------------------------------- */

static void add_packet(GstBuffer *buffer, guint count)
{
    GstAncillaryMeta *anc = gst_buffer_add_ancillary_meta(buffer);

    anc->field = GST_ANCILLARY_META_FIELD_INTERLACED_SECOND;
    anc->c_not_y_channel = TRUE;
    anc->line = 9;
    anc->offset = 0xffd;
    anc->DID = 0x161;
    anc->SDID_block_number = 0x101;
    anc->data_count = (guint16)(0x100 | count);
    anc->data = g_new(guint16, count);
    for (guint i = 0; i < count; i++)
        anc->data[i] = (guint16)(0x200 | i);
    anc->checksum = 0x2aa;
}

TEST(test_ancillary_data, .only_if = &metas)
{
    static const guint counts[] = {0, 75, 255};

    for (guint i = 0; i < G_N_ELEMENTS(counts); i++) {
        g_autoptr(GstBuffer) buffer = gst_buffer_new();
        gpointer state = NULL;
        add_packet(buffer, counts[i]);
        add_packet(buffer, 3);
        buffer = there_and_back(buffer, 0, 0);
        GstAncillaryMeta *anc = gst_buffer_iterate_ancillary_meta(buffer, &state);
        fail_unless(anc && anc->field == GST_ANCILLARY_META_FIELD_INTERLACED_SECOND);
        fail_unless(anc->c_not_y_channel && anc->line == 9 && anc->offset == 0xffd);
        fail_unless(anc->DID == 0x161 && anc->SDID_block_number == 0x101);
        fail_unless(anc->data_count == (0x100 | counts[i]) && anc->checksum == 0x2aa);
        for (guint w = 0; w < counts[i]; w++)
            fail_unless_equals_int(anc->data[w], 0x200 | w);
        anc = gst_buffer_iterate_ancillary_meta(buffer, &state);
        fail_unless(anc && (anc->data_count & 0xff) == 3);
    }
}

TEST(test_ancillary_data_that_lies, .only_if = &metas)
{
    static const uint16_t said[][6] = {
        {0x800, 0, 0, 0, 0, 0}, {0, 0x1000, 0, 0, 0, 0}, {0, 0, 0x400, 0, 0, 0},
        {0, 0, 0, 0x400, 0, 0}, {0, 0, 0, 0, 0x400, 0},  {0, 0, 0, 0, 1, 0}, /* a word is missing */
        {0, 0, 0, 0, 0, 0x400},
    };

    for (guint i = 0; i < G_N_ELEMENTS(said); i++) {
        struct pack pack = PACK(32);
        pack_u16(&pack, 0); /* progressive, luma */
        for (guint w = 0; w < 6; w++)
            pack_u16(&pack, said[i][w]);
        expect_refused(KIND_ANC, pack.data, pack.used, "GstAncillaryMeta");
    }
}

struct number_meta {
    GstMeta meta;
    guint32 number;
};

static gboolean number_init(GstMeta *meta, gpointer params, GstBuffer *buffer)
{
    ((struct number_meta *)meta)->number = 0;
    return TRUE;
}

static gboolean number_serialize(const GstMeta *meta, GstByteArrayInterface *data, guint8 *version)
{
    guint32 number = GUINT32_TO_LE(((const struct number_meta *)meta)->number);

    *version = 3;
    return gst_byte_array_interface_append_data(data, (const guint8 *)&number, sizeof(number));
}

static GstMeta *number_deserialize(const GstMetaInfo *info, GstBuffer *buffer, const guint8 *data,
                                   gsize size, guint8 version)
{
    guint32 number;

    if (version != 3 || size != sizeof(number))
        return NULL;
    memcpy(&number, data, sizeof(number));
    struct number_meta *meta = (struct number_meta *)gst_buffer_add_meta(buffer, info, NULL);
    meta->number = GUINT32_FROM_LE(number);
    return &meta->meta;
}

TEST(test_serialized_metas, .only_if = &metas)
{
    static const gchar *tags[] = {NULL};
    GType api = gst_meta_api_type_register("GpudirectNumberMetaAPI", tags);
    GstMetaInfo *info = gst_meta_info_new(api, "GpudirectNumberMeta", sizeof(struct number_meta));
    g_autoptr(GstBuffer) buffer = gst_buffer_new();

    info->init_func = number_init;
    info->serialize_func = number_serialize;
    info->deserialize_func = number_deserialize;
    gst_meta_info_register(info);
    ((struct number_meta *)gst_buffer_add_meta(buffer, info, NULL))->number = 4711;
    buffer = there_and_back(buffer, 0, 0);
    struct number_meta *meta = (struct number_meta *)gst_buffer_get_meta(buffer, api);
    fail_unless(meta && meta->number == 4711);
    /* The type exists, and its own reader refuses the version. */
    expect_serialized_refused("GpudirectNumberMeta", 0, 0, "GpudirectNumberMeta");
}

#endif

#ifdef WIRE_ANALYTICS

/* One item is taken, and a second one of its type on the same buffer refused. */
static void expect_taken_once(uint16_t kind, const void *inside, size_t size, GType api)
{
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    struct pack pack = PACK(GPUD_FRAME_META_MAX);

    wire_head_pack(&pack, &head);
    pack_item(&pack, kind, inside, size);
    pack_item(&pack, kind, inside, size);
    fail_unless(read_metas(pack.data, pack.used, buffer, &loss));
    fail_unless_equals_int(gst_buffer_get_n_meta(buffer, api), 1);
    fail_unless_equals_uint64(lost_metas_count(loss.lost), 1);
    lost_metas_free(loss.lost);
}

/* --- tensors ------------------------------------------------------------------------------ */

struct tensor {
    const gchar *id;
    GstTensorDataType type;
    GstTensorDimOrder order;
    gsize dims[3];
    gsize count, size; /* of dimensions, of bytes */
};

static const struct tensor tensors[] = {
    {"boxes", GST_TENSOR_DATA_TYPE_FLOAT32, GST_TENSOR_DIM_ORDER_ROW_MAJOR, {1, 5, 4}, 3, 80},
    {"Größe", GST_TENSOR_DATA_TYPE_INT64, GST_TENSOR_DIM_ORDER_COL_MAJOR, {3, 2}, 2, 48},
    {"halves", GST_TENSOR_DATA_TYPE_UINT4, GST_TENSOR_DIM_ORDER_ROW_MAJOR, {7}, 1, 4},
    {"nothing", GST_TENSOR_DATA_TYPE_BFLOAT16, GST_TENSOR_DIM_ORDER_ROW_MAJOR, {0, 4}, 2, 0},
    {NULL, GST_TENSOR_DATA_TYPE_UINT8, GST_TENSOR_DIM_ORDER_ROW_MAJOR, {50000}, 1, 50000},
};

static guint8 tensor_byte(guint tensor, gsize at, guint seed)
{
    return (guint8)(tensor * 31 + at * 7 + at / 251 + seed);
}

static void add_tensors(GstBuffer *buffer, guint seed)
{
    GstTensor **all = g_new(GstTensor *, G_N_ELEMENTS(tensors));

    for (guint i = 0; i < G_N_ELEMENTS(tensors); i++) {
        guint8 *bytes = g_malloc(tensors[i].size + 1);
        gsize dims[3];
        memcpy(dims, tensors[i].dims, sizeof(dims));
        for (gsize k = 0; k < tensors[i].size; k++)
            bytes[k] = tensor_byte(i, k, seed);
        all[i] =
            gst_tensor_new_simple(tensors[i].id ? g_quark_from_string(tensors[i].id) : 0,
                                  tensors[i].type, gst_buffer_new_wrapped(bytes, tensors[i].size),
                                  tensors[i].order, tensors[i].count, dims);
    }
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), G_N_ELEMENTS(tensors), all);
}

static void check_tensors(GstBuffer *buffer, guint seed)
{
    GstTensorMeta *meta = gst_buffer_get_tensor_meta(buffer);

    fail_unless(meta && meta->num_tensors == G_N_ELEMENTS(tensors));
    for (guint i = 0; i < G_N_ELEMENTS(tensors); i++) {
        const GstTensor *tensor = gst_tensor_meta_get(meta, i);
        GstMapInfo map;
        fail_unless_equals_string(g_quark_to_string(tensor->id), tensors[i].id);
        fail_unless(tensor->data_type == tensors[i].type && tensor->dims_order == tensors[i].order);
        fail_unless(tensor->layout == GST_TENSOR_LAYOUT_CONTIGUOUS);
        fail_unless_equals_uint64(tensor->num_dims, tensors[i].count);
        fail_unless(memcmp(tensor->dims, tensors[i].dims, tensor->num_dims * sizeof(gsize)) == 0);
        fail_unless(gst_buffer_map(tensor->data, &map, GST_MAP_READ));
        fail_unless_equals_uint64(map.size, tensors[i].size);
        for (gsize k = 0; k < map.size; k++)
            fail_unless(map.data[k] == tensor_byte(i, k, seed), "byte %zu of tensor %u", k, i);
        gst_buffer_unmap(tensor->data, &map);
    }
}

TEST(test_tensors, .only_if = &metas)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new(), empty = gst_buffer_new();

    add_tensors(buffer, 3);
    buffer = there_and_back(buffer, 0, 0);
    check_tensors(buffer, 3);
    gst_buffer_add_tensor_meta(empty);
    empty = there_and_back(empty, 0, 0);
    fail_unless(gst_buffer_get_tensor_meta(empty) != NULL);
}

/* One without data, and one whose size is not known before its data are there: in caps, that is. */
TEST(test_tensors_that_are_not_whole, .only_if = &metas)
{
    for (guint with_data = 0; with_data < 2; with_data++) {
        g_autoptr(GstBuffer) buffer = gst_buffer_new();
        GstTensor **one = g_new(GstTensor *, 1);
        one[0] = gst_tensor_alloc(2);
        one[0]->dims[0] = 4;
        if (with_data)
            one[0]->data = gst_buffer_new_memdup("abcd", 4);
        gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), 1, one);
        buffer = there_and_back(buffer, 1, 0);
        fail_if(gst_buffer_get_tensor_meta(buffer));
    }
}

TEST(test_tensors_that_lie, .only_if = &metas)
{
    static const struct {
        guint8 count, type, layout, order, dims;
        guint32 dim[2], size;
    } said[] = {
        {1, 1, 0, 0, 2, {2, 2}, 4}, /* none: these 4 bytes are there */
        {2, 1, 0, 0, 2, {2, 2}, 4},
        {1, 14, 0, 0, 2, {2, 2}, 4},
        {1, 255, 0, 0, 2, {2, 2}, 4},
        {1, 1, 1, 0, 2, {2, 2}, 4},
        {1, 1, 0, 2, 2, {2, 2}, 4},
        {1, 1, 0, 0, 0, {2, 2}, 4},
        {1, 1, 0, 0, 17, {2, 2}, 4},
        {1, 1, 0, 0, 2, {2, 3}, 4},
        {1, 2, 0, 0, 2, {2, 2}, 4},
        {1, 1, 0, 0, 2, {0, 4}, 4},
        {1, 1, 0, 0, 2, {2, 2}, 5},
        {1, 1, 0, 0, 2, {2, 2}, G_MAXUINT32},
        {1, 1, 0, 0, 2, {0x80000000, 0x80000002}, 4},
        {1, 1, 0, 0, 2, {G_MAXUINT32, 0}, 0},
    };

    for (guint i = 0; i < G_N_ELEMENTS(said); i++) {
        struct pack pack = PACK(64);
        pack_u8(&pack, said[i].count);
        pack_quark(&pack, g_quark_from_static_string("boxes"));
        pack_u8(&pack, said[i].type);
        pack_u8(&pack, said[i].layout);
        pack_u8(&pack, said[i].order);
        pack_u8(&pack, said[i].dims);
        for (guint dim = 0; dim < MIN(said[i].dims, 2); dim++)
            pack_u32(&pack, said[i].dim[dim]);
        pack_u32(&pack, said[i].size);
        pack_bytes(&pack, "abcd", MIN(said[i].size, 4));
        if (i > 0)
            expect_refused(KIND_TENSORS, pack.data, pack.used, "GstTensorMeta");
        else
            expect_taken_once(KIND_TENSORS, pack.data, pack.used, GST_TENSOR_META_API_TYPE);
    }
}

/* --- objects, classes and trackings ------------------------------------------------------- */

/* An object with its classes and its tracking, and a mask, which is not sent, between them. */
static void add_mtds(GstBuffer *buffer, guint seed, gboolean with_mask)
{
    GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
    gfloat levels[] = {0.75f, NAN};
    GQuark classes[] = {g_quark_from_string("Pferd"), 0};
    GstAnalyticsMtd object, mask, cls, tracking;
    GstBuffer *pixels = gst_buffer_new_allocate(NULL, 16, NULL);

    gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, 4, 4);
    fail_unless(gst_analytics_relation_meta_add_oriented_od_mtd(
        meta, g_quark_from_string("animal, Größe 3"), -5, (gint)seed, 30, 32768, 0.5f, 0.25f,
        &object));
    if (with_mask)
        fail_unless(gst_analytics_relation_meta_add_segmentation_mtd(
            meta, pixels, GST_SEGMENTATION_TYPE_SEMANTIC, 1, (guint[]){1}, 0, 0, 4, 4, &mask));
    else
        gst_buffer_unref(pixels);
    fail_unless(gst_analytics_relation_meta_add_cls_mtd(meta, 2, levels, classes, &cls));
    fail_unless(gst_analytics_relation_meta_add_tracking_mtd(meta, G_MAXUINT64, 10, &tracking));
    gst_analytics_tracking_mtd_update_last_seen(&tracking, 20 + seed);
    gst_analytics_tracking_mtd_set_lost(&tracking);
    gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, object.id,
                                             cls.id);
    gst_analytics_relation_meta_set_relation(
        meta, GST_ANALYTICS_REL_TYPE_CONTAIN | GST_ANALYTICS_REL_TYPE_N_TO_N, tracking.id,
        object.id);
    if (with_mask)
        gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, mask.id,
                                                 object.id);
}

static void check_mtds(GstBuffer *buffer, guint seed)
{
    GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
    guint64 id, first, last;
    gint x, y, w, h;
    gfloat rotation, level;
    gboolean lost;
    GstAnalyticsMtd found;

    fail_unless(meta && gst_analytics_relation_get_length(meta) == 3);
    fail_unless(gst_analytics_relation_meta_get_od_mtd(meta, 0, &found));
    fail_unless_equals_string(g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&found)),
                              "animal, Größe 3");
    fail_unless(
        gst_analytics_od_mtd_get_oriented_location(&found, &x, &y, &w, &h, &rotation, &level));
    fail_unless(x == -5 && y == (gint)seed && w == 30 && h == 32768);
    fail_unless(rotation == 0.5f && level == 0.25f);
    fail_unless(gst_analytics_relation_meta_get_cls_mtd(meta, 1, &found));
    fail_unless_equals_uint64(gst_analytics_cls_mtd_get_length(&found), 2);
    fail_unless_equals_string(g_quark_to_string(gst_analytics_cls_mtd_get_quark(&found, 0)),
                              "Pferd");
    fail_unless(gst_analytics_cls_mtd_get_level(&found, 0) == 0.75f);
    fail_unless(isnan(gst_analytics_cls_mtd_get_level(&found, 1)));
    fail_unless(gst_analytics_cls_mtd_get_quark(&found, 1) == 0);
    fail_unless(gst_analytics_relation_meta_get_tracking_mtd(meta, 2, &found));
    gst_analytics_tracking_mtd_get_info(&found, &id, &first, &last, &lost);
    fail_unless(id == G_MAXUINT64 && first == 10 && last == 20 + seed && lost);
    for (guint from = 0; from < 3; from++)
        for (guint to = 0; to < 3; to++)
            fail_unless_equals_int(gst_analytics_relation_meta_get_relation(meta, from, to),
                                   from == 0 && to == 1   ? GST_ANALYTICS_REL_TYPE_RELATE_TO
                                   : from == 2 && to == 0 ? GST_ANALYTICS_REL_TYPE_CONTAIN |
                                                                GST_ANALYTICS_REL_TYPE_N_TO_N
                                                          : 0);
}

/* With a mask the others have other numbers, by which the relations find them. What arrives grows
 * under the elements that add more to it. */
TEST(test_mtds, .only_if = &metas)
{
    for (guint with_mask = 0; with_mask < 2; with_mask++) {
        g_autoptr(GstBuffer) buffer = gst_buffer_new();
        GstAnalyticsODMtd more;
        add_mtds(buffer, 7, with_mask > 0);
        buffer = there_and_back(buffer, with_mask, 0);
        check_mtds(buffer, 7);
        GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
        for (guint i = 3; i < 40; i++)
            fail_unless(gst_analytics_relation_meta_add_od_mtd(meta, 0, 1, 2, 3, 4, 1, &more) &&
                        more.id == i);
        fail_unless_equals_int(gst_analytics_relation_meta_get_relation(meta, 0, 1),
                               GST_ANALYTICS_REL_TYPE_RELATE_TO);
    }
}

/* An object that is out of reach stays behind, the one after it does not; of too many all do. */
TEST(test_mtds_that_stay_behind, .only_if = &metas)
{
    g_autoptr(GstBuffer) buffer = gst_buffer_new(), many = gst_buffer_new(),
                         none = gst_buffer_new();
    GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
    GstAnalyticsODMtd found;

    gst_analytics_relation_meta_add_od_mtd(meta, 0, 32769, 0, 1, 1, 1, &found);
    gst_analytics_relation_meta_add_oriented_od_mtd(meta, 0, 0, 0, 1, 1, NAN, 1, &found);
    gst_analytics_relation_meta_add_od_mtd(meta, 0, 9, 0, 1, 1, 1, &found);
    buffer = there_and_back(buffer, 1, 0);
    meta = gst_buffer_get_analytics_relation_meta(buffer);
    fail_unless(meta && gst_analytics_relation_get_length(meta) == 1);

    meta = gst_buffer_add_analytics_relation_meta_full(
        many, &(GstAnalyticsRelationMetaInitParams){1100, 100000});
    for (guint i = 0; i < 1024; i++)
        gst_analytics_relation_meta_add_od_mtd(meta, 0, (gint)i, 0, 1, 1, 1, &found);
    many = there_and_back(many, 0, 0);
    meta = gst_buffer_get_analytics_relation_meta(many);
    fail_unless(meta && gst_analytics_relation_get_length(meta) == 1024);
    gst_analytics_relation_meta_add_od_mtd(meta, 0, 1024, 0, 1, 1, 1, &found);
    many = there_and_back(many, 1, 0);
    fail_if(gst_buffer_get_analytics_relation_meta(many));

    gst_buffer_add_analytics_relation_meta(none);
    none = there_and_back(none, 0, 0);
    fail_unless(gst_buffer_get_analytics_relation_meta(none) != NULL);
}

static void pack_object(struct pack *pack, gint x, gfloat rotation)
{
    pack_u8(pack, 0);
    pack_quark(pack, g_quark_from_static_string("animal"));
    for (gint i = 0; i < 4; i++)
        pack_u32(pack, (uint32_t)(x + i));
    pack_float(pack, rotation);
    pack_float(pack, 1);
}

TEST(test_mtds_that_lie, .only_if = &metas)
{
    static const struct {
        guint count, kind; /* of mtds; 0: an object; else the one after it */
        gint x;
        gfloat rotation;
        guint from, to, rest; /* of a relation, and how many of its 5 bytes there are */
    } said[] = {
        {1, 0, -32768, 0, 0, 0, 5}, /* none */
        {0, 0, 1, 0, 0, 0, 5},
        {2, 0, 1, 0, 0, 0, 5},
        {1025, 0, 1, 0, 0, 0, 5},
        {G_MAXUINT16, 0, 1, 0, 0, 0, 5},
        {2, 3, 1, 0, 0, 0, 0},
        {2, 255, 1, 0, 0, 0, 5},
        {2, 1, 1, 0, 0, 0, 5}, /* classes: the relation is their count */
        {2, 2, 1, 0, 0, 0, 5}, /* tracking: and is too short */
        {1, 0, -32769, 0, 0, 0, 5},
        {1, 0, 32766, 0, 0, 0, 5},
        {1, 0, G_MAXINT - 3, 0, 0, 0, 5},
        {1, 0, 1, INFINITY, 0, 0, 5},
        {1, 0, 1, NAN, 0, 0, 5},
        {1, 0, 1, 0, 1, 0, 5},
        {1, 0, 1, 0, 0, G_MAXUINT16, 5},
        {1, 0, 1, 0, 0, 0, 4},
        {1, 0, 1, 0, 0, 0, 1},
    };

    for (guint i = 0; i < G_N_ELEMENTS(said); i++) {
        struct pack pack = PACK(64);
        pack_u16(&pack, (uint16_t)said[i].count);
        pack_object(&pack, said[i].x, said[i].rotation);
        if (said[i].kind > 0)
            pack_u8(&pack, (uint8_t)said[i].kind);
        size_t start = pack.used;
        pack_u16(&pack, (uint16_t)said[i].from);
        pack_u16(&pack, (uint16_t)said[i].to);
        pack_u8(&pack, 2);
        if (i > 0)
            expect_refused(KIND_RELATIONS, pack.data, start + said[i].rest,
                           "GstAnalyticsRelationMeta");
        else
            expect_taken_once(KIND_RELATIONS, pack.data, pack.used,
                              GST_ANALYTICS_RELATION_META_API_TYPE);
    }
}

/* Buffers are used again, in the second half also those to which an element added its own: what was
 * sent with one picture does not stay for the next. */
TEST(test_inference_through_a_link, .only_if = &metas)
{
    GstHarness *sink = ends_sink(NULL), *src = ends_src(NULL);
    GstAnalyticsODMtd more;

    gst_harness_set_src_caps_str(sink, CAPS_SMALL);
    for (guint i = 0; i < 24; i++) {
        GstBuffer *picture = ends_picture(CAPS_SMALL, i);
        if (i % 2)
            add_tensors(picture, i);
        if (i % 3)
            add_mtds(picture, i, FALSE);
        gst_harness_push(sink, picture);
        g_autoptr(GstBuffer) got = ends_pull(src);
        if (i % 2)
            check_tensors(got, i);
        if (i % 3)
            check_mtds(got, i);
        fail_unless((gst_buffer_get_tensor_meta(got) != NULL) == (i % 2 > 0));
        GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(got);
        fail_unless((meta && gst_analytics_relation_get_length(meta) > 0) == (i % 3 > 0));
        fail_unless(i >= 12 || (meta != NULL) == (i % 3 > 0), "one stays on picture %u", i);
        if (i >= 12 && i % 4 == 0) {
            got = gst_buffer_make_writable(g_steal_pointer(&got));
            meta = gst_buffer_add_analytics_relation_meta(got);
            gst_analytics_relation_meta_add_od_mtd(meta, 0, 1, 2, 3, 4, 1, &more);
        }
    }
    fail_unless_equals_uint64(ends_stat(sink, "lost-metas"), 0);
    fail_unless_equals_uint64(ends_stat(src, "lost-metas"), 0);
}

#endif

/* --- mosaics ------------------------------------------------------------------------------ */

TEST(test_every_mosaic, .only_if = &mosaics)
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

            fail_unless(media_from_caps(&media, caps, &(struct caps_rest){0}, &left_out));
            fail_unless(layout_is_equal(&media.picture.layout, &core), "%s %u", name, size);
            g_autoptr(GstCaps) back = caps_there_and_back(caps, &layout);
            fail_unless(gst_caps_is_equal(caps, back), "%s %u", name, size);
            fail_unless_equals_int(layout_interval(&info), GST_SECOND / 30);
        }
        before = name;
    }
}

TEST(test_no_mosaics, .only_if = &mosaics)
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

TEST(test_mosaic_through_a_link, .only_if = &mosaics)
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

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    metas = argc > 1 && g_str_equal(argv[1], "metas");
    mosaics = argc > 1 && g_str_equal(argv[1], "mosaics");
    usual = argc == 1;
    if (!usual && !metas && !mosaics) {
        g_printerr("there is no part \"%s\"\n", argv[1]);
        return 2;
    }
    return ends_run_tests(60);
}
