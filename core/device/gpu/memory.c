/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory: allocated, mapped, shared, and accessed through pinned pages. */
#include "device/gpu/gpu.h"

#include "base/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === tables ================================================================================== */
/* Counted operations that a driver does once a process: pinning a host page, and opening a peer's
 * handle in a context. All calls are made between the driver's enter and leave. */

/* --- pinned host pages --------------------------------------------------------------------- */

struct gpud_pinned {
    struct gpud_pinned *next;
    char *start;
    uint64_t size;
    unsigned count;
};

static bool pins_register(const struct gpud_gpu_driver *driver, void *pages, uint64_t size,
                          bool read_only)
{
    unsigned flags = GPUD_GPU_REGISTER_PORTABLE | GPUD_GPU_REGISTER_MAPPED;
    if (read_only && driver->read_only_flag &&
        driver->mem_host_register(pages, size, flags | driver->read_only_flag) == 0)
        return true;
    return driver->mem_host_register(pages, size, flags) == 0;
}

/* NULL with true: the driver refuses, perhaps because the application has pinned the pages. Memory
 * that shares a page with other data is never pinned, because drivers refuse copies of partly
 * pinned memory. false: out of memory. */
static bool pins_add(struct gpud_gpu_driver *driver, void *data, uint64_t size, bool read_only,
                     struct gpud_pinned **pinned)
{
    struct gpud_pins *pins = &driver->pins;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct gpud_pinned *range = malloc(sizeof(*range));
    if (!range)
        return false;
    *range = (struct gpud_pinned){
        .start = data,
        .size = (size + page - 1) / page * page,
        .count = 1,
    };
    gpud_lock_take(&pins->lock);
    struct gpud_pinned *found = pins->first;
    while (found &&
           (found->start > range->start || found->start + found->size < range->start + range->size))
        found = found->next;
    if (found) {
        found->count++;
    } else if ((uintptr_t)data % page == 0 &&
               pins_register(driver, range->start, range->size, read_only)) {
        range->next = pins->first;
        pins->first = found = range;
        range = NULL;
    }
    gpud_lock_release(&pins->lock);
    free(range);
    *pinned = found;
    return true;
}

void gpud_pins_remove(struct gpud_gpu_driver *driver, struct gpud_pinned *pinned)
{
    struct gpud_pins *pins = &driver->pins;
    if (!pinned)
        return;
    gpud_lock_take(&pins->lock);
    if (--pinned->count == 0) {
        struct gpud_pinned **link = &pins->first;
        while (*link != pinned)
            link = &(*link)->next;
        *link = pinned->next;
        driver->mem_host_unregister(pinned->start);
        free(pinned);
    }
    gpud_lock_release(&pins->lock);
}

/* --- opened handles ------------------------------------------------------------------------ */

struct gpud_opened {
    struct gpud_opened *next;
    const void *context;
    struct gpud_gpu_ipc handle;
    uint64_t base;
    unsigned count;
};

/* Opens a peer's handle, or finds it open in this context. Returns the driver's result. */
static int opens_add(struct gpud_gpu_driver *driver, const void *context,
                     const struct gpud_gpu_ipc *handle, uint64_t *base)
{
    struct gpud_opens *opens = &driver->opens;
    int result = 0;
    gpud_lock_take(&opens->lock);
    struct gpud_opened *found = opens->first;
    while (found &&
           (found->context != context || memcmp(&found->handle, handle, sizeof(*handle)) != 0))
        found = found->next;
    if (!found) {
        struct gpud_opened *made = calloc(1, sizeof(*made));
        result = made ? driver->ipc_open_mem_handle(&made->base, *handle, driver->ipc_flags)
                      : GPUD_GPU_OUT_OF_MEMORY;
        if (result) {
            free(made);
        } else {
            made->context = context;
            made->handle = *handle;
            made->next = opens->first;
            opens->first = found = made;
        }
    }
    if (found) {
        found->count++;
        *base = found->base;
    }
    gpud_lock_release(&opens->lock);
    return result;
}

