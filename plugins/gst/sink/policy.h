/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_POLICY_H
#define GPUD_GST_SINK_POLICY_H

#include "sink/sink.h"

#define GST_TYPE_GPUDIRECT_WAIT_FOR_CONNECTION (gst_gpudirect_wait_for_connection_get_type())
GType gst_gpudirect_wait_for_connection_get_type(void);

/* Asks upstream whether it is live, which decides the meaning of `auto`. TRUE: it answered. From
 * any thread. */
gboolean gst_gpudirect_sink_query_live(GstGpudirectSink *self);

/* The policy for slow receivers: the property, or the meaning of `auto`. */
enum gpud_slow_receiver gst_gpudirect_sink_policy(GstGpudirectSink *self);

/* Applies a change of the property to the sender. */
void gst_gpudirect_sink_apply_policy(GstGpudirectSink *self);

/* Whether the stream waits while no receiver is connected. */
gboolean gst_gpudirect_sink_waits(GstGpudirectSink *self);

/* TRUE: the application asked for EOS, and the sink stops waiting. FALSE: the EOS arrived, or a
 * flush cancelled it. */
void gst_gpudirect_sink_set_ending(GstGpudirectSink *self, gboolean ending);

#endif
