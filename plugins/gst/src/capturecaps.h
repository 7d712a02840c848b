/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture card's modes as caps. */
#ifndef GPUD_GST_SRC_CAPTURECAPS_H
#define GPUD_GST_SRC_CAPTURECAPS_H

#include <gpudirect/capture.h>
#include <gst/gst.h>

/* All modes whose format GStreamer knows, at least those that match the filter (NULL: all); empty
 * caps if there are none. */
GstCaps *capture_caps(struct gpud_capture *capture, const GstCaps *filter);
GstCaps *capture_caps_of_modes(const struct gpud_capture_mode *modes, gsize count);

/* The caps of frames with the card's current settings; NULL: the card is not set up. */
GstCaps *capture_caps_current(const struct gpud_capture_info *info);

/* Adds what the driver reports about its frames to negotiated caps. FALSE: it contradicts them;
 * *reason says how (g_free it). */
gboolean capture_caps_complete(GstCaps **caps, const struct gpud_capture_info *info,
                               gchar **reason);

#endif
