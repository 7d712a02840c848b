/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The latency that gpudirectsrc reports.
 *
 *     lateness   how far a picture is behind its time when it is here
 *     min        what the user says, or the lateness that pictures have, as far as the ring holds
 *                those that are earlier; and the processing deadline
 *     max        the least lateness, and how long the ring can hold pictures back
 *
 * A picture is here when it is submitted, or when it is acquired, if it was waited for. One that
 * waits in the ring because downstream holds this thread (a sink without a queue before it, until
 * the picture before is due) is in time all the same: to reckon with the time at which it is
 * acquired would raise the latency, hence the time that downstream holds this thread, and so on. */
#ifndef GPUD_GST_SRC_LATENCY_H
#define GPUD_GST_SRC_LATENCY_H

#include "src/options.h"
#include "wire/lateness.h"

struct latency_figures {
    GstClockTime least, most; /* lateness of pictures */
    gboolean sender_waits;    /* for slow receivers: no frame is lost, however long it waits */
    guint slots;              /* of the ring */
};

struct latency {
    GstElement *element;
    const struct src_options *options;
    /* The streaming thread's; written under the object lock, for the LATENCY query. */
    struct latency_figures figures;
    GstClockTime interval; /* between pictures; GST_CLOCK_TIME_NONE: the caps do not say */
    /* The streaming thread's. */
    struct lateness lateness;
    guint unmeasured;   /* frames until lateness is measured again */
    gint64 reported_at; /* monotonic µs of the last message; 0: none yet */
};

void latency_init(struct latency *latency, GstElement *element, const struct src_options *options);

/* For a LATENCY query. From any thread. */
void latency_get(struct latency *latency, GstClockTime *min, GstClockTime *max);

/* A picture was that late when it was here, acquired at that monotonic time. late_max: later ones
 * do not count, and G_MAXINT64 for a picture of which it is not known. */
void latency_measure(struct latency *latency, gint64 late, gint64 late_max,
                     GstClockTime acquired_at, gboolean sender_waits);

/* How many slots the ring has: both sides asked for a number, and the smaller one counts. */
void latency_note_slots(struct latency *latency, guint slots);

/* The time between pictures; GST_CLOCK_TIME_NONE: the caps do not say. */
void latency_note_interval(struct latency *latency, GstClockTime interval);

/* Pictures are stamped with the beginning of their exposure, so they come a picture later at the
 * earliest. */
void latency_expect_exposure(struct latency *latency, gint64 late_max);

/* Other pictures follow. */
void latency_break(struct latency *latency);

/* Nothing is known any more. card: pictures come from a capture card. */
void latency_reset(struct latency *latency, guint slots, gboolean card);

#endif
