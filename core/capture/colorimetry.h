/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Colours as V4L2 describes them. */
#ifndef GPUD_CAPTURE_COLORIMETRY_H
#define GPUD_CAPTURE_COLORIMETRY_H

#include "capture/v4l2.h"

/* Reads a format's colours. Fields that the driver leaves to its colorspace's default are filled in
 * by V4L2's rules; unspecified ones stay unknown. */
void gpud_capture_read_colors(const struct gpud_v4l2_format *format,
                              struct gpud_colorimetry *colorimetry);

/* Reads the signal's static metadata, if the driver has controls for it. */
void gpud_capture_read_hdr(const struct gpud_v4l2 *node, struct gpud_hdr_metadata *hdr);

#endif
