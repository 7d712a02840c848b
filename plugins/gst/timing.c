/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times on their way from the sender's pipeline to the receiver's.
 *
 *     head = u8 version, u8 flags, u64 base time
 *            flags: bit 0 = the clock is the monotonic one, bit 1 = frames are dropped for the slow
 */
#include "timing.h"

#include <time.h>

/* GStreamer reckons in gint64: nothing later is a time. */
#define TIME_MAX ((GstClockTime)G_MAXINT64)

#define HEAD_VERSION 1
#define HEAD_MONOTONIC 1
#define HEAD_DROPS 2

/* Pipelines whose running times differ by less were started together. */
#define STARTED_TOGETHER (1 * (gint64)GST_SECOND)

void wire_head_pack(struct pack *pack, const struct wire_head *head)
{
    pack_u8(pack, HEAD_VERSION);
    pack_u8(pack,
            (uint8_t)((head->monotonic ? HEAD_MONOTONIC : 0) | (head->drops ? HEAD_DROPS : 0)));
    pack_u64(pack, head->base_time);
}

gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head)
{
    struct wire_head none = {0};
    uint8_t version = unpack_u8(unpack), flags = unpack_u8(unpack);

    head->monotonic = (flags & HEAD_MONOTONIC) != 0;
    head->drops = (flags & HEAD_DROPS) != 0;
    head->base_time = wire_time(unpack_u64(unpack));
    if (!head->monotonic)
        head->base_time = 0; /* of a clock that is none of ours */
    if (version == HEAD_VERSION && !unpack->bad && GST_CLOCK_TIME_IS_VALID(head->base_time))
        return TRUE;
    *head = none;
    return FALSE;
}

gboolean clock_is_monotonic(GstClock *clock)
{
    GstClockType type;
    GstClockTime internal, external, numerator, denominator;

    /* Audio and network clocks derive from GstSystemClock, and are none. */
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

/* --- mapping: both sides of each sum are times, so that a difference fits in gint64 ------- */

static gint64 difference(GstClockTime a, GstClockTime b)
{
    return (gint64)MIN(a, TIME_MAX) - (gint64)MIN(b, TIME_MAX);
}

/* No later than the last time there is. */
static gint64 sum(gint64 time, gint64 shift)
{
    gint64 result;

    if (__builtin_add_overflow(time, shift, &result))
        return shift < 0 ? -G_MAXINT64 : G_MAXINT64;
    return result;
}

static gint64 find_shift(GstElement *receiver, GstClockTime running)
{
    GstClockTime now = gst_element_get_current_running_time(receiver);
    if (!GST_CLOCK_TIME_IS_VALID(now))
        return 0;
    gint64 apart = difference(now, running);
    return ABS(apart) < STARTED_TOGETHER ? 0 : apart;
}

void time_map_update(struct time_map *map, const struct wire_head *head, GstClockTime running,
                     GstElement *receiver, gboolean receiver_is_monotonic)
{
    if (head->monotonic && receiver_is_monotonic) {
        map->shift = difference(head->base_time, gst_element_get_base_time(receiver));
        map->anchored = FALSE;
    } else if (!map->anchored && GST_CLOCK_TIME_IS_VALID(running)) {
        map->shift = find_shift(receiver, running);
        map->anchored = TRUE;
    }
}

GstClockTime time_map_apply(const struct time_map *map, GstClockTime running)
{
    if (!GST_CLOCK_TIME_IS_VALID(running))
        return GST_CLOCK_TIME_NONE;
    gint64 mapped = sum((gint64)MIN(running, TIME_MAX), map->shift);
    return mapped < 0 ? 0 : (GstClockTime)mapped;
}

/* A product that may be beyond all times. */
static gint64 time_of_double(gdouble value)
{
    if (value >= (gdouble)G_MAXINT64)
        return G_MAXINT64;
    return value > -(gdouble)G_MAXINT64 ? (gint64)value : -G_MAXINT64;
}

void time_map_segment(const struct time_map *map, GstClockTime time, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment)
{
    gint64 start = sum((gint64)MIN(time, TIME_MAX), map->shift);
    gint64 cut = start < 0 ? -start : 0; /* what lies before this pipeline's start */
    gint64 there = GST_CLOCK_TIME_IS_VALID(stream_time) ? (gint64)MIN(stream_time, TIME_MAX) : 0;

    there = sum(there, time_of_double((gdouble)cut * rate));
    gst_segment_init(segment, GST_FORMAT_TIME);
    segment->applied_rate = rate;
    segment->start = segment->base = segment->position = start < 0 ? 0 : (guint64)start;
    segment->time = there < 0 ? 0 : (guint64)there;
}
