/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* By which times frames of a main and a backup sender are matched. */
#ifndef GPUD_GST_SRC_PAIRTIME_H
#define GPUD_GST_SRC_PAIRTIME_H

#include "wire/timing.h"

/* From the most exact one on. */
enum pair_match {
    PAIR_MATCH_NONE,      /* no sender is known yet */
    PAIR_MATCH_CLOCK,     /* both follow one named clock, as PTP */
    PAIR_MATCH_MONOTONIC, /* both follow the monotonic clock of one host */
    PAIR_MATCH_PTS,   /* neither is live, or neither has a clock: their timestamps are the contents'
                       */
    PAIR_MATCH_APART, /* live, by different clocks: nothing says which frames are of one instant */
};

/* What a sender's frames say of its clock. */
struct pair_clock {
    gboolean known, live, monotonic;
    guint64 name; /* 0: it has none */
};

struct pair_clock pair_clock_of(const struct wire_head *head);

/* same_host: both senders are on one host. */
enum pair_match pair_match_of(const struct pair_clock *main, const struct pair_clock *backup,
                              gboolean same_host);

/* Whether two addresses are of one host. */
gboolean pair_addresses_share_host(const gchar *main, const gchar *backup);

/* Whether the instant is by the senders' clock, rather than by their pipelines' running time. */
static inline gboolean pair_match_has_clock(enum pair_match match)
{
    return match != PAIR_MATCH_PTS;
}

const gchar *pair_match_text(enum pair_match match);

#endif
