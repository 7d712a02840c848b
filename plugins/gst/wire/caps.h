/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's caps and GstVideoInfo on one side, the core's layout and media on the other. */
#ifndef GPUD_GST_WIRE_CAPS_H
#define GPUD_GST_WIRE_CAPS_H

#include "wire/layout.h"
#include "wire/names.h"
#include "wire/videoinfo.h"

#include <gpudirect/sender.h>

/* The caps of both elements: any raw video that a frame can hold. */
#define SLOT_SIZES \
    ", width = (int) [ 1, 32768 ], height = (int) [ 1, 32768 ], framerate = (fraction) [ 0, max ]"
#define SLOT_VIDEO_FIELDS ", format = (string) " GST_VIDEO_FORMATS_ALL SLOT_SIZES
#define SLOT_VIDEO_CAPS                                                               \
    VIDEO_RAW SLOT_VIDEO_FIELDS "; " VIDEO_RAW "(" GST_CAPS_FEATURE_FORMAT_INTERLACED \
                                ")" SLOT_VIDEO_FIELDS                                 \
                                ", interlace-mode = (string) alternate; " VIDEO_BAYER \
                                ", format = (string) " VIDEO_BAYER_FORMATS SLOT_SIZES
G_STATIC_ASSERT(GPUD_DIMENSION_MAX == 32768);

/* Whether buffers of these caps are single fields. */
gboolean caps_are_fields(const GstCaps *caps);

/* All that the caps say of a stream of pictures, except the layout (see layout_from_info()). Fields
 * that are not plain values are dropped silently; others are dropped, the longest first, until the
 * rest fits, and counted in *left_out. FALSE: these are not caps of pictures. */
gboolean media_from_caps(struct gpud_media *media, const GstCaps *caps, guint *left_out);

/* The caps, and their info, of a peer's stream. names: the account for new names; fields beyond it
 * are left out. NULL: no element accepts that, or the peer's media contradicts itself; *reason
 * (which was NULL) says how (g_free it). */
GstCaps *media_to_caps(const struct gpud_media *media, struct names *names, GstVideoInfo *info,
                       gchar **reason);

/* The same without extra fields, for trusted media; NULL: it is not valid. */
GstCaps *media_known_caps(const struct gpud_media *media);

#endif
