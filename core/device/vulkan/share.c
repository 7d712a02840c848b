/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of another process or driver. */
#include "device/vulkan/vulkan.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(GPUD_VULKAN_WORDS <= GPUD_HANDLE_WORDS, "they fit");

/* Its size, where the memory begins, and what identifies the build of the driver. */
#define LAVAPIPE_HEADER 32

static VkResult vulkan_share_get_fd(const struct vulkan_device *vulkan,
                                    const struct vulkan_block *block, int *fd)
{
    const VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
        .memory = block->memory,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
    };
    return vulkan->calls.GetMemoryFdKHR(vulkan->device, &info, fd);
}

/* The driver's own descriptor; -1: errno says why. Lavapipe reads from where all processes with
 * this memfd have the file's position: another one that imports it at the same time would move
 * that. */
static int duplicate(const struct vulkan_device *vulkan, int fd)
{
    char path[32];
    int own = -1;
    if (vulkan->facts.is_lavapipe && fcntl(fd, F_GET_SEALS) >= 0) {
        gpud_print(path, "/proc/self/fd/%d", fd);
        own = open(path, O_RDWR | O_CLOEXEC);
    }
    return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* A peer's memory is handed on, to the application's own instance of Vulkan. */
enum gpud_status gpud_vulkan_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                    struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    const struct vulkan_memory *record = gpud_vulkan_record(memory);
    const struct vulkan_block *block = &record->block;
    const char *name = memory->device->info.name;
    if (memory->imported) {
        if (!record->fd)
            return gpud_fail(error, GPUD_UNSUPPORTED,
                             "only the memory of a peer's images can be exported on %s, not that "
                             "of its rows",
                             name);
        handle->fd = duplicate(vulkan, record->fd);
        if (handle->fd < 0)
            return gpud_fail_errno(error, "no descriptor for memory of %s", name);
    } else {
        VkResult result = vulkan_share_get_fd(vulkan, block, &handle->fd);
        if (result != VK_SUCCESS)
            return gpud_vulkan_fail(error, result, "memory of %s cannot be exported", name);
    }
    handle->type = GPUD_HANDLE_VULKAN_FD;
    handle->word[GPUD_VULKAN_SIZE] = block->size;
    handle->word[GPUD_VULKAN_BYTES] = block->bytes;
    handle->word[GPUD_VULKAN_TYPE] = block->type;
    handle->word[GPUD_VULKAN_DEDICATED] = gpud_vulkan_is_dedicated(&vulkan->facts, block->handles);
    memcpy(&handle->word[GPUD_VULKAN_DEVICE_UUID], vulkan->facts.device_uuid, VK_UUID_SIZE);
    memcpy(&handle->word[GPUD_VULKAN_DRIVER_UUID], vulkan->facts.driver_uuid, VK_UUID_SIZE);
    return GPUD_OK;
}

/* --- import; handles are untrusted ----------------------------------------------------------- */

static enum gpud_status check_words(const struct gpud_memory *memory,
                                    const struct gpud_handle *handle, struct gpud_error *error)
{
    const struct vulkan_facts *facts = &gpud_vulkan_device(memory->device)->facts;
    const char *name = memory->device->info.name;
    if (handle->fd < 0)
        return gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a Vulkan device");
    if (!facts->opaque_fd)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", memory->device->no_direct);
    if (memcmp(&handle->word[GPUD_VULKAN_DEVICE_UUID], facts->device_uuid, VK_UUID_SIZE) != 0)
        return gpud_fail(error, GPUD_PEER, "the peer's memory is of another device than %s", name);
    if (memcmp(&handle->word[GPUD_VULKAN_DRIVER_UUID], facts->driver_uuid, VK_UUID_SIZE) != 0)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory is of another driver, or another version of it, than "
                         "%s has: only the same one can open it",
                         name);
    if (handle->word[GPUD_VULKAN_SIZE] < memory->size ||
        handle->word[GPUD_VULKAN_SIZE] % VULKAN_PAGE ||
        handle->word[GPUD_VULKAN_BYTES] < handle->word[GPUD_VULKAN_SIZE] ||
        handle->word[GPUD_VULKAN_BYTES] > UINT64_C(1) << 41 ||
        handle->word[GPUD_VULKAN_TYPE] >= VK_MAX_MEMORY_TYPES)
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)handle->word[GPUD_VULKAN_SIZE], name);
    return GPUD_OK;
}

/* Whether a memfd is one that lavapipe makes for such memory: what it finds at the beginning, the
 * size and where the memory begins, it believes. A peer that changes that after this check can
 * still crash this process; drivers of GPUs keep nothing of the kind where a peer can write. */
static enum gpud_status check_like_own(const struct vulkan_device *vulkan, int fd,
                                       const struct vulkan_block *claim, struct gpud_error *error)
{
    struct vulkan_block own;
    char wanted[LAVAPIPE_HEADER], found[LAVAPIPE_HEADER];
    int made = -1;
    VkResult result = gpud_vulkan_block_make(vulkan, claim->size, vulkan->facts.shared, &own);
    if (result == VK_SUCCESS)
        result = vulkan_share_get_fd(vulkan, &own, &made);
    struct stat ours, theirs;
    bool alike = made >= 0 && fstat(made, &ours) == 0 && fstat(fd, &theirs) == 0 &&
                 theirs.st_size >= ours.st_size &&
                 pread(made, wanted, sizeof(wanted), 0) == LAVAPIPE_HEADER &&
                 pread(fd, found, sizeof(found), 0) == LAVAPIPE_HEADER &&
                 memcmp(wanted, found, sizeof(wanted)) == 0;
    gpud_fd_close(&made);
    gpud_vulkan_block_free(vulkan, &own);
    if (result != VK_SUCCESS)
        return gpud_vulkan_fail(error, result, "no %llu bytes to compare the peer's memory with",
                                (unsigned long long)claim->size);
    if (!alike)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memfd is not memory of %llu bytes as this driver makes it",
                         (unsigned long long)claim->size);
    return GPUD_OK;
}

