/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What GStreamer knows about a picture beside its pixels, as the bytes that travel with a frame: an
 * own, versioned code, because GStreamer 1.22 has none. Its reader takes bytes from anywhere. */
#ifndef GPUD_GST_WIRE_META_H
#define GPUD_GST_WIRE_META_H

#include "wire/lostmetas.h"
#include "wire/timing.h"

#include <gpudirect/frame.h>
#include <gst/gst.h>

/* Where metas that cannot be transmitted are counted, the element in the log (may be NULL), and, on
 * a receiver, what new names are charged to. */
struct meta_loss {
    struct lost_metas *lost;
    GstElement *owner;
    struct names *names;
};

/* Writes head and the buffer's metas; returns how many bytes. Metas of no known kind, and those
 * that do not fit, are left out. */
uint32_t meta_encode(GstBuffer *buffer, const struct wire_head *head,
                     uint8_t bytes[GPUD_FRAME_META_MAX], const struct meta_loss *loss);

/* Adds what the bytes hold to the buffer. FALSE: they are not written by this plugin, or broken;
 * metas before the break are added. */
gboolean meta_decode(const uint8_t *bytes, uint32_t size, struct wire_head *head, GstBuffer *buffer,
                     const struct meta_loss *loss);

/* Caps of the reference timestamp that the source adds if it is told to: the monotonic time of the
 * submit. Owned by the plugin. */
GstCaps *meta_submit_reference(void);

/* Adds that timestamp, last. */
void meta_add_submit_time(GstBuffer *buffer, GstClockTime time);

/* The same for frames of a capture card: timestamp/x-gpudirect-capture, its driver's monotonic time
 * of the start of exposure, or of the end of the frame. */
void meta_add_capture_time(GstBuffer *buffer, GstClockTime time);

#endif
