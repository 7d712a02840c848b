/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "migrate_layer.h"

#include "support/check.h"

#include <pthread.h>
#include <string.h>

#define BUFFERS_MAX 512
#define EVENTS_MAX 8

struct buffer {
    cl_mem memory;
    cl_device_id first, here; /* of the first command, and of the last */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct buffer buffers[BUFFERS_MAX];
static unsigned buffer_count;
static struct layer_counts counts;
static enum layer_fault fault;
static bool holding;
static cl_event gate; /* what held writes wait for */
static cl_event held_last;
static unsigned held, moved_behind_held;

static cl_device_id device_of(cl_command_queue queue)
{
    cl_device_id device = NULL;
    CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(device), &device, NULL) ==
              CL_SUCCESS,
          "a queue without a device");
    return device;
}

/* Under the lock. A buffer's record lives until the handle is given out again. */
static struct buffer *find(cl_mem memory, cl_device_id device)
{
    for (unsigned i = 0; i < buffer_count; i++)
        if (buffers[i].memory == memory)
            return &buffers[i];
    CHECK(buffer_count < BUFFERS_MAX, "more buffers than the layer has records");
    buffers[buffer_count] = (struct buffer){memory, device, device};
    return &buffers[buffer_count++];
}

static void use(cl_command_queue queue, cl_mem memory)
{
    cl_device_id device = device_of(queue);
    pthread_mutex_lock(&lock);
    struct buffer *buffer = find(memory, device);
    if (buffer->here != device) {
        counts.implicit++;
        buffer->here = device;
    }
    pthread_mutex_unlock(&lock);
}

static void note_move(cl_command_queue queue, cl_mem memory, cl_mem_migration_flags flags)
{
    cl_device_id device = device_of(queue);
    pthread_mutex_lock(&lock);
    struct buffer *buffer = find(memory, device);
    bool empty = flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    if (buffer->here == device)
        counts.idle++;
    else if (device != buffer->first)
        counts.away++;
    else if (empty)
        counts.home++;
    else
        counts.home_filled++;
    buffer->here = device;
    pthread_mutex_unlock(&lock);
}

struct layer_counts layer_count(void)
{
    pthread_mutex_lock(&lock);
    struct layer_counts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}

void layer_reset(void)
{
    pthread_mutex_lock(&lock);
    counts = (struct layer_counts){0};
    pthread_mutex_unlock(&lock);
}

void layer_set_fault(enum layer_fault wanted)
{
    pthread_mutex_lock(&lock);
    fault = wanted;
    pthread_mutex_unlock(&lock);
}

static enum layer_fault fault_now(void)
{
    pthread_mutex_lock(&lock);
    enum layer_fault now = fault;
    pthread_mutex_unlock(&lock);
    return now;
}

/* --- holding writes --------------------------------------------------------------------------- */

void layer_hold_writes(void)
{
    pthread_mutex_lock(&lock);
    holding = true;
    held = moved_behind_held = 0;
    pthread_mutex_unlock(&lock);
}

void layer_let_go(void)
{
    pthread_mutex_lock(&lock);
    cl_event opened = gate, last = held_last;
    holding = false;
    gate = held_last = NULL;
    pthread_mutex_unlock(&lock);
    if (opened) {
        CHECK(clSetUserEventStatus(opened, CL_COMPLETE) == CL_SUCCESS, "the gate does not open");
        clReleaseEvent(opened);
    }
    if (last)
        clReleaseEvent(last);
}

unsigned layer_held(void)
{
    pthread_mutex_lock(&lock);
    unsigned now = held;
    pthread_mutex_unlock(&lock);
    return now;
}

unsigned layer_moved_behind_held(void)
{
    pthread_mutex_lock(&lock);
    unsigned now = moved_behind_held;
    pthread_mutex_unlock(&lock);
    return now;
}

/* The wait list of a write that is held, or NULL; *count: of its events. */
static const cl_event *with_gate(cl_command_queue queue, const cl_event *after, cl_uint *count,
                                 cl_event list[EVENTS_MAX])
{
    const cl_event *result = NULL;
    pthread_mutex_lock(&lock);
    if (holding) {
        if (!gate) {
            cl_context context;
            cl_int code;
            clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL);
            gate = clCreateUserEvent(context, &code);
            CHECK(code == CL_SUCCESS, "no gate: %d", code);
        }
        CHECK(*count < EVENTS_MAX, "too many events");
        for (cl_uint i = 0; i < *count; i++)
            list[i] = after[i];
        list[(*count)++] = gate;
        held++;
        result = list;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void note_held(cl_event event)
{
    pthread_mutex_lock(&lock);
    if (held_last)
        clReleaseEvent(held_last);
    clRetainEvent(event);
    held_last = event;
    pthread_mutex_unlock(&lock);
}

/* A move behind a write that is held is itself not done, and waits for exactly that one. */
static void note_behind(cl_uint count, const cl_event *after)
{
    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < count; i++)
        moved_behind_held += held_last && after[i] == held_last;
    pthread_mutex_unlock(&lock);
}

