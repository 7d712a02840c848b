/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas that are well formed but harmful: values that abort GStreamer's own arithmetic, or that
 * lose the data beside them. Accepted metas are used as elements do (wire_fuzz.c). */
#include "wire_fuzz.h"
#include "wires.h"

/* --- date-times --------------------------------------------------------------------------- */

static GstStructure *read_date(const gchar *text)
{
    struct pack pack = PACK(4096);

    pack_begin(&pack, "x-cue", 1);
    pack_field(&pack, "when", 11);
    pack_text(&pack, text, strlen(text));
    return read_structure(&pack, NULL);
}

TEST(test_dates)
{
    static const gchar *const good[] = {
        "2026",
        "2026-11",
        "2026-11-22",
        "2026-11-22T09:00Z",
        "2026-11-22T09:00:00Z",
        "2026-11-22T09:00:00+0100",
        "2026-11-22 09:00:00.123456+01:00",
        "2026-11-22T09:00:00-1200",
        "2026-11-22T09:00",
    };
    /* The first one ends the process in gst_date_time_new_from_iso8601_string(). */
    static const gchar *const bad[] = {
        "2026-11k22T10:00:00-9959",
        "2026-11-22T10:00:00-99:00",
        "2026-11-22T10:00:00-9959",
        "2026-11-22T10:00:00+-1:-1",
        "2026-11-22T10:00:00-",
        "2026-11-22T10:00:00+x",
        "",
        "T",
        "10:00",
        "0000",
        "2026-13",
        "2026-02-31",
        "2026-11-22T24:00",
        "2026-11-22T-5:00",
        "2026-11-22T10:60Z",
        "2026-11-22T10:00:60Z",
        "2026-11-22T10:00:nan",
        "2026-11-22T10:00:1e-300Z",
        "2026-11-22T10:00:00+1400",
        "2026-11-22T99999999999999999999:00",
        "2026-11-22T10:00:00Z\n",
        " 2026",
    };
    g_autofree gchar *longest = g_strnfill(3000, '9');

    for (guint i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autoptr(GstStructure) structure = read_date(good[i]);
        fail_unless(structure != NULL, "refused: %s", good[i]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
        fail_if(read_date(bad[i]) != NULL, "taken: %s", bad[i]);
    fail_if(read_date(longest) != NULL);
}

/* GStreamer makes such times where they are local, and cannot read them. */
TEST(test_zones_of_the_far_east)
{
    static const gchar *const zones[] = {"+13:00", "+14:00", "+12:45", "-12:00", "+01:00"};

    for (guint i = 0; i < G_N_ELEMENTS(zones); i++) {
        g_autofree gchar *text = g_strconcat("2026-11-22T10:00:00", zones[i], NULL);
        g_autoptr(GDateTime) local = g_date_time_new_from_iso8601(text, NULL);
        g_autoptr(GstDateTime) time = gst_date_time_new_from_g_date_time(g_date_time_ref(local)),
                               got = NULL;
        g_autoptr(GstStructure) sent = gst_structure_new("x-cue", "when", GST_TYPE_DATE_TIME, time,
                                                         "title", G_TYPE_STRING, "x", NULL);
        struct pack pack = PACK(256);
        pack_structure(&pack, sent, NULL);
        g_autoptr(GstStructure) read = read_structure(&pack, NULL);
        fail_unless(read != NULL, "nothing arrives with %s", zones[i]);
        fail_unless(gst_structure_get(read, "when", GST_TYPE_DATE_TIME, &got, NULL));
        g_autoptr(GDateTime) arrived = gst_date_time_to_g_date_time(got);
        fail_unless(g_date_time_equal(arrived, local), "another time than %s", text);
    }
}

/* --- items -------------------------------------------------------------------------------- */

static void begin_item(struct pack *pack, struct pack *length, guint kind)
{
    pack_u16(pack, (uint16_t)kind);
    *length = *pack;
    pack_u16(pack, 0);
}

static void end_item(struct pack *pack, struct pack *length)
{
    pack_u16(length, (uint16_t)(pack->used - length->used - sizeof(uint16_t)));
}

/* Whether the metas are taken; those that are get used. */
static guint decode(const uint8_t *bytes, size_t size, guint64 *lost)
{
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    gpointer state = NULL;
    guint count = 0;

    read_metas(bytes, size, buffer, &loss);
    while (gst_buffer_iterate_meta(buffer, &state))
        count++;
    wire_use_metas(buffer);
    *lost = lost_metas_count(loss.lost);
    lost_metas_free(loss.lost);
    return count;
}

struct timecode {
    guint32 numerator, denominator, flags, hours, minutes, seconds, frames, fields;
    guint8 has_jam;
    gint64 jam;
    gboolean good;
};

TEST(test_timecodes)
{
    static const struct timecode said[] = {
        {25, 1, 0, 23, 59, 59, 24, 0, 1, 1795338000, TRUE},
        {30000, 1001, 1, 23, 59, 59, 29, 0, 1, 0, TRUE},
        {1000, 1, 0, 23, 59, 59, 999, 0, 0, 0, TRUE},
        {25, 1, 0, 23, 59, 59, 24, 0, 1, INT64_C(253402300799) - 3 * 86400, TRUE},
        {1001, 1, 0, 0, 0, 0, 0, 0, 0, 0, FALSE},
        {1048560, 1, 0, 23, 59, 59, 1048559, 0, 0, 0, FALSE},
        {1000000, 1, 0, 0, 0, 0, 0, 0, 0, 0, FALSE},
        {25, 1, 0, 23, 59, 59, 24, 0, 1, INT64_C(253402300799), FALSE},
        {25, 1, 0, 23, 59, 59, 24, 0, 1, INT64_MAX, FALSE},
        {25, 1, 8, 0, 0, 0, 0, 0, 0, 0, FALSE},
        {25, 1, 0, 24, 0, 0, 0, 0, 0, 0, FALSE},
        {25, 1, 0, 0, 0, 0, 25, 0, 0, 0, FALSE},
        {25, 1, 1, 0, 0, 0, 0, 0, 0, 0, FALSE},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, FALSE},
        {25, 0, 0, 0, 0, 0, 0, 0, 0, 0, FALSE},
        {0, 1, 0, 1, 2, 3, 0, 0, 0, 0, FALSE},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
         UINT32_MAX, 255, -1, FALSE},
    };

    for (guint i = 0; i < G_N_ELEMENTS(said); i++) {
        struct pack pack = PACK(256), length;
        guint64 lost;
        wire_head_pack(&pack, &head);
        begin_item(&pack, &length, 1);
        for (guint word = 0; word < 8; word++)
            pack_u32(&pack, (&said[i].numerator)[word]);
        pack_u8(&pack, said[i].has_jam);
        pack_u64(&pack, (guint64)said[i].jam);
        end_item(&pack, &length);
        fail_unless(decode(pack.data, pack.used, &lost) == (guint)said[i].good, "%u", i);
        fail_unless_equals_uint64(lost, !said[i].good);
    }
}

