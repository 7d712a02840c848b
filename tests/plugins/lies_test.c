/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hostile data beside the pictures: random bytes, and texts, names and caps that are meant to do
 * harm. And metas that are well formed but harmful: values that abort GStreamer's own arithmetic,
 * or that lose the data beside them. Accepted ones are used as elements do (wire_fuzz.c). lies_test
 * [metas] */
#include "wire_fuzz.h"
#include "wires.h"

#ifdef WIRE_ANALYTICS
#include <gst/analytics/analytics.h>
#endif
#include <gst/video/video-sei.h>

static gboolean by_bytes, by_metas; /* what lies */

/* --- hostile bytes ------------------------------------------------------------------------ */

static void add_newer_metas(GstBuffer *buffer)
{
    guint8 uuid[16] = "0123456789abcde", data[] = {1, 2, 3};
    GstVideoRegionOfInterestMeta *roi =
        gst_buffer_add_video_region_of_interest_meta(buffer, "face", 1, 2, 3, 4);

    for (guint i = 0; i < 2; i++)
        gst_video_region_of_interest_meta_add_param(
            roi, gst_structure_new("detection", "when", G_TYPE_DOUBLE, 0.75, "score", G_TYPE_FLOAT,
                                   0.5f, NULL));
    gst_buffer_add_video_sei_user_data_unregistered_meta(buffer, uuid, data, sizeof(data));
#if GST_CHECK_VERSION(1, 24, 0)
    GstAncillaryMeta *anc = gst_buffer_add_ancillary_meta(buffer);
    anc->DID = 0x161;
    anc->SDID_block_number = 0x101;
    anc->data_count = 0x202;
    anc->data = g_new0(guint16, 2);
#endif
#ifdef WIRE_ANALYTICS
    GstAnalyticsRelationMeta *found = gst_buffer_add_analytics_relation_meta(buffer);
    GstTensor **tensor = g_new(GstTensor *, 1);
    GQuark face = g_quark_from_string("face");
    GstAnalyticsMtd object, class, tracking;
    tensor[0] =
        gst_tensor_new_simple(face, GST_TENSOR_DATA_TYPE_INT16, gst_buffer_new_memdup(uuid, 12),
                              GST_TENSOR_DIM_ORDER_ROW_MAJOR, 2, (gsize[]){2, 3});
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), 1, tensor);
    gst_analytics_relation_meta_add_oriented_od_mtd(found, face, 1, 2, 3, 4, 0.5f, 1, &object);
    gst_analytics_relation_meta_add_one_cls_mtd(found, 0.5f, face, &class);
    gst_analytics_relation_meta_add_tracking_mtd(found, 1, 2, &tracking);
    gst_analytics_relation_meta_set_relation(found, GST_ANALYTICS_REL_TYPE_RELATE_TO, object.id,
                                             tracking.id);
#endif
}