static void opens_remove(struct gpud_gpu_driver *driver, const void *context, uint64_t base)
{
    struct gpud_opens *opens = &driver->opens;
    gpud_lock_take(&opens->lock);
    struct gpud_opened **link = &opens->first;
    while (*link && ((*link)->context != context || (*link)->base != base))
        link = &(*link)->next;
    struct gpud_opened *found = *link;
    if (found && --found->count == 0) {
        *link = found->next;
        driver->ipc_close_mem_handle(base);
        free(found);
    }
    gpud_lock_release(&opens->lock);
}

/* === map ===================================================================================== */

static struct gpud_gpu_allocation gpu_describe(const struct gpud_gpu *gpu)
{
    return (struct gpud_gpu_allocation){
        .type = GPUD_GPU_TYPE_PINNED,
        .handles = GPUD_GPU_HANDLE_FD,
        .location = {GPUD_GPU_ON_DEVICE, gpu->ordinal},
        .flags = {.rdma = gpu->rdma},
    };
}

uint64_t gpud_gpu_find_granularity(const struct gpud_gpu *gpu)
{
    const struct gpud_gpu_allocation what = gpu_describe(gpu);
    size_t unit = 0;
    return gpu->driver->mem_get_allocation_granularity(&unit, &what,
                                                       GPUD_GPU_GRANULARITY_MINIMUM) == 0
               ? unit
               : 0;
}

static int allow(const struct gpud_gpu *gpu, uint64_t address, uint64_t size, int flags)
{
    const struct gpud_gpu_access access = {
        .location = {GPUD_GPU_ON_DEVICE, gpu->ordinal},
        .flags = flags,
    };
    return gpu->driver->mem_set_access(address, size, &access, 1);
}

/* Maps a physical allocation for this GPU: reserves addresses, maps, allows access. */
static enum gpud_status gpu_map(const struct gpud_gpu *gpu, uint64_t allocation, uint64_t size,
                                bool read_only, uint64_t *address, int *result)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    uint64_t at = 0;
    *result = driver->mem_address_reserve(&at, size, 0, 0, 0);
    if (*result)
        return GPUD_NO_MEMORY;
    *result = driver->mem_map(at, size, 0, allocation, 0);
    if (*result == 0) {
        *result = allow(gpu, at, size, read_only ? GPUD_GPU_READ : GPUD_GPU_READ_WRITE);
        if (*result && read_only) /* not every GPU has read-only mappings */
            *result = allow(gpu, at, size, GPUD_GPU_READ_WRITE);
        if (*result == 0) {
            *address = at;
            return GPUD_OK;
        }
        if (driver->mem_unmap(at, size))
            return GPUD_IO; /* the address range is leaked */
    }
    driver->mem_address_free(at, size);
    return GPUD_IO;
}

int gpud_gpu_create(const struct gpud_gpu *gpu, struct gpud_gpu_memory *record)
{
    const struct gpud_gpu_allocation what = gpu_describe(gpu);
    int result = gpu->driver->mem_create(&record->allocation, record->mapped, &what, 0);
    if (result)
        return result;
    if (gpu_map(gpu, record->allocation, record->mapped, false, &record->address, &result) !=
        GPUD_OK)
        gpu->driver->mem_release(record->allocation);
    return result;
}

void gpud_gpu_unmap(const struct gpud_gpu *gpu, const struct gpud_gpu_memory *record)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    if (driver->mem_unmap(record->address, record->mapped) == 0)
        driver->mem_address_free(record->address, record->mapped);
    driver->mem_release(record->allocation);
}

/* === share =================================================================================== */

/* --- export -------------------------------------------------------------------------------- */

static enum gpud_status export_ipc(struct gpud_gpu *gpu, struct gpud_gpu_memory *record,
                                   struct gpud_handle *handle, struct gpud_error *error)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    struct gpud_gpu_ipc ipc;
    uint64_t base = 0;
    size_t size;
    int result = driver->mem_get_address_range(&base, &size, record->address);
    if (result == 0)
        result = driver->ipc_get_mem_handle(&ipc, base);
    if (result == GPUD_GPU_NOT_SUPPORTED)
        return gpud_gpu_fail_as(gpu->driver, error, GPUD_UNSUPPORTED, result,
                                "memory from %s cannot be shared on this GPU, which has no legacy "
                                "handles (as integrated ones): use memory that gpudirect allocates",
                                gpu->driver->allocator);
    if (result)
        return gpud_gpu_fail_as(gpu->driver, error, GPUD_UNSUPPORTED, result,
                                "this memory cannot be shared: memory from %s can, memory of pools "
                                "and mappings cannot",
                                gpu->driver->allocator);
    record->by_handle = true;
    handle->type = driver->ipc_type;
    handle->word[0] = record->address - base;
    _Static_assert(sizeof(ipc) == 8 * sizeof(handle->word[0]), "the handle fits its words");
    memcpy(&handle->word[1], &ipc, sizeof(ipc));
    return GPUD_OK;
}

