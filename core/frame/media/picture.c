/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pictures. */
#include "frame/media/media.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define BAYER "video/x-bayer"

static bool is_alternate(const struct gpud_picture *picture)
{
    return picture->scan == GPUD_SCAN_ALTERNATE;
}

/* --- what the wire carries ----------------------------------------------------------------- */

/* The enums with H.273's numbers. GStreamer writes the four of a colorimetry as
 * "range:matrix:transfer:primaries" in numbers of its own, which are the indices in these lists. */
static const uint8_t primaries[] = {
    GPUD_PRIMARIES_UNKNOWN,  GPUD_PRIMARIES_BT709,     GPUD_PRIMARIES_BT470M,
    GPUD_PRIMARIES_BT470BG,  GPUD_PRIMARIES_SMPTE170M, GPUD_PRIMARIES_SMPTE240M,
    GPUD_PRIMARIES_FILM,     GPUD_PRIMARIES_BT2020,    GPUD_PRIMARIES_OPRGB,
    GPUD_PRIMARIES_SMPTE428, GPUD_PRIMARIES_SMPTE431,  GPUD_PRIMARIES_SMPTE432,
    GPUD_PRIMARIES_EBU3213,
};
static const uint8_t transfers[] = {
    GPUD_TRANSFER_UNKNOWN,   GPUD_TRANSFER_LINEAR,    GPUD_TRANSFER_GAMMA18,
    GPUD_TRANSFER_GAMMA20,   GPUD_TRANSFER_GAMMA22,   GPUD_TRANSFER_BT709,
    GPUD_TRANSFER_SMPTE240M, GPUD_TRANSFER_SRGB,      GPUD_TRANSFER_GAMMA28,
    GPUD_TRANSFER_LOG100,    GPUD_TRANSFER_LOG316,    GPUD_TRANSFER_BT2020_12,
    GPUD_TRANSFER_OPRGB,     GPUD_TRANSFER_BT2020_10, GPUD_TRANSFER_PQ,
    GPUD_TRANSFER_HLG,       GPUD_TRANSFER_BT601,     GPUD_TRANSFER_SMPTE428,
};
static const uint8_t matrices[] = {
    GPUD_MATRIX_UNKNOWN, GPUD_MATRIX_RGB,       GPUD_MATRIX_FCC,    GPUD_MATRIX_BT709,
    GPUD_MATRIX_BT601,   GPUD_MATRIX_SMPTE240M, GPUD_MATRIX_BT2020, GPUD_MATRIX_BT2020_CL,
};
/* GStreamer does not have the last of these. */
#define TRANSFERS_WRITTEN (sizeof(transfers) - 1)
#define MATRICES_WRITTEN (sizeof(matrices) - 1)

/* clang-format off */
#define FRACTION(member) \
    GPUD_MEDIA_NUMBER(picture.member.num, INT32_MAX), \
    GPUD_MEDIA_NUMBER(picture.member.den, INT32_MAX)

static const struct gpud_media_member plane_members[] = {
    GPUD_MEDIA_NUMBER(picture.layout.plane[0].offset, 0),
    GPUD_MEDIA_NUMBER(picture.layout.plane[0].stride, 0),
    GPUD_MEDIA_NUMBER(picture.layout.plane[0].row_bytes, 0),
    GPUD_MEDIA_NUMBER(picture.layout.plane[0].rows, 0),
};
static const struct gpud_media_list planes = GPUD_MEDIA_LIST(picture.layout.plane, plane_members);

