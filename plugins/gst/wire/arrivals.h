/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The arrival times of frames that wait in the ring: at each acquire, the number of waiting frames
 * shows how many arrived since the last one. Times are CLOCK_MONOTONIC's. */
#ifndef GPUD_GST_WIRE_ARRIVALS_H
#define GPUD_GST_WIRE_ARRIVALS_H

#include <gpudirect/sender.h>
#include <gst/gst.h>

/* Zeroed: there are none. */
struct arrivals {
    guint first, count;
    GstClockTime
        seen[GPUD_SLOTS_MAX]; /* from `first` on, round: the frames in the ring, in order */
};

/* Notes how many frames are in the ring now. */
void arrivals_see(struct arrivals *arrivals, guint waiting, GstClockTime now);

/* Takes the next frame; returns the time by which it had arrived. */
GstClockTime arrivals_take(struct arrivals *arrivals, GstClockTime now);

/* Frames are missing, or another ring follows. */
void arrivals_clear(struct arrivals *arrivals);

#endif
