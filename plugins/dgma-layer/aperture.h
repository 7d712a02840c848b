/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The limit of bus addressable memory. */

#ifndef DGMA_LAYER_APERTURE_H
#define DGMA_LAYER_APERTURE_H

#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

struct dgma_aperture;

/* Whether a buffer of `size`, which takes `bytes`, fits on one of the devices. If not, logs why. */
bool dgma_aperture_has_room(const cl_device_id *devices, cl_uint count, size_t size, size_t bytes);
/* Reserves that on the device and stores it in `*booked`, unless that is set. false: it does not
 * fit, logged. */
bool dgma_aperture_book(struct dgma_aperture **booked, cl_device_id device, size_t size,
                        size_t bytes);
void dgma_aperture_give(struct dgma_aperture *aperture, size_t bytes);

#endif
