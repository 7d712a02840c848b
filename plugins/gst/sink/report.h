/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_REPORT_H
#define GPUD_GST_SINK_REPORT_H

#include "sink/sink.h"

/* Called after each frame, with its buffer. */
void gst_gpudirect_sink_report(GstGpudirectSink *self, GstBuffer *buffer);

/* Reports the drops since the last report; at the end of the stream. */
void gst_gpudirect_sink_report_rest(GstGpudirectSink *self);

/* Warns, once per format, if receivers are refused for lack of memory. info: the core's current
 * counters; NULL: they were not read. */
void gst_gpudirect_sink_report_lack(GstGpudirectSink *self, const struct gpud_sender_info *info);

#endif
