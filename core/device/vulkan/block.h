/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Buffers, each with an allocation of its own. */
#ifndef GPUD_VULKAN_BLOCK_H
#define GPUD_VULKAN_BLOCK_H

#include "device/vulkan/vulkan.h"

/* Buffers are a multiple of this, as the pages that are imported from the host are. */
#define VULKAN_PAGE UINT64_C(4096)

/* Whether memory with such handles is an allocation of its own. */
bool gpud_vulkan_is_dedicated(const struct vulkan_facts *facts,
                              VkExternalMemoryHandleTypeFlags handles);

/* Memory of the device, or (staging) pages of the host for its copies, mapped. handles: the kinds
 * that it is to be exported by; 0: none. */
VkResult gpud_vulkan_block_make(const struct vulkan_device *vulkan, uint64_t size,
                                VkExternalMemoryHandleTypeFlags handles,
                                struct vulkan_block *block);
VkResult gpud_vulkan_block_stage(const struct vulkan_device *vulkan, uint64_t size,
                                 struct vulkan_block *block);

/* Host pages, which outlive the block. VK_ERROR_INVALID_EXTERNAL_HANDLE: the driver cannot. */
VkResult gpud_vulkan_block_pin(const struct vulkan_device *vulkan, void *pages, uint64_t size,
                               struct vulkan_block *block);

/* The type of memory that gpud_vulkan_block_make() takes for such handles. */
VkResult gpud_vulkan_block_type(const struct vulkan_device *vulkan,
                                VkExternalMemoryHandleTypeFlags handles, uint32_t *type);

enum vulkan_origin {
    VULKAN_OF_PEER,   /* another instance of Vulkan: block has the type that it claims */
    VULKAN_OF_DRIVER, /* another driver of this GPU, by an opaque descriptor */
    VULKAN_OF_DMABUF, /* any driver, by a dma-buf */
};

/* Another one's memory. block has the size, and the bytes of the allocation. *fd becomes -1 once it
 * is the driver's, which it may be on failure, too. */
VkResult gpud_vulkan_block_import(const struct vulkan_device *vulkan, int *fd,
                                  enum vulkan_origin origin, struct vulkan_block *block);

void gpud_vulkan_block_free(const struct vulkan_device *vulkan, struct vulkan_block *block);

#endif
