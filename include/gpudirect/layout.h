/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a frame lies in memory. The library moves planes of rows; it interprets no pixel. A format is
 * known by the name that GStreamer gives it ("UYVY", "NV12", "P010_10LE", "v210", "BGRx"; of
 * video/x-bayer "rggb", "rggb10le"); gpud_layout_init() knows the geometry of the common ones, and
 * any other raw format may be described plane by plane. */
#ifndef GPUDIRECT_LAYOUT_H
#define GPUDIRECT_LAYOUT_H

#include <gpudirect/types.h>

GPUD_BEGIN_DECLS

#define GPUD_PLANES_MAX 4
#define GPUD_DIMENSION_MAX 32768                /* width and height: pixels */
#define GPUD_FRAME_SIZE_MAX (UINT64_C(1) << 32) /* one frame: bytes */

struct gpud_plane {
    uint64_t offset;    /* of the first row, from the start of the frame */
    uint32_t stride;    /* from one row to the next; >= row_bytes */
    uint32_t row_bytes; /* that carry picture */
    uint32_t rows;
};

struct gpud_layout {
    char format[16]; /* NUL-terminated */
    uint32_t width, height;
    uint32_t planes; /* 1..GPUD_PLANES_MAX */
    struct gpud_plane plane[GPUD_PLANES_MAX];
    uint64_t size; /* of the frame, to the end of the last row of the last plane at least */
    /* DRM's format modifier: how the driver of a GPU has arranged the pixels. 0: row by row. Frames
     * with another one are moved as they are, to one with the same. */
    uint64_t modifier;
};

/* Fills *layout for a format that the library knows; strides are rounded up to stride_align (a
 * power of two; 0 is 4). GPUD_UNSUPPORTED for an unknown name, GPUD_INVALID for dimensions of 0 or
 * above GPUD_DIMENSION_MAX. */
GPUD_API enum gpud_status gpud_layout_init(struct gpud_layout *layout, const char *format,
                                           uint32_t width, uint32_t height, uint32_t stride_align,
                                           struct gpud_error *error);

/* Checks a layout from anywhere: every plane lies inside size, nothing overflows. GPUD_INVALID with
 * the reason. */
GPUD_API enum gpud_status gpud_layout_check(const struct gpud_layout *layout,
                                            struct gpud_error *error);

GPUD_END_DECLS

#endif
