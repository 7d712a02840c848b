/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_COPY_H
#define GPUD_GST_SINK_COPY_H

#include "sink/sink.h"

/* FALSE: the buffer does not hold a picture of the caps. Call it once for each buffer: bad ones are
 * counted, and the first one posts a warning. */
gboolean gst_gpudirect_sink_check(GstGpudirectSink *self, GstBuffer *buffer);

/* Copies the buffer into a slot, self->copies.slot. timeout: for the slot. Every status other than
 * GPUD_OK, GPUD_TIMEOUT and GPUD_AGAIN has posted an error. */
enum gpud_status gst_gpudirect_sink_copy(GstGpudirectSink *self, GstBuffer *buffer, gint64 timeout);

/* Wraps the buffer's own memory as a frame, from which the core copies. NULL: the buffer consists
 * of several blocks, or its rows run backwards. */
struct gpud_frame *gst_gpudirect_sink_wrap(GstGpudirectSink *self, GstBuffer *buffer);

/* may_pass: the buffer is a slot of another ring in a device's memory, as gpudirectsrc hands it
 * out, so the device itself can copy it. pass: a frame over the bytes of such a slot, or of one of
 * the sink's own; it holds the buffer. */
gboolean gst_gpudirect_sink_may_pass(GstGpudirectSink *self, GstBuffer *buffer);
struct gpud_frame *gst_gpudirect_sink_pass(GstGpudirectSink *self, GstBuffer *buffer);

/* may_import: the buffer is a dma-buf that the ring's device imports, so it can copy it itself.
 * import: a frame over its bytes, which holds the buffer; NULL: it has to be copied otherwise. */
gboolean gst_gpudirect_sink_may_import(GstGpudirectSink *self, GstBuffer *buffer);
struct gpud_frame *gst_gpudirect_sink_import(GstGpudirectSink *self, GstBuffer *buffer);

void gst_gpudirect_sink_drop_prepared(GstGpudirectSink *self);

#endif
