/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Device memory, and host pages that the driver imports. */
#include "base/fd.h"
#include "device/vulkan/block.h"
#include "device/vulkan/command.h"
#include "device/vulkan/image.h"
#include "device/vulkan/share.h"

#include <stdlib.h>

/* How long the driver may take for work that depends on no peer, as clearing. */
#define SERVICE_TIMEOUT (5 * GPUD_SEC)

static enum gpud_status no_room(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
}

/* --- our own --------------------------------------------------------------------------------- */

static enum gpud_status say_stuck(const struct gpud_device *device, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_IO,
                     "%s has not cleared new memory within %d s: the GPU or its driver is stuck "
                     "(the kernel's log may say why), and gives no memory until it goes on",
                     device->info.name, (int)(SERVICE_TIMEOUT / GPUD_SEC));
}

/* Before it is cleared, the driver may still write into it. */
static int64_t free_when_cleared(void *arg)
{
    struct vulkan_memory *record = arg;
    struct gpud_device *device = record->device;
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    long result;
    if (gpud_vulkan_async_ops.state(device, vulkan->service, &result) == GPUD_PROGRESS_BUSY)
        return 10 * GPUD_MSEC;
    gpud_vulkan_block_free(vulkan, &record->block);
    free(record);
    atomic_fetch_sub(&vulkan->stuck, 1);
    gpud_device_close(&device);
    return -1;
}

/* All of it: an importer sees the whole allocation, and must not see old data. */
static enum gpud_status clear(struct gpud_device *device, const struct vulkan_block *block,
                              struct gpud_error *error)
{
    struct vulkan_queue *service = gpud_vulkan_device(device)->service;
    enum gpud_status status = gpud_vulkan_queue_clear(device, service, block, error);
    return status == GPUD_OK
               ? gpud_vulkan_queue_wait(device, service, gpud_deadline(SERVICE_TIMEOUT), error)
               : status;
}

static enum gpud_status alloc(struct gpud_memory *memory, struct gpud_error *error)
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
    /* Each try would leave one more memory stuck in the driver. */
    if (atomic_load(&vulkan->stuck) > 0)
        return say_stuck(device, error);
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    VkResult result = gpud_vulkan_block_make(vulkan, memory->size, handles, &record->block);
    if (result != VK_SUCCESS) {
        free(record);
        return gpud_vulkan_fail(error, result,
                                "no %llu bytes on %s: smaller or fewer slots need less",
                                (unsigned long long)memory->size, device->info.name);
    }
    enum gpud_status status = clear(device, &record->block, error);
    if (status == GPUD_TIMEOUT) {
        record->device = gpud_device_ref(device);
        atomic_fetch_add(&vulkan->stuck, 1);
        gpud_worker_add(&device->context->later, &record->after.work, free_when_cleared, record);
        return say_stuck(device, error);
    }
    if (status != GPUD_OK) {
        gpud_vulkan_block_free(vulkan, &record->block);
        free(record);
        return status;
    }
    memory->backend = record;
    memory->native = record->block.buffer;
    return GPUD_OK;
}

/* --- freeing --------------------------------------------------------------------------------- */

static void give_back(struct gpud_memory *memory)
{
    struct vulkan_memory *record = memory->backend;
    gpud_vulkan_images_free(gpud_vulkan_device(memory->device), record);
    if (record->fd)
        gpud_fd_close(&record->fd);
    if (!record->wrapped)
        gpud_vulkan_block_free(gpud_vulkan_device(memory->device), &record->block);
    free(record);
}

static void free_memory(struct gpud_memory *memory)
{
    gpud_free_after(&gpud_vulkan_device(memory->device)->async, &gpud_vulkan_record(memory)->after,
                    memory, give_back, 0, false);
}

/* --- the application's ----------------------------------------------------------------------- */

/* Vulkan cannot be asked about a buffer, so the application's word has to do. */
static enum gpud_status wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
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

static enum gpud_status wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    memory->unpinned = gpud_vulkan_block_pin(gpud_vulkan_device(memory->device), memory->host,
                                             memory->size, &record->block) != VK_SUCCESS;
    if (memory->unpinned)
        record->block = (struct vulkan_block){0};
    memory->backend = record;
    memory->native = memory->host;
    return GPUD_OK;
}

static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    return GPUD_OK; /* each command acquires what other instances have written */
}

const struct gpud_memory_ops gpud_vulkan_memory_ops = {
    .alloc = alloc,
    .wrap = wrap,
    .wrap_host = wrap_host,
    .free = free_memory,
    .export_handle = gpud_vulkan_export,
    .import_handle = gpud_vulkan_import,
    .flush_remote = flush_remote,
};
