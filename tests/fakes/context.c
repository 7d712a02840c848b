/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Objects behind handles, contexts, and each thread's stack of them. */

#include "fake.h"

#include <search.h>
#include <stdlib.h>

#define MAX_DEPTH 64

static void *objects;
static _Thread_local CUcontext stack[MAX_DEPTH];
static _Thread_local unsigned depth;

static int compare(const void *left, const void *right)
{
    return (left > right) - (left < right);
}

void object_add(struct object *object, enum object_kind kind)
{
    object->kind = kind;
    object->alive = true;
    tsearch(object, &objects, compare);
}

void *object_find(const void *handle, enum object_kind kind)
{
    void **found = tfind(handle, &objects, compare);
    struct object *object = found ? *found : NULL;
    return object && object->kind == kind ? object : NULL;
}

CUcontext current_context(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static CUcontext find(CUcontext handle)
{
    CUcontext context = object_find(handle, CONTEXT);
    return context && context->object.alive ? context : NULL;
}

static CUcontext create(CUdevice device, bool primary)
{
    CUcontext context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    object_add(&context->object, CONTEXT);
    context->device = device;
    context->primary = primary;
    context->next = fake.contexts;
    fake.contexts = context;
    if (stream_new(context, 0, &context->null_stream) != CUDA_SUCCESS)
        context->object.alive = false;
    return context->object.alive ? context : NULL;
}

/* The driver silently frees the remaining memory. Destroying a context with live memory is a bug of
 * the caller, and reported. */
static void destroy(CUcontext context)
{
    unsigned streams = 0, ranges = 0;
    for (CUstream stream = fake.streams; stream; stream = stream->next)
        streams +=
            stream->context == context && stream->object.alive && stream != context->null_stream;
    streams_stop(context);
    for (struct range *range = fake.ranges, *next; range; range = next) {
        next = range->next;
        if (range->context != context)
            continue;
        ranges++;
        range_retire(range, NULL);
        next = fake.ranges;
    }
    context->object.alive = false;
    if (streams || ranges)
        report(CUDA_SUCCESS,
               "the context of device %d ends with %u streams and %u allocations, imports or "
               "registrations in it",
               context->device, streams, ranges);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(NEED_INIT);
    if (!context)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    if (!valid_device(device))
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "device %d", device));
    if (!fake.primary[device])
        fake.primary[device] = create(device, true);
    if (!fake.primary[device])
        return leave(refuse(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a context"));
    fake.primary[device]->retained++;
    *context = fake.primary[device];
    return leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(NEED_INIT);
    if (!valid_device(device))
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "device %d", device));
    if (!fake.primary[device])
        return leave(report(CUDA_ERROR_INVALID_CONTEXT, "released more often than retained"));
    if (--fake.primary[device]->retained == 0) {
        CUcontext context = fake.primary[device];
        fake.primary[device] = NULL;
        destroy(context);
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    ENTER(NEED_INIT);
    if (!valid_device(device))
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "device %d", device));
    if (!flags || !active)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    *flags = 0;
    *active = fake.primary[device] != NULL;
    return leave(CUDA_SUCCESS);
}

static CUresult push(CUcontext context)
{
    if (depth == MAX_DEPTH)
        return report(CUDA_ERROR_INVALID_CONTEXT, "%u contexts were pushed and not popped", depth);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    ENTER(NEED_INIT);
    if (!context)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    if (!valid_device(device))
        return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "device %d", device));
    CUcontext created = create(device, false);
    if (!created)
        return leave(refuse(CUDA_ERROR_OUT_OF_MEMORY, "no memory for a context"));
    CUresult result = push(created);
    if (result == CUDA_SUCCESS)
        *context = created;
    else
        destroy(created);
    return leave(result);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER(NEED_INIT);
    CUcontext found = find(context);
    if (!found)
        return leave(report(CUDA_ERROR_INVALID_CONTEXT, "%p is no context, or destroyed before",
                            (void *)context));
    if (found->primary)
        return leave(report(CUDA_ERROR_INVALID_CONTEXT, "a primary context is released"));
    if (current_context() == found)
        depth--;
    destroy(found);
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER(NEED_INIT);
    if (!find(context))
        return leave(refuse(CUDA_ERROR_INVALID_CONTEXT,
                            "%p is no context, or its last user has released it", (void *)context));
    return leave(push(context));
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER(NEED_INIT);
    if (depth == 0)
        return leave(report(CUDA_ERROR_INVALID_CONTEXT, "nothing to pop"));
    depth--;
    if (context)
        *context = stack[depth];
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(NEED_INIT);
    if (context && !find(context))
        return leave(refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", (void *)context));
    if (depth > 0)
        depth--;
    return leave(context ? push(context) : CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER(NEED_INIT);
    if (!context)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    *context = current_context();
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(NEED_CONTEXT);
    if (!device)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    *device = current_context()->device;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    ENTER(NEED_INIT);
    if (!version)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    if (!find(context ? context : current_context()))
        return leave(refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", (void *)context));
    *version = 3020;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
    ENTER(NEED_CONTEXT);
    CUcontext context = current_context();
    for (CUstream stream = fake.streams; stream; stream = stream->next) {
        if (stream->context == context)
            wait_for(stream, stream->submitted);
    }
    return leave(context->sticky);
}

static CUresult check_peer(CUcontext peer)
{
    CUcontext own = current_context();
    if (!find(peer))
        return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", (void *)peer);
    if (peer->device == own->device || !peers_reach(own->device, peer->device))
        return refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "device %d cannot reach device %d",
                      own->device, peer->device);
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    if (flags != 0)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    CUresult result = check_peer(peer);
    if (result != CUDA_SUCCESS)
        return leave(result);
    bool *enabled = &current_context()->peers[peer->device];
    if (*enabled)
        return leave(refuse(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "enabled before"));
    *enabled = true;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    ENTER(NEED_CONTEXT);
    CUresult result = check_peer(peer);
    if (result != CUDA_SUCCESS)
        return leave(result);
    bool *enabled = &current_context()->peers[peer->device];
    if (!*enabled)
        return leave(refuse(ERROR_PEER_ACCESS_NOT_ENABLED, "not enabled before"));
    *enabled = false;
    return leave(CUDA_SUCCESS);
}