static size_t sample(guint which, uint8_t *bytes)
{
    struct pack pack = {.data = bytes, .size = 1024};

    /* See wire_fuzz.c: a frame's metas, a media's extra fields, or one of seven kinds of events. */
    enum event_kind kind = (enum event_kind)(EVENT_SEGMENT + which / 3 % 7);
    bytes[0] = (uint8_t)(which % 3 == 2 ? 2 + 3 * (kind - EVENT_SEGMENT) : which % 3);
    pack.used = 1;
    if (which % 3 == 0) {
        GstBuffer *buffer = gst_buffer_new();
        GstVideoTimeCode *code = gst_video_time_code_new(25, 1, NULL, 0, 1, 2, 3, 4, 0);
        struct meta_loss loss = {lost_metas_new(NULL), NULL};
        uint8_t metas[GPUD_FRAME_META_MAX];
        g_autoptr(GstCaps) caps = gst_caps_from_string("timestamp/x-ptp, domain=5");
        gst_buffer_add_video_time_code_meta(buffer, code);
        gst_buffer_add_reference_timestamp_meta(buffer, caps, 1, 2);
        gst_buffer_add_video_bar_meta(buffer, 0, TRUE, 1, 2);
        gst_buffer_add_video_caption_meta(buffer, GST_VIDEO_CAPTION_TYPE_CEA608_RAW, bytes, 4);
        add_newer_metas(buffer);
        struct meta_large large = {NULL};
        pack_bytes(&pack, metas, meta_encode(buffer, &head, metas, &large, &loss));
        g_free(large.data);
        lost_metas_free(loss.lost);
        gst_buffer_unref(buffer);
        gst_video_time_code_free(code);
    } else if (which % 3 == 1) {
        static const char extra[] = "a=(int)-7, b=(string)\"x y\", c=(fraction)1/2, "
                                    "d=(datetime)2026-11-22T09:00:00Z, e=(double)1.5";
        pack_bytes(&pack, extra, sizeof(extra));
    } else {
        g_autoptr(GstStructure) structure = gst_structure_new(
            "taglist", GST_TAG_TITLE, G_TYPE_STRING, "x", "when", G_TYPE_DOUBLE, 1.0, NULL);
        wire_head_pack(&pack, &head);
        if (kind == EVENT_TAGS)
            pack_u8(&pack, 0);
        pack_structure(&pack, structure, NULL);
    }
    return pack.used;
}

TEST(test_mutated_bytes, .only_if = &by_bytes)
{
    GRand *random = g_rand_new_with_seed(4711);

    for (guint round = 0; round < 60000; round++) {
        uint8_t bytes[1024];
        size_t size = sample(round, bytes);
        guint hits = (guint)g_rand_int_range(random, 0, 5);
        for (guint i = 0; i < hits; i++)
            bytes[g_rand_int_range(random, 1, (gint)size)] = (uint8_t)g_rand_int(random);
        if (g_rand_int_range(random, 0, 4) == 0)
            size = (size_t)g_rand_int_range(random, 0, (gint)size);
        /* Behind the end there is nothing: an allocation of that size lets a sanitizer see it. */
        uint8_t *exact = g_memdup2(bytes, size);
        LLVMFuzzerTestOneInput(exact, size);
        g_free(exact);
    }
    g_rand_free(random);
}

/* --- hostile texts ------------------------------------------------------------------------ */

/* A structure of one text, as no writer of ours would write it. */
static GstStructure *read_text(const gchar *text, size_t length)
{
    struct pack pack = PACK(4096);

    pack_begin(&pack, "x-cue", 1);
    pack_field(&pack, "text", 7); /* a string */
    pack_text(&pack, text, length);
    return read_structure(&pack, NULL);
}

static void expect_read(const gchar *text, const gchar *wanted)
{
    g_autoptr(GstStructure) structure = read_text(text, strlen(text));

    if (!wanted) {
        fail_unless(structure == NULL, "taken: a text of %u bytes that begins with 0x%02x",
                    (guint)strlen(text), (guchar)text[0]);
        return;
    }
    fail_unless(structure != NULL, "refused: %s", wanted);
    fail_unless_equals_string(gst_structure_get_string(structure, "text"), wanted);
}

/* A peer's text must be safe to print on a terminal. */
TEST(test_texts_hold_no_control_characters, .only_if = &by_bytes)
{
    expect_read("", "");
    expect_read("Pferde am Ufer, Grüße, \xf0\x9f\x90\x8e",
                "Pferde am Ufer, Grüße, \xf0\x9f\x90\x8e");
    expect_read("two\nlines\r\n\tand more", "two lines   and more");
    for (gchar c = 1; c < 0x20; c++) {
        gchar text[] = {'a', c, 'b', '\0'};
        expect_read(text, strchr("\t\n\v\f\r", c) ? "a b" : NULL);
    }
    expect_read("\x1b[2J", NULL);
    expect_read("a\x7f", NULL);
    for (guint c = 0x80; c < 0xa0; c++) {
        gchar text[] = {'a', (gchar)0xc2, (gchar)c, '\0'};
        expect_read(text, NULL);
    }
    expect_read("\xc2\xa0", "\xc2\xa0");
    expect_read("\xff", NULL);
    expect_read("\xc3", NULL);
    expect_read("\xed\xa0\x80", NULL); /* half of a surrogate */
    expect_read("\xc0\x9b", NULL);     /* an escape, written too long */
    fail_unless(read_text("a\0b", 3) == NULL);
}

