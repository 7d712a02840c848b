/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the overlay says of the stream. */
#ifndef GPUD_VIEW_STATUS_H
#define GPUD_VIEW_STATUS_H

#include "source.h"

#include <glib.h>

struct status {
    uint64_t since_ns, frames;  /* the period that is being counted, and its received frames */
    uint64_t shown, age_sum_ns; /* pictures shown in it whose age is known */
    double rate;                /* frames a second in the period before; negative: not known */
    int64_t age_ns;             /* mean age in the period before; negative: not known */
};

void status_start(struct status *status, const struct source *source, uint64_t now_ns);

/* A picture is on the display; submitted_ns as in gpud_frame_info. */
void status_count_shown(struct status *status, uint64_t submitted_ns, uint64_t now_ns);

/* Ends a period when it is time. */
void status_update(struct status *status, const struct source *source, uint64_t now_ns);

/* Appends the lines about a stream that is connected. */
void status_describe(const struct status *status, const struct source *source, bool converted,
                     GString *text);

#endif
