/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Metas that could not be transmitted, counted by their type for an element's stats; the log names
 * each type once (at the level INFO). Thread-safe. */
#ifndef GPUD_GST_WIRE_LOSTMETAS_H
#define GPUD_GST_WIRE_LOSTMETAS_H

#include <gst/gst.h>

struct lost_metas;

/* category: for the log; NULL: none is written. */
struct lost_metas *lost_metas_new(GstDebugCategory *category);
void lost_metas_free(struct lost_metas *lost);

/* Counts one of this type. owner (may be NULL): the element in the log. */
void lost_metas_note(struct lost_metas *lost, GstElement *owner, const gchar *type,
                     const gchar *why);

guint64 lost_metas_count(struct lost_metas *lost);

/* Adds "lost-metas", the total, and "lost-meta-types", a structure with a count for each type. */
void lost_metas_tell(struct lost_metas *lost, GstStructure *stats);

#endif
