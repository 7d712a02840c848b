/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory on a device. */
#include "device/device.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* === memory ================================================================================== */
/* Memories: checks and reference counts around a backend's memory ops, and the table of memories
 * that are shared by pointer inside one process. */

static struct gpud_memory *new_memory(struct gpud_device *device, uint64_t size,
                                      enum gpud_usage usage)
{
    struct gpud_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return NULL;
    memory->device = gpud_device_ref(device);
    atomic_init(&memory->references, 1);
    atomic_init(&memory->holds, 1);
    gpud_lock_init(&memory->map_lock, GPUD_RANK_MAP);
    memory->size = size;
    memory->usage = usage;
    return memory;
}

/* For a memory that its backend refused, or freed. */
static void memory_discard(struct gpud_memory *memory)
{
    gpud_lock_destroy(&memory->map_lock);
    gpud_device_close(&memory->device);
    free(memory);
}

/* Hands out a memory, if its backend has made it. */
static enum gpud_status memory_made(struct gpud_memory *made, enum gpud_status status,
                                    struct gpud_memory **memory)
{
    if (status == GPUD_OK)
        *memory = made;
    else
        memory_discard(made);
    return status;
}

static enum gpud_status check_size(uint64_t size, struct gpud_error *error)
{
    if (size == 0 || size > (UINT64_C(1) << 40))
        return gpud_fail(error, GPUD_INVALID, "a memory of %llu bytes: 1 byte to 1 TiB is possible",
                         (unsigned long long)size);
    return GPUD_OK;
}

enum gpud_status gpud_device_check_dmabuf(const struct gpud_device *device,
                                          struct gpud_error *error)
{
    if (device->no_dmabuf[0])
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", device->no_dmabuf);
    if (!device->ops->dmabuf)
        return gpud_fail(
            error, GPUD_UNSUPPORTED,
            "memory of %s has no dma-buf: that of the host may, and that of GPUs whose "
            "driver exports it",
            device->info.name);
    return GPUD_OK;
}

/* How long to wait for freed memory when none is left: the worker frees memory only after the
 * devices' work, and a change of format frees one ring before it makes the next. */
#define FREED_TIMEOUT (GPUD_SEC / 2)
#define FREED_PAUSE GPUD_MSEC

enum gpud_status gpud_memory_alloc_for(struct gpud_device *device, uint64_t size,
                                       enum gpud_usage usage, struct gpud_memory **memory,
                                       struct gpud_error *error)
{
    struct gpud_worker *later = &device->context->later;
    enum gpud_status status = check_size(size, error);
    if (status == GPUD_OK && usage == GPUD_USAGE_DMABUF)
        status = gpud_device_check_dmabuf(device, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_memory *made = new_memory(device, size, usage);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    int64_t deadline = gpud_deadline(FREED_TIMEOUT);
    for (;;) {
        bool idle = gpud_worker_is_idle(later);
        status = device->ops->memory->alloc(made, error);
        if (status != GPUD_NO_MEMORY || idle || gpud_now() >= deadline)
            return memory_made(made, status, memory);
        gpud_worker_hurry(later);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = FREED_PAUSE}, NULL);
    }
}

enum gpud_status gpud_memory_alloc(struct gpud_device *device, uint64_t size,
                                   enum gpud_memory_usage usage, struct gpud_memory **memory,
                                   struct gpud_error *error)
{
    if (usage != GPUD_MEMORY_PLAIN && usage != GPUD_MEMORY_DMABUF)
        return gpud_fail(error, GPUD_INVALID, "no usage of memory has the number %d", (int)usage);
    return gpud_memory_alloc_for(device, size,
                                 usage == GPUD_MEMORY_DMABUF ? GPUD_USAGE_DMABUF : GPUD_USAGE_LOCAL,
                                 memory, error);
}

