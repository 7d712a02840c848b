/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_GST_SRC_OPEN_H
#define GPUD_GST_SRC_OPEN_H

#include "src/src.h"

/* A feed_open_input: opens an input according to the properties. user: the element. */
enum gpud_status gst_gpudirect_src_open_input(void *user, const gchar *device, struct input **input,
                                              struct gpud_error *error);

/* Opens the input, on a device by the properties. FALSE: an error was posted. */
gboolean gst_gpudirect_src_open(GstGpudirectSrc *self);
void gst_gpudirect_src_close(GstGpudirectSrc *self);

/* Opens a capture card, in READY, if the address names one; it stays open until NULL. FALSE: an
 * error was posted. */
gboolean gst_gpudirect_src_open_card(GstGpudirectSrc *self);

/* In PAUSED: continues with the open card (kept: the properties are still the same), or opens the
 * input. FALSE: an error was posted. */
gboolean gst_gpudirect_src_start_input(GstGpudirectSrc *self, gboolean kept);

/* A card stops, and stays open; any other input is closed. */
void gst_gpudirect_src_stop_input(GstGpudirectSrc *self);

#endif
