/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Synchronisation of streams: words in memory, events, host functions. */

#include "fake.h"

#include <stdlib.h>

#define FLUSH (1u << 30)

static CUresult word(CUstream stream, CUdeviceptr address, unsigned value, unsigned flags,
                     enum operation_kind kind)
{
    CUstream found;
    struct use use;
    CUresult result = stream_find(stream, &found);
    if (result != CUDA_SUCCESS)
        return result;
    if (address % sizeof value)
        return refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is not aligned to 4", address);
    if (!in_arena(address))
        return refuse(
            CUDA_ERROR_INVALID_VALUE,
            "%#llx is no device pointer; a pinned page has one, managed memory is not for this",
            address);
    result = use_device(found->context, address, sizeof value, kind == WRITE_VALUE, &use);
    if (result != CUDA_SUCCESS)
        return result;
    struct operation *operation = operation_new(kind);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    operation->to = use;
    operation->value = value;
    operation->flags = flags;
    return submit(found, operation);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, unsigned value,
                                unsigned flags)
{
    ENTER(NEED_CONTEXT);
    if (flags & FLUSH)
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "flushing remote writes"));
    if (flags > 3)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags));
    fake.waits++;
    return leave(word(stream, address, value, flags, WAIT_VALUE));
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, unsigned value,
                                 unsigned flags)
{
    ENTER(NEED_CONTEXT);
    if (flags > 1)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags));
    fake.writes++;
    return leave(word(stream, address, value, flags, WRITE_VALUE));
}

/* Both kinds have the same members at the same places. */
static bool is_wait(const CUstreamBatchMemOpParams *operation)
{
    return operation->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams *operations, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    CUresult result = CUDA_SUCCESS;
    if (flags || count > 256)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%u operations, flags %#x", count, flags));
    for (unsigned i = 0; i < count; i++)
        if ((operations[i].operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
             operations[i].operation != CU_STREAM_MEM_OP_WAIT_VALUE_32) ||
            operations[i].writeValue.flags > (is_wait(&operations[i]) ? 3u : 1u))
            return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "operation %d, flags %#x",
                                (int)operations[i].operation, operations[i].writeValue.flags));
    if (count > 0)
        (*(is_wait(operations) ? &fake.waits : &fake.writes))++;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = word(stream, operations[i].writeValue.address, operations[i].writeValue.value,
                      operations[i].writeValue.flags,
                      is_wait(&operations[i]) ? WAIT_VALUE : WRITE_VALUE);
    return leave(result);
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    ENTER(NEED_CONTEXT);
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "target %d, scope %d", target, scope));
    if (fake.no_flush)
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "the attribute says so"));
    fake.flushes++;
    return leave(CUDA_SUCCESS);
}

CUresult cuLaunchHostFunc(CUstream stream, fake_host_function function, void *data)
{
    ENTER(NEED_CONTEXT);
    CUstream found;
    CUresult result = stream_find(stream, &found);
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct operation *operation = function ? operation_new(CALL) : NULL;
    if (!operation)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no function"));
    operation->function = function;
    operation->data = data;
    return leave(submit(found, operation));
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    if (!event || flags > 3) /* blocking, no timing; between processes: not here */
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or flags %#x", flags));
    CUevent created = calloc(1, sizeof *created);
    if (!created)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    object_add(&created->object, EVENT);
    created->context = current_context();
    created->flags = flags;
    *event = created;
    return leave(CUDA_SUCCESS);
}

static CUresult find(CUevent handle, CUevent *event)
{
    CUevent found = object_find(handle, EVENT);
    if (!found || !found->object.alive)
        return report(CUDA_ERROR_INVALID_HANDLE, "%p is no event, or destroyed before",
                      (void *)handle);
    if (!found->context->object.alive)
        return report(CUDA_ERROR_INVALID_HANDLE, "an event whose context has ended");
    *event = found;
    return CUDA_SUCCESS;
}

static CUresult find_own(CUevent handle, CUevent *event)
{
    CUresult result = find(handle, event);
    if (result == CUDA_SUCCESS && (*event)->context != current_context())
        result = refuse(CUDA_ERROR_INVALID_CONTEXT, "an event of another context");
    return result;
}

/* Waits for it that are queued stay right. */
static CUresult destroy(CUevent handle)
{
    CUevent event;
    CUresult result = find_own(handle, &event);
    if (result == CUDA_SUCCESS)
        event->object.alive = false;
    return result;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER(NEED_CONTEXT);
    return leave(destroy(event));
}

CUresult cuEventDestroy(CUevent event)
{
    ENTER(NEED_CONTEXT);
    return leave(destroy(event));
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    CUevent event;
    CUstream found;
    CUresult result = find(handle, &event);
    if (result == CUDA_SUCCESS)
        result = stream_find(stream, &found);
    if (result == CUDA_SUCCESS && event->context != found->context)
        result = refuse(CUDA_ERROR_INVALID_HANDLE, "an event of another context than the stream's");
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct operation *operation = operation_new(RECORD);
    if (!operation)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    operation->event = event;
    result = submit(found, operation);
    if (result == CUDA_SUCCESS) {
        event->stream = found;
        event->serial = found->submitted;
    }
    return leave(result);
}

static bool happened(CUevent event)
{
    return !event->stream || event->stream->completed >= event->serial;
}

CUresult cuEventQuery(CUevent handle)
{
    ENTER(NEED_CONTEXT);
    if (spoils_capture())
        return leave(ERROR_CAPTURE_UNSUPPORTED);
    CUevent event;
    CUresult result = find_own(handle, &event);
    if (result == CUDA_SUCCESS && !happened(event))
        result = CUDA_ERROR_NOT_READY;
    return leave(result);
}

CUresult cuEventSynchronize(CUevent handle)
{
    ENTER(NEED_CONTEXT);
    CUevent event;
    CUresult result = find_own(handle, &event);
    if (result == CUDA_SUCCESS && event->stream)
        result = wait_for(event->stream, event->serial);
    return leave(result);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    ENTER(NEED_CONTEXT);
    CUevent first, last;
    CUresult result = milliseconds ? find_own(start, &first) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = find_own(end, &last);
    if (result != CUDA_SUCCESS)
        return leave(result);
    if (!first->stream || !last->stream || ((first->flags | last->flags) & CU_EVENT_DISABLE_TIMING))
        return leave(refuse(CUDA_ERROR_INVALID_HANDLE, "not recorded, or made without timing"));
    if (!happened(first) || !happened(last))
        return leave(CUDA_ERROR_NOT_READY);
    *milliseconds = (float)((double)(last->when.tv_sec - first->when.tv_sec) * 1e3 +
                            (double)(last->when.tv_nsec - first->when.tv_nsec) / 1e6);
    return leave(CUDA_SUCCESS);
}

/* The event may be of another context, and of another device. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    CUstream found;
    CUevent event;
    CUresult result = flags == 0 ? stream_find(stream, &found) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = find(handle, &event);
    if (result != CUDA_SUCCESS || happened(event))
        return leave(result);
    struct operation *operation = operation_new(RECORD);
    if (!operation)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    operation_wait_for(operation, event->stream, event->serial);
    return leave(submit(found, operation));
}
