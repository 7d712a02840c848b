/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_WAIT_H
#define GPUD_GST_SINK_WAIT_H

#include "sink/sink.h"

/* The longest wait inside the core, after which the element checks for other work. */
#define SINK_WAIT (200 * GPUD_MSEC)

/* Waits for a receiver, if the policy requires one. */
GstFlowReturn gst_gpudirect_sink_wait_for_client(GstGpudirectSink *self);

/* After a call into the core that timed out, was interrupted or failed. GST_FLOW_OK: it may be
 * repeated. After an interruption this waits for PLAYING, as GstBaseSink requires. */
GstFlowReturn gst_gpudirect_sink_may_retry(GstGpudirectSink *self, enum gpud_status status);

/* With the EOS: warns if frames before it were given up, because a receiver took none. */
void gst_gpudirect_sink_report_end(GstGpudirectSink *self);

/* Waits until other drivers have finished their writes to a buffer's dma-bufs. GST_FLOW_OK with
 * *written FALSE: they do not, and the picture is dropped. */
GstFlowReturn gst_gpudirect_sink_await_writes(GstGpudirectSink *self, GstBuffer *buffer,
                                              gboolean *written);

#endif
