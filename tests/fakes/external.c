/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of Vulkan's driver on the same GPU. It stands behind a memfd whose name tells which GPU's
 * it is, and how large: "fake-vulkan-v:DEVICE:SIZE:", as a test makes it. */

#include "fake.h"

#include <stdlib.h>
#include <unistd.h>

struct CUextMemory_st {
    struct object object;
    struct backing *backing;
    CUcontext context;
};

CUresult cuImportExternalMemory(CUexternalMemory *memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *what)
{
    ENTER(NEED_CONTEXT);
    if (!memory || !what || what->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        what->flags > CUDA_EXTERNAL_MEMORY_DEDICATED || what->size == 0)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or type or flags"));
    for (size_t i = 0; i < sizeof what->reserved / sizeof what->reserved[0]; i++)
        if (what->reserved[i])
            return leave(refuse(CUDA_ERROR_INVALID_VALUE, "reserved members are not 0"));
    /* The descriptor is the driver's on success alone. */
    int fd = dup(what->handle.fd);
    if (fd < 0)
        return leave(refuse(CUDA_ERROR_INVALID_HANDLE, "no open file: %m"));
    struct backing *backing = NULL;
    CUresult result = backing_import_named("fake-vulkan", 'v', fd, &backing);
    if (result != CUDA_SUCCESS)
        return leave(result);
    CUcontext context = current_context();
    struct CUextMemory_st *made = what->size == backing->size && backing->device == context->device
                                      ? calloc(1, sizeof *made)
                                      : NULL;
    if (!made) {
        backing_unref(backing);
        return leave(refuse(CUDA_ERROR_INVALID_VALUE,
                            "%llu bytes are not what there is, or it is "
                            "another device's",
                            what->size));
    }
    object_add(&made->object, EXTERNAL);
    made->backing = backing;
    made->context = context;
    close(what->handle.fd);
    *memory = made;
    return leave(CUDA_SUCCESS);
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *what)
{
    ENTER(NEED_CONTEXT);
    struct CUextMemory_st *from = object_find(memory, EXTERNAL);
    if (!from)
        return leave(report(CUDA_ERROR_INVALID_HANDLE, "no external memory, or destroyed before"));
    if (!address || !what || what->flags || what->size == 0 || what->offset > from->backing->size ||
        what->size > from->backing->size - what->offset)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or not within the memory"));
    CUdeviceptr start = arena_take(what->size, GRANULARITY);
    struct range *range = start ? range_add(RANGE_EXTERNAL, start, what->size) : NULL;
    if (!range)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    range->backing = from->backing;
    range->backing->references++;
    range->cpu = from->backing->cpu + what->offset;
    range->context = from->context;
    range->device = from->backing->device;
    *address = start;
    return leave(CUDA_SUCCESS);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    ENTER(NEED_CONTEXT);
    struct CUextMemory_st *gone = object_find(memory, EXTERNAL);
    if (!gone)
        return leave(report(CUDA_ERROR_INVALID_HANDLE, "no external memory, or destroyed before"));
    for (struct range *range = fake.ranges; range; range = range->next)
        if (range->kind == RANGE_EXTERNAL && range->backing == gone->backing)
            report(CUDA_SUCCESS, "external memory is destroyed while %#llx is mapped",
                   range->start);
    gone->object.alive = false;
    backing_unref(gone->backing);
    gone->backing = NULL;
    return leave(CUDA_SUCCESS);
}
