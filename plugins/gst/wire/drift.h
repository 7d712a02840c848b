/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tracks the drift of a sender's clock against this pipeline's, from the arrivals of frames alone.
 *
 * A frame's lateness is the difference of the clocks plus its transit time, which varies. The least
 * lateness in a period belongs to the frame with the shortest transit. Its first value is kept as
 * the level: when the least lateness leaves the level, the clocks have drifted, and the map follows
 * slowly, so that the change of the frames' intervals is not visible.
 *
 *     settling    10 s: each frame that is less late than all before lowers the level, or the map:
 *                 by little only slowly, as when following, because other streams' frames of the
 *                 same moment may be mapped before and after that
 *     following   every 2 s the map's speed is set by the least lateness' distance from the level
 *     a step      of more than a second is no drift: the map follows at once
 *
 * A frame's arrival is not always known: one that was in the ring before its acquire may have
 * waited there while downstream blocked this thread. As an upper bound, that time may show that
 * frames are early, but never that they are late; otherwise delays caused by downstream would count
 * as lateness, and grow. */
#ifndef GPUD_GST_WIRE_DRIFT_H
#define GPUD_GST_WIRE_DRIFT_H

#include <gst/gst.h>

/* While it settles, a larger fall is one at once. */
#define DRIFT_FALL (20 * (gint64)GST_MSECOND)

/* A larger difference is a new lateness or time line, not drift. */
#define DRIFT_STEP (1 * (gint64)GST_SECOND)

/* The largest speed of the map, in ns per second. Real clocks drift by a fiftieth of that. */
#define DRIFT_RATE_MAX (5 * (gint64)GST_MSECOND)

/* Zeroed: nothing known. */
struct drift {
    gboolean begun;
    gboolean keeps;               /* while it settles, the level falls rather than the map */
    gint64 level;                 /* how late the least late frames are, */
    gint64 owed;                  /* but for that, by which the map is still to fall: 0 or less */
    gint64 rate;                  /* of the map against the sender's times, ns in a second */
    GstClockTime since;           /* when it began; times are CLOCK_MONOTONIC's */
    GstClockTime last;            /* of the last frame */
    GstClockTime window;          /* when this window began */
    gint64 least;                 /* in this window, over the level */
    guint frames, certain_frames; /* in this window; and those whose arrival is known */
};

/* Starts with this lateness as the level. keeps: the map does not depend on it, and is kept. */
void drift_begin(struct drift *drift, gint64 late, gboolean keeps, GstClockTime now);

/* Notes the next frame's lateness by the map, which is an upper bound unless certain. Returns the
 * correction to add to the map. */
gint64 drift_track(struct drift *drift, gint64 late, gboolean certain, GstClockTime now);

#endif
