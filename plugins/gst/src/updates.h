/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events of the link other than frames: noted inside acquire, applied after it.
 *
 * Only the last format and the last connection count. Other events wait for a frame, which gives
 * their time, and later ones replace earlier ones:
 *
 *     segment, flush   the last one
 *     tags             one list for each scope, merged: later values win
 *     gap              none before the first frame: there is nothing to bridge
 *     custom           all of them; of sticky ones the last of each name
 *
 * The number of waiting events is bounded, at more than an honest sender needs. Once frames flow, a
 * larger burst only ends the acquire: downstream gets the events so far, and the rest stays with
 * the sender. Before the first frame nothing can be passed on, so the link is cut. */
#ifndef GPUD_GST_SRC_UPDATES_H
#define GPUD_GST_SRC_UPDATES_H

#include "src/input.h"
#include "wire/event.h"
#include "wire/names.h"

/* An event that waits for a frame. */
struct update_event {
    struct wire_event event;
    gsize size; /* as serialised */
};
void update_event_free(struct update_event *waiting);

/* The streaming thread's. */
struct updates {
    struct gpud_format_event *format; /* the last one; NULL: it was applied */
    struct gpud_peer_info *peer;      /* a sender that connected; NULL: that was handled */
    GQueue events;                    /* of struct update_event */
    gsize event_bytes;                /* their total size */
    gboolean flooded;                 /* more events arrived than may wait: cut the link */
    gchar *unusable;                  /* why the sender's format is unusable: cut the link */
    gboolean yielding;                /* acquire was interrupted by its own callback */
};

void updates_init(struct updates *updates);

/* Drops what was not applied. */
void updates_clear(struct updates *updates);

/* Inside acquire. */
void updates_note_format(struct updates *updates, const struct gpud_format_event *said);
void updates_note_peer(struct updates *updates, const struct gpud_peer_info *peer);

/* begun: frames flow. TRUE: enough events wait, and the caller must updates_yield(). */
gboolean updates_note_event(struct updates *updates, GstElement *element,
                            const struct gpud_user_event *said, struct names *names,
                            gboolean begun);

/* Makes acquire return, to be called again after feed_resume(). */
void updates_yield(struct updates *updates, struct input *input);

/* The first event that need not wait, or NULL; the caller frees it. With a frame that is any event,
 * and without one any that needs no time. A segment waits for its frame. */
struct update_event *updates_take_event(struct updates *updates, gboolean with_frame);

/* Whether the link must be cut. */
static inline gboolean updates_end_link(const struct updates *updates)
{
    return updates->flooded || updates->unusable;
}

/* Returns the reason for that, and forgets it. */
void updates_take_reason(struct updates *updates, struct gpud_error *why);

#endif
