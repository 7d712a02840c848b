/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sources of this process with one group name pass on frames of the same instant: each offers
 * its frame, and waits until all have one, see instant.h. */
#ifndef GPUD_GST_SRC_GROUP_H
#define GPUD_GST_SRC_GROUP_H

#include <gst/gst.h>

struct group_member;

/* Joins the group of that name, as `element`; it is expected to offer a frame from now on. */
struct group_member *group_join(const gchar *name, GstElement *element);
void group_leave(struct group_member *member);

struct group_frame {
    GstClockTime running;  /* the frame's running time */
    GstClockTime now;      /* the current one */
    GstClockTime interval; /* between frames; GST_CLOCK_TIME_NONE: not known */
    GstClockTime acquired; /* by CLOCK_MONOTONIC */
    gboolean waited;       /* for its arrival, until then */
    GstClockTime latency;  /* for which it may be held */
};

enum group_answer {
    GROUP_SEND,        /* its instant goes out now */
    GROUP_DROP,        /* its instant went out, or cannot be complete */
    GROUP_INTERRUPTED, /* by group_interrupt() */
};

/* For the streaming thread: waits until the group has decided. Posts a message when sources begin
 * to be left out. A source whose pipeline has another clock than the others' is not held, nor is a
 * frame that is ahead of its clock by more than the latency: others would be dropped until they
 * reach it. */
enum group_answer group_offer(struct group_member *member, const struct group_frame *frame);

/* Makes group_offer() return, until FALSE is set. From any thread. */
void group_interrupt(struct group_member *member, gboolean interrupted);

/* How many frames the group has dropped, and how many instants went out without this source. From
 * any thread. */
void group_get_counts(const struct group_member *member, guint64 *dropped, guint64 *missed);

#endif
