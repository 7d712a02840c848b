/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_DMABUFS_H
#define GPUD_GST_SINK_DMABUFS_H

#include "sink/sink.h"

/* Whether upstream wants dma-bufs to write into, and this system can provide them. */
gboolean gst_gpudirect_sink_wants_dmabufs(GstGpudirectSink *self);

/* Warns the application if pictures have to be copied from these. */
void gst_gpudirect_sink_tell_dmabufs(GstGpudirectSink *self);

#endif