#define CUSTOM "GpudLiesMeta"

static GstBuffer *make_nested(void)
{
    GstBuffer *buffer = gst_buffer_new();
    GstStructure *inner = gst_structure_new("inner", "depth", G_TYPE_INT, 1, NULL);
    GstStructure *kept = gst_structure_from_string("x, kept=(int)7, list=(int){ 0 }", NULL);

    for (gint depth = 2; depth < 200; depth++) {
        GstStructure *outer = gst_structure_new("inner", "depth", G_TYPE_INT, depth, "inner",
                                                GST_TYPE_STRUCTURE, inner, NULL);
        gst_structure_free(inner);
        inner = outer;
    }
    GstStructure *structure = add_custom(buffer, CUSTOM);
    gst_structure_set_value(structure, "kept", gst_structure_get_value(kept, "kept"));
    gst_structure_set_value(structure, "list", gst_structure_get_value(kept, "list"));
    gst_structure_set(structure, "inner", GST_TYPE_STRUCTURE, inner, "buffer", GST_TYPE_BUFFER,
                      NULL, NULL);
    gst_structure_free(kept);
    gst_structure_free(inner);
    gst_buffer_add_video_region_of_interest_meta(buffer, "face", 1, 2, 3, 4);
    return buffer;
}

/* What is nested too deeply stays behind and is counted; the rest arrives. */
TEST(test_nested_structures)
{
    g_autoptr(GstBuffer) buffer = there_and_back(make_nested(), 1, 0);
    GstStructure *structure = find_custom(buffer, CUSTOM), *next;
    gint kept;

    fail_unless(gst_buffer_get_video_region_of_interest_meta(buffer) != NULL);
    fail_unless(gst_structure_get_int(structure, "kept", &kept));
    fail_unless_equals_int(kept, 7);
    fail_unless_equals_int(gst_structure_n_fields(structure), 3);
    GstStructure *inner = gst_structure_copy(structure);
    for (guint depth = 0; gst_structure_get(inner, "inner", GST_TYPE_STRUCTURE, &next, NULL);
         depth++) {
        fail_unless(depth < PACK_DEPTH_MAX);
        gst_structure_free(inner);
        inner = next;
    }
    gst_structure_free(inner);
}

