/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/vulkan/block.h"

#include "device/vulkan/types.h"

#include <sys/mman.h>

#define OPAQUE_FD VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define HOST_POINTER VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT

/* --- making ---------------------------------------------------------------------------------- */

/* Sets block->buffer. An importer has to make the very same. */
static VkResult make_buffer(const struct vulkan_device *vulkan, struct vulkan_block *block,
                            VkExternalMemoryHandleTypeFlags handles, VkMemoryRequirements *needs)
{
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = handles,
    };
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = handles ? &external : NULL,
        .size = block->size,
        .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    VkResult result = vulkan->calls.CreateBuffer(vulkan->device, &info, NULL, &block->buffer);
    if (result == VK_SUCCESS)
        vulkan->calls.GetBufferMemoryRequirements(vulkan->device, block->buffer, needs);
    return result;
}

/* Allocates block->bytes of block->type, and puts the buffer on it. */
static VkResult allocate(const struct vulkan_device *vulkan, struct vulkan_block *block,
                         const void *how)
{
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = how,
        .allocationSize = block->bytes,
        .memoryTypeIndex = block->type,
    };
    const VkPhysicalDeviceMemoryProperties *all = &vulkan->facts.memory;
    /* Some drivers promise more than the heap has. */
    if (block->bytes > all->memoryHeaps[all->memoryTypes[block->type].heapIndex].size)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkResult result = vulkan->calls.AllocateMemory(vulkan->device, &info, NULL, &block->memory);
    return result == VK_SUCCESS
               ? vulkan->calls.BindBufferMemory(vulkan->device, block->buffer, block->memory, 0)
               : result;
}

static VkResult map(const struct vulkan_device *vulkan, struct vulkan_block *block)
{
    return vulkan->calls.MapMemory(vulkan->device, block->memory, 0, VK_WHOLE_SIZE, 0,
                                   &block->mapped);
}

static VkResult map_if_unified(const struct vulkan_device *vulkan, struct vulkan_block *block)
{
    return gpud_vulkan_is_unified(vulkan->facts.memory.memoryTypes[block->type].propertyFlags)
               ? map(vulkan, block)
               : VK_SUCCESS;
}

static VkResult freed(const struct vulkan_device *vulkan, struct vulkan_block *block,
                      VkResult result)
{
    if (result != VK_SUCCESS)
        gpud_vulkan_block_free(vulkan, block);
    return result;
}

/* What chains allocations of a kind to their buffer. */
static VkMemoryDedicatedAllocateInfo dedicate(const struct vulkan_block *block)
{
    return (VkMemoryDedicatedAllocateInfo){
        .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
        .buffer = block->buffer,
    };
}

static uint64_t whole_pages(uint64_t size)
{
    return (size + VULKAN_PAGE - 1) / VULKAN_PAGE * VULKAN_PAGE;
}

VkResult gpud_vulkan_block_make(const struct vulkan_device *vulkan, uint64_t size, bool external,
                                struct vulkan_block *block)
{
    VkMemoryRequirements needs;
    *block = (struct vulkan_block){.size = whole_pages(size), .external = external};
    VkResult result = make_buffer(vulkan, block, external ? OPAQUE_FD : 0, &needs);
    if (result != VK_SUCCESS)
        return result;
    const VkMemoryDedicatedAllocateInfo dedicated = dedicate(block);
    const VkExportMemoryAllocateInfo exported = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .pNext = vulkan->facts.dedicated ? &dedicated : NULL,
        .handleTypes = OPAQUE_FD,
    };
    block->bytes = needs.size;
    result = gpud_vulkan_choose_type(&vulkan->facts.memory, needs.memoryTypeBits, VULKAN_FOR_DEVICE,
                                     &block->type)
                 ? allocate(vulkan, block, external ? &exported : NULL)
                 : VK_ERROR_FEATURE_NOT_PRESENT;
    if (result == VK_SUCCESS)
        result = map_if_unified(vulkan, block);
    return freed(vulkan, block, result);
}