/* The two kinds of wrap differ only in the op and in what the pointer is. */
static enum gpud_status memory_wrap(
    struct gpud_memory *made, enum gpud_status (*op)(struct gpud_memory *, struct gpud_error *),
    void (*destroy)(void *user), void *user, struct gpud_memory **memory, struct gpud_error *error)
{
    enum gpud_status status =
        op ? op(made, error)
           : gpud_fail(error, GPUD_UNSUPPORTED, "%s cannot use memory that was allocated elsewhere",
                       made->device->info.name);
    if (status == GPUD_OK) {
        made->destroy = destroy;
        made->user = user;
    }
    return memory_made(made, status, memory);
}

enum gpud_status gpud_memory_wrap_for(struct gpud_device *device, void *native, uint64_t size,
                                      enum gpud_usage usage, void (*destroy)(void *user),
                                      void *user, struct gpud_memory **memory,
                                      struct gpud_error *error)
{
    enum gpud_status status = check_size(size, error);
    if (status != GPUD_OK)
        return status;
    if (!native)
        return gpud_fail(error, GPUD_INVALID, "no memory to wrap: native is NULL");
    struct gpud_memory *made = new_memory(device, size, usage);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    made->native = native;
    return memory_wrap(made, device->ops->memory->wrap, destroy, user, memory, error);
}

enum gpud_status gpud_memory_wrap(struct gpud_device *device, void *native, uint64_t size,
                                  void (*destroy)(void *user), void *user,
                                  struct gpud_memory **memory, struct gpud_error *error)
{
    return gpud_memory_wrap_for(device, native, size, GPUD_USAGE_LOCAL, destroy, user, memory,
                                error);
}

enum gpud_status gpud_memory_wrap_host(struct gpud_device *device, void *data, uint64_t size,
                                       bool read_only, void (*destroy)(void *user), void *user,
                                       struct gpud_memory **memory, struct gpud_error *error)
{
    enum gpud_status status = check_size(size, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_memory *made = new_memory(device, size, GPUD_USAGE_LOCAL);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    made->host = data;
    made->read_only = read_only;
    return memory_wrap(made, device->ops->memory->wrap_host, destroy, user, memory, error);
}

struct gpud_memory *gpud_memory_ref(struct gpud_memory *memory)
{
    atomic_fetch_add_explicit(&memory->references, 1, memory_order_relaxed);
    return memory;
}

/* Frees the pages when neither the memory nor a view needs them: a device may still use its view.
 */
static void let_go(void *user)
{
    struct gpud_memory *memory = user;
    if (atomic_fetch_sub_explicit(&memory->holds, 1, memory_order_acq_rel) == 1)
        memory->device->ops->memory->free(memory);
}

enum gpud_status gpud_memory_view(struct gpud_memory *memory, struct gpud_device *device,
                                  struct gpud_memory **view, struct gpud_error *error)
{
    if (memory->device == device) {
        *view = memory;
        return GPUD_OK;
    }
    bool common = !memory->host && gpud_devices_have_common_memory(memory->device, device);
    if (!memory->host && !common)
        return gpud_fail(error, GPUD_INVALID, "memory of %s cannot be seen by %s",
                         memory->device->info.name, device->info.name);
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&memory->map_lock);
    struct gpud_memory *found = memory->views;
    while (found && found->device != device)
        found = found->next_view;
    if (!found) {
        atomic_fetch_add(&memory->holds, 1);
        status = common ? gpud_memory_wrap(device, memory->native, memory->size, let_go, memory,
                                           &found, error)
                        : gpud_memory_wrap_host(device, memory->host, memory->size,
                                                memory->read_only, let_go, memory, &found, error);
        if (status == GPUD_OK) {
            found->read_only |= common;
            found->next_view = memory->views;
            memory->views = found;
        } else {
            atomic_fetch_sub(&memory->holds, 1);
        }
    }
    gpud_lock_release(&memory->map_lock);
    if (status == GPUD_OK)
        *view = found;
    return status;
}

/* The last reference is dropped under the table's lock, under which memory is exported and
 * importers take references. */
