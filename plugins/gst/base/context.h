/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One gpud_context for the whole process, and the plugin's debug categories. */
#ifndef GPUD_GST_CONTEXT_H
#define GPUD_GST_CONTEXT_H

#include <gpudirect/device.h>
#include <gst/gst.h>

/* The log category for messages that belong to no single element. */
GST_DEBUG_CATEGORY_EXTERN(gpud_gst_debug);

/* Makes the debug categories. Called once, by the plugin. */
void gpud_gst_context_init(void);

/* The shared context; made at the first call. NULL with *error filled when it cannot be made. */
struct gpud_context *gpud_gst_context_get(struct gpud_error *error);

#endif
