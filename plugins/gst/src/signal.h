/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether pictures arrive, and what downstream gets while none do.
 *
 * The signal is present from a picture until the sender is lost, ends its stream, or sends nothing
 * for half a second (or three frames, if that is longer). With on-disconnect=freeze or black the
 * stream then continues at its last rate, in real time, with the last picture or a black one.
 *
 * For `freeze` each picture is kept until the next one arrives, which occupies one slot of the
 * ring. When the signal is lost the picture is copied, and the slot released. */
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

    gboolean may_be_silent;    /* it is data, which may not come for long */
    gint present;              /* atomic: the property */
    GstClockTime seen;         /* when the last picture arrived */
    GstClockTime due;          /* when the next stand-in is due */
    GstClockTime pts;          /* that of the last buffer, the sender's or a stand-in */
    gint64 lag;                /* from a picture's time to its arrival */
    GstBuffer *last;           /* the last picture; NULL: it is not needed */
    GstBuffer *stand_in;       /* the picture shown without a signal; NULL: not made yet */
    guint64 count;             /* relaxed atomic: stand-ins that were pushed */
    GstClockTime silent_since; /* since when a card gives no frames; 0: it does */
    gboolean silence_reported; /* a message reported it */
};

void src_signal_init(struct src_signal *signal, GstElement *element,
                     const struct src_options *options, struct pictures *pictures,
                     struct times *times, const struct latency *latency);

/* The picture that was acquired last. */
void src_signal_here(struct src_signal *signal, GstBuffer *buffer);

/* The signal is lost. reason: a text for the user. */
void src_signal_gone(struct src_signal *signal, const gchar *reason);

/* An acquire returned no picture; what: the other side, for messages. */
void src_signal_watch(struct src_signal *signal, const gchar *what);

/* Ends a pause, in which no picture was requested. */
void src_signal_resume(struct src_signal *signal);

/* The format changes: earlier pictures cannot stand in. */
void src_signal_forget_pictures(struct src_signal *signal);

void src_signal_forget(struct src_signal *signal);

/* A card gives no frames. TRUE, once in each silence: report it. */
gboolean src_signal_note_silence(struct src_signal *signal);
void src_signal_end_silence(struct src_signal *signal);

/* Makes a picture in place of a missing one, if one is due. */
gboolean src_signal_stand_in(struct src_signal *signal, GstBuffer **buffer);

/* When the next stand-in is due; G_MAXUINT64: none. */
GstClockTime src_signal_next_stand_in(const struct src_signal *signal);

/* When the next stand-in, or the next check for pictures, is due. card: the input has a signal of
 * its own. */
GstClockTime src_signal_next(const struct src_signal *signal, GstClockTime now, gboolean card);

#endif
