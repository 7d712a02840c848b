/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a sender's clock runs away from this pipeline's, where nothing but the frames' arrivals
 * tells.
 *
 * A frame is late by as much as the clocks differ, and by its way here, which varies. Of the frames
 * of some time the one with the shortest way is the least late. How late that is at first is the
 * level, and is kept: when the least lateness leaves it, the clocks have drifted, and the map is
 * moved after them, slowly, so that no two frames are further apart or closer than one can see.
 *
 *     settling    10 s: frames that are less late than all before show how short the way can be
 *     following   every 2 s the map's speed is set by how far the least lateness is off the level
 *     a step      of more than a second is no drift: the map follows at once
 *
 * When a frame arrived is not always known: one that was there before it was asked for may have
 * waited, as long as downstream held this thread. It came at that moment at the latest, so it shows
 * that frames are early, and never that they are late; or else what downstream does would come back
 * as lateness, and grow. */
#ifndef GPUD_GST_WIRE_DRIFT_H
#define GPUD_GST_WIRE_DRIFT_H

#include <gst/gst.h>

/* A lateness, or a time, that differs by more is another one. */
#define DRIFT_STEP (1 * (gint64)GST_SECOND)

/* The most that a map's speed is changed, ns in a second. Clocks differ by a fiftieth of that. */
#define DRIFT_RATE_MAX (5 * (gint64)GST_MSECOND)

/* Zeroed: nothing known. */
struct drift {
    gboolean begun;
    gboolean keeps;               /* while it settles, the level goes down, and not the map */
    gint64 level;                 /* how late the least late frames are */
    gint64 rate;                  /* of the map against the sender's times, ns in a second */
    GstClockTime since;           /* when it began; times are CLOCK_MONOTONIC's */
    GstClockTime last;            /* of the last frame */
    GstClockTime window;          /* when this window began */
    gint64 least;                 /* in this window, over the level */
    guint frames, certain_frames; /* in this window; and those whose arrival is known */
};

/* From now on frames are this late, or less. keeps: the map was not found by that, and stays. */
void drift_begin(struct drift *drift, gint64 late, gboolean keeps, GstClockTime now);

/* The next frame is late by this much by the map, or, unless certain, by no more. What is to be
 * added to the map. */
gint64 drift_track(struct drift *drift, gint64 late, gboolean certain, GstClockTime now);

#endif
