/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_RENDER_H
#define GPUD_GST_SINK_RENDER_H

#include "sink/sink.h"

void gst_gpudirect_sink_class_init_render(GstBaseSinkClass *klass);

/* Drops the state of the stream: caps, slots, the prepared copy. */
void gst_gpudirect_sink_reset_stream(GstGpudirectSink *self);

#endif
