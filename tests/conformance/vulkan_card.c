/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Linked with --wrap: a card's memory, which the CPU reaches by copies alone. */
#include "device/vulkan/vulkan.h"

bool __wrap_gpud_vulkan_is_unified(VkMemoryPropertyFlags flags);

bool __wrap_gpud_vulkan_is_unified(VkMemoryPropertyFlags flags)
{
    return false;
}
