/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* H.273's numbers in GStreamer's words. */
#ifndef GPUD_GST_SRC_CAPTURECOLORS_H
#define GPUD_GST_SRC_CAPTURECOLORS_H

#include <gpudirect/capture.h>
#include <gst/gst.h>

/* What is known of these, as fields of caps; what is not known is left out. */
void capture_colors_to_structure(const struct gpud_colorimetry *from, GstStructure *structure);
void capture_hdr_to_structure(const struct gpud_hdr_metadata *hdr, GstStructure *structure);

#endif
