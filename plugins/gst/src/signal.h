/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether pictures come, and what downstream gets while none do.
 *
 * The signal is there from a picture on until the sender is lost, ends its stream, or sends nothing
 * for half a second (or three frames, if that is longer). With on-disconnect=freeze or black the
 * stream then goes on at its last rate, in real time, with the last picture or a black one.
 *
 * Which picture is the last is not known in advance, so for `freeze` each is kept until the next
 * one comes: one slot of the ring. Once the signal is gone the picture is copied, and the slot
 * given back. */
#ifndef GPUD_GST_SRC_SIGNAL_H
#define GPUD_GST_SRC_SIGNAL_H

#include "src/latency.h"
#include "src/options.h"
#include "src/pictures.h"
#include "src/times.h"

/* The streaming thread's. Times are monotonic. */
struct src_signal {
    GstElement *element;
    const struct src_options *options;
    struct pictures *pictures;
    struct times *times;
    const struct latency *latency;

    gint present;              /* atomic: the property */
    GstClockTime seen;         /* when the last picture came */
    GstClockTime due;          /* when the next stand-in is due */
    GstClockTime pts;          /* of the last buffer, be it the sender's or a stand-in */
    gint64 lag;                /* from a picture's time to its arrival */
    GstBuffer *last;           /* the last picture; NULL: it is not needed */
    GstBuffer *stand_in;       /* what is shown now; NULL: not made yet */
    guint64 count;             /* relaxed atomic: stand-ins that were pushed */
    GstClockTime silent_since; /* a card gives no frames; 0: it does */
    gboolean silence_reported; /* a message said so */
};

void src_signal_init(struct src_signal *signal, GstElement *element,
                     const struct src_options *options, struct pictures *pictures,
                     struct times *times, const struct latency *latency);

/* The picture that was acquired last. */
void src_signal_here(struct src_signal *signal, GstBuffer *buffer);

/* The signal is lost. reason: for people. */
void src_signal_gone(struct src_signal *signal, const gchar *reason);

/* An acquire brought no picture; what: the other side, for messages. */
void src_signal_watch(struct src_signal *signal, const gchar *what);

/* After a pause, in which no picture was asked for. */
void src_signal_resume(struct src_signal *signal);

void src_signal_forget(struct src_signal *signal);

/* A card gives no frames. TRUE, once in each silence: that is to be reported. */
gboolean src_signal_note_silence(struct src_signal *signal);
void src_signal_end_silence(struct src_signal *signal);

/* A picture that stands in for one that does not come, if one is due. */
gboolean src_signal_stand_in(struct src_signal *signal, GstBuffer **buffer);

/* When the next one is due, or a look whether pictures still come. card: the input has a signal of
 * its own. */
GstClockTime src_signal_next(const struct src_signal *signal, GstClockTime now, gboolean card);

#endif
