/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The GstVideoInfo of all that frames can be, video/x-bayer too: what a sensor with a mosaic of
 * colour filters makes, which GStreamer knows as caps of their own and not as a video format. Its
 * info is that of a grey picture, whose geometry is the same, under the mosaic's name: planes,
 * strides and copies need no case for it. */
#ifndef GPUD_GST_WIRE_VIDEOINFO_H
#define GPUD_GST_WIRE_VIDEOINFO_H

#include <gst/video/video.h>

#define VIDEO_RAW "video/x-raw"
#define VIDEO_BAYER "video/x-bayer"

/* As GStreamer 1.24 names them; before, it has those of 8 bits. */
#define VIDEO_BAYER_FORMATS                                                  \
    "{ bggr, gbrg, grbg, rggb, bggr10le, gbrg10le, grbg10le, rggb10le, "     \
    "bggr12le, gbrg12le, grbg12le, rggb12le, bggr14le, gbrg14le, grbg14le, " \
    "rggb14le, bggr16le, gbrg16le, grbg16le, rggb16le }"

/* FALSE: the caps describe no picture. */
gboolean video_info_from_caps(GstVideoInfo *info, const GstCaps *caps);

/* Of which kind the caps of a format are; NULL: GStreamer does not know it. */
const gchar *video_media_type(const gchar *format);

#endif
