/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_STREAM_SHARED_DEVICE_H
#define GPUD_STREAM_SHARED_DEVICE_H

#include "device/device.h"
#include "wire/channel.h"

/* gpud_device_open(), but a bare kind, "cuda", means its device nearest to the network card that
 * the address uses; "auto" the nearest GPU of any kind, or the host if the address uses no card.
 * reason explains the choice; "": the device was named. */
enum gpud_status gpud_address_open_device(struct gpud_context *context, const char *name,
                                          const struct gpud_address *address,
                                          struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                          struct gpud_error *error);

#endif
