/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Caps of pictures in dma-bufs: video/x-raw(memory:DMABuf). They name a plain format, or, from
 * GStreamer 1.24 on, format=DMA_DRM with a drm-format, which adds a modifier. The elements support
 * linear pictures only. Such caps say the same as those of pictures in the CPU's memory, and these
 * functions translate between the two. */
#ifndef GPUD_GST_WIRE_DMABUFCAPS_H
#define GPUD_GST_WIRE_DMABUFCAPS_H

#include <gst/gst.h>

/* Whether the first of these caps are of pictures in dma-bufs. */
gboolean caps_are_dmabufs(const GstCaps *caps);

/* Fixed caps as those of the CPU's memory. NULL: their format is unknown, or not linear. */
GstCaps *caps_out_of_dmabufs(const GstCaps *caps);

/* Caps of the CPU's memory as those of dma-bufs: all spellings, the one with the modifier first.
 * Empty: GStreamer has no such caps, as for single fields. */
GstCaps *caps_into_dmabufs(const GstCaps *caps);

/* The same for fixed caps, in the spelling of `model`. NULL: there are no such caps. */
GstCaps *caps_into_dmabufs_like(const GstCaps *caps, const GstCaps *model);

/* Drops caps of dma-bufs, unless the filter accepts nothing else: elements that name several kinds
 * of memory often fail with a foreign driver's dma-bufs only when the first picture is there. Takes
 * the caps. */
GstCaps *caps_filter_dmabufs(GstCaps *caps, const GstCaps *filter);

#endif