VkResult gpud_vulkan_block_stage(const struct vulkan_device *vulkan, uint64_t size,
                                 struct vulkan_block *block)
{
    VkMemoryRequirements needs;
    *block = (struct vulkan_block){.size = whole_pages(size)};
    VkResult result = make_buffer(vulkan, block, 0, &needs);
    if (result != VK_SUCCESS)
        return result;
    block->bytes = needs.size;
    result = gpud_vulkan_choose_type(&vulkan->facts.memory, needs.memoryTypeBits, VULKAN_FOR_HOST,
                                     &block->type)
                 ? allocate(vulkan, block, NULL)
                 : VK_ERROR_FEATURE_NOT_PRESENT;
    if (result == VK_SUCCESS)
        result = map(vulkan, block);
    return freed(vulkan, block, result);
}

/* Kernels before 5.14 cannot tell: there no pages are pinned. */
static bool are_writable(void *pages, uint64_t size)
{
    return madvise(pages, size, MADV_POPULATE_WRITE) == 0;
}

VkResult gpud_vulkan_block_pin(const struct vulkan_device *vulkan, void *pages, uint64_t size,
                               struct vulkan_block *block)
{
    const VkDeviceSize align = vulkan->facts.host_align;
    VkMemoryRequirements needs;
    VkMemoryHostPointerPropertiesEXT types = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    const VkImportMemoryHostPointerInfoEXT imported = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = HOST_POINTER,
        .pHostPointer = pages,
    };
    *block = (struct vulkan_block){.size = whole_pages(size)};
    if (!vulkan->facts.host_pointer || (uintptr_t)pages % align || block->size % align ||
        (vulkan->facts.pins_writable_only && !are_writable(pages, block->size)))
        return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    VkResult result = vulkan->calls.GetMemoryHostPointerPropertiesEXT(vulkan->device, HOST_POINTER,
                                                                      pages, &types);
    if (result == VK_SUCCESS)
        result = make_buffer(vulkan, block, HOST_POINTER, &needs);
    if (result != VK_SUCCESS)
        return result;
    block->bytes = block->size;
    result = needs.size <= block->bytes &&
                     gpud_vulkan_choose_type(&vulkan->facts.memory,
                                             needs.memoryTypeBits & types.memoryTypeBits,
                                             VULKAN_FOR_HOST, &block->type)
                 ? allocate(vulkan, block, &imported)
                 : VK_ERROR_INVALID_EXTERNAL_HANDLE;
    return freed(vulkan, block, result);
}

VkResult gpud_vulkan_block_import(const struct vulkan_device *vulkan, int *fd,
                                  struct vulkan_block *block)
{
    VkMemoryRequirements needs;
    block->external = true;
    VkResult result = make_buffer(vulkan, block, OPAQUE_FD, &needs);
    if (result != VK_SUCCESS)
        return result;
    const VkMemoryDedicatedAllocateInfo dedicated = dedicate(block);
    const VkImportMemoryFdInfoKHR imported = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
        .pNext = vulkan->facts.dedicated ? &dedicated : NULL,
        .handleType = OPAQUE_FD,
        .fd = *fd,
    };
    /* The specification leaves to the importer that these are the exporter's. */
    result = needs.size == block->bytes && block->type < vulkan->facts.memory.memoryTypeCount &&
                     needs.memoryTypeBits >> block->type & 1
                 ? allocate(vulkan, block, &imported)
                 : VK_ERROR_INVALID_EXTERNAL_HANDLE;
    if (block->memory)
        *fd = -1;
    /* Memory whose mapping fails is reached by copies. */
    if (result == VK_SUCCESS && map_if_unified(vulkan, block) != VK_SUCCESS)
        block->mapped = NULL;
    return freed(vulkan, block, result);
}

void gpud_vulkan_block_free(const struct vulkan_device *vulkan, struct vulkan_block *block)
{
    vulkan->calls.DestroyBuffer(vulkan->device, block->buffer, NULL);
    vulkan->calls.FreeMemory(vulkan->device, block->memory, NULL);
    *block = (struct vulkan_block){0};
}
