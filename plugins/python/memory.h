/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of the application's for the frames of a receiver. */
#ifndef GPUDIRECT_PYTHON_MEMORY_H
#define GPUDIRECT_PYTHON_MEMORY_H

#include "python.h"

#include <gpudirect/frame.h>

/* Asks alloc(slot, bytes) for the memory of a slot: a writable buffer, which is kept as long as the
 * library uses it, or the number of memory of the device. With the GIL, which it
 * gives up meanwhile. On failure an exception is set, too. */
enum gpud_status memory_ask(PyObject *alloc, struct gpud_device *device,
                            const struct gpud_layout *layout, uint32_t slot,
                            struct gpud_memory **memory, struct gpud_error *error);

#endif
