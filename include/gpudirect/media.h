/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the frames of a stream are: pictures, blocks of sound, ancillary data or other data, with
 * everything that a receiver needs to use them. A zero in any field means "unknown", but for those
 * that say how a frame lies in memory.
 *
 * The structs hold no pointers and may be copied. They are not thread-safe by themselves. */
#ifndef GPUDIRECT_MEDIA_H
#define GPUDIRECT_MEDIA_H

#include <gpudirect/layout.h>

GPUD_BEGIN_DECLS

enum gpud_media_kind {
    GPUD_MEDIA_PICTURE = 0,
    GPUD_MEDIA_AUDIO,
    GPUD_MEDIA_ANCILLARY, /* what accompanies pictures: SMPTE ST 291 packets, captions */
    GPUD_MEDIA_DATA,
};

struct gpud_fraction {
    uint32_t num, den; /* 0/0 and 0/1: unknown; each at most INT32_MAX */
};

/* --- pictures ------------------------------------------------------------------------------ */

/* How the rows of a picture come. */
enum gpud_scan {
    GPUD_SCAN_UNKNOWN,
    GPUD_SCAN_ANY = GPUD_SCAN_UNKNOWN, /* asked of a card: as it does it by itself */
    GPUD_SCAN_PROGRESSIVE,
    GPUD_SCAN_INTERLEAVED, /* a frame has both fields, row by row in turn */
    GPUD_SCAN_ALTERNATE,   /* a frame is one field, and has half of the rows */
    GPUD_SCAN_MIXED,       /* INTERLEAVED or PROGRESSIVE: each frame's flags say which */
    GPUD_SCAN_FIELDS,      /* a frame has one field or two, in buffers of whole pictures */
};

/* Which field of a picture came first. */
enum gpud_field_order {
    GPUD_FIELD_ORDER_UNKNOWN,
    GPUD_FIELD_ORDER_TOP_FIRST,
    GPUD_FIELD_ORDER_BOTTOM_FIRST,
};

/* How samples become light. The numbers are the code points of ITU-T H.273 (which ISO/IEC 23091-2,
 * AVIF, ffmpeg and libplacebo use, too) where it has one. Two differ: unknown is 0 here and 2
 * there, and the matrix of R, G, B is 0 there. From 200 on are those that H.273 does not have. */
enum gpud_primaries {
    GPUD_PRIMARIES_UNKNOWN = 0,
    GPUD_PRIMARIES_BT709 = 1,
    GPUD_PRIMARIES_BT470M = 4,
    GPUD_PRIMARIES_BT470BG = 5,
    GPUD_PRIMARIES_SMPTE170M = 6,
    GPUD_PRIMARIES_SMPTE240M = 7,
    GPUD_PRIMARIES_FILM = 8,
    GPUD_PRIMARIES_BT2020 = 9,
    GPUD_PRIMARIES_SMPTE428 = 10,
    GPUD_PRIMARIES_SMPTE431 = 11, /* DCI-P3 */
    GPUD_PRIMARIES_SMPTE432 = 12, /* Display P3 */
    GPUD_PRIMARIES_EBU3213 = 22,
    GPUD_PRIMARIES_OPRGB = 200, /* Adobe's */
};

enum gpud_transfer_function {
    GPUD_TRANSFER_UNKNOWN = 0,
    GPUD_TRANSFER_BT709 = 1,
    GPUD_TRANSFER_GAMMA22 = 4,
    GPUD_TRANSFER_GAMMA28 = 5,
    GPUD_TRANSFER_BT601 = 6,
    GPUD_TRANSFER_SMPTE240M = 7,
    GPUD_TRANSFER_LINEAR = 8,
    GPUD_TRANSFER_LOG100 = 9,
    GPUD_TRANSFER_LOG316 = 10,
    GPUD_TRANSFER_SRGB = 13,
    GPUD_TRANSFER_BT2020_10 = 14,
    GPUD_TRANSFER_BT2020_12 = 15,
    GPUD_TRANSFER_PQ = 16, /* SMPTE ST 2084 */
    GPUD_TRANSFER_SMPTE428 = 17,
    GPUD_TRANSFER_HLG = 18, /* ARIB STD-B67 */
    GPUD_TRANSFER_OPRGB = 200,
    GPUD_TRANSFER_GAMMA18 = 201,
    GPUD_TRANSFER_GAMMA20 = 202,
};

