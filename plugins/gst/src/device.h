/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_DEVICE_H
#define GPUD_GST_SRC_DEVICE_H

#include "src/src.h"

/* Why downstream may have refused these caps, and what to do; g_free it. */
gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps);

/* Chooses the device that frames shall arrive on; g_free it. */
gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops);

/* Whether gst_gpudirect_src_follow() has to look at a stream of this format. */
gboolean gst_gpudirect_src_may_follow(GstGpudirectSrc *self,
                                      const struct gpud_format_event *format);

/* Moves the input to the device that the sender has its frames on. FALSE: it stays. */
gboolean gst_gpudirect_src_follow(GstGpudirectSrc *self, const struct gpud_format_event *format);

/* The sender refuses the device to which its stream was followed: back to the host. FALSE: that is
 * no way out. */
gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self);

/* Those of the pad's caps that the device can provide. Takes the caps. */
GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps);

/* What a card or a writer outside can give, in memory of the GPU that frames arrive on first. Takes
 * the caps. And the GPU whose memory negotiated caps are of; NULL: the CPU's. */
GstCaps *gst_gpudirect_src_offer_card(GstGpudirectSrc *self, GstCaps *caps);
struct gpu *gst_gpudirect_src_gpu_of_caps(GstGpudirectSrc *self, const GstCaps *caps);

/* The sender's, or the signal's, caps as downstream takes them: of a GPU's memory, in which case
 * *gpu is set, or as they are. Takes the caps. NULL: downstream does not take them. */
GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu);

#endif
