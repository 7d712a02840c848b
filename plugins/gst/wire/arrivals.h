/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When frames came that were not waited for: each time one is acquired, the number of frames behind
 * it shows which came since the last time. Times are CLOCK_MONOTONIC's. */
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

/* So many frames are in the ring now. */
void arrivals_see(struct arrivals *arrivals, guint waiting, GstClockTime now);

/* The next frame is taken: by when it had come. */
GstClockTime arrivals_take(struct arrivals *arrivals, GstClockTime now);

/* Frames are missing, or another ring follows. */
void arrivals_clear(struct arrivals *arrivals);

#endif