/* Our own writer cleans its texts, so that they are never refused for that. */
TEST(test_texts_are_written_clean, .only_if = &by_bytes)
{
    struct pack pack = PACK(256);
    g_autoptr(GstStructure) sent =
        gst_structure_new("x-cue", "text", G_TYPE_STRING, "a\x01\x7f\xc2\x9bü\nb", NULL);

    pack_structure(&pack, sent, NULL);
    g_autoptr(GstStructure) got = read_structure(&pack, NULL);
    fail_unless(got != NULL);
    fail_unless_equals_string(gst_structure_get_string(got, "text"), "a   ü b");
}

/* Caps that no element of GStreamer would send. */
TEST(test_caps_that_cannot_be, .only_if = &by_bytes)
{
    static const gchar *const extras[] = {
        "pixel-aspect-ratio=(fraction)0/1",
        "pixel-aspect-ratio=(fraction)-4/1",
        "interlace-mode=(string)alternate",
        "=(int)1",
        "a=(int)",
        "a=7",
        "a=(string)\"without an end",
        "a=(int)1 b=(int)2",
        "a=(int)1,",
        "a=(int){ 1, 2 }",
    };
    struct gpud_media media = {.picture = {.rate = {25, 1}}};

    gpud_layout_init(&media.picture.layout, "UYVY", 64, 16, 0, NULL);
    for (guint i = 0; i < G_N_ELEMENTS(extras); i++) {
        g_strlcpy(media.extra, extras[i], sizeof(media.extra));
        expect_no_caps(&media, "", extras[i]);
    }
    media.extra[0] = '\0';
    media.picture.rate = (struct gpud_fraction){25, 0};
    expect_no_caps(&media, "", "a rate of 25/0");
    media.picture.rate = (struct gpud_fraction){G_MAXUINT32, 1};
    expect_no_caps(&media, "", "a rate of 4294967295/1");
}

/* Whatever the strides say: behind a modifier no row is where they do. */
TEST(test_tiled_pictures_have_no_caps, .only_if = &by_bytes)
{
    static const guint64 modifiers[] = {1, 0x0100000000000001, G_MAXUINT64};
    struct gpud_media media = {.picture = {.rate = {25, 1}}};

    for (guint i = 0; i < G_N_ELEMENTS(modifiers); i++) {
        gpud_layout_init(&media.picture.layout, "NV12", 64, 16, 0, NULL);
        media.picture.layout.modifier = modifiers[i];
        expect_no_caps(&media, "modifier", "a picture with a modifier");
    }
}

/* Strides and planes that leave the frame, or are other ones than the format's. */
TEST(test_layouts_that_cannot_be, .only_if = &by_bytes)
{
    struct gpud_layout good;

    gpud_layout_init(&good, "NV12", 64, 16, 0, NULL);
    struct gpud_layout lies[9] = {good, good, good, good, good, good, good, good, good};
    lies[0].plane[0].stride = 63;
    lies[1].plane[1].stride = G_MAXUINT32;
    lies[2].plane[1].offset = good.size;
    lies[3].plane[1].offset = G_MAXUINT64 - 64;
    lies[4].plane[1].rows = G_MAXUINT32;
    lies[5].planes = 1;
    lies[6].planes = G_MAXUINT32;
    lies[7].plane[0].rows = 8;
    lies[8].width = 6400;
    for (guint lie = 0; lie < G_N_ELEMENTS(lies); lie++) {
        struct gpud_media media = {.picture = {.rate = {25, 1}, .layout = lies[lie]}};
        g_autofree gchar *what = g_strdup_printf("lie %u", lie);
        expect_no_caps(&media, "", what);
    }
}