/* The ops of these names. */
static enum gpud_status gpu_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                   struct gpud_error *error)
{
    struct gpud_gpu_memory *record = memory->backend;
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    enum gpud_status status = GPUD_OK;
    gpu->driver->enter(gpu);
    if (record->kind == GPUD_GPU_PHYSICAL) {
        int result =
            gpu->driver->mem_export(&handle->fd, record->allocation, GPUD_GPU_HANDLE_FD, 0);
        handle->type = gpu->driver->fd_type;
        handle->word[0] = record->mapped;
        if (result) {
            handle->fd = -1;
            status = gpud_gpu_fail(gpu->driver, error, result, "memory of %s cannot be exported",
                                   memory->device->info.name);
        }
    } else if (record->kind == GPUD_GPU_PLAIN || record->kind == GPUD_GPU_WRAPPED) {
        status = export_ipc(gpu, record, handle, error);
    } else {
        status = gpud_fail(error, GPUD_UNSUPPORTED, "host memory is exported as host memory");
    }
    gpu->driver->leave(gpu);
    return status;
}

/* Only the allocator's memory, ours or the application's, supports this. Physical allocations and
 * pools do not need it: ours are written only by streams, and an application orders its card after
 * a stream, too (gpudirect/transfer.h). After enter. */
static enum gpud_status make_synchronous(struct gpud_gpu *gpu, const struct gpud_gpu_memory *record,
                                         struct gpud_error *error)
{
    if (!gpu->driver->make_synchronous ||
        (record->kind != GPUD_GPU_PLAIN && record->kind != GPUD_GPU_WRAPPED))
        return GPUD_OK;
    int result = gpu->driver->make_synchronous(record->address);
    return result == 0 || result == GPUD_GPU_NOT_SUPPORTED || result == GPUD_GPU_INVALID_VALUE
               ? GPUD_OK
               : gpud_gpu_fail(gpu->driver, error, result,
                               "the driver does not order copies of this memory before a card's");
}

static enum gpud_status gpu_before_dma(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    gpu->driver->enter(gpu);
    enum gpud_status status = make_synchronous(gpu, memory->backend, error);
    gpu->driver->leave(gpu);
    return status;
}

static enum gpud_status gpu_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t bytes,
                                          int *fd, uint64_t *offset, struct gpud_error *error)
{
    const struct gpud_gpu_memory *record = memory->backend;
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    if (record->kind > GPUD_GPU_PLAIN && record->kind != GPUD_GPU_WRAPPED)
        return gpud_fail(error, GPUD_INVALID, "only memory of %s itself has a dma-buf",
                         memory->device->info.name);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start;
    uint64_t address = record->address + from, in_page = address % page;
    uint64_t size = (in_page + bytes + page - 1) / page * page;
    int made = -1;
    gpu->driver->enter(gpu);
    enum gpud_status status = make_synchronous(gpu, record, error);
    if (status == GPUD_OK)
        status = gpu->driver->export_dmabuf(memory->device, address - in_page, size, &made, &start,
                                            error);
    gpu->driver->leave(gpu);
    if (status != GPUD_OK)
        return status;
    *fd = made;
    *offset = start + in_page;
    return GPUD_OK;
}

/* --- import; handles are untrusted --------------------------------------------------------- */

