/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * How a frame lies in memory. The library moves planes of rows; it interprets no pixel. A format is
 * known by the name that GStreamer gives it ("UYVY", "NV12", "P010_10LE", "v210", "BGRx"; of
 * video/x-bayer "rggb", "rggb10le"); gpud_layout_init() knows the geometry of the common ones, and
 * any other raw format may be described plane by plane.
 */
#ifndef GPUDIRECT_LAYOUT_H
#define GPUDIRECT_LAYOUT_H

#include <gpudirect/types.h>

GPUD_BEGIN_DECLS

/** Most planes of a frame. */
#define GPUD_PLANES_MAX 4
/** Largest width and height, in pixels. */
#define GPUD_DIMENSION_MAX 32768
/** Most bytes of one frame. */
#define GPUD_FRAME_SIZE_MAX (UINT64_C(1) << 32)

/** A plane: rows of bytes. */
struct gpud_plane {
    uint64_t offset;    /**< of the first row, from the start of the frame */
    uint32_t stride;    /**< from one row to the next; >= row_bytes */
    uint32_t row_bytes; /**< that carry picture */
    uint32_t rows;      /**< rows of the plane */
};

/** The implicit modifier (DRM_FORMAT_MOD_INVALID): the GPU's driver arranges the pixels in a way
 * that it does not disclose (VK_IMAGE_TILING_OPTIMAL in Vulkan). */
#define GPUD_MODIFIER_IMPLICIT UINT64_C(0x00ffffffffffffff)
/** Most entries of a list of DRM format modifiers. */
#define GPUD_MODIFIERS_MAX 64

/** How a frame lies in memory. */
struct gpud_layout {
    char format[16];                          /**< NUL-terminated */
    uint32_t width;                           /**< pixels */
    uint32_t height;                          /**< rows */
    uint32_t planes;                          /**< 1..GPUD_PLANES_MAX */
    struct gpud_plane plane[GPUD_PLANES_MAX]; /**< the first `planes` entries count */
    uint64_t size; /**< of the frame; reaches at least to the end of the last plane's last row */
    /** DRM's format modifier: how the driver of a GPU has arranged the pixels. 0: row by row.
     * Frames with any other modifier are moved unchanged, into slots with the same one; but see
     * gpud_sender_params.modifiers. A plane's offset and stride are then those of the
     * driver (VkImageDrmFormatModifierExplicitCreateInfoEXT); with GPUD_MODIFIER_IMPLICIT they have
     * no meaning. */
    uint64_t modifier;
};

/** Fills a layout for a format that the library knows.
 *
 * @param layout  filled on success
 * @param format  GStreamer's name of the format
 * @param width  in pixels, 1 to GPUD_DIMENSION_MAX
 * @param height  in rows, 1 to GPUD_DIMENSION_MAX
 * @param stride_align  strides are rounded up to a multiple of this many bytes, a power of two; 0:
 *     4
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_UNSUPPORTED  the format is not known: describe it plane by plane
 * @retval GPUD_INVALID  a dimension or the alignment is out of range
 */
GPUD_API enum gpud_status gpud_layout_init(struct gpud_layout *layout, const char *format,
                                           uint32_t width, uint32_t height, uint32_t stride_align,
                                           struct gpud_error *error);

/** Checks a layout from any source: each plane lies inside the frame and no sum overflows.
 *
 * @param layout  the layout to check
 * @param error  says why not; may be NULL; written on failure only
 * @return GPUD_OK, or a failure:
 * @retval GPUD_INVALID  error has the reason
 */
GPUD_API enum gpud_status gpud_layout_check(const struct gpud_layout *layout,
                                            struct gpud_error *error);

GPUD_END_DECLS

#endif
