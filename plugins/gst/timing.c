/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times on their way from the sender's pipeline to the receiver's.
 *
 *     head = u8 version, u8 flags, u64 base time                    flags: bit 0 = the clock is the
 * monotonic one
 */
#include "timing.h"

#include <time.h>

#define HEAD_VERSION   1
#define HEAD_MONOTONIC 1

/* Pipelines whose running times differ by less were started together. */
#define STARTED_TOGETHER (1 * (gint64)GST_SECOND)

void wire_head_pack(struct pack *pack, const struct wire_head *head)
{
    pack_u8(pack, HEAD_VERSION);
    pack_u8(pack, head->monotonic ? HEAD_MONOTONIC : 0);
    pack_u64(pack, head->base_time);
}

gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head)
{
    if (unpack_u8(unpack) != HEAD_VERSION)
        return FALSE;
    head->monotonic = (unpack_u8(unpack) & HEAD_MONOTONIC) != 0;
    head->base_time = unpack_u64(unpack);
    return !unpack->bad;
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

static gint64 find_shift(GstElement *receiver, GstClockTime running)
{
    GstClockTime now = gst_element_get_current_running_time(receiver);
    if (!GST_CLOCK_TIME_IS_VALID(now))
        return 0;
    gint64 apart = (gint64)(now - running);
    return ABS(apart) < STARTED_TOGETHER ? 0 : apart;
}

void time_map_update(struct time_map *map, const struct wire_head *head, GstClockTime running,
                     GstElement *receiver, gboolean receiver_is_monotonic)
{
    if (head->monotonic && receiver_is_monotonic) {
        map->shift = (gint64)(head->base_time - gst_element_get_base_time(receiver));
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
    if (map->shift < 0 && (GstClockTime)-map->shift > running)
        return 0;
    return running + (GstClockTime)map->shift;
}
