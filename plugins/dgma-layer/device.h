/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The capabilities of the driver's devices. */

#ifndef DGMA_LAYER_DEVICE_H
#define DGMA_LAYER_DEVICE_H

#include <stdbool.h>

#include "card.h"
#include "next.h"

struct dgma_device {
    bool native;              /* has the extension itself: leave it alone */
    bool host_memory;         /* works on the host's memory in place: no copies around signals */
    bool runs_host_functions; /* clEnqueueNativeKernel works */
    dgma_wait_signal_fn wait_signal; /* the driver's own, where native */
    dgma_write_signal_fn write_signal;
    dgma_make_resident_fn make_resident;
};

/* Never NULL for a valid device: an unknown or failing one has no capabilities. */
const struct dgma_device *dgma_device_get(cl_device_id device);
bool dgma_context_is_native(cl_context context);
bool dgma_context_is_host_memory(cl_context context);
/* Returns the number of the context's devices; 0: the query failed. */
cl_uint dgma_context_devices(cl_context context, cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES]);
/* Whether the blank-separated list contains exactly this name. */
bool dgma_list_has(const char *list, const char *name);

#endif
