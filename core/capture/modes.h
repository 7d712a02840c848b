/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The modes that the driver offers. */
#ifndef GPUD_CAPTURE_MODES_H
#define GPUD_CAPTURE_MODES_H

#include "capture/input.h"

/* The driver's format of this name; 0: it has none. Frames of a card that fills no alpha in are
 * called by the name without. */
uint32_t gpud_capture_find_format(const struct gpud_v4l2 *node, const char *name);

/* gpud_capture_list_modes() of an open node with this signal at its input. Nothing is set. */
size_t gpud_capture_modes_of(const struct gpud_v4l2 *node, const struct gpud_input *source,
                             const char *format, struct gpud_capture_mode *modes, size_t max);

/* The name of frames in this format; NULL: they cannot be captured. */
const char *gpud_capture_name_format(const struct gpud_v4l2 *node, uint32_t fourcc);

/* "UYVY, YUY2, NV12": the driver's formats, for a reason. */
void gpud_capture_name_formats(const struct gpud_v4l2 *node, char *text, size_t size);

#endif
