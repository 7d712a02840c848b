/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/lateness.h"

#include <stdlib.h>

#define WINDOW (10 * GST_SECOND)
#define LOOK (1 * GST_SECOND)

/* Fewer pictures are not significant. */
#define PICTURES_MIN 8

#define STEP_MIN (1 * GST_MSECOND)
#define STEP_MAX (50 * GST_MSECOND)
#define STEP_DEFAULT (10 * GST_MSECOND)

void lateness_begin(struct lateness *lateness, GstClockTime guess)
{
    *lateness = (struct lateness){.least = guess, .most = guess};
}

void lateness_break(struct lateness *lateness)
{
    lateness->count = lateness->next = 0;
    lateness->since = 0;
}

static gint compare(gconstpointer a, gconstpointer b)
{
    GstClockTime x = *(const GstClockTime *)a, y = *(const GstClockTime *)b;

    return x < y ? -1 : x > y;
}

/* The lateness of the pictures in the window, sorted. */
static guint sort(const struct lateness *lateness, GstClockTime now, GstClockTime *sorted)
{
    guint count = 0;

    for (guint i = 0; i < lateness->count; i++)
        if (now - MIN(lateness->seen[i].at, now) <= WINDOW)
            sorted[count++] = lateness->seen[i].late;
    qsort(sorted, count, sizeof(*sorted), compare);
    return count;
}

static void judge(struct lateness *lateness, GstClockTime now, GstClockTime step)
{
    GstClockTime sorted[LATENESS_SEEN];
    guint count = sort(lateness, now, sorted);
    gboolean first = !lateness->measured, whole = now - lateness->since >= WINDOW;

    if (count < PICTURES_MIN)
        return;
    guint left_out = MAX(1, count / 100);
    GstClockTime least = sorted[0] / GST_MSECOND * GST_MSECOND;
    GstClockTime most =
        (sorted[count - 1 - left_out] + GST_MSECOND - 1) / GST_MSECOND * GST_MSECOND;
    if (most > lateness->most)
        lateness->most = MAX(most, lateness->most + step);
    else if ((first || whole) && most + 2 * step <= lateness->most)
        lateness->most = most;
    if (least < lateness->least)
        lateness->least = MIN(least, lateness->least - MIN(step, lateness->least));
    else if (whole && least >= lateness->least + 2 * step)
        lateness->least = least;
    lateness->least = MIN(lateness->least, lateness->most);
    lateness->measured = TRUE;
    lateness->judged = now;
}

void lateness_note(struct lateness *lateness, GstClockTime late, GstClockTime now,
                   GstClockTime interval)
{
    GstClockTime step =
        GST_CLOCK_TIME_IS_VALID(interval) ? CLAMP(interval / 4, STEP_MIN, STEP_MAX) : STEP_DEFAULT;

    lateness->seen[lateness->next].at = now;
    lateness->seen[lateness->next].late = late;
    lateness->next = (lateness->next + 1) % LATENESS_SEEN;
    lateness->count = MIN(lateness->count + 1, LATENESS_SEEN);
    if (lateness->since == 0)
        lateness->since = now;
    if (!lateness->measured || now - MIN(lateness->judged, now) >= LOOK)
        judge(lateness, now, step);
}
