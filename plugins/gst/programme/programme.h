/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectprogramsrc: all streams of a channel. */
#ifndef GPUD_PROGRAMME_PROGRAMME_H
#define GPUD_PROGRAMME_PROGRAMME_H

#include "element/endpoint.h"
#include "src/src.h"
#include "wire/codec.h"
#include <gst/gst.h>

/* === collection ============================================================================== */
/* The streams of a programme as a GstStreamCollection, by which players choose streams. They handle
 * one that changes while they start badly, so pads appear only once the first one is published.
 * Each stream's own thread pushes a new collection before its next buffer, as another thread's push
 * would wait for downstream. */

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

/* === stream ================================================================================== */
/* One stream of a programme: a gpudirectsrc, which gets a pad when it has caps.
 *
 *     gpudirectsrc src ─ the pad's inner half ─ src_audio, a ghost pad of the bin
 *
 * The inner half makes what the source pushes part of the programme: its STREAM_START waits for the
 * caps, and gets the group, the GstStream and the collection. Buffers are dropped while the pad is
 * not linked, so that a stream that is not used does not end the others. */

/* The names of the pads. */
#define PAD_MAIN "src"
#define PAD_OTHERS "src_%s"

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

/* === finder ================================================================================== */
/* Finds the streams of a channel as they appear, and ends those that have ended. A thread follows
 * the events of the channels' directory; it polls once a second only while a sender does not
 * answer, or for a channel of another host, and there ever less often until a stream's sender says
 * that it has opened another address. */

struct finder;

struct finder_params {
    const gchar *address;
    const struct stream_programme *programme;
    /* Makes the source of a stream. main: the address is that of the channel itself. */
    GstElement *(*make_source)(void *user, const gchar *address, const GstCaps *caps,
                               gboolean main);
    void *user;
};

/* Begins with the stream of the address itself, which waits for its sender. An address that names
 * no channel, or a single stream, has only that one. NULL: an error was posted. */
struct finder *finder_start(const struct finder_params *params);

/* Searches another channel, where the streams have those addresses now. FALSE: one of the two
 * addresses names no channel, or a single stream. From any thread, while it runs. */
gboolean finder_follow(struct finder *finder, const gchar *address);

/* The address of a stream in another channel; g_free it. */
gchar *finder_move_address(const gchar *address, const gchar *from, const gchar *to);

/* Ends the search. The streams remain, so that the bin can stop them. */
void finder_stop(struct finder *finder);
void finder_free(struct finder *finder);

/* A stream has changed, or there may be another one, as a sender says; from any thread. However
 * often that happens, another host is asked once a second at most. */
void finder_wake(struct finder *finder);

/* === programme =============================================================================== */
/* The internals of gpudirectprogramsrc, a bin with a gpudirectsrc for each stream of a channel:
 *   element.c  class, properties, states, URIs
 *   finder.c   finds the streams, each with its source and its pad, removes those that have ended,
 *              and tells players of them */

#define GST_TYPE_GPUDIRECT_PROGRAM_SRC (gst_gpudirect_program_src_get_type())

G_DECLARE_FINAL_TYPE(GstGpudirectProgramSrc, gst_gpudirect_program_src, GST, GPUDIRECT_PROGRAM_SRC,
                     GstBin)

GST_ELEMENT_REGISTER_DECLARE(gpudirectprogramsrc)

struct _GstGpudirectProgramSrc {
    GstBin parent;

    struct settings settings;   /* properties; under the object lock */
    struct src_options options; /* likewise */
    gboolean started;           /* under the object lock */
    struct shared_map *map;     /* of the streams' times */
    struct collection collection;
    struct stream_programme programme;
    struct finder *finder; /* from READY to PAUSED and back */
    GWeakRef main;         /* the source of the channel's own stream, while there is one */
};

#endif
