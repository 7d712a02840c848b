/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies and fills. */

#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* The kind of an address, as the caller states it. */
enum place { ANY, HOST, DEVICE };

struct side {
    CUdeviceptr address;
    enum place place;
    size_t pitch;
    CUcontext context; /* whose right counts */
};

static CUresult use_side(const struct side *side, size_t width, size_t rows, bool write,
                         struct use *use)
{
    size_t span = (rows - 1) * side->pitch + width;
    bool device = side->place == DEVICE ||
                  (side->place == ANY && (in_arena(side->address) || range_at(side->address)));
    if (device)
        return use_device(side->context, side->address, span, write, use);
    return use_host(side->context, (const void *)(uintptr_t)side->address, span, write, use);
}

/* The driver has read a pageable source when the call returns, so the program may change it. */
static bool stage(struct operation *operation)
{
    operation->staging = malloc(operation->rows * operation->width);
    if (!operation->staging)
        return false;
    for (size_t row = 0; row < operation->rows; row++)
        memcpy(operation->staging + row * operation->width,
               operation->from.cpu + row * operation->from_pitch, operation->width);
    operation->from_pitch = operation->width;
    return true;
}

/* Which copies block, as the driver's manual has it: a copy within the devices or from pageable
 * memory is never waited for, also by the functions without a stream; one to pageable memory is,
 * also by those with a stream. */
static bool must_wait(const struct use *to, const struct use *from, bool synchronous)
{
    bool to_host = !to->range || to->range->kind == RANGE_HOST;
    bool from_pinned = from->range && from->range->kind == RANGE_HOST;
    return !to->range || (synchronous && (to_host || from_pinned));
}

static CUresult copy(struct side to, struct side from, size_t width, size_t rows, CUstream stream,
                     bool synchronous)
{
    CUstream found;
    CUresult result = stream_find(stream, &found);
    if (result != CUDA_SUCCESS || width == 0 || rows == 0)
        return result;
    struct operation *operation = operation_new(COPY);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    to.context = to.context ? to.context : found->context;
    from.context = from.context ? from.context : found->context;
    operation->width = width;
    operation->rows = rows;
    operation->to_pitch = to.pitch;
    operation->from_pitch = from.pitch;
    /* Only now: a use that fails is not to be given back. */
    struct use to_use, from_use;
    result = use_side(&to, width, rows, true, &to_use);
    if (result == CUDA_SUCCESS)
        result = use_side(&from, width, rows, false, &from_use);
    if (result == CUDA_SUCCESS) {
        operation->from = from_use;
        if (!from_use.range && !stage(operation))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        operation->from.range = NULL;
        operation_free(operation);
        return result;
    }
    operation->to = to_use;
    bool wait = must_wait(&to_use, &from_use, synchronous);
    result = submit(found, operation);
    return result == CUDA_SUCCESS && wait ? wait_for(found, found->submitted) : result;
}

static CUresult copy_line(CUdeviceptr to, enum place to_place, CUdeviceptr from,
                          enum place from_place, size_t size, CUstream stream, bool synchronous)
{
    return copy((struct side){.address = to, .place = to_place},
                (struct side){.address = from, .place = from_place}, size, 1, stream, synchronous);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line(to, ANY, from, ANY, size, NULL, true));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line(to, ANY, from, ANY, size, stream, false));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line(to, DEVICE, (uintptr_t)from, HOST, size, NULL, true));
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line((uintptr_t)to, HOST, from, DEVICE, size, NULL, true));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line(to, DEVICE, from, DEVICE, size, NULL, true));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line(to, DEVICE, (uintptr_t)from, HOST, size, stream, false));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line((uintptr_t)to, HOST, from, DEVICE, size, stream, false));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_line(to, DEVICE, from, DEVICE, size, stream, false));
}

/* Needs no peer access: each side is its own context's. */
static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t size, CUstream stream, bool synchronous)
{
    CUcontext both[2] = {to_context, from_context};
    for (int i = 0; i < 2; i++) {
        CUcontext found = object_find(both[i], CONTEXT);
        if (!found || !found->object.alive)
            return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", (void *)both[i]);
    }
    return copy((struct side){.address = to, .place = DEVICE, .context = to_context},
                (struct side){.address = from, .place = DEVICE, .context = from_context}, size, 1,
                stream, synchronous);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_peer(to, to_context, from, from_context, size, NULL, true));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_peer(to, to_context, from, from_context, size, stream, false));
}

static bool read_side(struct side *side, CUmemorytype type, const void *host, CUdeviceptr device,
                      size_t x, size_t y, size_t pitch, const CUDA_MEMCPY2D *copy)
{
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
        return false;
    if (pitch == 0)
        pitch = copy->WidthInBytes + x;
    size_t skipped, span;
    if (x + copy->WidthInBytes < x || x + copy->WidthInBytes > pitch || pitch > 2147483647 ||
        __builtin_mul_overflow(y, pitch, &skipped) ||
        __builtin_mul_overflow(copy->Height, pitch, &span))
        return false;
    side->place = type == CU_MEMORYTYPE_HOST ? HOST : type == CU_MEMORYTYPE_DEVICE ? DEVICE : ANY;
    side->address = type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : device;
    side->address += skipped + x;
    side->pitch = pitch;
    return true;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *what, CUstream stream, bool synchronous)
{
    struct side to = {.address = 0}, from = {.address = 0};
    if (!what ||
        !read_side(&to, what->dstMemoryType, what->dstHost, what->dstDevice, what->dstXInBytes,
                   what->dstY, what->dstPitch, what) ||
        !read_side(&from, what->srcMemoryType, what->srcHost, what->srcDevice, what->srcXInBytes,
                   what->srcY, what->srcPitch, what))
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      "a pitch below the width, arrays, or sizes that overflow");
    return copy(to, from, what->WidthInBytes, what->Height, stream, synchronous);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_2d(what, stream, false));
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *what)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_2d(what, NULL, true));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *what)
{
    ENTER(NEED_CONTEXT);
    return leave(copy_2d(what, NULL, true));
}

static CUresult fill(CUdeviceptr address, unsigned value, unsigned element, size_t count,
                     CUstream stream, bool synchronous)
{
    CUstream found;
    size_t size;
    struct use use;
    CUresult result = stream_find(stream, &found);
    if (result != CUDA_SUCCESS || count == 0)
        return result;
    if (__builtin_mul_overflow(count, element, &size) || address % element)
        return refuse(CUDA_ERROR_INVALID_VALUE, "%zu of %u bytes at %#llx", count, element,
                      address);
    result = use_device(found->context, address, size, true, &use);
    if (result != CUDA_SUCCESS)
        return result;
    struct operation *operation = operation_new(FILL);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    operation->to = use;
    operation->width = size;
    operation->value = value;
    operation->element = element;
    bool wait = synchronous && use.range->kind == RANGE_HOST;
    result = submit(found, operation);
    return result == CUDA_SUCCESS && wait ? wait_for(found, found->submitted) : result;
}

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(fill(address, value, 1, size, NULL, true));
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(fill(address, value, 1, size, stream, false));
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count)
{
    ENTER(NEED_CONTEXT);
    return leave(fill(address, value, 4, count, NULL, true));
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(fill(address, value, 4, count, stream, false));
}
