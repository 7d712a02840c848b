/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How much may be on the bus at a time. */

#ifndef DGMA_LAYER_APERTURE_H
#define DGMA_LAYER_APERTURE_H

#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

struct dgma_aperture;

/* Has one of the devices room for a buffer of `size` that takes `bytes`? If not, logs why. */
bool dgma_aperture_has_room(const cl_device_id *devices, cl_uint count, size_t size, size_t bytes);
/* Books that on the device and puts it into `*booked`, unless something is there already. false: no
 * room, logged. */
bool dgma_aperture_book(struct dgma_aperture **booked, cl_device_id device, size_t size,
                        size_t bytes);
void dgma_aperture_give(struct dgma_aperture *aperture, size_t bytes);

#endif
