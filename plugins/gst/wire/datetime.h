/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Dates and times as texts (ISO 8601) that every GStreamer can read. */
#ifndef GPUD_GST_WIRE_DATETIME_H
#define GPUD_GST_WIRE_DATETIME_H

#include <gst/gst.h>

/* g_free the text; NULL: the time has no such form. */
gchar *date_time_to_text(GstDateTime *time);

/* Parses a peer's text. NULL: it is not a date. */
GstDateTime *date_time_from_text(const gchar *text);

#endif
