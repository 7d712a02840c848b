/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * What the frames of a stream are: pictures, blocks of sound, ancillary data, other data or
 * tensors, with everything that a receiver needs to use them. A zero in any field means "unknown",
 * but for those that say how a frame lies in memory.
 *
 * The structs hold no pointers and may be copied. They are not thread-safe by themselves.
 */
#ifndef GPUDIRECT_MEDIA_H
#define GPUDIRECT_MEDIA_H

#include <gpudirect/layout.h>

GPUD_BEGIN_DECLS

/** What the frames of a stream are. */
enum gpud_media_kind {
    GPUD_MEDIA_PICTURE = 0,
    GPUD_MEDIA_AUDIO,
    GPUD_MEDIA_ANCILLARY, /**< what accompanies pictures: SMPTE ST 291 packets, captions */
    GPUD_MEDIA_DATA,
    GPUD_MEDIA_TENSOR, /**< arrays of numbers: what a neural network takes and gives */
};

/** A fraction; 0/0 and 0/1: unknown. */
struct gpud_fraction {
    uint32_t num; /**< numerator, at most INT32_MAX; 0: unknown */
    uint32_t den; /**< denominator, at most INT32_MAX */
};

/* --- pictures ------------------------------------------------------------------------------ */

/** How the rows of a picture come. */
enum gpud_scan {
    GPUD_SCAN_UNKNOWN,
    GPUD_SCAN_ANY = GPUD_SCAN_UNKNOWN, /**< requested from a card: its own choice */
    GPUD_SCAN_PROGRESSIVE,
    GPUD_SCAN_INTERLEAVED, /**< a frame has both fields, row by row in turn */
    GPUD_SCAN_ALTERNATE,   /**< a frame is one field, and has half of the rows */
    GPUD_SCAN_MIXED,       /**< INTERLEAVED or PROGRESSIVE: each frame's flags say which */
    GPUD_SCAN_FIELDS,      /**< a frame has one field or two, in buffers of whole pictures */
};

/** Which field of a picture came first. */
enum gpud_field_order {
    GPUD_FIELD_ORDER_UNKNOWN,
    GPUD_FIELD_ORDER_TOP_FIRST,
    GPUD_FIELD_ORDER_BOTTOM_FIRST,
};

/** How samples become light. The numbers are the code points of ITU-T H.273 (which ISO/IEC 23091-2,
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
    GPUD_PRIMARIES_SMPTE431 = 11, /**< DCI-P3 */
    GPUD_PRIMARIES_SMPTE432 = 12, /**< Display P3 */
    GPUD_PRIMARIES_EBU3213 = 22,
    GPUD_PRIMARIES_OPRGB = 200, /**< Adobe's */
};

/** Transfer functions; numbers as in enum gpud_primaries. */
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
    GPUD_TRANSFER_PQ = 16, /**< SMPTE ST 2084 */
    GPUD_TRANSFER_SMPTE428 = 17,
    GPUD_TRANSFER_HLG = 18, /**< ARIB STD-B67 */
    GPUD_TRANSFER_OPRGB = 200,
    GPUD_TRANSFER_GAMMA18 = 201,
    GPUD_TRANSFER_GAMMA20 = 202,
};

/** Matrices; numbers as in enum gpud_primaries. */
enum gpud_matrix {
    GPUD_MATRIX_UNKNOWN = 0,
    GPUD_MATRIX_BT709 = 1,
    GPUD_MATRIX_FCC = 4,
    GPUD_MATRIX_BT601 = 6,
    GPUD_MATRIX_SMPTE240M = 7,
    GPUD_MATRIX_BT2020 = 9,
    GPUD_MATRIX_BT2020_CL = 10, /**< with constant luminance */
    GPUD_MATRIX_RGB = 200,      /**< the samples are R, G, B */
};

/** Which values samples have. */
enum gpud_range {
    GPUD_RANGE_UNKNOWN,
    GPUD_RANGE_FULL,
    GPUD_RANGE_LIMITED,
};

