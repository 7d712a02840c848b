/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events that are sent in order with the frames: converts a GstEvent to the bytes of a user event
 * and back. The decoder accepts untrusted bytes. */
#ifndef GPUD_GST_WIRE_EVENT_H
#define GPUD_GST_WIRE_EVENT_H

#include "wire/timing.h"

#include <gpudirect/sender.h>
#include <gst/gst.h>

/* The kinds of user events; they are part of the protocol between two plugins. */
enum event_kind {
    EVENT_SEGMENT = 1,
    EVENT_TAGS,
    EVENT_GAP,
    EVENT_FLUSH,
    EVENT_CUSTOM,
    EVENT_CUSTOM_STICKY,
};

/* A late receiver gets the last sticky event of each kind. If several of a kind are in force at
 * once, each has an index: tags by scope, custom events by name. The kind of a user event combines
 * both numbers. The sender keeps 16: a segment, two lists of tags, and these. */
#define EVENT_STICKY_NAMES_MAX 13

static inline uint32_t event_make_kind(enum event_kind kind, guint index)
{
    return (uint32_t)kind | (uint32_t)index << 8;
}

static inline gboolean event_is_sticky(enum event_kind kind)
{
    return kind == EVENT_SEGMENT || kind == EVENT_TAGS || kind == EVENT_CUSTOM_STICKY;
}

GstTagScope event_tag_scope(GstEvent *event);

/* How long something of this duration takes where the segment is played at its rate. */
GstClockTime event_running_duration(const GstSegment *segment, GstClockTime duration);

/* Serialises an event; segment is the sink's current one. Returns the number of bytes; 0: it cannot
 * be sent. *lost counts fields that were left out. */
size_t event_encode(GstEvent *event, const GstSegment *segment, const struct wire_head *head,
                    uint8_t bytes[GPUD_EVENT_SIZE_MAX], enum event_kind *kind, guint *lost);

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

/* said: the kind of the user event; names: the account for new names. FALSE: it is of an unknown
 * kind, or malformed, or its name exceeds the account. */
gboolean event_decode(uint32_t said, const void *bytes, size_t size, struct names *names,
                      struct wire_event *event);
void wire_event_clear(struct wire_event *event);

/* An event inside a pipeline: the EOS that follows is due to an error, not to the stream. */
GstEvent *event_new_broken_off(void);
gboolean event_is_broken_off(GstEvent *event);

/* Whether the frames that gpudirectsrc passes on are those of a live sender: a query that each
 * answers, and an event that follows a change. To GStreamer every gpudirectsrc is live. */
GstQuery *query_new_sender_live(void);
gboolean query_is_sender_live(GstQuery *query);
void query_set_sender_live(GstQuery *query, gboolean live);
gboolean query_get_sender_live(GstQuery *query, gboolean *live); /* FALSE: not answered */
GstEvent *event_new_sender_live(void);
gboolean event_is_sender_live(GstEvent *event);

/* An event to other hosts: the sender's process has opened another address there. */
GstEvent *event_new_opened(void);
gboolean event_is_opened(GstEvent *event);

#endif