static enum gpud_status import_ipc(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                   const struct gpud_handle *handle, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    uint64_t base = 0;
    size_t size = 0;
    struct gpud_gpu_ipc ipc;
    memcpy(&ipc, &handle->word[1], sizeof(ipc));
    int result = opens_add(gpu->driver, gpu->context, &ipc, &record->base);
    if (result)
        return gpud_gpu_fail_as(gpu->driver, error, GPUD_UNSUPPORTED, result,
                                "%s cannot open the peer's memory by its legacy handle (another "
                                "container or the same process cannot)",
                                memory->device->info.name);
    if (gpu->driver->mem_get_address_range(&base, &size, record->base) || handle->word[0] > size ||
        memory->size > size - handle->word[0]) {
        opens_remove(gpu->driver, gpu->context, record->base);
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory ends before the %llu bytes that it promised",
                         (unsigned long long)memory->size);
    }
    record->kind = GPUD_GPU_IPC;
    record->address = record->base + handle->word[0];
    return GPUD_OK;
}

/* A driver that is short of memory says nothing about the peer: another route may do. */
static enum gpud_status blame(int result)
{
    return result == GPUD_GPU_OUT_OF_MEMORY ? GPUD_NO_MEMORY : GPUD_PEER;
}

static enum gpud_status import_fd(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                  const struct gpud_handle *handle, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    const struct gpud_gpu_driver *driver = gpu->driver;
    const char *name = memory->device->info.name;
    record->kind = GPUD_GPU_PHYSICAL;
    record->mapped = handle->word[0];
    if (!gpu->granularity || record->mapped < memory->size || record->mapped % gpu->granularity ||
        record->mapped > (UINT64_C(1) << 41))
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)record->mapped, name);
    int fd = handle->fd;
    int result = driver->mem_import(&record->allocation,
                                    driver->imports_by_address ? (void *)&fd : (void *)(intptr_t)fd,
                                    GPUD_GPU_HANDLE_FD);
    if (result)
        return gpud_gpu_fail_as(driver, error, blame(result), result,
                                "the peer's handle is not memory of a GPU that %s knows", name);
    struct gpud_gpu_allocation what = {0};
    result = driver->mem_get_allocation_properties(&what, record->allocation);
    if (result == 0 && what.location.type == GPUD_GPU_ON_DEVICE &&
        gpu_map(gpu, record->allocation, record->mapped, memory->usage == GPUD_USAGE_SHARE,
                &record->address, &result) == GPUD_OK)
        return GPUD_OK;
    driver->mem_release(record->allocation);
    return gpud_gpu_fail_as(driver, error, blame(result), result,
                            "%s cannot map the %llu bytes that the peer offers", name,
                            (unsigned long long)record->mapped);
}

/* Which allocation it is, the descriptor says to the driver alone; the words are claims. */
static enum gpud_status import_graphics(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                        const struct gpud_handle *handle, struct gpud_error *error)
{
    const struct gpud_gpu_driver *driver = gpud_gpu(memory->device)->driver;
    const char *name = memory->device->info.name;
    const uint64_t *word = handle->word;
    if (memcmp(&word[GPUD_VULKAN_DEVICE_UUID], memory->device->uuid,
               sizeof(memory->device->uuid)) != 0)
        return gpud_fail(error, GPUD_PEER, "the peer's memory is of another GPU than %s", name);
    if (word[GPUD_VULKAN_SIZE] < memory->size || word[GPUD_VULKAN_BYTES] < word[GPUD_VULKAN_SIZE] ||
        word[GPUD_VULKAN_BYTES] > UINT64_C(1) << 41)
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)word[GPUD_VULKAN_SIZE], name);
    int own = fcntl(handle->fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return gpud_fail_errno(error, "the peer's descriptor cannot be kept");
    record->kind = GPUD_GPU_GRAPHICS;
    int result = driver->open_graphics(own, word[GPUD_VULKAN_BYTES], word[GPUD_VULKAN_DEDICATED],
                                       memory->size, &record->object, &record->address);
    if (result == 0)
        return GPUD_OK;
    return gpud_gpu_fail_as(driver, error, blame(result), result,
                            "the peer's handle is not memory of a GPU that %s knows", name);
}

static enum gpud_status gpu_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                   struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    enum gpud_status status;
    gpu->driver->enter(gpu);
    if (handle->type == gpu->driver->fd_type && handle->fd >= 0)
        status = import_fd(memory, record, handle, error);
    else if (handle->type == gpu->driver->ipc_type)
        status = import_ipc(memory, record, handle, error);
    else if (handle->type == GPUD_HANDLE_VULKAN_FD && handle->fd >= 0 && gpu->driver->open_graphics)
        status = import_graphics(memory, record, handle, error);
    else
        status = gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a %s device",
                           gpu->driver->vendor);
    gpu->driver->leave(gpu);
    if (status != GPUD_OK) {
        free(record);
        return status;
    }
    memory->backend = record;
    memory->native = (void *)(uintptr_t)record->address;
    return GPUD_OK;
}

