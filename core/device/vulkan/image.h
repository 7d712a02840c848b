/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Images in shared memory: of a DRM format modifier (VK_EXT_image_drm_format_modifier), or as the
 * driver arranges them for itself (VK_IMAGE_TILING_OPTIMAL), which only the same driver of the same
 * GPU reads.
 *
 * The memory is the same as that of buffers, an exported allocation with a buffer over it, so every
 * route moves it as bytes. An image is put on a part of it where pictures are copied between their
 * rows and the image, and kept as long as the memory. Between two uses each image belongs to the
 * queue family of other instances, and its layout is VK_IMAGE_LAYOUT_GENERAL. */
#ifndef GPUD_VULKAN_IMAGE_H
#define GPUD_VULKAN_IMAGE_H

#include "device/vulkan/vulkan.h"

/* Destroys the images on a memory that no queue uses any more. */
void gpud_vulkan_images_free(const struct vulkan_device *vulkan, struct vulkan_memory *record);

#endif
