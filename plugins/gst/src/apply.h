/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_APPLY_H
#define GPUD_GST_SRC_APPLY_H

#include "src/src.h"

/* The link's events, called inside acquire. user is the element. */
void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data);

/* After acquire. TRUE: its own callback interrupted it, and it may be called again. */
gboolean gst_gpudirect_src_end_yield(GstGpudirectSrc *self);

/* Applies what came since the last call: a format, a connection. *moved: there is another input. */
GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean *moved);

#endif
