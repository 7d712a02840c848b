/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_EVENTS_H
#define GPUD_GST_SRC_EVENTS_H

#include "src/src.h"

/* Pushes waiting events downstream: with_frame, all, before the frame that was just stamped; else
 * all but segments. */
void gst_gpudirect_src_push_events(GstGpudirectSrc *self, gboolean with_frame);

#endif
