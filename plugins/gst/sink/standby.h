/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sink that waits for the address of another sender: its frames are dropped until it has it. */
#ifndef GPUD_GST_SINK_STANDBY_H
#define GPUD_GST_SINK_STANDBY_H

#include "sink/sink.h"

/* A sender was opened: notes and reports whether it stands by. */
void gst_gpudirect_sink_begin_standby(GstGpudirectSink *self);

/* Whether the streaming thread's frame is dropped, and counted, because another sender has the
 * address. */
gboolean gst_gpudirect_sink_stands_by(GstGpudirectSink *self);

#endif