static const struct gpud_media_member members[] = {
    GPUD_MEDIA_TEXT(picture.layout.format),
    GPUD_MEDIA_NUMBER(picture.layout.width, 0),
    GPUD_MEDIA_NUMBER(picture.layout.height, 0),
    GPUD_MEDIA_COUNT(picture.layout.planes, picture.layout.plane, &planes),
    GPUD_MEDIA_NUMBER(picture.layout.size, 0),
    GPUD_MEDIA_NUMBER(picture.layout.modifier, 0),
    FRACTION(rate),
    FRACTION(max_rate),
    FRACTION(pixel_aspect),
    GPUD_MEDIA_NUMBER(picture.scan, GPUD_SCAN_FIELDS),
    GPUD_MEDIA_NUMBER(picture.field_order, GPUD_FIELD_ORDER_BOTTOM_FIRST),
    GPUD_MEDIA_NUMBER(picture.picture_height, 2 * GPUD_DIMENSION_MAX),
    GPUD_MEDIA_CODE(picture.colorimetry.primaries, primaries),
    GPUD_MEDIA_CODE(picture.colorimetry.transfer, transfers),
    GPUD_MEDIA_CODE(picture.colorimetry.matrix, matrices),
    GPUD_MEDIA_NUMBER(picture.colorimetry.range, GPUD_RANGE_LIMITED),
    GPUD_MEDIA_NUMBER(picture.colorimetry.chroma_site, GPUD_CHROMA_DV),
    GPUD_MEDIA_NUMBER(picture.hdr.has_display, 1),
    GPUD_MEDIA_NUMBER(picture.hdr.has_light_level, 1),
    GPUD_MEDIA_NUMBERS(picture.hdr.display_x, 0),
    GPUD_MEDIA_NUMBERS(picture.hdr.display_y, 0),
    GPUD_MEDIA_NUMBER(picture.hdr.white_x, 0),
    GPUD_MEDIA_NUMBER(picture.hdr.white_y, 0),
    GPUD_MEDIA_NUMBER(picture.hdr.max_luminance, 0),
    GPUD_MEDIA_NUMBER(picture.hdr.min_luminance, 0),
    GPUD_MEDIA_NUMBER(picture.hdr.max_content_light, 0),
    GPUD_MEDIA_NUMBER(picture.hdr.max_frame_average_light, 0),
    GPUD_MEDIA_NUMBER(picture.multiview, GPUD_MULTIVIEW_SEPARATED),
    GPUD_MEDIA_NUMBER(picture.multiview_flags, 0),
    GPUD_MEDIA_NUMBER(picture.multiview_flags_mask, 0),
    GPUD_MEDIA_NUMBER(picture.views, INT32_MAX),
};
/* clang-format on */

/* --- the fields of caps -------------------------------------------------------------------- */

static bool write_height(const struct gpud_media_field *field, const void *part,
                         char value[GPUD_VALUE_MAX])
{
    const struct gpud_picture *picture = part;
    uint32_t height = picture->layout.height;
    if (is_alternate(picture))
        height = picture->picture_height ? picture->picture_height : 2 * height;
    gpud_print_n(value, GPUD_VALUE_MAX, "%" PRIu32, height);
    return true;
}

static bool read_height(const struct gpud_media_field *field, const char *value, void *part)
{
    struct gpud_picture *picture = part;
    return gpud_form_number.read(field, value, &picture->layout.height);
}

static const struct {
    const char *name, *numbers;
} colorimetries[] = {
    {"bt601", "2:4:16:4"},     {"bt709", "2:3:5:1"},       {"smpte240m", "2:5:6:5"},
    {"sRGB", "1:1:7:1"},       {"bt2020", "2:6:11:7"},     {"bt2020-10", "2:6:13:7"},
    {"bt2100-pq", "2:6:14:7"}, {"bt2100-hlg", "2:6:15:7"},
};
#define COLORIMETRIES (sizeof(colorimetries) / sizeof(colorimetries[0]))

/* A matrix alone adds nothing to the format. */
static bool says_something(const struct gpud_colorimetry *colors)
{
    return colors->range || colors->transfer || colors->primaries;
}

static bool read_colorimetry(const struct gpud_media_field *field, const char *value, void *part)
{
    struct gpud_colorimetry *to = part, read = {.chroma_site = to->chroma_site};
    uint32_t n[4];
    for (size_t i = 0; i < COLORIMETRIES; i++)
        if (strcmp(colorimetries[i].name, value) == 0)
            value = colorimetries[i].numbers;
    if (!gpud_text_read_numbers(value, 10, false, n, 4) || n[0] > GPUD_RANGE_LIMITED ||
        n[1] >= MATRICES_WRITTEN || n[2] >= TRANSFERS_WRITTEN || n[3] >= sizeof(primaries))
        return false;
    read.range = (enum gpud_range)n[0];
    read.matrix = (enum gpud_matrix)matrices[n[1]];
    read.transfer = (enum gpud_transfer_function)transfers[n[2]];
    read.primaries = (enum gpud_primaries)primaries[n[3]];
    if (!says_something(&read))
        return false;
    *to = read;
    return true;
}

/* The index in the list; 0 if it is not among the first `written`. */
static unsigned picture_place_of(const uint8_t *list, size_t written, unsigned code)
{
    for (unsigned i = 0; i < written; i++)
        if (list[i] == code)
            return i;
    return 0;
}

static bool write_colorimetry(const struct gpud_media_field *field, const void *part,
                              char value[GPUD_VALUE_MAX])
{
    const struct gpud_colorimetry *colors = part;
    gpud_print_n(value, GPUD_VALUE_MAX, "%u:%u:%u:%u", (unsigned)colors->range,
                 picture_place_of(matrices, MATRICES_WRITTEN, colors->matrix),
                 picture_place_of(transfers, TRANSFERS_WRITTEN, colors->transfer),
                 picture_place_of(primaries, sizeof(primaries), colors->primaries));
    for (size_t i = 0; i < COLORIMETRIES; i++)
        if (strcmp(colorimetries[i].numbers, value) == 0)
            gpud_print_n(value, GPUD_VALUE_MAX, "%s", colorimetries[i].name);
    return says_something(colors);
}

