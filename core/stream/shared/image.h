/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames that are images of a DRM format modifier: which modifiers the applications at both ends
 * take, and how the driver arranges them. */
#ifndef GPUD_STREAM_SHARED_IMAGE_H
#define GPUD_STREAM_SHARED_IMAGE_H

#include "device/device.h"

/* The modifiers that an application gives. */
enum gpud_status gpud_modifiers_check(const uint64_t *modifiers, uint32_t count,
                                      struct gpud_error *error);

/* gpud_image_describe(), whose result is a valid layout. */
enum gpud_status gpud_image_find(struct gpud_device *device, const struct gpud_layout *rows,
                                 const uint64_t *modifiers, uint32_t count,
                                 struct gpud_layout *image, struct gpud_error *error);

/* Proves that the queue's device turns rows into such an image and the image into the same rows.
 * Takes as long as two copies, and room for one frame. */
enum gpud_status gpud_image_prove(struct gpud_queue *queue, struct gpud_device *host,
                                  const struct gpud_layout *rows, const struct gpud_layout *image,
                                  struct gpud_error *error);

/* Whether a peer's images, in slots of so many bytes (0: its ring is ours), lie as the device's
 * driver arranges them, and the application takes them. GPUD_PEER: the peer says nonsense. */
enum gpud_status gpud_image_check(struct gpud_device *device, const struct gpud_layout *image,
                                  uint64_t slot_size, const uint64_t *modifiers, uint32_t count,
                                  struct gpud_error *error);

#endif
