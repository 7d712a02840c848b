/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A buffer's metas as the bytes that are sent with a frame, in our own versioned format, because
 * GStreamer 1.22 has none. The decoder accepts untrusted bytes. */
#ifndef GPUD_GST_WIRE_META_H
#define GPUD_GST_WIRE_META_H

#include "wire/lostmetas.h"
#include "wire/timing.h"

#include <gpudirect/frame.h>
#include <gst/gst.h>

/* The counter of metas that cannot be transmitted, the element for the log (may be NULL), and, on a
 * receiver, the account for new names. */
struct meta_loss {
    struct lost_metas *lost;
    GstElement *owner;
    struct names *names;
};

/* Metas that do not fit into the small bytes, of one buffer after the other. Starts zeroed. */
#define META_LARGE_DEFAULT 65536
struct meta_large {
    uint8_t *data; /* `max` of them, made when first needed; g_free() it */
    uint32_t used;
    uint32_t max;       /* 0: META_LARGE_DEFAULT; at most GPUD_LARGE_META_MAX */
    gboolean overflown; /* not all of the last buffer's did fit */
};

/* Writes head and the buffer's metas; returns the number of bytes. From the first one on that does
 * not fit, metas are in *large. Those of unknown kinds, and those for which that is too small, are
 * left out. */
uint32_t meta_encode(GstBuffer *buffer, const struct wire_head *head,
                     uint8_t bytes[GPUD_FRAME_META_MAX], struct meta_large *large,
                     const struct meta_loss *loss);

/* Adds the metas in the bytes to the buffer. FALSE: the bytes are not this plugin's, or malformed;
 * metas before the fault are added. */
gboolean meta_decode(const uint8_t *bytes, uint32_t size, struct wire_head *head, GstBuffer *buffer,
                     const struct meta_loss *loss);

/* The same for those in *large. */
gboolean meta_decode_large(const uint8_t *bytes, size_t size, GstBuffer *buffer,
                           const struct meta_loss *loss);

/* Caps of the reference timestamp that the source optionally adds: the monotonic time of the
 * submit. Owned by the plugin. */
GstCaps *meta_submit_reference(void);

/* Adds that timestamp, last. */
void meta_add_submit_time(GstBuffer *buffer, GstClockTime time);

/* The same for frames of a capture card: timestamp/x-gpudirect-capture, its driver's monotonic time
 * of the start of exposure, or of the end of the frame. */
void meta_add_capture_time(GstBuffer *buffer, GstClockTime time);

#endif
