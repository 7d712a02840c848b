/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The conversion of times from the sender's pipeline to the receiver's.
 *
 *     head  = u8 version, u8 flags, u64 base time, and with a clock that has a name: u64 its id,
 *             u64 the time by it
 *     flags = 1: the clock is the monotonic one
 *             2: slow receivers lose frames
 *             4: the stream is live
 *             8: the clock has a name */
#include "wire/timing.h"
#include "wire/signedtime.h"

#include <time.h>

/* GStreamer computes in gint64: nothing later is a time. */
#define TIME_MAX ((GstClockTime)G_MAXINT64)

#define HEAD_VERSION 2
#define HEAD_MONOTONIC 1
#define HEAD_DROPS 2
#define HEAD_LIVE 4
#define HEAD_NAMED 8

/* Pipelines whose running times differ by less were started together; live frames that are later
 * than this stay late. */
#define OUT_OF_STEP DRIFT_STEP

/* If a followed clock is off by this, it has jumped rather than drifted. */
#define CLOCKS_APART (10 * (gint64)GST_MSECOND)

/* --- the head ----------------------------------------------------------------------------- */

void wire_head_pack(struct pack *pack, const struct wire_head *head)
{
    pack_u8(pack, HEAD_VERSION);
    pack_u8(pack,
            (uint8_t)((head->monotonic ? HEAD_MONOTONIC : 0) | (head->drops ? HEAD_DROPS : 0) |
                      (head->live ? HEAD_LIVE : 0) | (head->clock ? HEAD_NAMED : 0)));
    pack_u64(pack, head->base_time);
    if (!head->clock)
        return;
    pack_u64(pack, head->clock);
    pack_u64(pack, head->sent);
}

gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head)
{
    struct wire_head none = {.sent = GST_CLOCK_TIME_NONE};
    uint8_t version = unpack_u8(unpack), flags = unpack_u8(unpack);

    *head = none;
    head->monotonic = (flags & HEAD_MONOTONIC) != 0;
    head->drops = (flags & HEAD_DROPS) != 0;
    head->live = (flags & HEAD_LIVE) != 0;
    head->run = unpack_u64(unpack);
    if (flags & HEAD_NAMED) {
        head->clock = unpack_u64(unpack);
        head->sent = wire_time(unpack_u64(unpack));
    }
    head->base_time = head->monotonic || head->clock ? wire_time(head->run) : 0;
    if (version == HEAD_VERSION && !unpack->bad && GST_CLOCK_TIME_IS_VALID(head->base_time))
        return TRUE;
    *head = none;
    return FALSE;
}

GstClockTime monotonic_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return GST_TIMESPEC_TO_TIME(now);
}

GstClockTime wire_time(guint64 said)
{
    return said <= TIME_MAX ? said : GST_CLOCK_TIME_NONE;
}

/* --- clocks ------------------------------------------------------------------------------- */

gint64 time_now_at(const struct time_now *now, GstClockTime then)
{
    GstClockTime at = MIN(then, now->system); /* NONE is later than all */

    if (now->monotonic)
        return signed_time(at) - signed_time(now->base);
    return signed_time(now->running) - signed_time(now->system - at);
}

static gboolean is_of_name(const struct wire_head *head, const struct time_now *now)
{
    return head->clock && head->clock == now->clock && (now->same_clock || !now->local);
}

enum time_relation time_relation(const struct wire_head *head, const struct time_now *now)
{
    gboolean seen_here = head->monotonic && now->same_clock;

    if (is_of_name(head, now) || (seen_here && now->monotonic))
        return TIME_SHARED;
    return seen_here ? TIME_FOLLOWED : TIME_UNKNOWN;
}

/* --- mapping ------------------------------------------------------------------------------ */

static void share(struct time_map *map, const struct wire_head *head, const struct time_now *now)
{
    map->shift = signed_time(head->base_time) - signed_time(now->base);
    map->run = head->run;
    map->anchored = map->before = TRUE;
    map->drift.begun = FALSE;
}

