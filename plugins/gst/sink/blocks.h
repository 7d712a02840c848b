/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_BLOCKS_H
#define GPUD_GST_SINK_BLOCKS_H

#include "sink/sink.h"

/* Gives the media of new caps the size of its slots: that of 100 ms of sound; of data, what the
 * last buffers needed. FALSE: these are no caps of blocks. */
gboolean gst_gpudirect_sink_size_blocks(GstGpudirectSink *self, const GstCaps *caps,
                                        struct gpud_media *media);

/* Copies a buffer into slots, and sends them. */
GstFlowReturn gst_gpudirect_sink_submit_blocks(GstGpudirectSink *self, GstBuffer *buffer);

#endif
