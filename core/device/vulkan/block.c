/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/vulkan/block.h"

#include "device/vulkan/types.h"

#include <sys/mman.h>

#define OPAQUE_FD VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define DMA_BUF VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
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

/* Some drivers promise more than the heap has. */
static bool fits(const struct vulkan_device *vulkan, const struct vulkan_block *block)
{
    const VkPhysicalDeviceMemoryProperties *all = &vulkan->facts.memory;
    return block->bytes <= all->memoryHeaps[all->memoryTypes[block->type].heapIndex].size;
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
    if (!fits(vulkan, block))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkResult result = vulkan->calls.AllocateMemory(vulkan->device, &info, NULL, &block->memory);
    return result == VK_SUCCESS ? vulkan->calls.BindBufferMemory(vulkan->device, block->buffer,
                                                                 block->memory, block->start)
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

bool gpud_vulkan_is_dedicated(const struct vulkan_facts *facts,
                              VkExternalMemoryHandleTypeFlags handles)
{
    return (handles & OPAQUE_FD && facts->dedicated) ||
           (handles & DMA_BUF && facts->dmabuf_dedicated);
}

/* Drivers of other vendors use dma-bufs alone. */
static uint32_t family_of_others(const struct vulkan_facts *facts,
                                 VkExternalMemoryHandleTypeFlags handles)
{
    return handles == DMA_BUF && facts->foreign ? VK_QUEUE_FAMILY_FOREIGN_EXT
                                                : VK_QUEUE_FAMILY_EXTERNAL;
}

VkResult gpud_vulkan_block_make(const struct vulkan_device *vulkan, uint64_t size,
                                VkExternalMemoryHandleTypeFlags handles, struct vulkan_block *block)
{
    VkMemoryRequirements needs;
    *block = (struct vulkan_block){.size = whole_pages(size),
                                   .handles = handles,
                                   .others = family_of_others(&vulkan->facts, handles)};
    VkResult result = make_buffer(vulkan, block, handles, &needs);
    if (result != VK_SUCCESS)
        return result;
    const VkMemoryDedicatedAllocateInfo dedicated = dedicate(block);
    const VkExportMemoryAllocateInfo exported = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .pNext = gpud_vulkan_is_dedicated(&vulkan->facts, handles) ? &dedicated : NULL,
        .handleTypes = handles,
    };
    block->bytes = needs.size;
    result = gpud_vulkan_choose_type(&vulkan->facts.memory, needs.memoryTypeBits, VULKAN_FOR_DEVICE,
                                     &block->type)
                 ? allocate(vulkan, block, handles ? &exported : NULL)
                 : VK_ERROR_FEATURE_NOT_PRESENT;
    if (result == VK_SUCCESS)
        result = map_if_unified(vulkan, block);
    return freed(vulkan, block, result);
}

VkResult gpud_vulkan_block_type(const struct vulkan_device *vulkan,
                                VkExternalMemoryHandleTypeFlags handles, uint32_t *type)
{
    VkMemoryRequirements needs;
    struct vulkan_block block = {.size = VULKAN_PAGE};
    VkResult result = make_buffer(vulkan, &block, handles, &needs);
    if (result == VK_SUCCESS &&
        !gpud_vulkan_choose_type(&vulkan->facts.memory, needs.memoryTypeBits, VULKAN_FOR_DEVICE,
                                 type))
        result = VK_ERROR_FEATURE_NOT_PRESENT;
    gpud_vulkan_block_free(vulkan, &block);
    return result;
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

/* The types that the memory behind a dma-buf may have here. */
static VkResult ask_types(const struct vulkan_device *vulkan, int fd, uint32_t *types)
{
    VkMemoryFdPropertiesKHR properties = {.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
    VkResult result =
        vulkan->calls.GetMemoryFdPropertiesKHR(vulkan->device, DMA_BUF, fd, &properties);
    *types &= properties.memoryTypeBits;
    return result;
}

/* Whether the imported memory can be what is claimed. Chooses a type if the exporter has none. */
static bool check_import(const struct vulkan_device *vulkan, enum vulkan_origin origin,
                         const VkMemoryRequirements *needs, uint32_t types,
                         struct vulkan_block *block)
{
    const VkPhysicalDeviceMemoryProperties *all = &vulkan->facts.memory;
    /* The specification leaves to the importer that these are the exporter's. */
    if (origin == VULKAN_OF_PEER)
        return needs->size == block->bytes && block->type < all->memoryTypeCount &&
               types >> block->type & 1 && fits(vulkan, block);
    return block->start % needs->alignment == 0 && needs->size <= block->bytes - block->start &&
           (gpud_vulkan_choose_type(all, types, VULKAN_FOR_DEVICE, &block->type) ||
            gpud_vulkan_choose_type(all, types, VULKAN_FOR_HOST, &block->type)) &&
           fits(vulkan, block);
}

VkResult gpud_vulkan_block_import(const struct vulkan_device *vulkan, int *fd,
                                  enum vulkan_origin origin, struct vulkan_block *block)
{
    const struct vulkan_facts *facts = &vulkan->facts;
    const VkExternalMemoryHandleTypeFlagBits handle =
        origin == VULKAN_OF_DMABUF ? DMA_BUF : OPAQUE_FD;
    VkMemoryRequirements needs;
    block->handles = origin == VULKAN_OF_PEER ? facts->shared : handle;
    block->others = family_of_others(facts, block->handles);
    VkResult result = make_buffer(vulkan, block, block->handles, &needs);
    if (result != VK_SUCCESS)
        return result;
    uint32_t types = needs.memoryTypeBits;
    if (origin == VULKAN_OF_DMABUF)
        result = ask_types(vulkan, *fd, &types);
    const VkMemoryDedicatedAllocateInfo dedicated = dedicate(block);
    const VkExportMemoryAllocateInfo exported = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .pNext = gpud_vulkan_is_dedicated(facts, handle) && origin != VULKAN_OF_DRIVER ? &dedicated
                                                                                       : NULL,
        .handleTypes = DMA_BUF,
    };
    const VkImportMemoryFdInfoKHR imported = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
        .pNext = origin == VULKAN_OF_PEER && facts->reexports ? &exported : exported.pNext,
        .handleType = handle,
        .fd = *fd,
    };
    bool tried = result == VK_SUCCESS && check_import(vulkan, origin, &needs, types, block);
    if (result == VK_SUCCESS)
        result = tried ? allocate(vulkan, block, &imported) : VK_ERROR_INVALID_EXTERNAL_HANDLE;
    if (block->memory || (tried && facts->is_lavapipe))
        *fd = -1;
    /* Memory whose mapping fails is reached by copies, as is all of other drivers. */
    if (result == VK_SUCCESS && origin == VULKAN_OF_PEER &&
        map_if_unified(vulkan, block) != VK_SUCCESS)
        block->mapped = NULL;
    return freed(vulkan, block, result);
}

void gpud_vulkan_block_free(const struct vulkan_device *vulkan, struct vulkan_block *block)
{
    vulkan->calls.DestroyBuffer(vulkan->device, block->buffer, NULL);
    vulkan->calls.FreeMemory(vulkan->device, block->memory, NULL);
    *block = (struct vulkan_block){0};
}