/* Clocks drift slowly, and are not read at the same instant, so the map follows slowly, too. */
static void follow(struct time_map *map, const struct wire_head *head, const struct time_now *now)
{
    if (!GST_CLOCK_TIME_IS_VALID(now->running))
        return;
    gint64 offset = signed_time(now->running) - signed_time(now->system);
    gint64 shift = time_sum(offset, signed_time(head->base_time));
    gint64 apart = time_difference(shift, map->shift);
    gint64 passed = signed_time(now->system - MIN(map->moved, now->system));
    if (map->anchored && ABS(apart) < CLOCKS_APART) {
        gint64 most = MIN(passed, (gint64)GST_SECOND) / ((gint64)GST_SECOND / DRIFT_RATE_MAX);
        map->shift = time_sum(map->shift, CLAMP(apart, -most, most));
    } else {
        map->shift = shift;
    }
    map->moved = now->system;
    map->anchored = map->before = TRUE;
}

static void anchor(struct time_map *map, const struct wire_head *head, gint64 apart,
                   const struct time_now *now)
{
    gboolean together = !map->before && ABS(apart) < OUT_OF_STEP;

    map->run = head->run;
    map->shift = together ? 0 : apart;
    map->anchored = map->before = TRUE;
    drift_begin(&map->drift, time_difference(apart, map->shift), together, now->system);
}

/* The times of streams that are not live do not belong to a clock. */
static void compare(struct time_map *map, const struct wire_head *head,
                    const struct time_frame *frame, const struct time_now *now)
{
    if (!frame || !GST_CLOCK_TIME_IS_VALID(now->running) ||
        !GST_CLOCK_TIME_IS_VALID(frame->running))
        return;
    gboolean submitted = GST_CLOCK_TIME_IS_VALID(frame->submitted);
    gint64 came = time_now_at(now, submitted ? frame->submitted : frame->arrived);
    gint64 apart = time_difference(came, signed_time(frame->running));
    gint64 late = time_difference(apart, map->shift);
    if (!map->anchored || map->run != head->run) {
        anchor(map, head, apart, now);
    } else if (!head->live) {
        return;
    } else if (!map->drift.begun) { /* the clock has lost its name */
        drift_begin(&map->drift, late, TRUE, now->system);
    } else if (submitted && time_difference(late, map->drift.level) > OUT_OF_STEP) {
        anchor(map, head, apart, now); /* one of the clocks stood still */
    } else {
        gboolean certain = submitted || frame->waited_for;
        map->shift = time_sum(map->shift, drift_track(&map->drift, late, certain, now->system));
    }
}

void time_map_update(struct time_map *map, const struct wire_head *head,
                     const struct time_frame *frame, const struct time_now *now)
{
    switch (time_relation(head, now)) {
    case TIME_SHARED:
        share(map, head, now);
        break;
    case TIME_FOLLOWED:
        follow(map, head, now);
        break;
    case TIME_UNKNOWN:
        compare(map, head, frame, now);
        break;
    }
}

void time_map_lose(struct time_map *map)
{
    map->anchored = FALSE;
}

gint64 time_map_apply(const struct time_map *map, GstClockTime running)
{
    return time_sum(signed_time(running), map->shift);
}

/* --- arrival ------------------------------------------------------------------------------ */

gboolean time_map_sent(const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now, gint64 *running)
{
    if (GST_CLOCK_TIME_IS_VALID(frame->submitted))
        *running = time_now_at(now, frame->submitted);
    else if (is_of_name(head, now) && GST_CLOCK_TIME_IS_VALID(head->sent))
        *running = signed_time(head->sent) - signed_time(now->base);
    else
        return FALSE;
    return TRUE;
}

gint64 time_map_arrival(const struct time_map *map, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now)
{
    gint64 arrived = time_now_at(now, frame->arrived), usual;

    if (time_map_sent(head, frame, now, &usual))
        return MIN(usual, arrived);
    if (frame->waited_for || !map->drift.begun || !GST_CLOCK_TIME_IS_VALID(frame->running))
        return arrived;
    usual =
        time_sum(time_map_apply(map, frame->running), time_sum(map->drift.level, map->drift.owed));
    return MIN(usual, arrived);
}