static bool read_display(const struct gpud_media_field *field, const char *value, void *part)
{
    struct gpud_hdr_metadata *hdr = part;
    uint32_t n[10];
    if (!gpud_text_read_numbers(value, 10, false, n, 10))
        return false;
    for (unsigned i = 0; i < 8; i++)
        if (n[i] > UINT16_MAX)
            return false;
    for (unsigned i = 0; i < 3; i++) {
        hdr->display_x[i] = (uint16_t)n[2 * i];
        hdr->display_y[i] = (uint16_t)n[2 * i + 1];
    }
    hdr->white_x = (uint16_t)n[6];
    hdr->white_y = (uint16_t)n[7];
    hdr->max_luminance = n[8];
    hdr->min_luminance = n[9];
    hdr->has_display = true;
    return true;
}

static bool write_display(const struct gpud_media_field *field, const void *part,
                          char value[GPUD_VALUE_MAX])
{
    const struct gpud_hdr_metadata *hdr = part;
    gpud_print_n(value, GPUD_VALUE_MAX, "%u:%u:%u:%u:%u:%u:%u:%u:%u:%u", hdr->display_x[0],
                 hdr->display_y[0], hdr->display_x[1], hdr->display_y[1], hdr->display_x[2],
                 hdr->display_y[2], hdr->white_x, hdr->white_y, hdr->max_luminance,
                 hdr->min_luminance);
    return hdr->has_display;
}

static bool read_light(const struct gpud_media_field *field, const char *value, void *part)
{
    struct gpud_hdr_metadata *hdr = part;
    uint32_t n[2];
    if (!gpud_text_read_numbers(value, 10, false, n, 2) || n[0] > UINT16_MAX || n[1] > UINT16_MAX)
        return false;
    hdr->max_content_light = (uint16_t)n[0];
    hdr->max_frame_average_light = (uint16_t)n[1];
    hdr->has_light_level = true;
    return true;
}

static bool write_light(const struct gpud_media_field *field, const void *part,
                        char value[GPUD_VALUE_MAX])
{
    const struct gpud_hdr_metadata *hdr = part;
    gpud_print_n(value, GPUD_VALUE_MAX, "%u:%u", hdr->max_content_light,
                 hdr->max_frame_average_light);
    return hdr->has_light_level;
}

/* GStreamer writes the names of the flags behind the two numbers, but does not need them. */
static bool read_flags(const struct gpud_media_field *field, const char *value, void *part)
{
    struct gpud_picture *picture = part;
    uint32_t n[2];
    if (!gpud_text_read_numbers(value, 16, true, n, 2) || n[1] == 0)
        return false;
    picture->multiview_flags = n[0];
    picture->multiview_flags_mask = n[1];
    return true;
}

static bool write_flags(const struct gpud_media_field *field, const void *part,
                        char value[GPUD_VALUE_MAX])
{
    const struct gpud_picture *picture = part;
    gpud_print_n(value, GPUD_VALUE_MAX, "%x:%x", picture->multiview_flags,
                 picture->multiview_flags_mask);
    return picture->multiview_flags_mask != 0;
}

static const struct gpud_media_form form_height = {"int", read_height, write_height};
static const struct gpud_media_form form_colorimetry = {"string", read_colorimetry,
                                                        write_colorimetry};
static const struct gpud_media_form form_display = {"string", read_display, write_display};
static const struct gpud_media_form form_light = {"string", read_light, write_light};
static const struct gpud_media_form form_flags = {"GstVideoMultiviewFlagsSet", read_flags,
                                                  write_flags};

static const char *const scans[] = {
    NULL, "progressive", "interleaved", "alternate", "mixed", "fields", ""};
static const char *const orders[] = {NULL, "top-field-first", "bottom-field-first", ""};
static const char *const sites[] = {NULL, "jpeg", "mpeg2", "v-cosited", "cosited", "dv", ""};
static const char *const views[] = {NULL,
                                    "mono",
                                    "left",
                                    "right",
                                    "side-by-side",
                                    "side-by-side-quincunx",
                                    "column-interleaved",
                                    "row-interleaved",
                                    "top-bottom",
                                    "checkerboard",
                                    "frame-by-frame",
                                    "multiview-frame-by-frame",
                                    "separated",
                                    ""};