void gpud_memory_unref(struct gpud_memory **memory)
{
    if (!memory || !*memory)
        return;
    struct gpud_memory *gone = *memory;
    struct gpud_context *context = gone->device->context;
    *memory = NULL;
    unsigned count = atomic_load_explicit(&gone->references, memory_order_relaxed);
    GPUD_STOP_POINT("memory: references read");
    while (count > 1)
        if (atomic_compare_exchange_weak_explicit(&gone->references, &count, count - 1,
                                                  memory_order_release, memory_order_relaxed))
            return;
    gpud_lock_take(&context->lock);
    bool last = atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) == 1;
    if (last && gone->local_id) {
        context->local[gone->local_id - 1] = NULL;
        gone->local_id = 0;
    }
    gpud_lock_release(&context->lock);
    if (!last)
        return;
    while (gone->views) {
        struct gpud_memory *view = gone->views;
        gone->views = view->next_view;
        gpud_memory_unref(&view);
    }
    let_go(gone);
}

/* Kept reachable, so that leak checkers do not report them. */
static struct gpud_memory *abandoned;
static struct gpud_lock abandoned_lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_ABANDONED);

void gpud_memory_abandon(struct gpud_memory **memory)
{
    struct gpud_memory *gone = *memory;
    *memory = NULL;
    gpud_device_close(&gone->device);
    gpud_lock_take(&abandoned_lock);
    gone->next_view = abandoned;
    abandoned = gone;
    gpud_lock_release(&abandoned_lock);
}

void gpud_memory_freed(struct gpud_memory *memory)
{
    if (memory->destroy)
        memory->destroy(memory->user);
    memory_discard(memory);
}

void *gpud_memory_get_native(const struct gpud_memory *memory)
{
    return memory->native;
}

/* --- sharing by pointer inside this process ------------------------------------------------ */

void gpud_memory_export_local(struct gpud_memory *memory, struct gpud_handle *handle)
{
    struct gpud_context *context = memory->device->context;
    *handle = (struct gpud_handle){.type = GPUD_HANDLE_NONE, .fd = -1};
    gpud_lock_take(&context->lock);
    if (!memory->local_id) {
        size_t free_place = 0;
        while (free_place < context->local_count && context->local[free_place])
            free_place++;
        if (free_place == context->local_count) {
            struct gpud_memory **grown = reallocarray(context->local, context->local_count + 16,
                                                      sizeof(struct gpud_memory *));
            if (!grown) {
                gpud_lock_release(&context->lock);
                return;
            }
            memset(grown + context->local_count, 0, 16 * sizeof(struct gpud_memory *));
            context->local = grown;
            context->local_count += 16;
        }
        context->local[free_place] = memory;
        memory->local_id = free_place + 1;
    }
    *handle = (struct gpud_handle){
        .type = GPUD_HANDLE_LOCAL,
        .fd = -1,
        .size = memory->size,
        .word = {context->token, memory->local_id},
    };
    gpud_lock_release(&context->lock);
}

static enum gpud_status import_local(struct gpud_device *device, const struct gpud_handle *handle,
                                     uint64_t size, struct gpud_memory **memory,
                                     struct gpud_error *error)
{
    struct gpud_context *context = device->context;
    if (handle->word[0] != context->token)
        return gpud_fail(error, GPUD_PEER, "the peer offers memory of another process by pointer");
    gpud_lock_take(&context->lock);
    uint64_t id = handle->word[1];
    struct gpud_memory *found =
        id >= 1 && id <= context->local_count ? context->local[id - 1] : NULL;
    if (found && found->size >= size &&
        (found->device == device || gpud_devices_have_common_memory(found->device, device)))
        gpud_memory_ref(found);
    else
        found = NULL;
    gpud_lock_release(&context->lock);
    if (!found)
        return gpud_fail(error, GPUD_PEER,
                         "the peer offers memory that this process does not have on %s",
                         device->info.name);
    struct gpud_memory *view = NULL;
    enum gpud_status status = gpud_memory_view(found, device, &view, error);
    if (status == GPUD_OK)
        *memory = gpud_memory_ref(view);
    gpud_memory_unref(&found);
    return status;
}

