/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How late pictures come, from which the latency is computed.
 *
 *     least   the least late picture of the last ten seconds
 *     most    the latest one, but for one in a hundred, and at least one
 *
 * Each change makes the whole pipeline reconfigure. So they change once a second at most, and by no
 * less than a step, a quarter of the time between pictures: they give way at once, and come back
 * when two steps can be won for ten seconds. */
#ifndef GPUD_GST_WIRE_LATENESS_H
#define GPUD_GST_WIRE_LATENESS_H

#include <gst/gst.h>

#define LATENESS_SEEN 1024

/* Times are CLOCK_MONOTONIC's. */
struct lateness {
    GstClockTime least, most; /* in force, in whole ms */
    gboolean measured;        /* and not a guess */
    GstClockTime since;       /* nothing older was seen; 0: nothing was */
    GstClockTime judged;      /* when it was last looked at; 0: never */
    guint next, count;        /* of the pictures that were seen last, round */
    struct {
        GstClockTime at, late;
    } seen[LATENESS_SEEN];
};

/* Nothing is known; until it is, pictures are taken to be as late as this. */
void lateness_begin(struct lateness *lateness, GstClockTime guess);

/* Other pictures follow; what is in force stays until more is known of them. */
void lateness_break(struct lateness *lateness);

/* A picture came, this late. interval: between pictures, or NONE. */
void lateness_note(struct lateness *lateness, GstClockTime late, GstClockTime now,
                   GstClockTime interval);

#endif
