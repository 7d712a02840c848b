/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The latency that gpudirectsrc reports.
 *
 *     lateness   arrival of a picture minus its own time
 *     min        the user's value, or the measured lateness, limited by what the ring can hold;
 *                plus the processing deadline, and what a group may add
 *     max        the least lateness, plus the time for which the ring can hold pictures if it grows
 *
 * A picture arrives when it is submitted or, if this element waited for it, when it is acquired.
 * The time that it spends in the ring while downstream blocks this thread (a sink without a queue,
 * until the previous picture is due) does not count: that would raise the latency, hence the time
 * for which downstream blocks, and so on. */
#ifndef GPUD_GST_SRC_LATENCY_H
#define GPUD_GST_SRC_LATENCY_H

#include "src/options.h"
#include "wire/lateness.h"

struct latency_figures {
    GstClockTime least, most; /* lateness of pictures */
    gboolean sender_waits;    /* for slow receivers: no frame is lost, however long it waits */
    guint slots;              /* of the ring */
    guint slots_max;          /* which the sender lets it have */
    GstClockTime hold;        /* for which a pair of senders may hold a picture */
};

struct latency {
    GstElement *element;
    const struct src_options *options;
    /* The streaming thread's; written under the object lock, for the LATENCY query. */
    struct latency_figures figures;
    GstClockTime interval; /* between pictures; GST_CLOCK_TIME_NONE: the caps do not say */
    GstClockTime pipeline; /* the pipeline's latency; any thread's, under the object lock */
    /* The streaming thread's. */
    struct lateness lateness;
    guint unmeasured;   /* frames until lateness is measured again */
    gint64 reported_at; /* monotonic µs of the last message; 0: none yet */
};

void latency_init(struct latency *latency, GstElement *element, const struct src_options *options);

/* For a LATENCY query. From any thread. */
void latency_get(struct latency *latency, GstClockTime *min, GstClockTime *max);

/* Notes a picture's lateness on arrival, and the monotonic time of its acquire. late_max: later
 * pictures are ignored; G_MAXINT64 if that bound is unknown. */
void latency_measure(struct latency *latency, gint64 late, gint64 late_max,
                     GstClockTime acquired_at, gboolean sender_waits);

/* The number of slots of the ring, now and at most; and how long a pair of senders may hold a
 * picture. */
void latency_note_slots(struct latency *latency, guint slots, guint slots_max, GstClockTime hold);

/* The pipeline's latency, after which sinks show pictures; from any thread. */
void latency_note_pipeline(struct latency *latency, GstClockTime pipeline);

/* How many slots the ring needs, so that pictures which come at this interval can wait until they
 * are shown, `later` than by the pipeline's latency. 0: it is not known. From any thread. */
guint latency_slots(struct latency *latency, GstClockTime interval, GstClockTime later);

/* The time between pictures; GST_CLOCK_TIME_NONE: the caps do not say. */
void latency_note_interval(struct latency *latency, GstClockTime interval);

/* Pictures are stamped at the start of exposure, so they arrive at least a picture later. */
void latency_expect_exposure(struct latency *latency, gint64 late_max);

/* The stream is interrupted: the next pictures are not measured. */
void latency_break(struct latency *latency);

/* Forgets everything. card: pictures come from a capture card. */
void latency_reset(struct latency *latency, guint slots, gboolean card);

#endif
