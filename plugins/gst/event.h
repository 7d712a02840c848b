/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events that travel in order with the frames: from a GstEvent to the bytes of a user event and
 * back. The reader takes bytes from anywhere. */
#ifndef GPUD_GST_EVENT_H
#define GPUD_GST_EVENT_H

#include "timing.h"

#include <gpudirect/sender.h>
#include <gst/gst.h>

/* The kinds of user events; they are part of the protocol between two plugins. */
enum event_kind {
    EVENT_SEGMENT = 1,
    EVENT_TAGS,
    EVENT_GAP,
    EVENT_FLUSH,
    EVENT_CUSTOM,
};

/* Writes what of an event travels; segment is the sink's current one. Returns how many bytes, 0: it
 * does not travel. *lost counts fields that stay behind. */
size_t event_encode(GstEvent *event, const GstSegment *segment, const struct wire_head *head,
                    uint8_t bytes[GPUD_MEDIA_MAX], enum event_kind *kind, guint *lost);

/* An event as it arrived; times are the sender's running times, none of them beyond G_MAXINT64. */
struct wire_event {
    enum event_kind kind;
    struct wire_head head;
    GstClockTime time, duration; /* segment: where it begins; gap */
    GstClockTime stream_time;    /* segment: the stream time there */
    gdouble rate;                /* segment: stream time per running time */
    GstTagList *tags;            /* tags */
    GstTagScope scope;
    GstStructure *structure; /* custom */
};

/* FALSE: of no known kind, or broken. */
gboolean event_decode(uint32_t kind, const void *bytes, size_t size, struct wire_event *event);
void wire_event_clear(struct wire_event *event);

#endif