/* Extra values that are not of their type, or of no type of caps, are left out silently. */
TEST(test_extra_values_that_cannot_be, .only_if = &by_bytes)
{
    struct gpud_media media = {
        .extra = "a=(int)seven, b=(fraction)-2147483648/1, c=(fraction)1/0, d=(fraction)1, "
                 "e=(datetime)yesterday, f=(string)\"\\033[2J\", g=(string)\"\\377\", "
                 "h=(GstBuffer)00, i=(structure)x, j=(GstCaps)\"video/x-raw\", k=(boolean)perhaps, "
                 "l=(string)good, l=(string)bad"};
    gchar *reason = NULL;
    GstVideoInfo info;

    gpud_layout_init(&media.picture.layout, "UYVY", 64, 16, 0, NULL);
    g_autoptr(GstCaps) caps = media_to_caps(&media, NULL, &info, &reason);
    fail_unless(caps != NULL, "%s", reason);
    const GstStructure *structure = gst_caps_get_structure(caps, 0);
    fail_unless_equals_int(gst_structure_n_fields(structure), 5);
    fail_unless_equals_string(gst_structure_get_string(structure, "l"), "good");
}

/* A format's name is a peer's text, too, and the refusal shows it. */
TEST(test_format_names_are_shown_clean, .only_if = &by_bytes)
{
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    GstVideoInfo info;
    g_autofree gchar *reason = NULL;

    gpud_layout_init(&media.picture.layout, "UYVY", 64, 16, 0, NULL);
    memcpy(media.picture.layout.format, "\x1b[2J\xff\xc2\x9b", 8);
    fail_if(media_to_caps(&media, NULL, &info, &reason));
    for (const gchar *c = reason; *c; c++)
        fail_unless(g_ascii_isprint(*c), "0x%02x in \"%s\"", (guchar)*c, reason);
}

/* One region's meta that says so many parameters follow, and holds one. */
TEST(test_regions_that_lie, .only_if = &by_bytes)
{
    static const struct {
        uint32_t width;
        uint8_t count;
        gboolean good;
    } said[] = {{64, 1, TRUE},
                {64, 2, FALSE},
                {64, 255, FALSE},
                {32769, 1, FALSE},
                {G_MAXUINT32, 1, FALSE}};
    g_autoptr(GstStructure) param = gst_structure_new_empty("detection");

    for (guint i = 0; i < G_N_ELEMENTS(said); i++) {
        struct meta_loss loss = {lost_metas_new(NULL), NULL};
        g_autoptr(GstBuffer) buffer = gst_buffer_new();
        struct pack pack = PACK(128);
        wire_head_pack(&pack, &head);
        pack_u16(&pack, 8); /* a region of interest */
        struct pack length = pack;
        pack_u16(&pack, 0);
        size_t start = pack.used;
        pack_u32(&pack, 1);
        pack_u32(&pack, 2);
        pack_quark(&pack, g_quark_from_static_string("face"));
        for (guint k = 0; k < 4; k++)
            pack_u32(&pack, said[i].width);
        pack_u8(&pack, said[i].count);
        pack_structure(&pack, param, NULL);
        pack_u16(&length, (uint16_t)(pack.used - start));
        fail_unless(read_metas(pack.data, pack.used, buffer, &loss));
        fail_unless((gst_buffer_get_video_region_of_interest_meta(buffer) != NULL) == said[i].good,
                    "%u", i);
        fail_unless_equals_uint64(lost_metas_count(loss.lost), !said[i].good);
        lost_metas_free(loss.lost);
    }
}

/* The types of regions become quarks, which live for ever. */
TEST(test_quarks_are_rationed, .only_if = &by_bytes)
{
    guint refused = 0;

    for (guint i = 0; i < 2000; i++) {
        struct pack pack = PACK(128);
        g_autofree gchar *name = g_strdup_printf("unknown region %u", i);
        pack_text(&pack, name, strlen(name));
        struct unpack unpack = unpack_of(&pack);
        GQuark quark = unpack_quark(&unpack);
        fail_unless((quark == 0) == unpack.bad);
        fail_unless(!unpack.bad || !g_quark_try_string(name));
        refused += unpack.bad;
    }
    fail_unless(refused > 1500, "%u of 2000 refused", refused);
}

