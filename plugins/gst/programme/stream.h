/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One stream of a programme: a gpudirectsrc, which gets a pad when it has caps.
 *
 *     gpudirectsrc src ─ the pad's inner half ─ src_audio, a ghost pad of the bin
 *
 * The inner half makes what the source pushes part of the programme: its STREAM_START waits for the
 * caps, and gets the group, the GstStream and the collection. Buffers are dropped while the pad is
 * not linked, so that a stream that is not used does not end the others. */
#ifndef GPUD_GST_PROGRAMME_STREAM_H
#define GPUD_GST_PROGRAMME_STREAM_H

#include "programme/collection.h"

struct stream;

/* What the streams of a programme share; constant while there are any. */
struct stream_programme {
    GstBin *bin;
    struct collection *collection;
    guint group_id;
    /* A stream got caps or its pad, or ended, or its sender has opened another address; from any
     * thread. */
    void (*changed)(void *user);
    void *user;
};

/* Adds the source, which is taken, to the bin, and starts it as the bin is. name: of the stream;
 * NULL: it is that of the channel itself. */
struct stream *stream_new(const struct stream_programme *programme, GstElement *source,
                          const gchar *name);

/* Makes the stream part of the collection before its source has caps. */
void stream_announce(struct stream *stream, GstCaps *caps);

/* Stops the source, and removes it and the pad. Never from the source's own thread. */
void stream_free(struct stream *stream);

/* By that, or because the source has caps. */
gboolean stream_is_announced(struct stream *stream);

GstElement *stream_source(const struct stream *stream);
gboolean stream_has_pad(const struct stream *stream);
gboolean stream_has_ended(const struct stream *stream);

/* For the element's class. */
void stream_install_templates(GstElementClass *klass);

#endif
