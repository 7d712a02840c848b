/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams: queues of operations, each with a thread that begins with the first operation. */

#include "fake.h"

#include <signal.h>
#include <stdlib.h>

CUresult stream_new(CUcontext context, unsigned flags, CUstream *out)
{
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object_add(&stream->object, STREAM);
    stream->context = context;
    stream->flags = flags;
    pthread_cond_init(&stream->work, NULL);
    stream->next = fake.streams;
    fake.streams = stream;
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult stream_find(CUstream handle, CUstream *stream)
{
    CUcontext context = current_context();
    uintptr_t number = (uintptr_t)handle;
    if (number <= 1) { /* NULL and CU_STREAM_LEGACY */
        *stream = context->null_stream;
        return CUDA_SUCCESS;
    }
    if (number == 2)
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "per-thread streams");
    CUstream found = object_find(handle, STREAM);
    if (!found || !found->object.alive)
        return report(CUDA_ERROR_INVALID_HANDLE, "%p is no stream, or destroyed before",
                      (void *)handle);
    if (found->context != context)
        return refuse(CUDA_ERROR_INVALID_CONTEXT, "a stream of another context");
    *stream = found;
    return CUDA_SUCCESS;
}

struct operation *operation_new(enum operation_kind kind)
{
    struct operation *operation = calloc(1, sizeof *operation);
    if (operation)
        operation->kind = kind;
    return operation;
}

void operation_wait_for(struct operation *operation, CUstream stream, unsigned long long serial)
{
    if (stream->completed >= serial)
        return;
    size_t count = operation->num_waits + 1;
    struct dependency *waits = realloc(operation->waits, count * sizeof *waits);
    if (!waits)
        abort();
    waits[operation->num_waits++] = (struct dependency){.stream = stream, .serial = serial};
    operation->waits = waits;
}

static bool blocking(const struct CUstream_st *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The NULL stream comes after all earlier work of the blocking ones, and they after its. */
static void wait_for_legacy(CUstream stream, struct operation *operation)
{
    CUstream null_stream = stream->context->null_stream;
    if (stream != null_stream) {
        if (blocking(stream))
            operation_wait_for(operation, null_stream, null_stream->submitted);
        return;
    }
    for (CUstream other = fake.streams; other; other = other->next) {
        if (other->context == stream->context && other != stream && blocking(other))
            operation_wait_for(operation, other, other->submitted);
    }
}

/* The program's signals are for the program's threads. */
static bool start(CUstream stream)
{
    if (stream->has_worker)
        return true;
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    stream->has_worker = pthread_create(&thread, &attributes, stream_work, stream) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return stream->has_worker;
}

static void take(struct use *use)
{
    if (use->range) {
        use->range->references++;
        use->range->queued++;
    }
}

CUresult submit(CUstream stream, struct operation *operation)
{
    take(&operation->to);
    take(&operation->from);
    if (stream->quit || !start(stream)) {
        operation_free(operation);
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "no thread for a stream");
    }
    wait_for_legacy(stream, operation);
    operation->serial = ++stream->submitted;
    if (stream->last)
        stream->last->next = operation;
    else
        stream->first = operation;
    stream->last = operation;
    pthread_cond_signal(&stream->work);
    return CUDA_SUCCESS;
}

CUresult wait_for(CUstream stream, unsigned long long serial)
{
    while (stream->completed < serial)
        pthread_cond_wait(&fake.progress, &fake.lock);
    return stream->context->sticky;
}

void streams_stop(CUcontext context)
{
    for (CUstream stream = fake.streams; stream; stream = stream->next) {
        if (stream->context != context)
            continue;
        __atomic_store_n(&stream->quit, true, __ATOMIC_RELEASE);
        stream->object.alive = false;
        pthread_cond_signal(&stream->work);
        pthread_cond_broadcast(&fake.progress);
        while (stream->has_worker)
            pthread_cond_wait(&fake.progress, &fake.lock);
    }
}

static CUresult create(CUstream *stream, unsigned flags)
{
    if (!stream || (flags & ~CU_STREAM_NON_BLOCKING))
        return refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or flags %#x", flags);
    return stream_new(current_context(), flags, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    return leave(create(stream, flags));
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    ENTER(NEED_CONTEXT);
    return leave(create(stream, flags));
}

/* What is queued is still done, as the driver promises. */
static CUresult destroy(CUstream handle)
{
    CUstream stream;
    if ((uintptr_t)handle <= 2)
        return report(CUDA_ERROR_INVALID_HANDLE, "a stream that was not created");
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    stream->object.alive = false;
    pthread_cond_signal(&stream->work);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(destroy(stream));
}

CUresult cuStreamDestroy(CUstream stream)
{
    ENTER(NEED_CONTEXT);
    return leave(destroy(stream));
}

/* --- graphs: captured, and never run ------------------------------------------------------- */

static _Thread_local CUstreamCaptureMode capture_mode;

bool spoils_capture(void)
{
    bool spoils = fake.captures > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    fake.spoiled |= spoils;
    return spoils;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(NEED_INIT);
    CUstreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode)
{
    ENTER(NEED_CONTEXT);
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS && (mode != 0 || stream->captures))
        result = refuse(CUDA_ERROR_NOT_SUPPORTED, "only the global mode, and once");
    if (result == CUDA_SUCCESS) {
        stream->captures = true;
        fake.captures++;
    }
    return leave(result);
}

CUresult cuStreamEndCapture(CUstream handle, void **graph)
{
    ENTER(NEED_CONTEXT);
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return leave(result);
    if (!stream->captures || fake.spoiled)
        result = ERROR_CAPTURE_INVALIDATED;
    if (stream->captures && --fake.captures == 0)
        fake.spoiled = false;
    stream->captures = false;
    *graph = result == CUDA_SUCCESS ? stream : NULL;
    return leave(result);
}

CUresult cuStreamQuery(CUstream handle)
{
    ENTER(NEED_CONTEXT);
    if (spoils_capture())
        return leave(ERROR_CAPTURE_UNSUPPORTED);
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return leave(result);
    bool busy = stream->completed < stream->submitted;
    CUcontext context = stream->context;
    for (CUstream other = fake.streams; other && stream == context->null_stream;
         other = other->next)
        busy |= other->context == context && blocking(other) && other->completed < other->submitted;
    return leave(busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    ENTER(NEED_CONTEXT);
    CUstream stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return leave(result);
    CUcontext context = stream->context;
    for (CUstream other = fake.streams; other && stream == context->null_stream;
         other = other->next) {
        if (other->context == context && blocking(other))
            wait_for(other, other->submitted);
    }
    return leave(wait_for(stream, stream->submitted));
}

/* NULL: all streams, those that are made later included. What waits for a copy that is late is late
 * with it, as behind any copy that takes long. */
CUresult fakeCudaHold(CUstream stream, unsigned hold)
{
    ENTER(NEED_INIT);
    if (stream) {
        CUstream found = object_find(stream, STREAM);
        if (!found)
            return leave(refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no stream", (void *)stream));
        found->held = hold != 0;
    } else {
        fake.hold_copies = hold != 0;
    }
    pthread_cond_broadcast(&fake.progress);
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    ENTER(NEED_CONTEXT);
    CUstream stream;
    CUresult result = context ? stream_find(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *context = stream->context;
    return leave(result);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    ENTER(NEED_CONTEXT);
    CUstream stream;
    CUresult result = flags ? stream_find(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *flags = stream->flags;
    return leave(result);
}
