/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory as dma-bufs, out and in: VK_EXT_external_memory_dma_buf. Its users order themselves: the
 * extension knows no fences of the kernel's. */
#include "base/fd.h"
#include "device/vulkan/block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define DMA_BUF VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT

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

/* Whether it is a dma-buf with these bytes. Drivers take memfds for one, too. */
static enum gpud_status measure(int fd, uint64_t from, uint64_t size, uint64_t *bytes,
                                struct gpud_error *error)
{
    off_t end = gpud_fd_is_dmabuf(fd) ? lseek(fd, 0, SEEK_END) : -1;
    if (end < 0)
        return gpud_fail(error, GPUD_INVALID, "the descriptor is no dma-buf");
    lseek(fd, 0, SEEK_SET);
    if (from > (uint64_t)end || size > (uint64_t)end - from)
        return gpud_fail(error, GPUD_INVALID,
                         "the dma-buf has %lld bytes: %llu from %llu on are not there",
                         (long long)end, (unsigned long long)size, (unsigned long long)from);
    *bytes = (uint64_t)end;
    return GPUD_OK;
}

static enum gpud_status import(struct gpud_memory *memory, int fd, uint64_t offset,
                               struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    uint64_t bytes = 0;
    if (!vulkan->facts.dmabuf)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", memory->device->no_dmabuf);
    enum gpud_status status = measure(fd, offset, memory->size, &bytes, error);
    if (status != GPUD_OK)
        return status;
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
    .import = import,
};
