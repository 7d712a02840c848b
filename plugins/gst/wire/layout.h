/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Layouts of frames in GStreamer's terms: the one check of what a peer says, before anything of
 * GStreamer's reads by it. Also a part of the tools that show pictures.
 *
 * Formats that consist of rows are described plane by plane, so that strides may differ between the
 * two ends. The others (tiles, palettes) are "opaque": one plane of one row, moved as a block.
 *
 * With interlace-mode=alternate a buffer is a field: the layout has the field's height, half of
 * what the caps and GstVideoMeta say. */
#ifndef GPUD_GST_WIRE_LAYOUT_H
#define GPUD_GST_WIRE_LAYOUT_H

#include <gpudirect/layout.h>
#include <gst/video/video.h>

/* The offsets and strides of a frame's planes, in GstVideoMeta's terms. */
struct video_planes {
    guint count;
    gsize offset[GST_VIDEO_MAX_PLANES];
    gint stride[GST_VIDEO_MAX_PLANES];
};

/* The layout of a frame with the strides and offsets of info. FALSE: no frame can be like that. */
gboolean layout_from_info(struct gpud_layout *layout, const GstVideoInfo *info);

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

/* Whether a frame of this layout holds a picture of info, with any strides, and GStreamer's own
 * arithmetic reaches all of it: a plane of more than 2 GiB it does not. */
gboolean layout_fits_info(const struct gpud_layout *layout, const GstVideoInfo *info);

/* Whether two layouts are identical; or identical except for the planes' offsets. */
gboolean layout_is_equal(const struct gpud_layout *a, const struct gpud_layout *b);
gboolean layout_is_moved(const struct gpud_layout *a, const struct gpud_layout *b);

/* Strides and offsets for a GstVideoMeta. The layout must fit info. */
void layout_to_planes(const struct gpud_layout *layout, const GstVideoInfo *info,
                      struct video_planes *planes);

/* Whether an element that knows only info, and reads no GstVideoMeta, finds the planes. */
gboolean planes_are_default(const struct video_planes *planes, const GstVideoInfo *info);

#endif
