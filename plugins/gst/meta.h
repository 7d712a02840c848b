/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What GStreamer knows about a picture beside its pixels, as the bytes that travel with a frame: an
 * own, versioned code, because GStreamer 1.22 has none. Its reader takes bytes from anywhere. */
#ifndef GPUD_GST_META_H
#define GPUD_GST_META_H

#include "timing.h"

#include <gpudirect/frame.h>
#include <gst/gst.h>

/* Writes head and the buffer's metas; returns how many bytes. *lost counts metas that are of no
 * known kind or do not fit; they stay behind. */
uint32_t meta_encode(GstBuffer *buffer, const struct wire_head *head,
                     uint8_t bytes[GPUD_FRAME_META_MAX], guint *lost);

/* Adds what the bytes hold to the buffer. FALSE: they are not written by this plugin, or broken;
 * metas before the break are added. *lost counts those that were skipped. */
gboolean meta_decode(const uint8_t *bytes, uint32_t size, struct wire_head *head, GstBuffer *buffer,
                     guint *lost);

/* Caps of the reference timestamp that the source adds: the monotonic time of the submit. Owned by
 * the plugin. */
GstCaps *meta_submit_reference(void);

/* Sets (or replaces) that timestamp. */
void meta_set_submit_time(GstBuffer *buffer, GstClockTime time);

#endif
