/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of Vulkan: allocated in blocks, and accessed by the CPU. */
#include "device/vulkan/vulkan.h"

#include "base/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* === block =================================================================================== */

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
static bool vulkan_memory_fits(const struct vulkan_device *vulkan, const struct vulkan_block *block)
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
    if (!vulkan_memory_fits(vulkan, block))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkResult result = vulkan->calls.AllocateMemory(vulkan->device, &info, NULL, &block->memory);
    return result == VK_SUCCESS ? vulkan->calls.BindBufferMemory(vulkan->device, block->buffer,
                                                                 block->memory, block->start)
                                : result;
}

static VkResult map_block(const struct vulkan_device *vulkan, struct vulkan_block *block)
{
    return vulkan->calls.MapMemory(vulkan->device, block->memory, 0, VK_WHOLE_SIZE, 0,
                                   &block->mapped);
}

static VkResult map_if_unified(const struct vulkan_device *vulkan, struct vulkan_block *block)
{
    return gpud_vulkan_is_unified(vulkan->facts.memory.memoryTypes[block->type].propertyFlags)
               ? map_block(vulkan, block)
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

static VkResult make_block(const struct vulkan_device *vulkan, uint64_t size,
                           VkExternalMemoryHandleTypeFlags handles, enum vulkan_purpose purpose,
                           struct vulkan_block *block)
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
    result =
        gpud_vulkan_choose_type(&vulkan->facts.memory, needs.memoryTypeBits, purpose, &block->type)
            ? allocate(vulkan, block, handles ? &exported : NULL)
            : VK_ERROR_FEATURE_NOT_PRESENT;
    if (result == VK_SUCCESS)
        result =
            purpose == VULKAN_FOR_HOST ? map_block(vulkan, block) : map_if_unified(vulkan, block);
    return freed(vulkan, block, result);
}

VkResult gpud_vulkan_block_make(const struct vulkan_device *vulkan, uint64_t size,
                                VkExternalMemoryHandleTypeFlags handles, struct vulkan_block *block)
{
    return make_block(vulkan, size, handles, VULKAN_FOR_DEVICE, block);
}

VkResult gpud_vulkan_block_stage(const struct vulkan_device *vulkan, uint64_t size,
                                 struct vulkan_block *block)
{
    return make_block(vulkan, size, 0, VULKAN_FOR_HOST, block);
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
    /* Whether pages are writable, kernels before 5.14 cannot tell: there none are pinned. */
    if (!vulkan->facts.host_pointer || (uintptr_t)pages % align || block->size % align ||
        (vulkan->facts.pins_writable_only && madvise(pages, block->size, MADV_POPULATE_WRITE) != 0))
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

/* Whether the imported memory can be what is claimed. Chooses a type if the exporter has none. */
static bool check_import(const struct vulkan_device *vulkan, enum vulkan_origin origin,
                         const VkMemoryRequirements *needs, uint32_t types,
                         struct vulkan_block *block)
{
    const VkPhysicalDeviceMemoryProperties *all = &vulkan->facts.memory;
    /* The specification leaves to the importer that these are the exporter's. */
    if (origin == VULKAN_OF_PEER)
        return needs->size == block->bytes && block->type < all->memoryTypeCount &&
               types >> block->type & 1 && vulkan_memory_fits(vulkan, block);
    return block->start % needs->alignment == 0 && needs->size <= block->bytes - block->start &&
           (gpud_vulkan_choose_type(all, types, VULKAN_FOR_DEVICE, &block->type) ||
            gpud_vulkan_choose_type(all, types, VULKAN_FOR_HOST, &block->type)) &&
           vulkan_memory_fits(vulkan, block);
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
    if (origin == VULKAN_OF_DMABUF) {
        /* The types that the memory behind a dma-buf may have here. */
        VkMemoryFdPropertiesKHR properties = {.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
        result = vulkan->calls.GetMemoryFdPropertiesKHR(vulkan->device, DMA_BUF, *fd, &properties);
        types &= properties.memoryTypeBits;
    }
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

/* === memory ================================================================================== */
/* Device memory, and host pages that the driver imports. */

/* --- our own --------------------------------------------------------------------------------- */

static void vulkan_memory_give_back(struct gpud_device *device, void *given)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(device);
    struct vulkan_memory *record = given;
    gpud_vulkan_images_free(vulkan, record);
    if (record->fd)
        gpud_fd_close(&record->fd);
    if (!record->wrapped)
        gpud_vulkan_block_free(vulkan, &record->block);
    free(record);
}

static enum gpud_status vulkan_memory_alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_device *device = memory->device;
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    bool shared = memory->usage == GPUD_USAGE_SHARE || memory->usage == GPUD_USAGE_TARGET;
    const VkExternalMemoryHandleTypeFlags handles =
        shared                               ? vulkan->facts.shared
        : memory->usage == GPUD_USAGE_DMABUF ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
                                             : 0;
    if (shared && !vulkan->facts.opaque_fd)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", device->no_direct);
    enum gpud_status status = gpud_check_clearing(&vulkan->async, error);
    if (status != GPUD_OK)
        return status;
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    VkResult result = gpud_vulkan_block_make(vulkan, memory->size, handles, &record->block);
    if (result != VK_SUCCESS) {
        free(record);
        return gpud_vulkan_fail(error, result,
                                "no %llu bytes on %s: smaller or fewer slots need less",
                                (unsigned long long)memory->size, device->info.name);
    }
    /* All of it: an importer sees the whole allocation, and must not see old data. */
    status = gpud_vulkan_queue_clear(device, vulkan->service, &record->block, error);
    if (status == GPUD_OK)
        status = gpud_vulkan_queue_wait(device, vulkan->service, gpud_deadline(GPUD_CLEAR_TIMEOUT),
                                        error);
    if (status == GPUD_TIMEOUT)
        return gpud_free_when_cleared(&vulkan->async, &record->after, record,
                                      vulkan_memory_give_back, vulkan->service, error);
    if (status != GPUD_OK) {
        vulkan_memory_give_back(device, record);
        return status;
    }
    memory->backend = record;
    memory->native = record->block.buffer;
    return GPUD_OK;
}

/* --- freeing --------------------------------------------------------------------------------- */

static void vulkan_memory_free_memory(struct gpud_memory *memory)
{
    gpud_free_after(&gpud_vulkan_device(memory->device)->async, &gpud_vulkan_record(memory)->after,
                    memory, vulkan_memory_give_back, 0, false);
}

/* --- the application's ----------------------------------------------------------------------- */

/* Vulkan cannot be asked about a buffer, so the application's word has to do. */
static enum gpud_status vulkan_memory_wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    if (memory->usage != GPUD_USAGE_LOCAL) {
        free(record);
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "a VkBuffer of the application's cannot be given to other processes: "
                         "%s exports memory that the library allocated",
                         memory->device->info.name);
    }
    record->wrapped = true;
    record->block.buffer = (VkBuffer)memory->native;
    record->block.size = memory->size;
    memory->backend = record;
    return GPUD_OK;
}

