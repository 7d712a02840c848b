/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Media: conversion to text and back, every invalid text, and every invalid media. */
#include "frame/media/media.h"
#include "messages.h"
#include "support/check.h"
#include "support/media.h"

#define TENSORS_TEXT                                                               \
    "other/tensors, format=(string)static, num_tensors=(int)3, "                   \
    "dimensions=(string)\"6:64\\05464\\05464\", "                                  \
    "types=(string)\"float32\\054bfloat16\\054int64\", framerate=(fraction)25/1, " \
    "names=(string)\"boxes\\054scores\\054classes\""
#define PICTURE_TEXT "video/x-raw, format=(string)UYVY, width=(int)64, height=(int)32"

static struct gpud_media parse(const char *text)
{
    struct gpud_media media;
    WORKS(gpud_media_from_string(&media, text, &e));
    return media;
}

static void check_text(const struct gpud_media *media, const char *wanted)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    WORKS(gpud_media_to_string(media, text, sizeof(text), &e));
    CHECK_TEXT(text, wanted);
    struct gpud_media again = parse(text);
    CHECK(gpud_media_equal(&again, media), "\"%s\" is read as another media", text);
    EXPECT(GPUD_INVALID, "room for 10", gpud_media_to_string(media, text, 10, &e));
    WORKS(gpud_media_to_string(media, text, strlen(wanted) + 1, &e));
    EXPECT(GPUD_INVALID, "room", gpud_media_to_string(media, text, strlen(wanted), &e));
}

