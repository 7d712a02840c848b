/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_FORMAT_H
#define GPUD_GST_SRC_FORMAT_H

#include "src/src.h"

/* Caps of what the sender said it sends. */
GstFlowReturn gst_gpudirect_src_take_format(GstGpudirectSrc *self,
                                            const struct gpud_format_event *format);

/* A card's signal became another one: frames of other caps come. FALSE: an error was posted, or
 * downstream flushes. */
gboolean gst_gpudirect_src_follow_signal(GstGpudirectSrc *self);

/* From now on frames of this shape come. */
gboolean gst_gpudirect_src_set_format(GstGpudirectSrc *self, GstCaps *caps,
                                      const struct gpud_layout *layout);

void gst_gpudirect_src_class_init_format(GstBaseSrcClass *klass);

#endif
