/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_WAIT_H
#define GPUD_GST_SRC_WAIT_H

#include "src/src.h"

/* How long create() may wait for a frame before something else is due, ns. now: monotonic. */
gint64 gst_gpudirect_src_max_wait(GstGpudirectSrc *self, GstClockTime now);

/* Handles an acquire without a frame. GST_FLOW_OK: call it again. */
GstFlowReturn gst_gpudirect_src_no_frame(GstGpudirectSrc *self, enum gpud_status status,
                                         const struct gpud_error *error);

/* An unplugged card is back. */
void gst_gpudirect_src_card_back(GstGpudirectSrc *self);

/* Cuts the link to a sender that sends too much, and continues as if the sender had vanished. */
GstFlowReturn gst_gpudirect_src_cut_link(GstGpudirectSrc *self);

/* TRUE: it was too early to reconnect, and this has waited until then, or until something else is
 * due. */
gboolean gst_gpudirect_src_is_held_off(GstGpudirectSrc *self);

#endif
