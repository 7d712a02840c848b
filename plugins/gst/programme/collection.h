/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The streams of a programme as a GstStreamCollection, by which players choose streams. They handle
 * one that changes while they start badly, so pads appear only once the first one is published.
 * Each stream's own thread pushes a new collection before its next buffer, as another thread's push
 * would wait for downstream. */
#ifndef GPUD_GST_PROGRAMME_COLLECTION_H
#define GPUD_GST_PROGRAMME_COLLECTION_H

#include <gst/gst.h>

struct collection {
    GstElement *element;
    GMutex exposing; /* one stream's pad is added after the other: gst_parse_launch() links a pad
                      * that appears in a handler which is not for two threads at a time */
    GMutex lock;
    /* Under the lock. */
    GCond published;
    GPtrArray *streams; /* of GstStream */
    GstStreamCollection *current;
    guint version;    /* 0: none was published yet */
    gboolean changed; /* since then */
    gboolean closed;
};

void collection_init(struct collection *collection, GstElement *element);
void collection_finish(struct collection *collection);

/* Begins without streams; ends all waits. */
void collection_open(struct collection *collection);
void collection_close(struct collection *collection);

/* These take effect when the collection is published. */
void collection_add(struct collection *collection, GstStream *stream);
void collection_remove(struct collection *collection, GstStream *stream);

/* Posts a message about the collection if it has changed. */
void collection_publish(struct collection *collection);

gboolean collection_is_published(struct collection *collection);

/* Waits until the first one is published, for a few seconds at most. */
void collection_wait(struct collection *collection);

/* An event with the current collection, if it is not the one of *version, which is updated; else
 * NULL. */
GstEvent *collection_event(struct collection *collection, guint *version);

#endif
