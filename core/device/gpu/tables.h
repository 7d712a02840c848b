/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a driver does only once a process, counted: pinning a host page, and opening a peer's handle
 * in a context. All calls are made between the driver's enter and leave. */
#ifndef GPUD_DEVICE_GPU_TABLES_H
#define GPUD_DEVICE_GPU_TABLES_H

#include "device/gpu/driver.h"

/* The registration that covers the range, for all devices of the driver: made, or found. NULL with
 * true: the driver refuses, and perhaps the application has pinned the pages; what shares a page
 * with others is never pinned behind their backs, because drivers refuse copies of what is pinned
 * in part. false: out of memory. */
bool gpud_pins_add(struct gpud_gpu_driver *driver, void *data, uint64_t size, bool read_only,
                   struct gpud_pinned **pinned);

/* NULL is nothing. */
void gpud_pins_remove(struct gpud_gpu_driver *driver, struct gpud_pinned *pinned);

/* Registers pages with the driver itself; false: it refuses. */
bool gpud_pins_register(const struct gpud_gpu_driver *driver, void *pages, uint64_t size,
                        bool read_only);

/* Opens a peer's handle, or finds it open in this context. Returns the driver's result. */
int gpud_opens_add(struct gpud_gpu_driver *driver, const void *context,
                   const struct gpud_gpu_ipc *handle, uint64_t *base);
void gpud_opens_remove(struct gpud_gpu_driver *driver, const void *context, uint64_t base);

#endif