/* --- sharing with other processes ---------------------------------------------------------- */

enum gpud_status gpud_memory_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                    struct gpud_error *error)
{
    if (memory->imported)
        return gpud_fail(error, GPUD_INVALID, "imported memory cannot be exported again");
    if (!memory->device->ops->memory->export_handle || memory->usage == GPUD_USAGE_LOCAL ||
        memory->usage == GPUD_USAGE_DMABUF)
        return gpud_fail(error, GPUD_UNSUPPORTED, "this memory of %s was not made to be exported",
                         memory->device->info.name);
    *handle = (struct gpud_handle){.fd = -1, .size = memory->size};
    return memory->device->ops->memory->export_handle(memory, handle, error);
}

enum gpud_status gpud_memory_import(struct gpud_device *device, const struct gpud_handle *handle,
                                    uint64_t size, enum gpud_usage usage,
                                    struct gpud_memory **memory, struct gpud_error *error)
{
    enum gpud_status status = check_size(size, error);
    if (status != GPUD_OK)
        return status;
    if (handle->size < size)
        return gpud_fail(error, GPUD_PEER, "the peer offers %llu bytes where %llu are needed",
                         (unsigned long long)handle->size, (unsigned long long)size);
    if (handle->type == GPUD_HANDLE_LOCAL)
        return import_local(device, handle, size, memory, error);
    if (!device->ops->memory->import_handle)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s cannot import memory", device->info.name);

    struct gpud_memory *made = new_memory(device, size, usage);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    made->imported = true;
    made->read_only = usage == GPUD_USAGE_SHARE;
    return memory_made(made, device->ops->memory->import_handle(made, handle, error), memory);
}

enum gpud_status gpud_memory_export_vulkan(struct gpud_memory *memory,
                                           struct gpud_vulkan_memory_info *info,
                                           struct gpud_error *error)
{
    struct gpud_handle handle = {.fd = -1};
    if (info->size < GPUD_END_OF(struct gpud_vulkan_memory_info, driver_uuid))
        return gpud_fail(error, GPUD_INVALID,
                         "gpud_vulkan_memory_info.size is not set: use GPUD_INFO_INIT");
    if (!memory->device->ops->image || memory->usage == GPUD_USAGE_LOCAL ||
        memory->usage == GPUD_USAGE_DMABUF)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "this memory of %s is not shared by Vulkan: that of a frame is which a "
                         "sender on \"vulkan:N\" lent, or a receiver there got as an image",
                         memory->device->info.name);
    enum gpud_status status = memory->device->ops->memory->export_handle(memory, &handle, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_vulkan_memory_info own = {
        .fd = handle.fd,
        .memory_type = (uint32_t)handle.word[GPUD_VULKAN_TYPE],
        .allocation_size = handle.word[GPUD_VULKAN_BYTES],
        .buffer_size = handle.word[GPUD_VULKAN_SIZE],
        .dedicated = handle.word[GPUD_VULKAN_DEDICATED],
    };
    memcpy(own.device_uuid, &handle.word[GPUD_VULKAN_DEVICE_UUID], sizeof(own.device_uuid));
    memcpy(own.driver_uuid, &handle.word[GPUD_VULKAN_DRIVER_UUID], sizeof(own.driver_uuid));
    gpud_sized_copy(info, info->size, &own, sizeof(own));
    return GPUD_OK;
}

/* --- dma-bufs ------------------------------------------------------------------------------ */

