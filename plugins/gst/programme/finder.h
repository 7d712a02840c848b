/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds the streams of a channel as they appear, and ends those that have ended. A thread follows
 * the events of the channels' directory; it polls once a second only while a sender does not
 * answer, or for a channel of another host, and there ever less often until a stream's sender says
 * that it has opened another address. */
#ifndef GPUD_GST_PROGRAMME_FINDER_H
#define GPUD_GST_PROGRAMME_FINDER_H

#include "programme/stream.h"

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

/* Ends the search. The streams remain, so that the bin can stop them. */
void finder_stop(struct finder *finder);
void finder_free(struct finder *finder);

/* A stream has changed, or there may be another one, as a sender says; from any thread. However
 * often that happens, another host is asked once a second at most. */
void finder_wake(struct finder *finder);

#endif