/* --- pinned pages: registered once, for all devices ---------------------------------------- */

bool gpud_gpu_pins_what_it_reads(struct gpud_gpu *gpu)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    void *written, *read;
    uint64_t address;
    int fd = -1;
    if (gpud_memfd_create("gpudirect-pin", size, GPUD_SHARE_READ_ONLY, &fd, &written, NULL) !=
        GPUD_OK)
        return true; /* not known: assume so */
    bool pins = true;
    if (gpud_memfd_map(fd, size, false, &read, NULL) == GPUD_OK) {
        gpu->driver->enter(gpu);
        pins = pins_register(driver, read, size, true);
        if (pins) {
            pins = driver->mem_host_get_device_pointer(&address, read, 0) == 0;
            driver->mem_host_unregister(read);
        }
        gpu->driver->leave(gpu);
        gpud_memory_unmap_pages(read, size);
    }
    gpud_memory_unmap_pages(written, size);
    gpud_fd_close(&fd);
    return pins;
}

enum gpud_status gpud_gpu_pin(struct gpud_gpu *gpu, void *data, uint64_t size, bool read_only,
                              struct gpud_pinned **pinned, uint64_t *address)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    struct gpud_pinned *range;
    uint64_t last;
    if (!pins_add(gpu->driver, data, size, read_only, &range))
        return GPUD_NO_MEMORY;
    /* The application may have pinned it: then it has device addresses. */
    if (driver->mem_host_get_device_pointer(address, data, 0) == 0 &&
        driver->mem_host_get_device_pointer(&last, (char *)data + size - 1, 0) == 0) {
        *pinned = range;
        return GPUD_OK;
    }
    gpud_pins_remove(gpu->driver, range);
    return GPUD_UNSUPPORTED;
}

/* === memory ================================================================================== */
/* Device memory: mapped from physical allocations, which can be exported as descriptors, also into
 * another container; plain if the driver has none. */

/* How long a peer has to close a legacy handle after the end of the link: freeing memory that is
 * still open elsewhere is undefined, and closing it is not reported. */
#define HANDLE_GRACE (GPUD_SEC / 2)

/* After enter; no stream uses it any more. */
static void gpu_memory_give_back(struct gpud_device *device, void *given)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    struct gpud_gpu_memory *record = given;
    switch (record->kind) {
    case GPUD_GPU_PHYSICAL:
        gpud_gpu_unmap(gpu, record);
        break;
    case GPUD_GPU_PLAIN:
        gpu->driver->mem_free(record->address);
        break;
    case GPUD_GPU_IPC:
        opens_remove(gpu->driver, gpu->context, record->base);
        break;
    case GPUD_GPU_GRAPHICS:
        gpu->driver->close_graphics(record->object, record->address);
        break;
    case GPUD_GPU_PINNED:
        gpud_pins_remove(gpu->driver, record->pinned);
        break;
    case GPUD_GPU_WRAPPED:
    case GPUD_GPU_PAGEABLE:
        break;
    }
    free(record);
}

/* --- our own ------------------------------------------------------------------------------- */