#define BENT(says, ...)                                          \
    do {                                                         \
        struct gpud_media m = good;                              \
        __VA_ARGS__;                                             \
        EXPECT(GPUD_INVALID, says, gpud_media_check(&m, &e));    \
        CHECK(!gpud_media_equal(&m, &good), "%s", #__VA_ARGS__); \
    } while (0)

/* Texts as NNStreamer's and as this library's, where the tensors lie, batches, and what cannot be.
 */
static void test_tensors(void)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    struct gpud_media media = parse(TENSORS_TEXT);
    const struct gpud_tensors *tensors = &media.tensors;
    const struct gpud_tensor *boxes = &tensors->tensor[0], *scores = boxes + 1,
                             *classes = boxes + 2;
    struct gpud_layout layout;
    CHECK_EQUAL(media.kind, GPUD_MEDIA_TENSOR);
    CHECK(boxes->dimensions == 2 && boxes->size[0] == 64 && boxes->size[1] == 6 &&
              boxes->stride[0] == 6 && boxes->stride[1] == 1 && boxes->offset == 0,
          "the boxes are %ux%u", boxes->size[0], boxes->size[1]);
    CHECK(scores->code == GPUD_TENSOR_BFLOAT && scores->bits == 16 && scores->offset == 1536,
          "the scores, at %llu", (unsigned long long)scores->offset);
    CHECK(classes->code == GPUD_TENSOR_INT && classes->bits == 64 && classes->offset == 1664,
          "the classes, at %llu", (unsigned long long)classes->offset);
    WORKS(gpud_media_get_layout(&media, &layout, &e));
    WORKS(gpud_layout_check(&layout, &e));
    CHECK(gpud_layout_is_block(&layout) && layout.size == 1664 + 512, "%llu bytes",
          (unsigned long long)layout.size);
    check_text(&media, TENSORS_TEXT);
    gpud_tensors_to_string(tensors, text, sizeof(text));
    CHECK_TEXT(text, "float32 64x6 \"boxes\", bfloat16 64 \"scores\", int64 64 \"classes\"");
    gpud_tensors_to_string(tensors, text, 12);
    CHECK_TEXT(text, "float32 64x");
    media = parse("other/tensors, format=static, num_tensors=1, dimensions=3:4:1:1, types=uint8x4, "
                  "framerate=0/1, custom=7");
    gpud_tensors_to_string(tensors, text, sizeof(text));
    CHECK_TEXT(text, "uint8x4 1x1x4x3");
    CHECK_TEXT(media.extra, "custom=(int)7");
    CHECK_EQUAL(media_size(&media), 48);
    media = parse("other/tensors, format=static, dimensions=3.4, types=int8.complex128");
    CHECK_EQUAL(tensors->count, 2);
    CHECK_EQUAL(media_size(&media), 3 + 4 * 16);

    /* Others than NNStreamer's, which a reader of these caps may pass over. */
    media = parse("other/tensors, format=static, dimensions=\"2:8,8\", types=\"float16,bool\", "
                  "strides=\"1:4,2\", offsets=\"256,0\", batch=(bitmask)0x1");
    check_text(&media, "other/tensors, format=(string)static, num_tensors=(int)2, "
                       "dimensions=(string)\"2:8\\0548\", types=(string)\"float16\\054bool\", "
                       "framerate=(fraction)0/1, strides=(string)\"1:4\\0542\", "
                       "offsets=(string)\"256\\0540\", batch=(bitmask)0x0000000000000001");
    CHECK_EQUAL(media_size(&media), 256 + 8 * 4 * 2);
    struct gpud_media_units units = gpud_media_get_units(&media);
    for (uint32_t batch = 0; batch <= 8; batch++) {
        CHECK_EQUAL(gpud_tensors_get_bytes(tensors, batch), 256 + 8 * batch);
        CHECK_EQUAL(gpud_tensors_get_batch(tensors, 256 + 8 * batch), batch);
        CHECK(gpud_media_units_allow(&units, 256 + 8 * batch), "a batch of %u", batch);
        CHECK(!gpud_media_units_allow(&units, 255 + 8 * batch), "a part of a batch");
    }
    CHECK_EQUAL(gpud_tensors_get_bytes(tensors, 9), 0);
    media = parse("other/tensors, format=static, dimensions=8, types=int16, batch=(bitmask)0x1");
    units = gpud_media_get_units(&media);
    CHECK_EQUAL(gpud_tensors_get_bytes(tensors, 0), 1);
    CHECK(gpud_media_units_allow(&units, 1) && !gpud_media_units_allow(&units, 3),
          "a batch of none");
    media.tensors.tensor[0].bits = 8;
    CHECK_EQUAL(gpud_tensors_get_bytes(tensors, 0), 0);
    CHECK_EQUAL(gpud_tensors_get_bytes(tensors, 1), 1);
    media.tensors.batch = 0;
    units = gpud_media_get_units(&media);
    CHECK(!gpud_media_units_allow(&units, 8), "a part of tensors without a batch");
    CHECK_EQUAL(gpud_tensors_get_bytes(tensors, 0), 8);
    CHECK_EQUAL(gpud_tensors_get_batch(tensors, 8), 0);

    /* Such as describe each frame in itself are data. */
    media = parse("other/tensors, format=(string)flexible, max-size=100");
    CHECK(media.kind == GPUD_MEDIA_DATA, "flexible tensors are kind %d", (int)media.kind);
    media = parse("other/tensors, max-size=100");
    CHECK(media.kind == GPUD_MEDIA_DATA, "unknown tensors are kind %d", (int)media.kind);

    /* The longest text. */
    media = (struct gpud_media){.kind = GPUD_MEDIA_TENSOR, .tensors.count = GPUD_TENSORS_MAX};
    fill_text(media.extra, sizeof(media.extra), 'k');
    gpud_print(media.extra, "%s", "a=(string)b");
    for (unsigned i = 0; i < GPUD_TENSORS_MAX; i++) {
        struct gpud_tensor *one = &media.tensors.tensor[i];
        *one = (struct gpud_tensor){.code = GPUD_TENSOR_FLOAT8_E4M3B11FNUZ,
                                    .bits = 8,
                                    .lanes = 60000,
                                    .dimensions = GPUD_TENSOR_DIMENSIONS_MAX,
                                    .offset = 4000000000 + i};
        memset(one->name, 'a' + (int)i, sizeof(one->name) - 1);
        for (unsigned k = 0; k < GPUD_TENSOR_DIMENSIONS_MAX; k++) {
            one->size[k] = 1;
            one->stride[k] = UINT32_MAX - k;
        }
    }
    WORKS(gpud_media_to_string(&media, text, sizeof(text), &e));
    check_text(&media, text);

    struct gpud_media good = parse(TENSORS_TEXT);
    struct gpud_tensor *m_boxes = NULL;
#define BENT_BOXES(says, ...) BENT(says, m_boxes = m.tensors.tensor; __VA_ARGS__)
    BENT("1 to 16", m.tensors.count = 0);
    BENT("number 17", m.tensors.count = 17);
    BENT("more", m.tensors.count = 2);
    BENT("more", m.tensors.batch = 8);
    BENT("25/0", m.tensors.rate.den = 0);
    BENT_BOXES("DLPack's code", m_boxes->code = 3);
    BENT_BOXES("{2, 4, 1}", m_boxes->bits = 4);
    BENT_BOXES("{2, 32, 0}", m_boxes->lanes = 0);
    BENT_BOXES("letters", m_boxes->name[2] = ',');
    BENT_BOXES("two tensors", strcpy(m_boxes->name, "scores"));
    BENT_BOXES("not NUL-terminated", memset(m_boxes->name, 'a', sizeof(m_boxes->name)));
    BENT_BOXES("neither can be 0", m_boxes->size[1] = 0);
    BENT_BOXES("neither can be 0", m_boxes->stride[0] = 0);
    BENT_BOXES("another number", m_boxes->dimensions = 0);
    BENT_BOXES("another number", m_boxes->dimensions = 1);
    BENT_BOXES("number 9", m_boxes->dimensions = 9);
    BENT_BOXES("does not end", m_boxes->size[0] = UINT32_MAX);
    BENT_BOXES("does not end", m_boxes->stride[0] = UINT32_MAX);
    BENT_BOXES("does not end", m_boxes->offset = UINT64_MAX);
    BENT_BOXES("does not end", m_boxes->offset = UINT64_MAX - 1535);
    BENT_BOXES("does not end",
               for (unsigned i = 0; i < 8; i++) m_boxes->size[i] = m_boxes->stride[i] = UINT32_MAX;
               m_boxes->dimensions = 8);
    BENT("must be equal", m.tensors.batch = 7; m.tensors.tensor[1].size[0] = 63);
    BENT("come first", m.tensors.batch = 1);
    BENT_BOXES("overlap", m.tensors.batch = 7; m_boxes->stride[0] = 5);
    WORKS(gpud_media_from_string(&media,
                                 "other/tensors,format=static,num_tensors=2,dimensions=4,"
                                 "types=int8",
                                 &e));
    EXPECT(GPUD_INVALID, "tensor 1", gpud_media_check(&media, &e));
    WORKS(gpud_media_from_string(&media, "other/tensors,format=static", &e));
    EXPECT(GPUD_INVALID, "no tensors", gpud_media_check(&media, &e));
    static const char *const odd[] = {
        "types=float31",         "types=int8x0",
        "types=int8x65536",      "dimensions=1:2:3:4:5:6:7:8:9",
        "dimensions=4294967296", "dimensions=-1",
        "offsets=1:2",           "names=abcdefghijklmnopqrstuvwxyzabcdef"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        snprintf(text, sizeof(text), "other/tensors,format=static,%s", odd[i]);
        media = parse(text);
        CHECK(media.extra[0] && media.tensors.count == 0, "%s is taken", odd[i]);
    }
}