/* Drivers take the size from the importer, so the descriptor has to hold what is claimed. Software
 * drivers export a memfd, which must not shrink either; a GPU's driver a dma-buf, which tells its
 * size, or a device of its own, which it alone knows. */
static enum gpud_status check_descriptor(const struct vulkan_device *vulkan, int fd,
                                         const struct vulkan_block *claim, struct gpud_error *error)
{
    bool is_lavapipe = vulkan->facts.is_lavapipe;
    mode_t type;
    if (fcntl(fd, F_GET_SEALS) >= 0) {
        enum gpud_status status = gpud_memfd_check(fd, claim->bytes, error);
        return status == GPUD_OK && is_lavapipe ? check_like_own(vulkan, fd, claim, error) : status;
    }
    if (!gpud_fd_type(fd, &type))
        return gpud_fail(error, GPUD_PEER, "the peer's descriptor cannot be looked at: %s",
                         strerror(errno));
    bool known = is_lavapipe ? gpud_fd_is_dmabuf(fd) : type == 0 || type == S_IFCHR;
    off_t end = known && type == 0 ? lseek(fd, 0, SEEK_END) : -1;
    if (end >= 0)
        lseek(fd, 0, SEEK_SET);
    if (!known || (end >= 0 && (uint64_t)end < claim->bytes))
        return gpud_fail(error, GPUD_PEER,
                         "the peer sent a descriptor that is not memory of %llu bytes",
                         (unsigned long long)claim->bytes);
    return GPUD_OK;
}

/* Of CUDA and HIP the only word is the size. Which GPU it is, both ends have compared. */
static enum gpud_status check_other_driver(const struct gpud_memory *memory,
                                           const struct gpud_handle *handle,
                                           struct gpud_error *error)
{
    const struct vulkan_facts *facts = &gpud_vulkan_device(memory->device)->facts;
    const char *name = memory->device->info.name;
    if (handle->type == GPUD_HANDLE_CUDA_FD ? !facts->of_cuda : !facts->of_hip)
        return gpud_fail(error, GPUD_UNSUPPORTED, "the driver of %s imports no memory of %s", name,
                         handle->type == GPUD_HANDLE_CUDA_FD ? "CUDA" : "HIP");
    if (handle->fd < 0 || handle->word[0] < memory->size || handle->word[0] % VULKAN_PAGE ||
        handle->word[0] > UINT64_C(1) << 41)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory has %llu bytes and %s descriptor: %s cannot map it",
                         (unsigned long long)handle->word[0], handle->fd < 0 ? "no" : "a", name);
    return GPUD_OK;
}

enum gpud_status gpud_vulkan_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                    struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    const char *name = memory->device->info.name;
    /* What is claimed of the memory, and where it comes from. */
    struct vulkan_block claim = {.size = handle->word[0], .bytes = handle->word[0]};
    enum vulkan_origin origin;
    enum gpud_status status;
    switch (handle->type) {
    case GPUD_HANDLE_VULKAN_FD:
        origin = VULKAN_OF_PEER;
        claim = (struct vulkan_block){.size = handle->word[GPUD_VULKAN_SIZE],
                                      .bytes = handle->word[GPUD_VULKAN_BYTES],
                                      .type = (uint32_t)handle->word[GPUD_VULKAN_TYPE]};
        status = check_words(memory, handle, error);
        break;
    case GPUD_HANDLE_CUDA_FD:
    case GPUD_HANDLE_HIP_FD:
        origin = handle->type == GPUD_HANDLE_CUDA_FD ? VULKAN_OF_DRIVER : VULKAN_OF_DMABUF;
        status = check_other_driver(memory, handle, error);
        break;
    default:
        return gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a GPU that %s knows",
                         name);
    }
    if (status == GPUD_OK)
        status = check_descriptor(vulkan, handle->fd, &claim, error);
    if (status != GPUD_OK)
        return status;
    int own = duplicate(vulkan, handle->fd);
    if (own < 0)
        return gpud_fail(error, errno == EMFILE ? GPUD_NO_MEMORY : GPUD_PEER,
                         "the peer's descriptor cannot be kept: %s", strerror(errno));
    struct vulkan_memory *record = calloc(1, sizeof(*record));
    VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (record) {
        record->block = claim;
        result = gpud_vulkan_block_import(vulkan, &own, origin, &record->block);
    }
    if (result != VK_SUCCESS) {
        gpud_fd_close(&own);
        free(record);
        return gpud_vulkan_fail_as(
            error, result == VK_ERROR_OUT_OF_HOST_MEMORY ? GPUD_NO_MEMORY : GPUD_PEER, result,
            "the peer's descriptor is not memory that %s can open", name);
    }
    if (origin == VULKAN_OF_PEER && handle->keep)
        record->fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 3);
    if (record->fd < 0)
        record->fd = 0; /* the call that needs it says so */
    memory->backend = record;
    memory->native = record->block.buffer;
    memory->reexports = origin == VULKAN_OF_PEER && vulkan->facts.reexports;
    return GPUD_OK;
}
