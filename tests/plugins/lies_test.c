/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hostile data beside the pictures: random bytes, and texts, names and caps that are meant to do
 * harm. */
#include "wire_fuzz.h"
#include "wires.h"

#include <gst/video/video-sei.h>

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

TEST(test_mutated_bytes)
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

static void expect_text(const gchar *text, const gchar *wanted)
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
TEST(test_texts_hold_no_control_characters)
{
    expect_text("", "");
    expect_text("Pferde am Ufer, Grüße, \xf0\x9f\x90\x8e",
                "Pferde am Ufer, Grüße, \xf0\x9f\x90\x8e");
    expect_text("two\nlines\r\n\tand more", "two lines   and more");
    for (gchar c = 1; c < 0x20; c++) {
        gchar text[] = {'a', c, 'b', '\0'};
        expect_text(text, strchr("\t\n\v\f\r", c) ? "a b" : NULL);
    }
    expect_text("\x1b[2J", NULL);
    expect_text("a\x7f", NULL);
    for (guint c = 0x80; c < 0xa0; c++) {
        gchar text[] = {'a', (gchar)0xc2, (gchar)c, '\0'};
        expect_text(text, NULL);
    }
    expect_text("\xc2\xa0", "\xc2\xa0");
    expect_text("\xff", NULL);
    expect_text("\xc3", NULL);
    expect_text("\xed\xa0\x80", NULL); /* half of a surrogate */
    expect_text("\xc0\x9b", NULL);     /* an escape, written too long */
    fail_unless(read_text("a\0b", 3) == NULL);
}

/* Our own writer cleans its texts, so that they are never refused for that. */
TEST(test_texts_are_written_clean)
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
TEST(test_caps_that_cannot_be)
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
TEST(test_tiled_pictures_have_no_caps)
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
TEST(test_layouts_that_cannot_be)
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

/* Values of extra fields that are none of their type, or of a type that no caps have, are left out,
 * without a warning. */
TEST(test_extra_values_that_cannot_be)
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
TEST(test_format_names_are_shown_clean)
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
TEST(test_regions_that_lie)
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
TEST(test_quarks_are_rationed)
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
TEST(test_names_are_rationed)
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
TEST(test_each_address_has_its_names)
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

ENDS_MAIN(60)