/** Where the samples of colour lie between those of luma, in formats that have fewer of them. */
enum gpud_chroma_site {
    GPUD_CHROMA_UNKNOWN, /**< or the format has as many */
    GPUD_CHROMA_CENTER,  /**< of the pixels that share one: JPEG, MPEG-1 */
    /** in line with every second pixel, between rows where those share: MPEG-2 */
    GPUD_CHROMA_LEFT,
    GPUD_CHROMA_TOP,      /**< between pixels, in line with every second row */
    GPUD_CHROMA_TOP_LEFT, /**< in line with both */
    GPUD_CHROMA_DV,       /**< in line with both, and the rows of Cb and Cr alternate */
};

/** How samples become light. */
struct gpud_colorimetry {
    enum gpud_primaries primaries;        /**< colours of the primaries */
    enum gpud_transfer_function transfer; /**< transfer function */
    enum gpud_matrix matrix;              /**< matrix of luma and chroma */
    enum gpud_range range;                /**< range of the samples */
    enum gpud_chroma_site chroma_site;    /**< position of chroma samples */
};

/** Static metadata of a signal with a high dynamic range, in the units of SMPTE ST 2086 and
 * CTA-861: 0.00002 of a CIE 1931 coordinate, 0.0001 cd/m² for the display, 1 cd/m² for the content.
 */
struct gpud_hdr_metadata {
    bool has_display;                 /**< the fields of the display are set */
    bool has_light_level;             /**< the fields of the content are set */
    uint16_t display_x[3];            /**< primaries of the display: red, green, blue */
    uint16_t display_y[3];            /**< the same */
    uint16_t white_x;                 /**< white point of the display */
    uint16_t white_y;                 /**< the same */
    uint32_t max_luminance;           /**< of the display */
    uint32_t min_luminance;           /**< of the display */
    uint16_t max_content_light;       /**< of the content: MaxCLL */
    uint16_t max_frame_average_light; /**< of the content: MaxFALL */
};

/** How several views share the frames. */
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

/** Pictures. */
struct gpud_picture {
    struct gpud_layout layout; /**< required: of a frame, which is a field if ALTERNATE */
    struct gpud_fraction rate; /**< pictures a second (two fields are one); unknown if variable */
    struct gpud_fraction max_rate;     /**< of a variable rate */
    struct gpud_fraction pixel_aspect; /**< width by height of a pixel */
    enum gpud_scan scan;               /**< how the rows come */
    enum gpud_field_order field_order; /**< which field came first */
    /** ALTERNATE: rows of both fields together; 0: 2 × layout.height. An odd number of rows is one
     * less than that. */
    uint32_t picture_height;
    struct gpud_colorimetry colorimetry; /**< how samples become light */
    struct gpud_hdr_metadata hdr;        /**< metadata of a high dynamic range */
    enum gpud_multiview multiview;       /**< how several views share the frames */
    uint32_t multiview_flags;            /**< GstVideoMultiviewFlags */
    uint32_t multiview_flags_mask;       /**< which of multiview_flags count */
    uint32_t views;                      /**< how many views; 0: unknown */
};

/* --- sound --------------------------------------------------------------------------------- */

/** How the samples of several channels lie. */
enum gpud_audio_order {
    GPUD_AUDIO_INTERLEAVED, /**< the samples of one moment stand together */
    GPUD_AUDIO_PLANAR,      /**< the samples of one channel stand together */
};

/** Most channels of sound. */
#define GPUD_AUDIO_CHANNELS_MAX 64
/** Most samples of one channel in a frame. */
#define GPUD_AUDIO_BLOCK_MAX (1 << 20)

/** Sound. */
struct gpud_audio {
    char format[16];             /**< required: as GStreamer names it: "S16LE", "S24LE", "F32LE" */
    uint32_t rate;               /**< required: samples a second */
    uint32_t channels;           /**< required: 1..GPUD_AUDIO_CHANNELS_MAX */
    enum gpud_audio_order order; /**< how the channels' samples lie */
    /** Where they are to be heard: one bit a channel, in the order of the bits, which are those of
     * GStreamer's channel-mask (the first 18 are those of WAVEFORMATEXTENSIBLE). */
    uint64_t positions;
    uint32_t block; /**< required: samples of one channel in a frame; 1..GPUD_AUDIO_BLOCK_MAX */
};

