/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SINK_DEBUG_H
#define GPUD_GST_SINK_DEBUG_H

#include <gst/gst.h>

/* The log category of gpudirectsink, created in its class_init. */
GST_DEBUG_CATEGORY_EXTERN(gst_gpudirect_sink_debug);

#endif
