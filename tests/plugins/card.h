/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The kernel's test card under gpudirectsrc, and under v4l2src beside it: its inputs and controls,
 * and pictures of it. */
#ifndef GPUD_TESTS_PLUGINS_CARD_H
#define GPUD_TESTS_PLUGINS_CARD_H

#include <gst/gst.h>

#define CARD "/dev/video0"
#define CARD_WAIT (60 * GST_SECOND) /* the guest is emulated, and slow */

/* The inputs, as the module's parameters have them. */
enum card_input { CARD_WEBCAM, CARD_TV, CARD_HDMI };
void card_select(enum card_input input);
/* TRUE: it has the input and control; FALSE ends the test. */
void card_set(const gchar *control, gint value);
void card_set_standard(guint64 standard);

/* A pipeline by its launch line, not started. */
GstElement *launch(const gchar *format, ...) G_GNUC_PRINTF(1, 2);

/* Its next message of these types; NULL: none comes. */
GstMessage *await_message(GstElement *pipeline, GstMessageType types);

/* It comes to its end, without an error; else the test ends with the sentence. */
void await_end(GstElement *pipeline, const gchar *what);

/* A picture that came out of a pipeline; a g_auto(Picture) is cleared where its block ends. */
struct picture {
    GstCaps *caps;
    GBytes *bytes;
    GstClockTime pts;
    guint64 offset;
    guint flags;
};
void picture_clear(struct picture *picture);
typedef struct picture Picture;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Picture, picture_clear)

/* Runs "SOURCE ! REST ! fakesink", and gives so many pictures, behind those that are skipped.
 * FALSE: an error came first, or nothing; *text is its sentence (g_free it). */
gboolean card_take(const gchar *source, const gchar *rest, guint skip, guint count,
                   struct picture *pictures, gchar **text);

/* Ends the test with a sentence where it is not so. */
void check(gboolean good, const gchar *format, ...) G_GNUC_PRINTF(2, 3);

const gchar *picture_field(const struct picture *picture, const gchar *name);

#endif
