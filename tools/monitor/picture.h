/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A frame as a small JPEG. */
#ifndef GPUD_TOOLS_MONITOR_PICTURE_H
#define GPUD_TOOLS_MONITOR_PICTURE_H

#include "monitor/content.h"

#include <glib.h>
#include <gpudirect/gpudirect.h>

/* media: of the frame's stream. content: looks at the picture. The frame stays the caller's. NULL:
 * *error says why. */
GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_media *media,
                               struct monitor_content *content, struct gpud_error *error);

#endif
