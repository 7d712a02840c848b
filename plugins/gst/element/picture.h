/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_BASE_PICTURE_H
#define GPUD_GST_BASE_PICTURE_H

#include "base/counters.h"

#include <gst/video/video.h>

enum picture_copied {
    PICTURE_COPIED,
    PICTURE_UNREADABLE, /* `from` holds no picture of these caps */
    PICTURE_UNWRITABLE,
};

/* Copies a picture by the CPU, and counts that as copies_cpu. */
enum picture_copied picture_copy(const GstVideoInfo *info, GstBuffer *from, GstBuffer *to,
                                 struct counters *counters);

#endif
