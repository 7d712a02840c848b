/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_APPLY_H
#define GPUD_GST_SRC_APPLY_H

#include "src/src.h"

/* Receives the link's events, inside acquire. user is the element. */
void gst_gpudirect_src_on_event(void *user, enum gpud_event event, const void *data);

/* After acquire. TRUE: the event callback interrupted it, and it may be called again. */
gboolean gst_gpudirect_src_end_yield(GstGpudirectSrc *self);

/* Applies a format or a connection noted since the last call. *moved: the input was replaced. */
GstFlowReturn gst_gpudirect_src_take_updates(GstGpudirectSrc *self, gboolean *moved);

/* The ring has so many slots now. */
void gst_gpudirect_src_note_slots(GstGpudirectSrc *self, const struct input_info *info);

#endif