/* So do names. */
TEST(test_names_are_rationed, .only_if = &by_bytes)
{
    guint refused = 0;

    for (guint i = 0; i < 2000; i++) {
        struct pack pack = PACK(128);
        g_autofree gchar *name = g_strdup_printf("never-heard-of-%u", i);
        pack_begin(&pack, name, 0);
        g_autoptr(GstStructure) structure = read_structure(&pack, NULL);
        refused += structure == NULL;
    }
    fail_unless(refused > 1500, "%u of 2000 refused", refused);
}

/* Caps with a field of this name. NULL: they are refused. */
static GstStructure *read_field(struct names *names, const gchar *field)
{
    struct pack pack = PACK(256);

    pack_begin(&pack, "video/x-raw", 1);
    pack_field(&pack, field, 2); /* an unsigned number */
    pack_u32(&pack, 7);
    return read_structure(&pack, names);
}

static guint count_fields(struct names *names, const gchar *prefix, guint count)
{
    guint fields = 0;

    for (guint i = 0; i < count; i++) {
        g_autofree gchar *field = g_strdup_printf("%s-%u", prefix, i);
        g_autoptr(GstStructure) structure = read_field(names, field);
        fail_unless(structure != NULL, "refused for the name of field %u", i);
        fields += gst_structure_has_field(structure, field);
    }
    return fields;
}

/* Each address has its own ration, which no other can use up, and which it does not get twice. A
 * name that is known costs nothing, and a field whose name is one too many is left out. */
TEST(test_each_address_has_its_names, .only_if = &by_bytes)
{
    struct names *one = names_of("one"), *other = names_of("other");

    fail_unless_equals_int(count_fields(one, "flood", 2000), NAMES_MAX);
    fail_unless_equals_uint64(names_count_left_out(one), 2000 - NAMES_MAX);
    fail_unless_equals_int(count_fields(other, "flood", NAMES_MAX), NAMES_MAX);
    fail_unless_equals_int(count_fields(other, "new", 2000), NAMES_MAX);
    fail_unless_equals_int(count_fields(one, "new", NAMES_MAX), NAMES_MAX);
    fail_unless_equals_int(count_fields(names_of("one"), "again", 100), 0);
    fail_unless_equals_int(count_fields(names_of("third"), "again", 100), 100);
}

/* --- date-times --------------------------------------------------------------------------- */

static GstStructure *read_date(const gchar *text)
{
    struct pack pack = PACK(4096);

    pack_begin(&pack, "x-cue", 1);
    pack_field(&pack, "when", 11);
    pack_text(&pack, text, strlen(text));
    return read_structure(&pack, NULL);
}

TEST(test_dates, .only_if = &by_metas)
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
TEST(test_zones_of_the_far_east, .only_if = &by_metas)
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

TEST(test_timecodes, .only_if = &by_metas)
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
    gst_structure_set(structure, "inner", GST_TYPE_STRUCTURE, inner, "buffer", GST_TYPE_BUFFER,
                      NULL, NULL);
    /* Behind one that is left out. */
    gst_structure_set_value(structure, "list", gst_structure_get_value(kept, "list"));
    gst_structure_free(kept);
    gst_structure_free(inner);
    gst_buffer_add_video_region_of_interest_meta(buffer, "face", 1, 2, 3, 4);
    return buffer;
}

/* What is nested too deeply stays behind and is counted; the rest arrives. */
TEST(test_nested_structures, .only_if = &by_metas)
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

/* A peer's nested one, of any code that there is not: that meta is lost, the next one is not. */
TEST(test_unknown_types, .only_if = &by_metas)
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
TEST(test_each_byte, .only_if = &by_metas)
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
    by_metas = argc > 1;
    by_bytes = !by_metas;
    return ends_run_tests(120);
}
