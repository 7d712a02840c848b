/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A pipeline with gpudirectsrc address=target:NAME, and the third-party writer of its ring, which
 * reads only the file. */
#ifndef GPUD_TESTS_PLUGINS_TARGETLINE_H
#define GPUD_TESTS_PLUGINS_TARGETLINE_H

#include <gst/gst.h>

struct line {
    GstElement *pipeline, *filter;
    GstBus *bus;
    GAsyncQueue *buffers;
    gchar *file;
};

/* caps: of the capsfilter behind the source. */
void line_make(struct line *line, const gchar *name, const gchar *caps);
void line_play(struct line *line);
void line_stop(struct line *line);
void line_free(struct line *line);

/* The next picture, which must be this one. */
void line_expect(struct line *line, const gchar *caps, guint seed);

struct writer {
    int file;
    guint slots, number;
    guint64 surface[32], marker[32];
    gsize slot_size;
    guint8 *memory, *words;
};

/* Waits for the file; old: a file that it must not be. */
void writer_open(struct writer *writer, const gchar *path, int old);
void writer_close(struct writer *writer);
void writer_mark(struct writer *writer, guint slot, guint32 value);

/* Writes the next picture. */
void writer_write(struct writer *writer, const gchar *caps);

#endif