/* --- what the core calls ---------------------------------------------------------------------- */

cl_mem __real_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                             cl_int *code)
{
    cl_mem made = __real_clCreateBuffer(context, flags, size, host, code);
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < buffer_count; i++)
        if (buffers[i].memory == made)
            buffers[i] = buffers[--buffer_count];
    pthread_mutex_unlock(&lock);
    return made;
}

cl_int __real_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count,
                                         const cl_mem *memories, cl_mem_migration_flags flags,
                                         cl_uint events, const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count,
                                         const cl_mem *memories, cl_mem_migration_flags flags,
                                         cl_uint events, const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count,
                                         const cl_mem *memories, cl_mem_migration_flags flags,
                                         cl_uint events, const cl_event *after, cl_event *event)
{
    bool filled = !(flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED);
    if (filled && fault_now() == LAYER_REFUSES)
        return CL_OUT_OF_RESOURCES;
    for (cl_uint i = 0; i < count; i++)
        note_move(queue, memories[i], flags);
    note_behind(events, after);
    cl_event moved;
    cl_int code =
        __real_clEnqueueMigrateMemObjects(queue, count, memories, flags, events, after, &moved);
    if (code != CL_SUCCESS)
        return code;
    if (filled && fault_now() == LAYER_SPOILS) {
        const cl_uchar other = 0x5a;
        cl_event spoiled;
        CHECK(clEnqueueFillBuffer(queue, memories[0], &other, 1, 0, 64, 1, &moved, &spoiled) ==
                  CL_SUCCESS,
              "nothing is spoiled");
        clReleaseEvent(moved);
        moved = spoiled;
    }
    if (event)
        *event = moved;
    else
        clReleaseEvent(moved);
    return CL_SUCCESS;
}

cl_int __real_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                   size_t offset, size_t size, const void *data, cl_uint events,
                                   const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                   size_t offset, size_t size, const void *data, cl_uint events,
                                   const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                   size_t offset, size_t size, const void *data, cl_uint events,
                                   const cl_event *after, cl_event *event)
{
    cl_event list[EVENTS_MAX];
    const cl_event *gated = with_gate(queue, after, &events, list);
    use(queue, memory);
    cl_int code = __real_clEnqueueWriteBuffer(queue, memory, blocking, offset, size, data, events,
                                              gated ? gated : after, event);
    if (gated && code == CL_SUCCESS)
        note_held(*event);
    return code;
}

cl_int __real_clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                  size_t offset, size_t size, void *data, cl_uint events,
                                  const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                  size_t offset, size_t size, void *data, cl_uint events,
                                  const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                  size_t offset, size_t size, void *data, cl_uint events,
                                  const cl_event *after, cl_event *event)
{
    use(queue, memory);
    return __real_clEnqueueReadBuffer(queue, memory, blocking, offset, size, data, events, after,
                                      event);
}

cl_int __real_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event)
{
    use(queue, from);
    use(queue, to);
    return __real_clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, events, after,
                                      event);
}

void *__real_clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                cl_map_flags flags, size_t offset, size_t size, cl_uint events,
                                const cl_event *after, cl_event *event, cl_int *code);
void *__wrap_clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                cl_map_flags flags, size_t offset, size_t size, cl_uint events,
                                const cl_event *after, cl_event *event, cl_int *code);
void *__wrap_clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                cl_map_flags flags, size_t offset, size_t size, cl_uint events,
                                const cl_event *after, cl_event *event, cl_int *code)
{
    use(queue, memory);
    return __real_clEnqueueMapBuffer(queue, memory, blocking, flags, offset, size, events, after,
                                     event, code);
}

cl_int __real_clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                  size_t pattern_size, size_t offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                  size_t pattern_size, size_t offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event);
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                  size_t pattern_size, size_t offset, size_t size, cl_uint events,
                                  const cl_event *after, cl_event *event)
{
    use(queue, memory);
    return __real_clEnqueueFillBuffer(queue, memory, pattern, pattern_size, offset, size, events,
                                      after, event);
}
