/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_STATS_H
#define GPUD_GST_SRC_STATS_H

#include "src/src.h"

/* Methods of the endpoint, callable from any thread. */
void gst_gpudirect_src_get_route(GstElement *element, struct endpoint_route *route);
GstStructure *gst_gpudirect_src_make_stats(GstElement *element);

#endif
