/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/datetime.h"

/* GStreamer's limit for time zones, which Auckland and Apia exceed. */
#define ZONE_MAX 12.0f

/* The same time in UTC; NULL: it has no seconds, and cannot be converted. */
static GstDateTime *to_utc(GstDateTime *time)
{
    GDateTime *local = gst_date_time_to_g_date_time(time);
    GDateTime *utc = local ? g_date_time_to_utc(local) : NULL;

    g_clear_pointer(&local, g_date_time_unref);
    return utc ? gst_date_time_new_from_g_date_time(utc) : NULL; /* takes it */
}

gchar *date_time_to_text(GstDateTime *time)
{
    gboolean far =
        gst_date_time_has_time(time) && ABS(gst_date_time_get_time_zone_offset(time)) > ZONE_MAX;
    GstDateTime *written = far ? to_utc(time) : gst_date_time_ref(time);
    gchar *text = written ? gst_date_time_to_iso8601_string(written) : NULL;

    g_clear_pointer(&written, gst_date_time_unref);
    return text;
}

/* GStreamer's own parser aborts on some texts, so it gets only these. */
static gboolean is_plain(const gchar *text)
{
    static GRegex *shape;
    static gsize once;

    if (g_once_init_enter(&once)) {
        shape = g_regex_new("^\\d{4}(-\\d\\d(-\\d\\d([T ]([01]\\d|2[0-3]):[0-5]\\d"
                            "(:[0-5]\\d(\\.\\d{1,9})?)?"
                            "(Z|[+-](0\\d|1[01]):?[0-5]\\d|[+-]12:?00)?)?)?)?\\z",
                            G_REGEX_OPTIMIZE, 0, NULL);
        g_once_init_leave(&once, 1);
    }
    return g_regex_match(shape, text, 0, NULL);
}

GstDateTime *date_time_from_text(const gchar *text)
{
    return is_plain(text) ? gst_date_time_new_from_iso8601_string(text) : NULL;
}
