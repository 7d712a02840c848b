/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_DEVICE_H
#define GPUD_GST_SRC_DEVICE_H

#include "src/src.h"

/* Why downstream may have refused these caps, and what to do; g_free it. */
gchar *gst_gpudirect_src_advice(GstGpudirectSrc *self, const GstCaps *caps);

/* Chooses the device that frames shall arrive on; g_free it. */
gchar *gst_gpudirect_src_choose_device(GstGpudirectSrc *self, const struct input_ops *ops);

/* Whether gst_gpudirect_src_follow() applies to a stream of this format. */
gboolean gst_gpudirect_src_may_follow(GstGpudirectSrc *self,
                                      const struct gpud_format_event *format);

/* Moves the input to the device that the sender has its frames on. FALSE: it stays. */
gboolean gst_gpudirect_src_follow(GstGpudirectSrc *self, const struct gpud_format_event *format);

/* Moves back to the host, after the sender has refused the device that was followed. FALSE: the
 * refusal has another cause. */
gboolean gst_gpudirect_src_fall_back(GstGpudirectSrc *self);

/* Reduces the pad's caps to those that the device can provide. Takes the caps. */
GstCaps *gst_gpudirect_src_offer(GstGpudirectSrc *self, GstCaps *caps);

/* offer_card: the caps of a card or a third-party writer, those in memory of the GPU first, those
 * in dma-bufs last. Takes the caps. gpu_of_caps: the GPU of the negotiated caps' memory; NULL: the
 * CPU. */
GstCaps *gst_gpudirect_src_offer_card(GstGpudirectSrc *self, GstCaps *caps);
struct gpu *gst_gpudirect_src_gpu_of_caps(GstGpudirectSrc *self, const GstCaps *caps);

/* The caps of the sender or the signal in the form that downstream accepts: with a GPU's memory
 * (*gpu is set), unchanged, or with dma-bufs. Takes the caps. NULL: downstream accepts none of
 * these. */
GstCaps *gst_gpudirect_src_agree(GstGpudirectSrc *self, GstCaps *caps, struct gpu **gpu);

/* Whether an answered allocation query asks for memory of an allocator that makes files, which
 * downstream shares with other processes by their descriptors. */
gboolean gst_gpudirect_src_fills_files(GstQuery *query);

#endif
