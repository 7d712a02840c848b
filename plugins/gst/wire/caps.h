/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's caps and GstVideoInfo on one side, the core's layout and media on the other.
 *
 * Formats that consist of rows are described plane by plane, so that strides may differ between the
 * two ends. The others (tiles, palettes) are "opaque": one plane of one row, moved as a block.
 *
 * With interlace-mode=alternate a buffer is a field: the layout has the field's height, half of
 * what the caps and GstVideoMeta say. */
#ifndef GPUD_GST_WIRE_CAPS_H
#define GPUD_GST_WIRE_CAPS_H

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

/* The offsets and strides of a frame's planes, in GstVideoMeta's terms. */
struct video_planes {
    guint count;
    gsize offset[GST_VIDEO_MAX_PLANES];
    gint stride[GST_VIDEO_MAX_PLANES];
};

/* The layout of a frame with the strides and offsets of info. FALSE: no frame can be like that. */
gboolean layout_from_info(struct gpud_layout *layout, const GstVideoInfo *info);

/* Whether buffers of these caps are single fields. */
gboolean caps_are_fields(const GstCaps *caps);

/* The time from one buffer to the next, by the frame rate; GST_CLOCK_TIME_NONE: there is no rate.
 */
GstClockTime layout_interval(const GstVideoInfo *info);

/* Whether the buffer is large enough for a picture with the planes of its GstVideoMeta or, without
 * one, of info. */
gboolean layout_buffer_holds_picture(const GstVideoInfo *info, GstBuffer *buffer);

/* The same as layout_from_info(), for one buffer that lies in a single block: its GstVideoMeta wins
 * over info. FALSE: strides are negative or a plane lies outside the size bytes. */
gboolean layout_from_buffer(struct gpud_layout *layout, const GstVideoInfo *info, GstBuffer *buffer,
                            gsize size);

/* The name of a layout's format for a message, safe for a peer's layout; g_free it. */
gchar *layout_format_name(const struct gpud_layout *layout);

/* Whether a frame of this layout can hold a picture of info, with any strides. */
gboolean layout_fits_info(const struct gpud_layout *layout, const GstVideoInfo *info);

/* Whether two layouts are identical; or identical except for the planes' offsets. */
gboolean layout_is_equal(const struct gpud_layout *a, const struct gpud_layout *b);
gboolean layout_is_moved(const struct gpud_layout *a, const struct gpud_layout *b);

/* Strides and offsets for a GstVideoMeta. The layout must fit info. */
void layout_to_planes(const struct gpud_layout *layout, const GstVideoInfo *info,
                      struct video_planes *planes);

/* Whether an element that knows only info, and reads no GstVideoMeta, finds the planes. */
gboolean planes_are_default(const struct video_planes *planes, const GstVideoInfo *info);

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