static enum gpud_status vulkan_memory_wrap_host(struct gpud_memory *memory,
                                                struct gpud_error *error)
{
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    memory->unpinned = gpud_vulkan_block_pin(gpud_vulkan_device(memory->device), memory->host,
                                             memory->size, &record->block) != VK_SUCCESS;
    if (memory->unpinned)
        record->block = (struct vulkan_block){0};
    memory->backend = record;
    memory->native = memory->host;
    return GPUD_OK;
}

static enum gpud_status vulkan_memory_flush_remote(struct gpud_memory *memory,
                                                   struct gpud_error *error)
{
    return GPUD_OK; /* each command acquires what other instances have written */
}

const struct gpud_memory_ops gpud_vulkan_memory_ops = {
    .alloc = vulkan_memory_alloc,
    .wrap = vulkan_memory_wrap,
    .wrap_host = vulkan_memory_wrap_host,
    .free = vulkan_memory_free_memory,
    .export_handle = gpud_vulkan_export,
    .import_handle = gpud_vulkan_import,
    .flush_remote = vulkan_memory_flush_remote,
};

/* === dmabuf ================================================================================== */
/* Memory as dma-bufs, out and in: VK_EXT_external_memory_dma_buf. Its users order themselves: the
 * extension knows no fences of the kernel's. */

static enum gpud_status export_part(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                    int *fd, uint64_t *offset, struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    const struct vulkan_block *block = &gpud_vulkan_record(memory)->block;
    const VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
        .memory = block->memory,
        .handleType = DMA_BUF,
    };
    int made = -1;
    if (!(block->handles & DMA_BUF) || !block->memory)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "this memory of %s has no dma-buf: memory made for that has, and shared "
                         "memory if the driver makes both kinds of descriptors of one allocation",
                         memory->device->info.name);
    VkResult result = vulkan->calls.GetMemoryFdKHR(vulkan->device, &info, &made);
    if (result != VK_SUCCESS)
        return gpud_vulkan_fail(error, result, "no dma-buf for %llu bytes of %s",
                                (unsigned long long)size, memory->device->info.name);
    *fd = made;
    *offset = from;
    return GPUD_OK;
}

static enum gpud_status vulkan_memory_import(struct gpud_memory *memory, int fd, uint64_t offset,
                                             struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    if (!vulkan->facts.dmabuf)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", memory->device->no_dmabuf);
    /* Drivers take memfds for a dma-buf, too. */
    off_t end = gpud_fd_is_dmabuf(fd) ? lseek(fd, 0, SEEK_END) : -1;
    if (end < 0)
        return gpud_fail(error, GPUD_INVALID,
                         "the descriptor is not a dma-buf, such as GPU drivers export");
    lseek(fd, 0, SEEK_SET);
    uint64_t bytes = (uint64_t)end;
    if (offset > bytes || memory->size > bytes - offset)
        return gpud_fail(
            error, GPUD_INVALID, "the dma-buf has %lld bytes: %llu from %llu on are not there",
            (long long)end, (unsigned long long)memory->size, (unsigned long long)offset);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return gpud_fail_errno(error, "cannot duplicate a descriptor");
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (record) {
        record->block =
            (struct vulkan_block){.size = memory->size, .bytes = bytes, .start = offset};
        result = gpud_vulkan_block_import(vulkan, &own, VULKAN_OF_DMABUF, &record->block);
    }
    if (result != VK_SUCCESS) {
        gpud_fd_close(&own);
        free(record);
        return gpud_vulkan_fail_as(error, GPUD_UNSUPPORTED, result,
                                   "%s cannot import this dma-buf: import it on \"host\"",
                                   memory->device->info.name);
    }
    memory->backend = record;
    memory->native = record->block.buffer;
    return GPUD_OK;
}

const struct gpud_dmabuf_ops gpud_vulkan_dmabuf_ops = {
    .export_part = export_part,
    .import = vulkan_memory_import,
};
