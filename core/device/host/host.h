/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host as a device: memory is pages, a queue does its work at once, a signal is a word that a
 * futex watches. */
#ifndef GPUD_HOST_HOST_H
#define GPUD_HOST_HOST_H

#include "device/device.h"

extern const struct gpud_memory_ops gpud_host_memory_ops;
extern const struct gpud_queue_ops gpud_host_queue_ops;
extern const struct gpud_signal_ops gpud_host_signal_ops;

#endif
