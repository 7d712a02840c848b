/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture card's modes as caps. */
#ifndef GPUD_GST_SRC_CAPTURECAPS_H
#define GPUD_GST_SRC_CAPTURECAPS_H

#include <gpudirect/capture.h>
#include <gst/gst.h>

/* All modes that GStreamer has a format for; empty caps when there are none. */
GstCaps *capture_caps(struct gpud_capture *capture);

#endif