static enum gpud_status gpu_memory_alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    const struct gpud_gpu_driver *driver = gpu->driver;
    uint64_t unit = gpu->granularity, size = memory->size;
    enum gpud_status status = gpud_check_clearing(&gpu->async, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    record->kind = unit ? GPUD_GPU_PHYSICAL : GPUD_GPU_PLAIN;
    record->mapped = unit ? (size + unit - 1) / unit * unit : size;
    driver->enter(gpu);
    int result = unit ? gpud_gpu_create(gpu, record) : driver->mem_alloc(&record->address, size);
    if (result) {
        driver->leave(gpu);
        free(record);
        return gpud_gpu_fail(driver, error, result,
                             "no %llu bytes on %s: smaller or fewer slots need less",
                             (unsigned long long)size, memory->device->info.name);
    }
    /* The whole mapping is zeroed: an importer sees all of it, and must not see old data. */
    result = driver->memset_d8_async(record->address, 0, record->mapped, gpu->service);
    status = result ? gpud_gpu_fail(driver, error, result, "new memory cannot be cleared")
                    : gpud_gpu_wait(gpu, gpu->service, gpud_deadline(GPUD_CLEAR_TIMEOUT), error);
    if (status != GPUD_OK && status != GPUD_TIMEOUT)
        gpu_memory_give_back(memory->device, record);
    driver->leave(gpu);
    if (status == GPUD_TIMEOUT)
        return gpud_free_when_cleared(&gpu->async, &record->after, record, gpu_memory_give_back,
                                      gpu->service, error);
    if (status != GPUD_OK)
        return status;
    memory->backend = record;
    memory->native = (void *)(uintptr_t)record->address;
    return GPUD_OK;
}

/* --- freeing ------------------------------------------------------------------------------- */

static void gpu_memory_free_memory(struct gpud_memory *memory)
{
    struct gpud_gpu_memory *record = memory->backend;
    gpud_free_after(&gpud_gpu(memory->device)->async, &record->after, memory, gpu_memory_give_back,
                    record->by_handle ? gpud_deadline(HANDLE_GRACE) : 0, false);
}

/* --- the application's ------------------------------------------------------------------------ */

static enum gpud_status gpu_memory_wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_pointer_info info = {0};
    const struct gpud_device *device = memory->device;
    const char *name = device->info.name;
    if (!device->ops->identify(memory->native, &info) || info.kind == GPUD_POINTER_PINNED)
        return gpud_fail(error, GPUD_INVALID,
                         "the pointer is host memory: wrap it on the device \"host\"");
    if (info.kind == GPUD_POINTER_MANAGED)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "managed memory moves by itself: copy it, or allocate with %s",
                         gpud_gpu(device)->driver->allocator);
    if (strcmp(info.device, name) != 0)
        return gpud_fail(error, GPUD_INVALID, "the pointer lies on %s, not on %s", info.device,
                         name);
    uint64_t before = (uint64_t)((char *)memory->native - (char *)info.base);
    if (info.base && (before > info.length || memory->size > info.length - before))
        return gpud_fail(
            error, GPUD_INVALID, "the allocation ends %llu bytes after the pointer, not %llu",
            (unsigned long long)(info.length - before), (unsigned long long)memory->size);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    record->kind = GPUD_GPU_WRAPPED;
    record->address = (uint64_t)(uintptr_t)memory->native;
    memory->backend = record;
    return GPUD_OK;
}

static enum gpud_status gpu_memory_wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    gpu->driver->enter(gpu);
    enum gpud_status status = gpud_gpu_pin(gpu, memory->host, memory->size, memory->read_only,
                                           &record->pinned, &record->address);
    gpu->driver->leave(gpu);
    record->kind = GPUD_GPU_PINNED;
    if (status == GPUD_UNSUPPORTED) {
        record->kind = GPUD_GPU_PAGEABLE;
        memory->unpinned = true;
    } else if (status != GPUD_OK) {
        free(record);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    }
    memory->backend = record;
    memory->native = memory->host;
    return GPUD_OK;
}

/* --- remote writes ------------------------------------------------------------------------- */

static enum gpud_status gpu_memory_flush_remote(struct gpud_memory *memory,
                                                struct gpud_error *error)
{
    if (gpud_gpu_record(memory)->kind >= GPUD_GPU_PINNED)
        return GPUD_OK;
    return gpud_gpu(memory->device)->driver->flush_remote(memory, error);
}

const struct gpud_dmabuf_ops gpud_gpu_dmabuf_ops = {
    .export_part = gpu_export_dmabuf,
};

const struct gpud_memory_ops gpud_gpu_memory_ops = {
    .alloc = gpu_memory_alloc,
    .wrap = gpu_memory_wrap,
    .wrap_host = gpu_memory_wrap_host,
    .free = gpu_memory_free_memory,
    .export_handle = gpu_export,
    .import_handle = gpu_import,
    .before_dma = gpu_before_dma,
    .flush_remote = gpu_memory_flush_remote,
};
