/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Arithmetic with signed times, for untrusted numbers: results saturate, and can be negated. */
#ifndef GPUD_GST_WIRE_SIGNEDTIME_H
#define GPUD_GST_WIRE_SIGNEDTIME_H

#include <gst/gst.h>

static inline gint64 signed_time(GstClockTime time)
{
    return (gint64)MIN(time, (GstClockTime)G_MAXINT64);
}

static inline gint64 time_sum(gint64 a, gint64 b)
{
    gint64 result;

    if (__builtin_add_overflow(a, b, &result))
        return b < 0 ? -G_MAXINT64 : G_MAXINT64;
    return MAX(result, -G_MAXINT64);
}

static inline gint64 time_difference(gint64 a, gint64 b)
{
    return time_sum(a, -b);
}

#endif
