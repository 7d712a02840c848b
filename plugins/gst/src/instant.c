/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/instant.h"

/* Where no source knows its frames' interval. */
#define TOLERANCE_DEFAULT G_GINT64_CONSTANT(5000000)

static gboolean offers(const struct instant_part *part)
{
    return part->state == INSTANT_OFFERED;
}

static void conclude(struct instant_part *part, enum instant_verdict verdict)
{
    part->verdict = verdict;
    part->state = INSTANT_EXPECTED;
}

/* Half the shortest interval: between two frames of any source lies more than that. */
static gint64 get_tolerance(struct instant_part *const *parts, guint count)
{
    gint64 shortest = 0;

    for (guint i = 0; i < count; i++)
        if (parts[i]->interval > 0 && (shortest == 0 || parts[i]->interval < shortest))
            shortest = parts[i]->interval;
    return shortest ? shortest / 2 : TOLERANCE_DEFAULT;
}

static gint64 find_newest(struct instant_part *const *parts, guint count)
{
    gint64 newest = INSTANT_NONE;

    for (guint i = 0; i < count; i++)
        if (offers(parts[i]))
            newest = MAX(newest, parts[i]->time);
    return newest;
}

/* Drops frames before that time. TRUE: there were some. */
static gboolean drop_older(struct instant_part *const *parts, guint count, gint64 than)
{
    gboolean dropped = FALSE;

    for (guint i = 0; i < count; i++)
        if (offers(parts[i]) && parts[i]->time < than) {
            conclude(parts[i], INSTANT_DROP);
            dropped = TRUE;
        }
    return dropped;
}

static void send(struct instant_part *const *parts, guint count)
{
    for (guint i = 0; i < count; i++) {
        struct instant_part *part = parts[i];
        part->left_out = !offers(part);
        if (offers(part))
            conclude(part, INSTANT_SEND);
        else
            part->state = INSTANT_MISSING;
    }
}

static gboolean is_complete(struct instant_part *const *parts, guint count)
{
    gboolean complete = TRUE;

    for (guint i = 0; i < count; i++)
        complete &= parts[i]->state != INSTANT_EXPECTED;
    return complete;
}

/* A dropped frame's deadline stays: sources that never have frames of one instant would otherwise
 * drop each other's for ever. */
static void note_deadlines(struct instant_part *const *parts, guint count,
                           struct instant_past *past)
{
    for (guint i = 0; i < count; i++)
        if (offers(parts[i]))
            past->deadline = MIN(past->deadline, parts[i]->arrived + parts[i]->latency);
}

struct instant_outcome instant_decide(struct instant_part *const *parts, guint count,
                                      struct instant_past *past, gint64 now)
{
    struct instant_outcome outcome = {.next = INSTANT_NEVER};
    gint64 tolerance = get_tolerance(parts, count);

    if (past->last != INSTANT_NONE)
        outcome.concluded = drop_older(parts, count, past->last + 1);
    gint64 newest = find_newest(parts, count);
    if (newest == INSTANT_NONE) {
        past->deadline = INSTANT_NEVER;
        return outcome;
    }
    note_deadlines(parts, count, past);
    outcome.concluded |= drop_older(parts, count, newest - tolerance);
    if (!is_complete(parts, count) && now < past->deadline) {
        outcome.next = past->deadline;
        return outcome;
    }
    send(parts, count);
    past->last = newest;
    past->deadline = INSTANT_NEVER;
    outcome.concluded = outcome.went = TRUE;
    return outcome;
}
