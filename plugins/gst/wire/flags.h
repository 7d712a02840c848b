/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GstBuffer's flags in the application's bits of a frame's flags. The bits are part of the
 * protocol. */
#ifndef GPUD_GST_WIRE_FLAGS_H
#define GPUD_GST_WIRE_FLAGS_H

#include <gst/gst.h>
#include <stdint.h>

uint32_t frame_flags_from_buffer(GstBuffer *buffer);
void frame_flags_to_buffer(uint32_t flags, GstBuffer *buffer);

#endif
