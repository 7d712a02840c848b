/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture card whose driver is in this program, as the core is, and pipelines with it. */
#ifndef GPUD_TESTS_PLUGINS_FAKECARD_H
#define GPUD_TESTS_PLUGINS_FAKECARD_H

#include "support/check.h"
#include "support/fake_driver.h"

#include <gst/gst.h>

#define WAIT (60 * GST_SECOND)
#define CAPS "video/x-raw,format=UYVY,width=320,height=180"
#define SHOWN "fakesink name=sink signal-handoffs=true sync=false"

struct card {
    struct fake_driver driver;
    GThread *signal; /* which gives it frames */
    gint over;
};

struct line {
    GstElement *pipeline, *src;
    GstBus *bus;
    GMutex lock;
    GCond cond;
    guint pictures, back;
    gint width;
    GstClockTime last;
};

extern gchar *nodes[2]; /* where the card may be */

/* First and last in main(). */
void cards_init(int *argc, char ***argv);
int cards_done(void);

/* --- the card ----------------------------------------------------------------------------- */

/* *card is what the driver shall be beside the usual. Frames come by themselves. */
void card_begin(struct card *card);
void card_end(struct card *card);
void card_unplug(struct card *card);
/* At another node than before. */
void card_plug_in(struct card *card);

/* --- pipelines ---------------------------------------------------------------------------- */

/* Plays; "src" is the source of interest, "sink" what shows its pictures. */
void line_begin(struct line *line, const gchar *launch);
void line_begin_card(struct line *line, const gchar *properties, const gchar *rest);
void line_finish(struct line *line);

void await_pictures(struct line *line, guint more);
void await_width(struct line *line, gint width);

/* The next message of this type, and name if it is an element's; none of those that end a pipeline
 * may come before it. */
GstMessage *await_message(struct line *line, GstMessageType type, const gchar *name);
void expect_message(struct line *line, const gchar *name);
void expect_signal(struct line *line, gboolean wanted, const gchar *why);
void expect_warning(struct line *line, const gchar *text);
/* The card cannot be opened with these properties, and an error says so. */
void expect_refusal(const gchar *properties, const gchar *text);
void nothing_ended(struct line *line);
guint64 line_stat(struct line *line, const gchar *name);

#endif