#define AT(member) offsetof(struct gpud_media, picture.member)
static const struct gpud_media_field fields[] = {
    {"format", &gpud_form_text, AT(layout.format), NULL},
    {"width", &gpud_form_number, AT(layout.width), NULL},
    {"height", &form_height, offsetof(struct gpud_media, picture), NULL},
    {"interlace-mode", &gpud_form_name, AT(scan), scans},
    {"field-order", &gpud_form_name, AT(field_order), orders},
    {"multiview-mode", &gpud_form_name, AT(multiview), views},
    {"multiview-flags", &form_flags, offsetof(struct gpud_media, picture), NULL},
    {"views", &gpud_form_number, AT(views), NULL},
    {"pixel-aspect-ratio", &gpud_form_ratio, AT(pixel_aspect), NULL},
    {"chroma-site", &gpud_form_name, AT(colorimetry.chroma_site), sites},
    {"colorimetry", &form_colorimetry, AT(colorimetry), NULL},
    {"mastering-display-info", &form_display, AT(hdr), NULL},
    {"content-light-level", &form_light, AT(hdr), NULL},
    {"framerate", &gpud_form_rate, AT(rate), NULL},
    {"max-framerate", &gpud_form_ratio, AT(max_rate), NULL},
    {"drm-modifier", &gpud_form_size, AT(layout.modifier), NULL},
};

/* --- the kind ------------------------------------------------------------------------------ */

/* A sensor's mosaic of colour filters, "rggb" or "rggb10le", which has its own type of caps. */
static bool is_bayer(const char *format)
{
    static const char *const patterns[] = {"bggr", "gbrg", "grbg", "rggb"};
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
        if (strncmp(format, patterns[i], 4) == 0 &&
            (!format[4] || isdigit((unsigned char)format[4])))
            return true;
    return false;
}

static bool has_type(const char *type, const char *text)
{
    return strcmp(type, "video/x-raw") == 0 || strcmp(type, BAYER) == 0;
}

static void picture_complete(struct gpud_media *media, const char *type)
{
    struct gpud_picture *picture = &media->picture;
    struct gpud_layout *layout = &picture->layout, known;
    if (is_alternate(picture)) {
        picture->picture_height = layout->height % 2 ? layout->height : 0;
        layout->height = (layout->height + 1) / 2;
    }
    known = *layout;
    if (gpud_layout_init(&known, layout->format, layout->width, layout->height, 0, NULL) ==
        GPUD_OK) {
        known.modifier = layout->modifier;
        *layout = known;
    }
}

static const char *picture_get_type(const struct gpud_media *media)
{
    return is_alternate(&media->picture)            ? "video/x-raw(format:Interlaced)"
           : is_bayer(media->picture.layout.format) ? BAYER
                                                    : "video/x-raw";
}

static enum gpud_status check_fraction(const char *what, const struct gpud_fraction *fraction,
                                       struct gpud_error *error)
{
    if (fraction->num == 0 || fraction->den > 0)
        return GPUD_OK;
    return gpud_fail(error, GPUD_INVALID, "a picture with %s of %u/0", what, fraction->num);
}

static enum gpud_status picture_check(const struct gpud_media *media, struct gpud_error *error)
{
    const struct gpud_picture *picture = &media->picture;
    uint32_t height = picture->picture_height;
    const struct gpud_layout *layout = &picture->layout;
    struct gpud_layout known;
    struct gpud_error why;
    /* A format that was only named has no planes if its name says nothing. */
    if (layout->planes == 0 && layout->format[0] &&
        gpud_layout_init(&known, layout->format, layout->width, layout->height, 0, &why) != GPUD_OK)
        return gpud_fail(error, GPUD_INVALID, "%s", why.reason);
    enum gpud_status status = gpud_layout_check(layout, error);
    if (status == GPUD_OK)
        status = check_fraction("a rate", &picture->rate, error);
    if (status == GPUD_OK)
        status = check_fraction("a greatest rate", &picture->max_rate, error);
    if (status == GPUD_OK)
        status = check_fraction("pixels", &picture->pixel_aspect, error);
    if (status == GPUD_OK && height &&
        (!is_alternate(picture) || height / 2 + height % 2 != layout->height))
        status = gpud_fail(error, GPUD_INVALID, "a picture of %u rows in frames of %u", height,
                           layout->height);
    return status;
}

static void picture_get_layout(const struct gpud_media *media, struct gpud_layout *layout)
{
    *layout = media->picture.layout;
}

static uint64_t get_duration(const struct gpud_media *media, uint64_t bytes)
{
    const struct gpud_picture *picture = &media->picture;
    uint64_t frames = picture->scan == GPUD_SCAN_ALTERNATE ? 2 : 1; /* each is a field */
    uint64_t num = picture->rate.num * frames;
    return num ? (uint64_t)GPUD_SEC * picture->rate.den / num : 0;
}

const struct gpud_media_kind_ops gpud_media_picture = {
    .name = "a picture",
    .members = members,
    .member_count = sizeof(members) / sizeof(members[0]),
    .fields = fields,
    .field_count = sizeof(fields) / sizeof(fields[0]),
    .has_type = has_type,
    .complete = picture_complete,
    .get_type = picture_get_type,
    .check = picture_check,
    .get_layout = picture_get_layout,
    .get_duration = get_duration,
};