int main(void)
{
    test_tensors();
    char text[GPUD_MEDIA_TEXT_MAX];
    struct gpud_media media = parse("video/x-raw,format=UYVY,width=1920,height=1080,framerate=25/1,"
                                    "interlace-mode=interleaved,field-order=top-field-first,"
                                    "colorimetry=bt709,pixel-aspect-ratio=1/1");
    const struct gpud_picture *picture = &media.picture;
    CHECK_EQUAL(media.kind, GPUD_MEDIA_PICTURE);
    CHECK(picture->layout.planes == 1 && picture->layout.size == 1920 * 1080 * 2, "the layout");
    CHECK(picture->rate.num == 25 && picture->rate.den == 1, "the rate");
    CHECK_EQUAL(picture->scan, GPUD_SCAN_INTERLEAVED);
    CHECK_EQUAL(picture->field_order, GPUD_FIELD_ORDER_TOP_FIRST);
    CHECK_EQUAL(picture->colorimetry.primaries, GPUD_PRIMARIES_BT709);
    CHECK_EQUAL(picture->colorimetry.transfer, GPUD_TRANSFER_BT709);
    CHECK_EQUAL(picture->colorimetry.matrix, GPUD_MATRIX_BT709);
    CHECK_EQUAL(picture->colorimetry.range, GPUD_RANGE_LIMITED);
    CHECK(!media.extra[0], "extra fields: %s", media.extra);
    check_text(&media, "video/x-raw, format=(string)UYVY, width=(int)1920, height=(int)1080, "
                       "interlace-mode=(string)interleaved, field-order=(string)top-field-first, "
                       "pixel-aspect-ratio=(fraction)1/1, colorimetry=(string)bt709, "
                       "framerate=(fraction)25/1");

    media = parse(" video/x-raw ( memory:CUDAMemory ) , format = (string) rggb10le ,"
                  "width=(int)64,height=(int)32 ; ");
    check_text(&media, "video/x-bayer, format=(string)rggb10le, width=(int)64, height=(int)32, "
                       "framerate=(fraction)0/1");
    media = parse("video/x-raw,format=XY99,width=64,height=32");
    CHECK(strcmp(media.picture.layout.format, "XY99") == 0 && media.picture.layout.planes == 0,
          "a layout of an unknown format");
    EXPECT(GPUD_INVALID, "planes", gpud_media_check(&media, &e));

    /* Every value of every enum, and the composed ones. */
    static const char *const fields[] = {
        "interlace-mode=(string)progressive",
        "interlace-mode=(string)mixed",
        "interlace-mode=(string)fields",
        "field-order=(string)bottom-field-first",
        "multiview-mode=(string)mono",
        "multiview-mode=(string)side-by-side-quincunx",
        "multiview-mode=(string)separated",
        "multiview-flags=(GstVideoMultiviewFlagsSet)3:ffff",
        "views=(int)2",
        "pixel-aspect-ratio=(fraction)16/11",
        "chroma-site=(string)jpeg",
        "chroma-site=(string)v-cosited",
        "chroma-site=(string)dv",
        "colorimetry=(string)bt601",
        "colorimetry=(string)smpte240m",
        "colorimetry=(string)sRGB",
        "colorimetry=(string)bt2020",
        "colorimetry=(string)bt2020-10",
        "colorimetry=(string)bt2100-pq",
        "colorimetry=(string)bt2100-hlg",
        "colorimetry=(string)2:0:16:12",
        "colorimetry=(string)1:2:12:8",
        "colorimetry=(string)0:0:3:0",
        "mastering-display-info=(string)1:2:3:4:5:6:7:8:4294967295:10",
        "content-light-level=(string)65535:0",
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        snprintf(text, sizeof(text), PICTURE_TEXT ", %s, framerate=(fraction)0/1", fields[i]);
        media = parse(text);
        CHECK(!media.extra[0], "%s goes to the extra fields", fields[i]);
        check_text(&media, text);
    }
    media = parse(PICTURE_TEXT ", framerate=30, max-framerate=60000/1001, "
                               "drm-modifier=0x100000000000002");
    CHECK(media.picture.layout.modifier == UINT64_C(0x100000000000002), "the modifier");
    check_text(&media, PICTURE_TEXT ", framerate=(fraction)30/1, "
                                    "max-framerate=(fraction)60000/1001, "
                                    "drm-modifier=(guint64)72057594037927938");
    /* The same colours by their numbers. */
    media = parse(PICTURE_TEXT ", colorimetry=2:3:5:1");
    check_text(&media, PICTURE_TEXT ", colorimetry=(string)bt709, framerate=(fraction)0/1");
    /* GStreamer has no numbers for these. */
    media.picture.colorimetry.matrix = GPUD_MATRIX_BT2020_CL;
    media.picture.colorimetry.transfer = GPUD_TRANSFER_SMPTE428;
    WORKS(gpud_media_to_string(&media, text, sizeof(text), &e));
    CHECK_SAYS(text, "colorimetry=(string)2:0:0:1");

    for (uint32_t height = 1; height < 10; height++) {
        snprintf(text, sizeof(text),
                 "video/x-raw(format:Interlaced), format=(string)I420, width=(int)64, "
                 "height=(int)%u, interlace-mode=(string)alternate, framerate=(fraction)25/1",
                 height);
        media = parse(text);
        CHECK_EQUAL(media.picture.layout.height, (height + 1) / 2);
        check_text(&media, text);
        media.picture.picture_height = height + 2;
        EXPECT(GPUD_INVALID, "rows", gpud_media_check(&media, &e));
        media.picture.picture_height = height;
        WORKS(gpud_media_check(&media, &e));
        media.picture.scan = GPUD_SCAN_INTERLEAVED;
        EXPECT(GPUD_INVALID, "rows", gpud_media_check(&media, &e));
    }

    media = parse("audio/x-raw,format=S24_32LE,rate=48000,channels=2,"
                  "channel-mask=0x3,layout=non-interleaved,samples-per-block=960");
    CHECK(media.kind == GPUD_MEDIA_AUDIO && media.audio.order == GPUD_AUDIO_PLANAR, "the sound");
    CHECK_EQUAL(media_size(&media), 960 * 2 * 4);
    check_text(&media, "audio/x-raw, format=(string)S24_32LE, layout=(string)non-interleaved, "
                       "rate=(int)48000, channels=(int)2, "
                       "channel-mask=(bitmask)0x0000000000000003, samples-per-block=(int)960");
    static const struct {
        const char *format;
        uint32_t bytes;
    } formats[] = {{"U8", 1}, {"S16BE", 2}, {"S18LE", 3}, {"S20BE", 3}, {"U24LE", 3}, {"F64LE", 8}};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        gpud_print(media.audio.format, "%s", formats[i].format);
        WORKS(gpud_media_check(&media, &e));
        CHECK_EQUAL(media_size(&media), 960 * 2 * formats[i].bytes);
    }
    media = parse("meta/x-st-2038, alignment=(string)frame, max-size=8192");
    CHECK(media.kind == GPUD_MEDIA_ANCILLARY, "ancillary data are kind %d", (int)media.kind);
    check_text(&media, "meta/x-st-2038, max-size=(guint64)8192, alignment=(string)frame");
    media = parse("meta/x-klv,max-size=100");
    CHECK(media.kind == GPUD_MEDIA_DATA && media_size(&media) == 100, "data");
    struct gpud_layout layout;
    WORKS(gpud_media_get_layout(&media, &layout, &e));
    WORKS(gpud_layout_check(&layout, &e));
    CHECK(layout.planes == 1 && layout.plane[0].rows == 1 && layout.plane[0].row_bytes == 100,
          "the layout of data");

    media = parse(PICTURE_TEXT ", a=-1, b=1/2, c=0.5, d=true, e=word, f=\"a, \\\"b\\\"; c\", "
                               "g=(bitmask)0x3, interlace-mode=spiral, width=(int)-1, views=0, "
                               "colorimetry=\"9:9:9:9\", chroma-site=alt-line");
    CHECK_TEXT(media.extra, "a=(int)-1, b=(fraction)1/2, c=(double)0.5, d=(boolean)true, "
                            "e=(string)word, f=(string)\"a, \\\"b\\\"; c\", g=(bitmask)0x3, "
                            "interlace-mode=(string)spiral, width=(int)-1, views=(int)0, "
                            "colorimetry=(string)\"9:9:9:9\", chroma-site=(string)alt-line");
    CHECK(media.picture.layout.width == 64 && media.picture.scan == GPUD_SCAN_UNKNOWN, "members");
    static const char *const bad[] = {
        "=(int)1",
        "a",
        "a=",
        "a=1",
        "a=(int)",
        "a=()1",
        "a=(int)1,",
        "a=(int)1 b=(int)2",
        "a=(string)\"b",
        "a=(string)b\\",
        "a=(int){ 1, 2 }",
        "a=(int)[ 1, 2 ]",
        "a=(int)< 1 >",
        "1a=(int)1",
        ", a=(int)1",
        "a=(int)1;",
        "a = (int)1",
        "a=(int)1,b=(int)2",
        "a=(int) 1",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        gpud_print(media.extra, "%s", bad[i]);
        EXPECT(GPUD_INVALID, "extra fields", gpud_media_check(&media, &e));
    }
    memset(media.extra, 'a', sizeof(media.extra));
    EXPECT(GPUD_INVALID, "extra fields", gpud_media_check(&media, &e));

    char longest[2 * GPUD_MEDIA_EXTRA_MAX], last[GPUD_MEDIA_TEXT_MAX];
    snprintf(longest, sizeof(longest), PICTURE_TEXT ", a=(string)%0*d", GPUD_MEDIA_EXTRA_MAX - 12,
             0);
    media = parse(longest);
    WORKS(gpud_media_to_string(&media, last, sizeof(last), &e));
    snprintf(longest, sizeof(longest), PICTURE_TEXT ", a=(string)%0*d", GPUD_MEDIA_EXTRA_MAX - 10,
             0);
    EXPECT(GPUD_INVALID, "not known here", gpud_media_from_string(&media, longest, &e));

    static const char *const no_texts[] = {
        "",
        " ",
        "video/x-raw format=UYVY",
        "video/x-raw, ",
        "video/x-raw, width",
        "video/x-raw, width=",
        "video/x-raw, width=(int",
        "video/x-raw, width=(int)",
        "video/x-raw, width=[ 1, 2 ]",
        "video/x-raw, format={ UYVY, NV12 }",
        "video/x-raw, format=\"UYVY",
        "video/x-raw, format=UYVY\\",
        "video/x-raw, width=64 height=32",
        "video/x-raw; video/x-raw",
        "7, a=1",
        "x, 7=1",
    };
    for (size_t i = 0; i < sizeof(no_texts) / sizeof(no_texts[0]); i++) {
        struct gpud_media before;
        memset(&media, 0x5a, sizeof(media));
        before = media;
        enum gpud_status status = gpud_media_from_string(&media, no_texts[i], NULL);
        CHECK(status == GPUD_INVALID, "\"%s\" is taken", no_texts[i]);
        CHECK(memcmp(&media, &before, sizeof(media)) == 0, "\"%s\" changed the media", no_texts[i]);
    }
    gpud_media_from_string(&media, "video/x-raw(memory:X", NULL); /* features are not looked into */
    struct gpud_media good = parse(PICTURE_TEXT);
    BENT("not a kind", m.kind = (enum gpud_media_kind)5);
    BENT("0x32", m.picture.layout.width = 0);
    BENT("rate of 25/0", m.picture.rate.num = 25);
    BENT("rate of 25/0", m.picture.max_rate.num = 25);
    BENT("4294967295", m.picture.rate = ((struct gpud_fraction){UINT32_MAX, 1}));
    BENT("pixels of 1/0", m.picture.pixel_aspect.num = 1);
    BENT("number 6", m.picture.scan = (enum gpud_scan)6);
    BENT("number 3", m.picture.field_order = (enum gpud_field_order)3);
    BENT("number 2", m.picture.colorimetry.primaries = (enum gpud_primaries)2);
    BENT("number 3", m.picture.colorimetry.transfer = (enum gpud_transfer_function)3);
    BENT("number 201", m.picture.colorimetry.matrix = (enum gpud_matrix)201);
    BENT("number 3", m.picture.colorimetry.range = (enum gpud_range)3);
    BENT("number 6", m.picture.colorimetry.chroma_site = (enum gpud_chroma_site)6);
    BENT("number 13", m.picture.multiview = (enum gpud_multiview)13);
    good = parse("audio/x-raw,format=S16LE,rate=48000,channels=2,samples-per-block=960");
    BENT("format", strcpy(m.audio.format, "MP3"));
    BENT("format", strcpy(m.audio.format, "S7LE"));
    BENT("format", m.audio.format[0] = '\0');
    BENT("not NUL-terminated", memset(m.audio.format, 'S', sizeof(m.audio.format)));
    BENT("none of them", m.audio.rate = 0);
    BENT("none of them", m.audio.channels = 0);
    BENT("number 65", m.audio.channels = 65);
    BENT("none of them", m.audio.block = 0);
    BENT("number", m.audio.block = GPUD_AUDIO_BLOCK_MAX + 1);
    BENT("positions", m.audio.positions = 7);
    BENT("number 2", m.audio.order = (enum gpud_audio_order)2);
    good = parse("meta/x-klv,max-size=100");
    BENT("bytes", m.data.max_size = 0);
    BENT("bytes", m.data.max_size = UINT64_C(1) << 32);
    BENT("type", m.data.type[0] = '\0');
    BENT("type", m.data.type[4] = '\n');

    /* Two media that differ in one number or text are not equal. */
    struct gpud_media other;
    media = (struct gpud_media){.kind = GPUD_MEDIA_PICTURE};
    fill_media(&media);
    struct gpud_media tensors = parse(TENSORS_TEXT);
    const struct gpud_media *whole[] = {&media, &tensors};
    for (size_t i = 0; i < 2; i++) {
        struct gpud_media_walk walk = {.kind = gpud_media_find_kind(whole[i]->kind)};
        const struct gpud_media_member *member;
        while ((member = gpud_media_next(&walk, whole[i])) != NULL)
            for (uint8_t k = 0; k < (member->width ? member->count : 1); k++) {
                other = *whole[i];
                ((char *)&other)[walk.offset + (size_t)k * member->width] ^= 1;
                CHECK(!gpud_media_equal(whole[i], &other), "what is at %zu is not compared",
                      walk.offset);
            }
    }
    other = media;
    other.extra[0] ^= 1;
    CHECK(!gpud_media_equal(&media, &other), "the extra fields are not compared");
    other = media;
    CHECK(gpud_media_equal(&media, &other), "a copy differs");

    /* Blocks count by time, within a limit of memory. */
    static const struct {
        const char *text;
        uint32_t slots;
    } cases[] = {
        {PICTURE_TEXT, 6},
        {"audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=2,samples-per-block=4800",
         60},
        {"audio/x-raw,format=F32LE,layout=interleaved,rate=192000,channels=64,"
         "samples-per-block=19200",
         13},
        {"meta/x-klv,max-size=65536", 60},
        {"meta/x-st-2038,max-size=4194304", 16},
        {"meta/x-klv,max-size=4294967295", 8},
        {TENSORS_TEXT, 6},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        media = parse(cases[i].text);
        CHECK_EQUAL(gpud_media_default_slots(&media, 6), cases[i].slots);
    }
    return 0;
}