/* --- ancillary data, and any other --------------------------------------------------------- */

/** Ancillary data, or any other. */
struct gpud_data {
    char type[64];     /**< required: a name as that of caps: "meta/x-st-2038", "meta/x-klv" */
    uint64_t max_size; /**< required: bytes of the largest frame; at most UINT32_MAX */
};

/* --- tensors ------------------------------------------------------------------------------- */

/** Most tensors of a frame. */
#define GPUD_TENSORS_MAX 16
/** Most dimensions of a tensor. */
#define GPUD_TENSOR_DIMENSIONS_MAX 8

/** What the elements of a tensor are: the codes of DLPack's DLDataTypeCode. Those of less than a
 * byte do not travel. */
enum gpud_tensor_code {
    GPUD_TENSOR_INT = 0,
    GPUD_TENSOR_UINT = 1,
    GPUD_TENSOR_FLOAT = 2,
    GPUD_TENSOR_BFLOAT = 4,
    GPUD_TENSOR_COMPLEX = 5,
    GPUD_TENSOR_BOOL = 6,
    GPUD_TENSOR_FLOAT8_E3M4 = 7,
    GPUD_TENSOR_FLOAT8_E4M3 = 8,
    GPUD_TENSOR_FLOAT8_E4M3B11FNUZ = 9,
    GPUD_TENSOR_FLOAT8_E4M3FN = 10,
    GPUD_TENSOR_FLOAT8_E4M3FNUZ = 11,
    GPUD_TENSOR_FLOAT8_E5M2 = 12,
    GPUD_TENSOR_FLOAT8_E5M2FNUZ = 13,
    GPUD_TENSOR_FLOAT8_E8M0FNU = 14,
};

/** A tensor. All fields but the name are required; gpud_media_from_string() fills in strides and
 * offsets. */
struct gpud_tensor {
    /** as a name in caps, "boxes", and unique in the frame; "": it has none */
    char name[32];
    uint8_t code;        /**< of an element: enum gpud_tensor_code */
    uint8_t bits;        /**< of an element: 8 to 128 */
    uint16_t lanes;      /**< of an element: 1 but for vectors */
    uint32_t dimensions; /**< 1..GPUD_TENSOR_DIMENSIONS_MAX; the numbers of others are 0 */
    /** elements of each dimension, from the outermost on, which is the batch if there is one */
    uint32_t size[GPUD_TENSOR_DIMENSIONS_MAX];
    /** elements from one to the next of each dimension, as in DLPack; at least 1 */
    uint32_t stride[GPUD_TENSOR_DIMENSIONS_MAX];
    uint64_t offset; /**< of its first element, in bytes from the start of the frame */
};

/** Tensors that travel together. A frame has at most UINT32_MAX bytes. */
struct gpud_tensors {
    uint32_t count;            /**< required: 1..GPUD_TENSORS_MAX */
    struct gpud_fraction rate; /**< frames a second */
    /** One bit a tensor, the first one's is 1: its first dimension is a batch, of which a frame may
     * have only a part, the same of all these tensors. gpud_frame_info.bytes says how large:
     * gpud_tensors_get_batch(). The tensors have their places for the largest one; the last in the
     * frame is one of them. */
    uint64_t batch;
    struct gpud_tensor tensor[GPUD_TENSORS_MAX]; /**< the first `count` entries count */
};

/* --- any of these -------------------------------------------------------------------------- */

/** Bytes of gpud_media.extra, with its NUL. */
#define GPUD_MEDIA_EXTRA_MAX 1536
/** Room for what gpud_media_to_string() writes of any media. */
#define GPUD_MEDIA_TEXT_MAX 8192

/** What the frames of a stream are. */
struct gpud_media {
    enum gpud_media_kind kind; /**< which member of the union counts */
    union {
        struct gpud_picture picture; /**< PICTURE */
        struct gpud_audio audio;     /**< AUDIO */
        struct gpud_data data;       /**< ANCILLARY, DATA */
        struct gpud_tensors tensors; /**< TENSOR */
    };
    /** What the fields above cannot express, in the syntax of caps: "name=(type)value, …" without
     * other blanks; "": nothing. It travels unchanged. */
    char extra[GPUD_MEDIA_EXTRA_MAX];
};

