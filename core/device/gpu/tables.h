/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counted operations that a driver does once a process: pinning a host page, and opening a peer's
 * handle in a context. All calls are made between the driver's enter and leave. */
#ifndef GPUD_DEVICE_GPU_TABLES_H
#define GPUD_DEVICE_GPU_TABLES_H

#include "device/gpu/driver.h"

/* Finds or makes the registration that covers the range, for all devices of the driver. NULL with
 * true: the driver refuses, perhaps because the application has pinned the pages. Memory that
 * shares a page with other data is never pinned, because drivers refuse copies of partly pinned
 * memory. false: out of memory. */
bool gpud_pins_add(struct gpud_gpu_driver *driver, void *data, uint64_t size, bool read_only,
                   struct gpud_pinned **pinned);

/* pinned may be NULL. */
void gpud_pins_remove(struct gpud_gpu_driver *driver, struct gpud_pinned *pinned);

/* Registers pages with the driver itself; false: it refuses. */
bool gpud_pins_register(const struct gpud_gpu_driver *driver, void *pages, uint64_t size,
                        bool read_only);

/* Opens a peer's handle, or finds it open in this context. Returns the driver's result. */
int gpud_opens_add(struct gpud_gpu_driver *driver, const void *context,
                   const struct gpud_gpu_ipc *handle, uint64_t *base);
void gpud_opens_remove(struct gpud_gpu_driver *driver, const void *context, uint64_t base);

#endif
