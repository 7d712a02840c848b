/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on the kernel's test card, each of its buffers looked at as it passes. */
#ifndef GPUD_TESTS_PLUGINS_CARDRUN_H
#define GPUD_TESTS_PLUGINS_CARDRUN_H

#include "card.h"

struct run {
    GstElement *pipeline, *src;
    GstBus *bus;

    GMutex lock;
    GCond changed;
    guint frames;          /* since it was started */
    guint corrupted;       /* flagged */
    guint64 offset;        /* the driver's number of the last one */
    guint64 gaps;          /* of these numbers */
    guint64 told, untold;  /* frames lost by the last QoS message, and by the first frame's */
    guint64 missing;       /* that no message told of, or too many: 0, or the test fails */
    GstClockTime pts;      /* of the last one */
    GstClockTime captured; /* its reference timestamp; NONE: it has none */
    gboolean backwards;    /* a PTS was before the last one */
    gint64 late;           /* running time beyond the last PTS, at most */
};

/* Makes "gpudirectsrc address=v4l2:///dev/video0 PROPERTIES ! 320x180 at 60/s ! fakesink". */
void run_make(struct run *run, const gchar *properties);
void run_clear(struct run *run);

/* From NULL to PLAYING, with counters reset; and back. */
void run_start(struct run *run);
void run_stop(struct run *run);

/* Waits until so many more frames came; FALSE: an error came first, *text is its sentence and what
 * it is about (g_free it). Nothing at all ends the test. */
gboolean run_await(struct run *run, guint more, gchar **text);

/* The same where an error ends the test. */
void run_pass(struct run *run, guint more);

/* A field of the source's stats; NULL: none (g_free it). */
gchar *run_stat(struct run *run, const gchar *name);

#endif