/** Checks whether a media is valid and complete, and says how its frames lie in memory: a picture's
 * own layout; of everything else one plane with one row. The layout's size is that of a frame, or
 * of the largest where they differ. Every function that takes a media checks it likewise.
 *
 * @param media  the media
 * @param layout  filled
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the media is invalid or incomplete; error has the reason
 */
GPUD_API enum gpud_status gpud_media_get_layout(const struct gpud_media *media,
                                                struct gpud_layout *layout,
                                                struct gpud_error *error);

/** Whether two streams are described alike, and their frames lie alike.
 *
 * @param a  a valid media, as gpud_media_get_layout() finds it
 * @param b  another
 * @return true if they are equal
 */
GPUD_API bool gpud_media_equal(const struct gpud_media *a, const struct gpud_media *b);

/** Reads the syntax of GStreamer's caps, as in "video/x-raw, format=UYVY, width=1920, height=1080,
 * framerate=25/1". Types in parentheses, features and a semicolon at the end are accepted.
 * video/x-raw and video/x-bayer are pictures, with the layout of gpud_layout_init() (of a format
 * that it does not know the planes stay 0, to be filled in); audio/x-raw is sound; meta/x-st-2038
 * and closedcaption/… are ancillary; other/tensors, format=static, as NNStreamer has them, are
 * tensors; every other type is data. Fields and values that struct gpud_media cannot express go to
 * `extra`. Sound has a field samples-per-block and data a field max-size, which GStreamer does not
 * know. Tensors have fields that NNStreamer does not know: names="boxes,scores", strides as
 * dimensions, offsets="0,1536", batch=(bitmask)0x3; without strides and offsets all elements lie
 * one after the other.
 *
 * Whether the result is complete is for gpud_media_get_layout() to say.
 *
 * @param media  filled on success
 * @param text  NUL-terminated caps
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the text is not caps, describes more than one media (a list, a range), or
 *     has more extra fields than fit
 */
GPUD_API enum gpud_status gpud_media_from_string(struct gpud_media *media, const char *text,
                                                 struct gpud_error *error);

/** Writes the syntax that gpud_media_from_string() reads, in the form of gst_caps_to_string(), with
 * a feature only where GStreamer requires one (ALTERNATE). Strides and offsets are not part of it.
 *
 * @param media  the media to write
 * @param text  filled, with a NUL at the end
 * @param size  bytes that text has room for; GPUD_MEDIA_TEXT_MAX is enough for any
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  the media is invalid or incomplete, or text is too short
 */
GPUD_API enum gpud_status gpud_media_to_string(const struct gpud_media *media, char *text,
                                               size_t size, struct gpud_error *error);

/** The bytes that a frame of tensors has in use: what gpud_frame_set_size() takes.
 *
 * @param tensors  valid ones
 * @param batch  how many parts of the batch it has, 0 to the size of the first dimension; without a
 *     batch 0
 * @return the bytes; 0: the batch is too large, or it is empty and the first tensor's parts have
 *     one byte each, so that an empty batch looks like one part
 */
GPUD_API uint64_t gpud_tensors_get_bytes(const struct gpud_tensors *tensors, uint32_t batch);

/** The reverse.
 *
 * @param tensors  valid ones
 * @param bytes  gpud_frame_info.bytes of a received frame
 * @return how many parts of the batch the frame has; 0 without a batch
 */
GPUD_API uint32_t gpud_tensors_get_batch(const struct gpud_tensors *tensors, uint64_t bytes);

/** Describes tensors for people: 'float32 64x6 "boxes", int64 64 "classes"'.
 *
 * @param tensors  valid ones
 * @param text  filled, with a NUL at the end
 * @param size  bytes that text has room for, at least 1; what does not fit is left out
 */
GPUD_API void gpud_tensors_to_string(const struct gpud_tensors *tensors, char *text, size_t size);

GPUD_END_DECLS

#endif
