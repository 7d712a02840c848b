/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_CAPTURE_H
#define GPUD_CAPTURE_CAPTURE_H

#include "capture/state.h"

/* gpud_capture_create() with opened devices and a given system (the kernel, or a test's). Takes
 * references. */
enum gpud_status gpud_capture_open(struct gpud_device *device, struct gpud_device *host,
                                   const struct gpud_capture_params *params,
                                   const struct gpud_v4l2_system *system,
                                   struct gpud_capture **capture, struct gpud_error *error);

#endif
