/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which instant a group of sources passes on, as a pure function of the frames that they have.
 *
 *     the newest frame decides the instant; frames within half an interval before it belong to it
 *     an older frame is dropped: no frame that is still to come can complete its instant
 *     an instant goes out when each source that is expected has a frame of it, or when a frame
 * since the last instant, also a dropped one, has waited for its source's latency: sources without
 * a frame are left out then, and not expected again before they have one */
#ifndef GPUD_GST_SRC_INSTANT_H
#define GPUD_GST_SRC_INSTANT_H

#include <glib.h>

/* Times are in ns; before the first instant, and while no frame waits. */
#define INSTANT_NONE G_MININT64
#define INSTANT_NEVER G_MAXINT64

enum instant_state {
    INSTANT_EXPECTED, /* its next frame is waited for */
    INSTANT_MISSING,  /* it was left out, and has shown no frame since */
    INSTANT_OFFERED,  /* it has a frame, which it holds */
};

enum instant_verdict { INSTANT_HOLD, INSTANT_SEND, INSTANT_DROP };

/* One source. */
struct instant_part {
    enum instant_state state;
    /* The frame that it offers. */
    gint64 time;     /* on the clock that the group shares */
    gint64 interval; /* between its frames, as far as is known; 0: not at all */
    gint64 arrived;  /* by the monotonic clock */
    gint64 latency;  /* for which it may be held from then on */
    /* Set by instant_decide(). */
    enum instant_verdict verdict; /* of the frame that it offered last */
    gboolean left_out;            /* the instant that goes out lacks it */
};

/* What has gone out. */
struct instant_past {
    gint64 last;     /* the newest instant; INSTANT_NONE: none yet */
    gint64 deadline; /* until when the next one must go; INSTANT_NEVER: no frame waits for it */
};

struct instant_outcome {
    gboolean concluded; /* frames got a verdict other than HOLD */
    gboolean went;      /* an instant goes out, and left_out is set in each part */
    gint64 next;        /* when to decide again; INSTANT_NEVER: when a frame is offered */
};

/* Decides at the monotonic time `now`. Sources whose frames are not held any more are expected to
 * offer the next. */
struct instant_outcome instant_decide(struct instant_part *const *parts, guint count,
                                      struct instant_past *past, gint64 now);

#endif