/* A peer's nested one, of any code that there is not: that meta is lost, the one behind it is not.
 */
TEST(test_unknown_types)
{
    for (guint type = 0; type < 256; type++) {
        struct pack pack = PACK(256), length;
        guint64 lost;
        if (type >= 1 && type <= 19)
            continue;
        wire_head_pack(&pack, &head);
        begin_item(&pack, &length, 7);
        pack_begin(&pack, CUSTOM, 1);
        pack_field(&pack, "inner", (guint8)type);
        pack_begin(&pack, "x-cue", 0);
        end_item(&pack, &length);
        begin_item(&pack, &length, 4);
        for (guint i = 1; i < 5; i++)
            pack_u32(&pack, i);
        end_item(&pack, &length);
        fail_unless(decode(pack.data, pack.used, &lost) == 1, "%u", type);
        fail_unless_equals_uint64(lost, 1);
    }
}

/* All kinds at once, cut at each byte and bent at each byte. */
TEST(test_each_byte)
{
    static const guint8 values[] = {0, 1, 0x7f, 0x80, 0xff};
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    g_autoptr(GstBuffer) buffer = make_nested();
    GstVideoTimeCode *code = gst_video_time_code_new(25, 1, NULL, 0, 1, 2, 3, 4, 0);
    g_autoptr(GstCaps) caps = gst_caps_from_string("timestamp/x-ptp, domain=5");
    g_autoptr(GstDateTime) time = gst_date_time_new_from_iso8601_string("2026-11-22T10:00:00+0100");
    GstVideoRegionOfInterestMeta *roi = gst_buffer_get_video_region_of_interest_meta(buffer);
    uint8_t whole[GPUD_FRAME_META_MAX], bent[GPUD_FRAME_META_MAX];
    guint64 lost;

    gst_video_region_of_interest_meta_add_param(
        roi, gst_structure_new("detection", "when", GST_TYPE_DATE_TIME, time, "score", G_TYPE_FLOAT,
                               0.5f, NULL));
    gst_buffer_add_video_time_code_meta(buffer, code);
    gst_buffer_add_reference_timestamp_meta(buffer, caps, 1, 2);
    gst_buffer_add_video_caption_meta(buffer, GST_VIDEO_CAPTION_TYPE_CEA608_RAW, values, 4);
    gst_buffer_add_video_bar_meta(buffer, 0, TRUE, 1, 2);
    struct meta_large large = {NULL};
    uint32_t size = meta_encode(buffer, &head, whole, &large, &loss);
    fail_unless_equals_int(large.used, 0);
    guint all = decode(whole, size, &lost);
    fail_unless_equals_int(all, 6);
    for (uint32_t cut = 0; cut < size; cut++)
        fail_unless(decode(whole, cut, &lost) <= all, "cut at %u", cut);
    for (uint32_t at = 0; at < size; at++)
        for (guint i = 0; i < G_N_ELEMENTS(values); i++) {
            memcpy(bent, whole, size);
            bent[at] = values[i];
            fail_unless(decode(bent, size, &lost) <= size / 4, "byte %u", at);
        }
    lost_metas_free(loss.lost);
    gst_video_time_code_free(code);
}

int main(int argc, char **argv)
{
    ends_init_environment();
    gst_check_init(&argc, &argv);
    register_meta(CUSTOM);
    return ends_run_tests(120);
}
