/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tracks the drift of a sender's clock against this pipeline's.
 *
 * In each window a quarter of the previous window's error is corrected; because of that delay, a
 * larger share would oscillate. A drift of 100 ppm leaves an error of 0.8 ms. */
#include "wire/drift.h"
#include "wire/signedtime.h"

#define SETTLING (10 * GST_SECOND)
#define WINDOW (2 * GST_SECOND)
#define WINDOW_FRAMES 8 /* at least */
#define GAIN 4

static void begin_window(struct drift *drift, GstClockTime now)
{
    drift->window = now;
    drift->least = G_MAXINT64;
    drift->frames = drift->certain_frames = 0;
}

void drift_begin(struct drift *drift, gint64 late, gboolean keeps, GstClockTime now)
{
    *drift = (struct drift){
        .begun = TRUE, .keeps = keeps, .level = late, .since = now, .last = now, .window = now};
    begin_window(drift, now);
}

/* How far the map has moved by its speed until now, and by what it owes. */
static gint64 advance(struct drift *drift, GstClockTime now)
{
    GstClockTime passed = MIN(now - MIN(drift->last, now), 2 * WINDOW);
    gint64 most = DRIFT_RATE_MAX * (gint64)passed / (gint64)GST_SECOND;
    gint64 paid = MAX(drift->owed, -most);

    drift->last = now;
    drift->owed -= paid;
    return paid + drift->rate * (gint64)passed / (gint64)GST_SECOND;
}

/* Ends a window. Returns the correction to add at once. */
static gint64 conclude(struct drift *drift, GstClockTime now)
{
    GstClockTime length = now - drift->window;
    gint64 error = drift->least;

    if (length < WINDOW || drift->frames < WINDOW_FRAMES)
        return 0;
    if (error > 0 && 2 * drift->certain_frames < drift->frames)
        error = 0;
    begin_window(drift, now);
    if (error > DRIFT_STEP) {
        drift->rate = 0;
        return error;
    }
    drift->rate = error * (gint64)GST_SECOND / (gint64)length / GAIN;
    drift->rate = CLAMP(drift->rate, -DRIFT_RATE_MAX, DRIFT_RATE_MAX);
    return 0;
}

gint64 drift_track(struct drift *drift, gint64 late, gboolean certain, GstClockTime now)
{
    gint64 moved = advance(drift, now);
    gint64 error =
        time_difference(time_difference(late, moved), time_sum(drift->level, drift->owed));
    gboolean settling = now - drift->since < SETTLING;

    if (error < -DRIFT_STEP ||
        (settling && error < 0 && !drift->keeps && drift->owed + error < -DRIFT_FALL)) {
        moved = time_sum(moved, time_sum(drift->owed, error));
        drift->owed = error = 0;
    } else if (settling && error < 0 && !drift->keeps) {
        drift->owed += error;
        error = 0;
    } else if (settling && error < 0) {
        drift->level = time_sum(drift->level, error);
        error = 0;
    }
    drift->least = MIN(drift->least, error);
    drift->frames++;
    drift->certain_frames += certain;
    return time_sum(moved, conclude(drift, now));
}
