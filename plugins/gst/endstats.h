/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The statistics that an element posts when its stream ends, whatever ends it: an EOS of the sender
 * or of the application, num-buffers, an error here or elsewhere, a state change. Each element has
 * an atomic gint for that, which says whether there is something to post. */
#ifndef GPUD_GST_ENDSTATS_H
#define GPUD_GST_ENDSTATS_H

#include <gst/gst.h>

/* Something happened that statistics count. */
static inline void end_stats_note(gint *due)
{
    __atomic_store_n(due, TRUE, __ATOMIC_RELAXED);
}

/* Posts what make() returns as an element message, and logs it, once until the next
 * end_stats_note(). From any thread. */
void end_stats_post(GstElement *element, gint *due, GstStructure *(*make)(GstElement *element));

/* Has them posted before an EOS leaves through this pad. */
void end_stats_watch(GstPad *pad, void (*post)(GstElement *element));

#endif
