/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The core's errors as the messages that a GStreamer application expects on the bus. */
#ifndef GPUD_GST_ERRORS_H
#define GPUD_GST_ERRORS_H

#include <gpudirect/types.h>
#include <gst/gst.h>

/* What the element was doing: decides between OPEN_READ, OPEN_WRITE, READ and WRITE. */
enum gpud_gst_activity {
    GPUD_GST_OPEN_SOURCE,
    GPUD_GST_OPEN_SINK,
    GPUD_GST_READ,
    GPUD_GST_WRITE,
};

/* The GStreamer domain and code of an error. */
void gpud_gst_error_classify(const struct gpud_error *error, enum gpud_gst_activity activity,
                             GQuark *domain, gint *code);

/* Posts an error message (a warning with _warn) whose text is "`what`: the core's reason". */
void gpud_gst_error_post(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *what);
void gpud_gst_error_warn(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *what);

#endif
