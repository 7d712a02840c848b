/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which of a device's types of memory is taken. */
#ifndef GPUD_VULKAN_TYPES_H
#define GPUD_VULKAN_TYPES_H

#include "device/vulkan/api.h"

#include <stdbool.h>
#include <stdint.h>

enum vulkan_purpose {
    VULKAN_FOR_DEVICE, /* the device works on it */
    VULKAN_FOR_HOST,   /* the CPU does */
};

/* The best of the allowed types, one for each bit. false: none will do. */
bool gpud_vulkan_choose_type(const VkPhysicalDeviceMemoryProperties *all, uint32_t allowed,
                             enum vulkan_purpose purpose, uint32_t *type);

/* Whether the CPU accesses memory with these properties best in place: memory that it shares with
 * the GPU, and caches. A card's memory is read over the bus at a few MB/s. */
bool gpud_vulkan_is_unified(VkMemoryPropertyFlags flags);

#endif
