/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* V4L2's pixel formats by our names, and where a driver places the planes of a picture. Strides and
 * sizes are always the driver's own, and are checked. */
#ifndef GPUD_CAPTURE_FORMATS_H
#define GPUD_CAPTURE_FORMATS_H

#include "capture/v4l2.h"

/* The placement of a picture in a driver's buffer. The driver has 1 to 4 areas of memory, each with
 * one or more planes of the picture; a buffer's areas follow each other in one memory, on page
 * boundaries. */
struct gpud_placement {
    struct gpud_layout layout; /* as if every data_offset were 0 */
    uint32_t areas;
    struct {
        uint64_t start;
        uint32_t size;   /* as the driver requires */
        uint32_t filled; /* the part that a whole picture uses */
    } area[GPUD_PLANES_MAX];
    uint8_t area_of[GPUD_PLANES_MAX]; /* a plane's */
};

/* The kind of a format's samples. */
enum gpud_samples {
    GPUD_SAMPLES_RGB,
    GPUD_SAMPLES_YUV,        /* luma alone, or as many samples of colour */
    GPUD_SAMPLES_SUBSAMPLED, /* fewer samples of colour than of luma */
    GPUD_SAMPLES_RAW,        /* a sensor's, behind a mosaic of filters */
};
enum gpud_samples gpud_format_samples(const char *name);

/* "UYVY"; NULL: the format is compressed, or has no name here. */
const char *gpud_format_name(uint32_t fourcc);

/* The name for a format whose alpha is not filled in: "BGRx" for "BGRA"; NULL: it has no alpha, or
 * no such name. */
const char *gpud_format_opaque(const char *name);
bool gpud_format_has_alpha(const char *name);

/* V4L2 may have several formats of one name: this one, counted from 0, the simplest first; 0: no
 * more. */
uint32_t gpud_format_fourcc(const char *name, size_t place);

/* GPUD_UNSUPPORTED where the driver contradicts itself or what V4L2 says of the format. */
enum gpud_status gpud_format_place(const struct gpud_v4l2_format *format,
                                   struct gpud_placement *placement, struct gpud_error *error);

#endif
