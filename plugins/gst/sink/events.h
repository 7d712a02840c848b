/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_EVENTS_H
#define GPUD_GST_SINK_EVENTS_H

#include "sink/sink.h"

#include <gpudirect/frame.h>

void gst_gpudirect_sink_class_init_events(GstBaseSinkClass *klass);

/* Fills in what is sent of a buffer besides its bytes. */
void gst_gpudirect_sink_describe(GstGpudirectSink *self, GstBuffer *buffer,
                                 struct gpud_frame_info *info);

/* Fills the head that precedes each frame and event. */
void gst_gpudirect_sink_fill_head(GstGpudirectSink *self, struct wire_head *head);

/* Whether the address is one for other hosts. */
gboolean gst_gpudirect_sink_is_between_hosts(GstGpudirectSink *self);

/* Between hosts, receivers of a programme only ask for its streams now and then. A sink that opens
 * an address there notes that, and the other sinks of the process tell their receivers before their
 * next frame, so that these ask at once. */
void gst_gpudirect_sink_note_opened(GstGpudirectSink *self);
void gst_gpudirect_sink_tell_opened(GstGpudirectSink *self);

/* Sends, behind the first receiver's connection, the events that waited for it; or drops them. */
void gst_gpudirect_sink_send_unsent(GstGpudirectSink *self);
void gst_gpudirect_sink_drop_unsent(GstGpudirectSink *self);

/* Sends a gap of the buffer's time, which must be valid, instead of the buffer. */
void gst_gpudirect_sink_send_gap(GstGpudirectSink *self, GstBuffer *buffer);

/* Repeats to a new sender the sticky events that the previous one got. */
void gst_gpudirect_sink_repeat_events(GstGpudirectSink *self);

#endif
