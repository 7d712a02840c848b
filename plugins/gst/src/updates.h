/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What comes over the link beside frames: noted inside acquire, applied after it.
 *
 * Of formats and connections only the last one counts. Events wait until a frame gives the time,
 * and a later one replaces an earlier one:
 *
 *     segment, flush   the last one
 *     tags             one list for each scope, merged: later values win
 *     gap              none before the first frame: there is nothing to bridge
 *     custom           all of them; of sticky ones the last of each name
 *
 * So an honest sender may say what it likes before its first frame, and as often. What waits all
 * the same is bounded. Once frames flow, a burst that is larger only ends the acquire: downstream
 * gets the events, and the rest stays with the sender. Before the first frame nothing can be
 * handed on, so a sender that says more has its link cut. */
#ifndef GPUD_GST_SRC_UPDATES_H
#define GPUD_GST_SRC_UPDATES_H

#include "src/input.h"
#include "wire/event.h"
#include "wire/names.h"

/* An event that waits for a frame. */
struct update_event {
    struct wire_event event;
    gsize size; /* as it travelled */
};
void update_event_free(struct update_event *waiting);

/* The streaming thread's. */
struct updates {
    struct gpud_format_event *format; /* the last one; NULL: it was applied */
    struct gpud_peer_info *peer;      /* a sender that connected; NULL: that was handled */
    GQueue events;                    /* of struct update_event */
    gsize event_bytes;                /* of them */
    gboolean flooded;                 /* more events came than may wait: the link is to be cut */
    gchar *unusable;                  /* why the sender's format is of no use: likewise; or NULL */
    gboolean yielding;                /* acquire was interrupted by its own callback */
};

void updates_init(struct updates *updates);

/* Drops what came over the link and was not applied. */
void updates_clear(struct updates *updates);

/* Inside acquire. */
void updates_note_format(struct updates *updates, const struct gpud_format_event *said);
void updates_note_peer(struct updates *updates, const struct gpud_peer_info *peer);

/* begun: frames flow. TRUE: enough waits, and acquire is to return: updates_yield(). */
gboolean updates_note_event(struct updates *updates, GstElement *element,
                            const struct gpud_user_event *said, struct names *names,
                            gboolean begun);

/* Makes acquire return, to be called again after feed_resume(). */
void updates_yield(struct updates *updates, struct input *input);

/* The first event that need not wait; NULL if there is none. All events may go with
 * a frame, and without one those that need no time; a segment begins with its frame. The caller
 * frees it. */
struct update_event *updates_take_event(struct updates *updates, gboolean with_frame);

/* Whether what came over the link ends it. */
static inline gboolean updates_end_link(const struct updates *updates)
{
    return updates->flooded || updates->unusable;
}

/* Why it does; forgets that. */
void updates_take_reason(struct updates *updates, struct gpud_error *why);

#endif
