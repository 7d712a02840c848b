/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_COPY_H
#define GPUD_GST_SINK_COPY_H

#include "sink/sink.h"

/* FALSE: the buffer does not hold a picture of the caps. To be called once for each buffer: it is
 * counted, and with the first one the application gets a warning. */
gboolean gst_gpudirect_sink_check(GstGpudirectSink *self, GstBuffer *buffer);

/* A slot holding a copy of the buffer, in self->prepared. timeout: for the slot. GPUD_TIMEOUT and
 * GPUD_AGAIN post nothing, everything else did. */
enum gpud_status gst_gpudirect_sink_copy(GstGpudirectSink *self, GstBuffer *buffer, gint64 timeout);

/* A frame over the buffer's own memory, from which the core copies. NULL: the buffer consists of
 * several blocks, or its rows run backwards. */
struct gpud_frame *gst_gpudirect_sink_wrap(GstGpudirectSink *self, GstBuffer *buffer);

/* Whether the buffer is a slot of another ring in a device's memory, as gpudirectsrc hands it out,
 * so that the device itself can copy it; and a frame over the bytes of such a slot, or of one of
 * the sink's own, which holds the buffer. */
gboolean gst_gpudirect_sink_may_pass(GstGpudirectSink *self, GstBuffer *buffer);
struct gpud_frame *gst_gpudirect_sink_pass(GstGpudirectSink *self, GstBuffer *buffer);

void gst_gpudirect_sink_drop_prepared(GstGpudirectSink *self);

#endif