enum gpud_status gpud_memory_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t size,
                                           int *fd, uint64_t *offset, struct gpud_error *error)
{
    enum gpud_status status = gpud_device_check_dmabuf(memory->device, error);
    if (status != GPUD_OK)
        return status;
    if (memory->imported && !memory->reexports)
        return gpud_fail(error, GPUD_INVALID, "imported memory cannot be exported again");
    if (size == 0 || from > memory->size || size > memory->size - from)
        return gpud_fail(error, GPUD_INVALID, "%llu bytes at %llu are not in a memory of %llu",
                         (unsigned long long)size, (unsigned long long)from,
                         (unsigned long long)memory->size);
    return memory->device->ops->dmabuf->export_part(memory, from, size, fd, offset, error);
}

enum gpud_status gpud_memory_before_dma(struct gpud_memory *memory, struct gpud_error *error)
{
    const struct gpud_memory_ops *ops = memory->device->ops->memory;
    return ops->before_dma ? ops->before_dma(memory, error) : GPUD_OK;
}

enum gpud_status gpud_memory_import_dmabuf(struct gpud_device *device, int fd, uint64_t offset,
                                           uint64_t size, struct gpud_memory **memory,
                                           struct gpud_error *error)
{
    enum gpud_status status = check_size(size, error);
    if (status != GPUD_OK)
        return status;
    if (!device->ops->dmabuf || !device->ops->dmabuf->import)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s takes no dma-bufs of others: import them on \"host\"",
                         device->info.name);
    struct gpud_memory *made = new_memory(device, size, GPUD_USAGE_LOCAL);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    made->imported = true;
    return memory_made(made, device->ops->dmabuf->import(made, fd, offset, error), memory);
}

enum gpud_status gpud_memory_begin_access(struct gpud_memory *memory, unsigned access,
                                          struct gpud_error *error)
{
    if (!memory->synced)
        return GPUD_OK;
    return memory->device->ops->dmabuf->sync(memory, access, false, error);
}

void gpud_memory_end_access(struct gpud_memory *memory, unsigned access)
{
    struct gpud_error error;
    if (!memory->synced ||
        memory->device->ops->dmabuf->sync(memory, access, true, &error) == GPUD_OK)
        return;
    gpud_log_error(&memory->device->context->log, memory->device->info.name, "%s", error.reason);
}

enum gpud_status gpud_memory_flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    if (memory->imported)
        return gpud_fail(error, GPUD_INVALID,
                         "writes to imported memory are flushed by the process that owns it");
    return memory->device->ops->memory->flush_remote(memory, error);
}

/* === image =================================================================================== */
/* Images: the checks around a backend's image ops. */

enum gpud_status gpud_image_describe(struct gpud_device *device, const struct gpud_layout *rows,
                                     const uint64_t *modifiers, uint32_t count,
                                     struct gpud_layout *image, struct gpud_error *error)
{
    if (!(device->caps & GPUD_CAP_IMAGES))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s has no images that can be shared: a Vulkan device has, whose driver "
                         "exports memory (VK_KHR_external_memory_fd)",
                         device->info.name);
    return device->ops->image->describe(device, rows, modifiers, count, image, error);
}

static bool lies_in(const struct gpud_layout *layout, uint64_t offset,
                    const struct gpud_memory *memory)
{
    return offset <= memory->size && layout->size <= memory->size - offset;
}

enum gpud_status gpud_image_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                 const struct gpud_layout *to, const struct gpud_layout *from,
                                 struct gpud_error *error)
{
    const struct gpud_device *device = queue->device;
    if (!(device->caps & GPUD_CAP_IMAGES) || (to->modifier && from->modifier))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s does not arrange a picture of the DRM modifier 0x%016llx by 0x%016llx",
                         device->info.name, (unsigned long long)from->modifier,
                         (unsigned long long)to->modifier);
    if (frames->to->device != device || frames->from->device != device ||
        !lies_in(to, frames->to_offset, frames->to) ||
        !lies_in(from, frames->from_offset, frames->from) || frames->to->read_only)
        return gpud_fail(error, GPUD_INVALID, "a copy of a picture leaves the memory of %s",
                         device->info.name);
    gpud_queue_use(queue);
    return device->ops->image->copy(queue, frames, to, from, error);
}
