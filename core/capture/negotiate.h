/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_NEGOTIATE_H
#define GPUD_CAPTURE_NEGOTIATE_H

#include "capture/state.h"

/* Sets the card to what is wanted of its signal. *format is what the driver made of it, checked,
 * and *placement where its planes lie. */
enum gpud_status gpud_capture_negotiate(struct gpud_capture *capture,
                                        struct gpud_v4l2_format *format,
                                        struct gpud_placement *placement, struct gpud_error *error);

#endif
