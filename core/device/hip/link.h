/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Links from one GPU to another. */
#ifndef GPUD_HIP_LINK_H
#define GPUD_HIP_LINK_H

#include "device/hip/hip.h"

/* As gpud_device_ops.link. */
void gpud_hip_link(const struct gpud_device *from, const struct gpud_device *to,
                   struct gpud_device_link *link);

#endif
