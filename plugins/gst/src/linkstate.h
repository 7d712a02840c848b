/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The streaming thread's state of the connection to a sender, or to a card. */
#ifndef GPUD_GST_SRC_LINKSTATE_H
#define GPUD_GST_SRC_LINKSTATE_H

#include <glib.h>

/* Times are monotonic, in µs. Zeroed: there was no connection yet. */
struct link_state {
    gboolean linked;        /* a sender is connected, or was and its loss was not reported */
    gboolean ended;         /* the sender ended its stream; the next stream is waited for */
    gboolean card_lost;     /* the card was unplugged, and is waited for */
    gint64 waiting_since;   /* the start of the time without a sender; 0: not known yet */
    gboolean wait_reported; /* a message reported that wait */
    guint refusal_cause;    /* a hash of the cause reported last; 0: none since the last link */
    gint64 refusal_at;
    gint64 held_off_until; /* the next attempt to connect; 0: at once */
};

static inline void link_state_reset(struct link_state *link)
{
    *link = (struct link_state){.refusal_at = link->refusal_at};
}

static inline void link_state_connect(struct link_state *link)
{
    link->linked = TRUE;
    link->ended = FALSE;
    link->refusal_cause = 0;
    link->wait_reported = FALSE;
}

/* The input was replaced: its sender connects anew. */
static inline void link_state_renew(struct link_state *link)
{
    link->linked = FALSE;
    link->waiting_since = 0;
}

#endif
