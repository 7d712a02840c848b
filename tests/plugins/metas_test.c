/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas that are not transmitted, and those that not every GStreamer has: ancillary data, and types
 * with a serializer of their own. */
#include "wires.h"

#include <gst/video/gstvideometa.h>

/* Of the types in stats. */
static guint64 lost_of_type(const GstStructure *stats, const gchar *type)
{
    g_autoptr(GstStructure) types = NULL;
    guint64 count = 0;

    fail_unless(gst_structure_get(stats, "lost-meta-types", GST_TYPE_STRUCTURE, &types, NULL));
    gst_structure_get_uint64(types, type, &count);
    return count;
}

/* --- what is lost is named ---------------------------------------------------------------- */

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
TEST(test_lost_metas_are_named)
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
TEST(test_names_of_lost_metas_are_bounded)
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

/* One item is refused, and counted for this type. */
static void expect_refused(uint16_t kind, const void *inside, size_t size, const gchar *type)
{
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    g_autoptr(GstStructure) stats = gst_structure_new_empty("stats");
    g_autoptr(GstBuffer) buffer = gst_buffer_new();
    struct pack pack = PACK(GPUD_FRAME_META_MAX);
    gpointer state = NULL;

    wire_head_pack(&pack, &head);
    pack_u16(&pack, kind);
    pack_text(&pack, inside, size);
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

/* Metas with a code of their own, that move planes, or of unknown types are refused in serialized
 * form. */
TEST(test_serialized_metas_that_lie)
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

TEST(test_kinds_of_later_releases)
{
    expect_refused(1234, "abc", 3, "kind-1234");
    expect_refused(KIND_ANC, "abc", 3, "GstAncillaryMeta");
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

TEST(test_ancillary_data)
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

TEST(test_ancillary_data_that_lies)
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

/* --- a type of an application's ------------------------------------------------------------ */

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

TEST(test_serialized_metas)
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

ENDS_MAIN(60)
