/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_UNIX_KIND_H
#define GPUD_WIRE_UNIX_KIND_H

#include "wire/channel.h"

extern const struct gpud_channel_ops gpud_unix_channel_ops;

#endif
