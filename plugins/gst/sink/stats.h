/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_STATS_H
#define GPUD_GST_SINK_STATS_H

#include "sink/sink.h"

/* Methods of the endpoint, callable from any thread, also without a sender. */
void gst_gpudirect_sink_get_route(GstElement *element, struct endpoint_route *route);
GstStructure *gst_gpudirect_sink_make_stats(GstElement *element);

#endif
