/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times on their way from the sender's pipeline to the receiver's.
 *
 *     head  = u8 version, u8 flags, u64 base time
 *     flags = 1: the clock is the monotonic one
 *             2: slow receivers lose frames
 *             4: the stream is live */
#include "wire/timing.h"

#include <time.h>

/* GStreamer computes in gint64: nothing later is a time. */
#define TIME_MAX ((GstClockTime)G_MAXINT64)

#define HEAD_VERSION 1
#define HEAD_MONOTONIC 1
#define HEAD_DROPS 2
#define HEAD_LIVE 4

/* Pipelines whose running times differ by less were started together; frames that are later than
 * this, and live, are so for ever. */
#define OUT_OF_STEP (1 * (gint64)GST_SECOND)

/* Two clocks count as alike until they differ by this: less comes of reading one after the other.
 */
#define CLOCKS_APART (10 * (gint64)GST_MSECOND)

void wire_head_pack(struct pack *pack, const struct wire_head *head)
{
    pack_u8(pack, HEAD_VERSION);
    pack_u8(pack, (uint8_t)((head->monotonic ? HEAD_MONOTONIC : 0) |
                            (head->drops ? HEAD_DROPS : 0) | (head->live ? HEAD_LIVE : 0)));
    pack_u64(pack, head->base_time);
}

gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head)
{
    struct wire_head none = {0};
    uint8_t version = unpack_u8(unpack), flags = unpack_u8(unpack);

    head->monotonic = (flags & HEAD_MONOTONIC) != 0;
    head->drops = (flags & HEAD_DROPS) != 0;
    head->live = (flags & HEAD_LIVE) != 0;
    head->run = unpack_u64(unpack);
    head->base_time = head->monotonic ? wire_time(head->run) : 0;
    if (version == HEAD_VERSION && !unpack->bad && GST_CLOCK_TIME_IS_VALID(head->base_time))
        return TRUE;
    *head = none;
    return FALSE;
}

gboolean clock_is_monotonic(GstClock *clock)
{
    GstClockType type;
    GstClockTime internal, external, numerator, denominator;

    /* Audio and network clocks derive from GstSystemClock, and are no system clocks. */
    if (!clock || G_OBJECT_TYPE(clock) != GST_TYPE_SYSTEM_CLOCK)
        return FALSE;
    g_object_get(clock, "clock-type", &type, NULL);
    gst_clock_get_calibration(clock, &internal, &external, &numerator, &denominator);
    return type == GST_CLOCK_TYPE_MONOTONIC && internal == external && numerator == denominator;
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

/* --- mapping ------------------------------------------------------------------------------ */

static gint64 signed_time(GstClockTime time)
{
    return (gint64)MIN(time, TIME_MAX);
}

/* From -G_MAXINT64 to G_MAXINT64, so that each result can be negated. */
static gint64 sum(gint64 time, gint64 shift)
{
    gint64 result;

    if (__builtin_add_overflow(time, shift, &result))
        return shift < 0 ? -G_MAXINT64 : G_MAXINT64;
    return MAX(result, -G_MAXINT64);
}

void time_now_take(struct time_now *now, GstElement *receiver, gboolean monotonic)
{
    now->monotonic = monotonic;
    now->base = gst_element_get_base_time(receiver);
    now->running = gst_element_get_current_running_time(receiver);
    now->system = monotonic_now();
}

gint64 time_now_at(const struct time_now *now, GstClockTime then)
{
    GstClockTime at = MIN(then, now->system); /* NONE is later than all */

    if (now->monotonic)
        return signed_time(at) - signed_time(now->base);
    return signed_time(now->running) - signed_time(now->system - at);
}

/* The sender's times are of a clock that is not known here. */
static void compare(struct time_map *map, const struct wire_head *head, GstClockTime running,
                    GstClockTime submitted, const struct time_now *now)
{
    if (!GST_CLOCK_TIME_IS_VALID(now->running) || !GST_CLOCK_TIME_IS_VALID(running))
        return;
    gint64 apart = sum(time_now_at(now, submitted), -signed_time(running));
    /* Frames of a live stream are never that old: one of the clocks stood still. */
    gboolean late = head->live && sum(apart, -map->shift) > OUT_OF_STEP;
    if (map->anchored && map->run == head->run && !late)
        return;
    map->run = head->run;
    map->shift = !map->before && ABS(apart) < OUT_OF_STEP ? 0 : apart;
    map->anchored = map->before = TRUE;
}

/* The sender's times are of the monotonic clock, while this pipeline runs on another one. */
static void follow(struct time_map *map, const struct wire_head *head, const struct time_now *now)
{
    if (!GST_CLOCK_TIME_IS_VALID(now->running))
        return;
    gint64 offset = signed_time(now->running) - signed_time(now->system);
    gint64 shift = sum(offset, signed_time(head->base_time));
    gint64 apart = sum(shift, -map->shift);
    if (map->anchored && ABS(apart) < CLOCKS_APART)
        return;
    map->shift = shift;
    map->anchored = map->before = TRUE;
}

void time_map_update(struct time_map *map, const struct wire_head *head, GstClockTime running,
                     GstClockTime submitted, const struct time_now *now)
{
    if (head->monotonic && now->monotonic) {
        map->shift = signed_time(head->base_time) - signed_time(now->base);
        map->anchored = FALSE;
    } else if (head->monotonic) {
        follow(map, head, now);
    } else {
        compare(map, head, running, submitted, now);
    }
}

void time_map_lose(struct time_map *map)
{
    map->anchored = FALSE;
}

gint64 time_map_apply(const struct time_map *map, GstClockTime running)
{
    return sum(signed_time(running), map->shift);
}
