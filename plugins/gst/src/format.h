/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_FORMAT_H
#define GPUD_GST_SRC_FORMAT_H

#include "src/src.h"

/* Applies the format that the sender announced. */
GstFlowReturn gst_gpudirect_src_take_format(GstGpudirectSrc *self,
                                            const struct gpud_format_event *format);

/* Follows a change of a card's signal to other caps. FALSE: an error was posted, or downstream
 * flushes. */
gboolean gst_gpudirect_src_follow_signal(GstGpudirectSrc *self);

/* Sets the format of the following frames. */
gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout);

void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass);

/* Asks the sender for the slots that pictures at this interval need until they are shown. From any
 * thread. */
void gst_gpudirect_src_want_slots(GstGpudirectSrc *self, GstClockTime interval);

/* The same, with a new latency of the pipeline. */
void gst_gpudirect_src_note_latency(GstGpudirectSrc *self, GstClockTime latency);

#endif
