/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_OPEN_H
#define GPUD_GST_SINK_OPEN_H

#include "sink/sink.h"

/* Opens the sender, on this device. FALSE: an error was posted. */
gboolean gst_gpudirect_sink_open_sender(GstGpudirectSink *self, const gchar *device);
/* The same, in place of the one that is open, which gives its address to the new one. */
gboolean gst_gpudirect_sink_replace_sender(GstGpudirectSink *self, const gchar *device);
void gst_gpudirect_sink_close_sender(GstGpudirectSink *self);

#endif
