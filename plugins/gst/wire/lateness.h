/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lateness of pictures, from which the latency is computed.
 *
 *     least   the lowest lateness in the last ten seconds
 *     most    the highest, except for one picture in a hundred, and at least one
 *
 * Each change makes the whole pipeline reconfigure. So they change at most once a second, and by at
 * least a step, a quarter of the interval between pictures: they widen at once, and narrow after
 * ten seconds in which two steps could be gained. */
#ifndef GPUD_GST_WIRE_LATENESS_H
#define GPUD_GST_WIRE_LATENESS_H

#include <gst/gst.h>

#define LATENESS_SEEN 1024

/* Times are CLOCK_MONOTONIC's. */
struct lateness {
    GstClockTime least, most; /* in force, in whole ms */
    gboolean measured;        /* and not a guess */
    GstClockTime since;       /* when the first picture was noted; 0: none yet */
    GstClockTime judged;      /* the last evaluation; 0: none yet */
    guint next, count;        /* of the pictures that were seen last, round */
    struct {
        GstClockTime at, late;
    } seen[LATENESS_SEEN];
};

/* Starts without measurements, and assumes this lateness until there are some. */
void lateness_begin(struct lateness *lateness, GstClockTime guess);

/* Discards the measurements, and keeps the values in force until there are new ones. */
void lateness_break(struct lateness *lateness);

/* Notes a picture's lateness. interval: between pictures, or NONE. */
void lateness_note(struct lateness *lateness, GstClockTime late, GstClockTime now,
                   GstClockTime interval);

#endif
