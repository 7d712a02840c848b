/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_DEVICE_H
#define GPUD_GST_SINK_DEVICE_H

#include "sink/sink.h"

void gst_gpudirect_sink_class_init_device(GstBaseSinkClass *klass);

/* Of an element: which pads its own is linked to. */
void gst_gpudirect_sink_init_device(GstGpudirectSink *self);

/* Prepares for pictures in memory of this vendor's GPUs, or (NULL) of the CPU: moves the sender to
 * a device that can send them, and sets self->format.gpu. FALSE: it cannot, and an error was
 * posted. */
gboolean gst_gpudirect_sink_follow(GstGpudirectSink *self, const struct gpu_vendor *vendor);

#endif
