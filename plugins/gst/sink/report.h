/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_REPORT_H
#define GPUD_GST_SINK_REPORT_H

#include "sink/sink.h"

/* After each frame, which this buffer was. */
void gst_gpudirect_sink_report(GstGpudirectSink *self, GstBuffer *buffer);

/* Why receivers are refused, if there is no memory for their frames; once a format. info: as it is
 * now; NULL: the core was not asked. */
void gst_gpudirect_sink_report_lack(GstGpudirectSink *self, const struct gpud_sender_info *info);

#endif