enum gpud_matrix {
    GPUD_MATRIX_UNKNOWN = 0,
    GPUD_MATRIX_BT709 = 1,
    GPUD_MATRIX_FCC = 4,
    GPUD_MATRIX_BT601 = 6,
    GPUD_MATRIX_SMPTE240M = 7,
    GPUD_MATRIX_BT2020 = 9,
    GPUD_MATRIX_BT2020_CL = 10, /* with constant luminance */
    GPUD_MATRIX_RGB = 200,      /* the samples are R, G, B */
};

enum gpud_range {
    GPUD_RANGE_UNKNOWN,
    GPUD_RANGE_FULL,
    GPUD_RANGE_LIMITED,
};

/* Where the samples of colour lie between those of luma, in formats that have fewer of them. */
enum gpud_chroma_site {
    GPUD_CHROMA_UNKNOWN, /* or the format has as many */
    GPUD_CHROMA_CENTER,  /* of the pixels that share one: JPEG, MPEG-1 */
    GPUD_CHROMA_LEFT, /* in line with every second pixel, between rows where those share: MPEG-2 */
    GPUD_CHROMA_TOP,  /* between pixels, in line with every second row */
    GPUD_CHROMA_TOP_LEFT, /* in line with both */
    GPUD_CHROMA_DV,       /* in line with both, and the rows of Cb and Cr alternate */
};

struct gpud_colorimetry {
    enum gpud_primaries primaries;
    enum gpud_transfer_function transfer;
    enum gpud_matrix matrix;
    enum gpud_range range;
    enum gpud_chroma_site chroma_site;
};

/* Static metadata of a signal with a high dynamic range, in the units of SMPTE ST 2086 and CTA-861:
 * 0.00002 of a CIE 1931 coordinate, 0.0001 cd/m² for the display, 1 cd/m² for the content. */
struct gpud_hdr_metadata {
    bool has_display, has_light_level;
    uint16_t display_x[3], display_y[3]; /* red, green, blue */
    uint16_t white_x, white_y;
    uint32_t max_luminance, min_luminance;
    uint16_t max_content_light, max_frame_average_light;
};

/* How several views share the frames. */
enum gpud_multiview {
    GPUD_MULTIVIEW_UNKNOWN,
    GPUD_MULTIVIEW_MONO,
    GPUD_MULTIVIEW_LEFT,
    GPUD_MULTIVIEW_RIGHT,
    GPUD_MULTIVIEW_SIDE_BY_SIDE,
    GPUD_MULTIVIEW_SIDE_BY_SIDE_QUINCUNX,
    GPUD_MULTIVIEW_COLUMN_INTERLEAVED,
    GPUD_MULTIVIEW_ROW_INTERLEAVED,
    GPUD_MULTIVIEW_TOP_BOTTOM,
    GPUD_MULTIVIEW_CHECKERBOARD,
    GPUD_MULTIVIEW_FRAME_BY_FRAME,
    GPUD_MULTIVIEW_MULTIVIEW_FRAME_BY_FRAME,
    GPUD_MULTIVIEW_SEPARATED,
};

struct gpud_picture {
    struct gpud_layout layout;     /* required: of a frame, which is a field if ALTERNATE */
    struct gpud_fraction rate;     /* pictures a second (two fields are one); unknown if variable */
    struct gpud_fraction max_rate; /* of a variable rate */
    struct gpud_fraction pixel_aspect; /* width by height of a pixel */
    enum gpud_scan scan;
    enum gpud_field_order field_order;
    /* ALTERNATE: rows of both fields together; 0: 2 × layout.height. An odd number of rows is one
     * less than that. */
    uint32_t picture_height;
    struct gpud_colorimetry colorimetry;
    struct gpud_hdr_metadata hdr;
    enum gpud_multiview multiview;
    uint32_t multiview_flags, multiview_flags_mask; /* GstVideoMultiviewFlags; which count */
    uint32_t views;
};

/* --- sound --------------------------------------------------------------------------------- */

