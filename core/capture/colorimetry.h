/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What V4L2 says of colours. */
#ifndef GPUD_CAPTURE_COLORIMETRY_H
#define GPUD_CAPTURE_COLORIMETRY_H

#include "capture/v4l2.h"

/* What a driver says of a format. What it leaves to the default of its colorspace is filled in by
 * V4L2's own rules; what it does not say at all stays unknown. */
void gpud_capture_read_colors(const struct gpud_v4l2_format *format,
                              struct gpud_colorimetry *colorimetry);

/* The static metadata of the signal, where the driver has the controls for it. */
void gpud_capture_read_hdr(const struct gpud_v4l2 *node, struct gpud_hdr_metadata *hdr);

#endif
