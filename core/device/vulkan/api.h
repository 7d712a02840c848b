/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The Vulkan loader: its calls, one instance for the process, and errors. Nothing is loaded before
 * a device of this backend is asked for. */
#ifndef GPUD_VULKAN_API_H
#define GPUD_VULKAN_API_H

#include "base/error.h"

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

/* clang-format off */

/* CALL(name), without its "vk" */
#define VULKAN_INSTANCE_CALLS(CALL)               \
    CALL(CreateDevice)                            \
    CALL(EnumerateDeviceExtensionProperties)      \
    CALL(EnumeratePhysicalDevices)                \
    CALL(GetDeviceProcAddr)                       \
    CALL(GetPhysicalDeviceExternalBufferProperties) \
    CALL(GetPhysicalDeviceFeatures2)              \
    CALL(GetPhysicalDeviceFormatProperties2)      \
    CALL(GetPhysicalDeviceImageFormatProperties2) \
    CALL(GetPhysicalDeviceMemoryProperties)       \
    CALL(GetPhysicalDeviceProperties2)            \
    CALL(GetPhysicalDeviceQueueFamilyProperties)

#define VULKAN_DEVICE_CALLS(CALL)                 \
    CALL(AllocateCommandBuffers)                  \
    CALL(AllocateMemory)                          \
    CALL(BeginCommandBuffer)                      \
    CALL(BindBufferMemory)                        \
    CALL(BindImageMemory)                         \
    CALL(CmdCopyBuffer)                           \
    CALL(CmdCopyBufferToImage)                    \
    CALL(CmdCopyImageToBuffer)                    \
    CALL(CmdFillBuffer)                           \
    CALL(CmdPipelineBarrier)                      \
    CALL(CreateBuffer)                            \
    CALL(CreateCommandPool)                       \
    CALL(CreateImage)                             \
    CALL(CreateSemaphore)                         \
    CALL(DestroyBuffer)                           \
    CALL(DestroyCommandPool)                      \
    CALL(DestroyDevice)                           \
    CALL(DestroyImage)                            \
    CALL(DestroySemaphore)                        \
    CALL(EndCommandBuffer)                        \
    CALL(FreeMemory)                              \
    CALL(GetBufferMemoryRequirements)             \
    CALL(GetDeviceQueue)                          \
    CALL(GetImageMemoryRequirements)              \
    CALL(GetImageMemoryRequirements2)             \
    CALL(GetImageSubresourceLayout)               \
    CALL(GetSemaphoreCounterValueKHR)             \
    CALL(MapMemory)                               \
    CALL(QueueSubmit)

/* Those of extensions that a device may lack: NULL. */
#define VULKAN_EXTENSION_CALLS(CALL)              \
    CALL(GetImageDrmFormatModifierPropertiesEXT)  \
    CALL(GetMemoryFdKHR)                          \
    CALL(GetMemoryFdPropertiesKHR)                \
    CALL(GetMemoryHostPointerPropertiesEXT)
/* clang-format on */

#define VULKAN_MEMBER(name) PFN_vk##name name;

struct vulkan_instance_calls {
    VULKAN_INSTANCE_CALLS(VULKAN_MEMBER)
};

struct vulkan_device_calls {
    VULKAN_DEVICE_CALLS(VULKAN_MEMBER)
    VULKAN_EXTENSION_CALLS(VULKAN_MEMBER)
};
#undef VULKAN_MEMBER

/* Filled once gpud_vulkan_count() is called, and constant from then on. */
extern struct vulkan_instance_calls gpud_vk;

/* How many devices the drivers have. Loads them. */
uint32_t gpud_vulkan_count(void);

/* Why there is no device. */
const char *gpud_vulkan_why_none(void);

/* index is below the count. */
VkPhysicalDevice gpud_vulkan_physical(uint32_t index);

/* GPUD_NO_DEVICE: a call is missing. */
enum gpud_status gpud_vulkan_find_calls(VkDevice device, struct vulkan_device_calls *calls,
                                        struct gpud_error *error);

/* Fills *error with the text and the name of the result. The status follows from the result. */
enum gpud_status gpud_vulkan_fail(struct gpud_error *error, VkResult result, const char *format,
                                  ...) GPUD_PRINTF(3, 4);

/* The same with a given status: for errors that a peer's data caused. */
enum gpud_status gpud_vulkan_fail_as(struct gpud_error *error, enum gpud_status status,
                                     VkResult result, const char *format, ...) GPUD_PRINTF(4, 5);

#endif
