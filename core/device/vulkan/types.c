/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/vulkan/types.h"

#define USABLE_BY_CPU (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

bool gpud_vulkan_is_unified(VkMemoryPropertyFlags flags)
{
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | USABLE_BY_CPU | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    return (flags & wanted) == wanted;
}

/* 0: unsuitable. Of a card's memory the part that the CPU does not see is the larger one. */
static unsigned rate(VkMemoryPropertyFlags flags, enum vulkan_purpose purpose)
{
    if (flags & (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT))
        return 0;
    if (purpose == VULKAN_FOR_HOST)
        return (flags & USABLE_BY_CPU) != USABLE_BY_CPU     ? 0
               : flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? 2
                                                            : 1;
    return !(flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)   ? 0
           : gpud_vulkan_is_unified(flags)                  ? 3
           : !(flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) ? 2
                                                            : 1;
}

bool gpud_vulkan_choose_type(const VkPhysicalDeviceMemoryProperties *all, uint32_t allowed,
                             enum vulkan_purpose purpose, uint32_t *type)
{
    unsigned best = 0;
    for (uint32_t i = 0; i < all->memoryTypeCount; i++) {
        unsigned rated = allowed >> i & 1 ? rate(all->memoryTypes[i].propertyFlags, purpose) : 0;
        if (rated > best) {
            best = rated;
            *type = i;
        }
    }
    return best > 0;
}
