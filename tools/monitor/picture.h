/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is in a channel as a small image: a frame as JPEG, the levels of sound as SVG. */
#ifndef GPUD_TOOLS_MONITOR_PICTURE_H
#define GPUD_TOOLS_MONITOR_PICTURE_H

#include "monitor/content.h"

#include <glib.h>
#include <gpudirect/gpudirect.h>

/* media: of the frame's stream. content: looks at the picture. The frame stays the caller's. NULL:
 * *error says why. */
GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_media *media,
                               struct monitor_content *content, struct gpud_error *error);

/* Of each channel the peak, where 1 is full scale. */
GBytes *monitor_picture_draw_levels(const double *peaks, unsigned channels);

#endif