enum gpud_audio_order {
    GPUD_AUDIO_INTERLEAVED, /* the samples of one moment stand together */
    GPUD_AUDIO_PLANAR,      /* the samples of one channel stand together */
};

#define GPUD_AUDIO_CHANNELS_MAX 64
#define GPUD_AUDIO_BLOCK_MAX (1 << 20) /* samples */

struct gpud_audio {
    char format[16];   /* required: as GStreamer names it: "S16LE", "S24LE", "F32LE" */
    uint32_t rate;     /* required: samples a second */
    uint32_t channels; /* required: 1..GPUD_AUDIO_CHANNELS_MAX */
    enum gpud_audio_order order;
    /* Where they are to be heard: one bit a channel, in the order of the bits, which are those of
     * GStreamer's channel-mask (the first 18 are those of WAVEFORMATEXTENSIBLE). */
    uint64_t positions;
    uint32_t block; /* required: samples of one channel in a frame; 1..GPUD_AUDIO_BLOCK_MAX */
};

/* --- ancillary data, and any other --------------------------------------------------------- */

struct gpud_data {
    char type[64];     /* required: a name as that of caps: "meta/x-st-2038", "meta/x-klv" */
    uint64_t max_size; /* required: bytes of the largest frame; at most UINT32_MAX */
};

/* --- any of these -------------------------------------------------------------------------- */

#define GPUD_MEDIA_EXTRA_MAX 1536
#define GPUD_MEDIA_TEXT_MAX 3072 /* room for what gpud_media_to_string() writes, whatever it is */

struct gpud_media {
    enum gpud_media_kind kind;
    union {
        struct gpud_picture picture;
        struct gpud_audio audio;
        struct gpud_data data; /* ANCILLARY, DATA */
    };
    /* What the fields above have no place for, in the syntax of caps: "name=(type)value, …" and
     * no other blanks; "": nothing. It travels as it is. */
    char extra[GPUD_MEDIA_EXTRA_MAX];
};

/* Whether all of it can be: GPUD_INVALID with the reason. Everything that takes a media calls it.
 */
GPUD_API enum gpud_status gpud_media_check(const struct gpud_media *media,
                                           struct gpud_error *error);

/* Bytes of a frame; of the largest one where they differ. This call and the next two are for media
 * that pass gpud_media_check(). */
GPUD_API uint64_t gpud_media_size(const struct gpud_media *media);

/* How a frame lies in memory: a picture's own layout, and of everything else one row of
 * gpud_media_size() bytes in one plane. */
GPUD_API void gpud_media_get_layout(const struct gpud_media *media, struct gpud_layout *layout);

/* Whether two streams are described alike, and their frames lie alike. */
GPUD_API bool gpud_media_equal(const struct gpud_media *a, const struct gpud_media *b);

/* Reads the syntax of GStreamer's caps, as in "video/x-raw, format=UYVY, width=1920, height=1080,
 * framerate=25/1"; types in parentheses, features and a semicolon at the end may be there.
 * video/x-raw and video/x-bayer are pictures, whose layout is gpud_layout_init()'s (of a format
 * that it does not know the planes stay 0, to be filled in); audio/x-raw is sound;
 * meta/x-st-2038 and closedcaption/… are ancillary; every other type is data. What no field of
 * struct gpud_media stands for, and values that it cannot say, go to `extra`.
 *
 * Sound has a field samples-per-block, and data max-size, which GStreamer does not know.
 *
 * GPUD_INVALID: the text is not caps, describes more than one media (a list, a range), or has more
 * extra fields than there is room for; then *media is as it was. Whether what was read is complete
 * is gpud_media_check()'s to say. */
GPUD_API enum gpud_status gpud_media_from_string(struct gpud_media *media, const char *text,
                                                 struct gpud_error *error);

/* Writes the same syntax, in the form of gst_caps_to_string(); a feature only where GStreamer asks
 * for one (ALTERNATE). Strides and offsets have no place in it. GPUD_INVALID: the media fails
 * gpud_media_check(), or `size` bytes are too few. */
GPUD_API enum gpud_status gpud_media_to_string(const struct gpud_media *media, char *text,
                                               size_t size, struct gpud_error *error);

GPUD_END_DECLS

#endif
