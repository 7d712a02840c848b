/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The extension's three commands, built from what every OpenCL 1.2 driver has.
 *
 *   WaitSignal:   [marker as gate] . . poller: marker >= value [, bytes to the device] . . user
 * event
 *                                                                                        |
 *                                                                                     barrier ->
 * event
 *
 *   WriteSignal:  CPU device:  host function in the queue: store, wake -> event
 *                 others:      bytes from the device . . poller: store, wake . . user event
 *                                                                  |
 *                                                               barrier -> event
 *
 *   MakeBuffersResident:  marker as gate . . poller: addresses -> user event -> barrier -> event */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bring.h"
#include "card.h"
#include "device.h"
#include "event.h"
#include "poller.h"
#include "commands.h"
#include "writes.h"

struct queue {
    cl_command_queue handle;
    cl_context context;
    cl_device_id device_id;
    const struct dgma_device *device;
    bool out_of_order;
};

static bool open_queue(cl_command_queue handle, struct queue *queue)
{
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    if (!handle ||
        dgma_next.clGetCommandQueueInfo(handle, CL_QUEUE_CONTEXT, sizeof queue->context,
                                        &queue->context, NULL) ||
        dgma_next.clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof device, &device, NULL) ||
        dgma_next.clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof properties, &properties,
                                        NULL))
        return false;
    queue->handle = handle;
    const struct dgma_cards *card = dgma_table_get(&dgma_queue_cards, handle);
    queue->device_id = card ? card->devices[0] : device;
    queue->device = dgma_device_get(device);
    queue->out_of_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
    return true;
}

static cl_int check_wait_list(cl_uint num_events, const cl_event *wait_list)
{
    if (!num_events != !wait_list)
        return CL_INVALID_EVENT_WAIT_LIST;
    for (cl_uint i = 0; i < num_events; i++)
        if (!wait_list[i])
            return CL_INVALID_EVENT_WAIT_LIST;
    /* Refuses events that have failed already. PoCL never ends a command behind such an event:
     * clFinish hangs or, on its `basic` device, reports success. */
    for (cl_uint i = 0; i < num_events; i++) {
        cl_int status;
        if (dgma_next.clGetEventInfo(wait_list[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                     &status, NULL))
            return CL_INVALID_EVENT_WAIT_LIST;
        if (status < 0)
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    return CL_SUCCESS;
}

static struct dgma_op *op_new(const struct queue *queue, enum dgma_op_kind kind, cl_uint count,
                              cl_int *status)
{
    *status = CL_OUT_OF_HOST_MEMORY;
    if (!dgma_poller_start())
        return NULL;
    struct dgma_op *op = calloc(1, sizeof *op + count * sizeof op->addresses[0]);
    if (!op)
        return NULL;
    op->kind = kind;
    op->count = count;
    op->done = dgma_next.clCreateUserEvent(queue->context, status);
    if (op->done)
        return op;
    free(op);
    return NULL;
}

/* Stalls the queue until `op` (NULL: nothing) is done. The program's event shows as `type`. */
static cl_int stall(const struct queue *queue, struct dgma_op *op, cl_command_type type,
                    cl_event *event)
{
    const cl_event *after = op ? &op->done : NULL;
    cl_event between = NULL, barrier = NULL;
    cl_int status = CL_SUCCESS;
    if (after && queue->out_of_order)
        /* A driver may let a barrier with a wait list overtake the barrier before it (PoCL does),
         * but not a marker: through it this stall comes after the earlier ones. */
        status = dgma_next.clEnqueueMarkerWithWaitList(queue->handle, 1, after, &between);
    if (between)
        after = &between;
    if (status == CL_SUCCESS)
        status = dgma_next.clEnqueueBarrierWithWaitList(queue->handle, after != NULL, after,
                                                        op || event ? &barrier : NULL);
    if (status == CL_SUCCESS && event) {
        *event = barrier;
        dgma_event_track(barrier, type);
        if (op)
            dgma_next.clRetainEvent(barrier);
    }
    if (op) {
        op->behind[0] = between;
        op->behind[1] = barrier;
    }
    if (status == CL_SUCCESS)
        dgma_next.clFlush(queue->handle);
    return status;
}

static cl_int prepare_wait(const struct queue *queue, cl_mem mem, struct dgma_buffer *buffer,
                           bool gated, cl_uint num_events, const cl_event *wait_list,
                           struct dgma_op *op)
{
    cl_int status = CL_SUCCESS;
    if (buffer->copies) {
        op->copy = buffer;
        op->copy_queue = dgma_bring_queue(buffer, dgma_card_device(queue->device_id), &status);
    }
    if (status == CL_SUCCESS && (gated || buffer->copies))
        status = dgma_next.clEnqueueMarkerWithWaitList(queue->handle, num_events, wait_list,
                                                       gated ? &op->gate : &op->before_copy);
    if (status == CL_SUCCESS)
        status = dgma_next.clRetainMemObject(mem);
    if (status == CL_SUCCESS)
        op->mem = mem;
    return status;
}

static cl_int wait_signal(const struct queue *queue, cl_mem mem, struct dgma_buffer *buffer,
                          cl_uint value, cl_uint num_events, const cl_event *wait_list,
                          cl_event *event)
{
    /* The value counts when the queue reaches the wait. Checking earlier is equivalent, since
     * values only grow, unless this process is about to write the marker (a reset to 0), or the
     * program passes a wait list. */
    bool gated = num_events > 0 || atomic_load(&buffer->marker_object->pending_writes) > 0;
    if (!gated && !buffer->copies &&
        atomic_load_explicit(buffer->marker, memory_order_acquire) >= value)
        return stall(queue, NULL, CL_COMMAND_WAIT_SIGNAL_AMD, event);
    cl_int status;
    struct dgma_op *op = op_new(queue, DGMA_OP_WAIT, 0, &status);
    if (!op)
        return status;
    status = prepare_wait(queue, mem, buffer, gated, num_events, wait_list, op);
    if (status == CL_SUCCESS)
        status = stall(queue, op, CL_COMMAND_WAIT_SIGNAL_AMD, event);
    if (status) {
        dgma_op_finish(op, status);
        return status;
    }
    op->marker = buffer->marker;
    op->value = value;
    if (op->gate || op->before_copy)
        dgma_poller_watch(op->gate ? op->gate : op->before_copy);
    dgma_poller_submit(op);
    return CL_SUCCESS;
}

/* The wait list of a write: the program's, and in an out-of-order queue all that was enqueued
 * before. */
struct joined_list {
    cl_uint count;
    const cl_event *events;
    cl_event *own; /* freed with the struct */
    cl_event earlier;
};

static cl_int join_earlier(const struct queue *queue, cl_uint num_events, const cl_event *wait_list,
                           struct joined_list *list)
{
    *list = (struct joined_list){.count = num_events, .events = wait_list};
    if (!queue->out_of_order)
        return CL_SUCCESS;
    list->own = malloc((num_events + 1) * sizeof list->own[0]);
    if (!list->own)
        return CL_OUT_OF_HOST_MEMORY;
    cl_int status = dgma_next.clEnqueueMarkerWithWaitList(queue->handle, 0, NULL, &list->earlier);
    if (status) {
        free(list->own);
        return status;
    }
    if (num_events)
        memcpy(list->own, wait_list, num_events * sizeof list->own[0]);
    list->own[num_events] = list->earlier;
    list->count = num_events + 1;
    list->events = list->own;
    return CL_SUCCESS;
}

static void joined_list_free(struct joined_list *list)
{
    if (list->earlier)
        dgma_next.clReleaseEvent(list->earlier);
    free(list->own);
}

struct host_write {
    void *
        surface; /* filled by the driver; with it in the argument list, it keeps the buffer alive */
    _Atomic uint32_t *marker;
    struct dgma_object *object;
    uint32_t value;
};

static void CL_CALLBACK host_write(void *args)
{
    const struct host_write *write = args;
    dgma_marker_write(write->marker, write->value);
    atomic_fetch_sub(&write->object->pending_writes, 1);
}

static cl_int write_in_queue(const struct queue *queue, cl_mem mem, struct dgma_buffer *buffer,
                             _Atomic uint32_t *marker, cl_uint value,
                             const struct joined_list *list, cl_event *event)
{
    struct host_write write = {.marker = marker, .object = buffer->marker_object, .value = value};
    const void *place = &write.surface;
    /* If a failed wait list prevents the function from running, this is never decremented: waits
     * are then always gated, which is slower but still correct. */
    atomic_fetch_add(&write.object->pending_writes, 1);
    cl_int status =
        dgma_next.clEnqueueNativeKernel(queue->handle, host_write, &write, sizeof write, 1, &mem,
                                        &place, list->count, list->events, event);
    if (status)
        atomic_fetch_sub(&write.object->pending_writes, 1);
    else if (event)
        dgma_event_track(*event, CL_COMMAND_WRITE_SIGNAL_AMD);
    return status;
}

static cl_int write_by_poller(const struct queue *queue, cl_mem mem, struct dgma_buffer *buffer,
                              _Atomic uint32_t *marker, cl_uint value,
                              const struct joined_list *list, cl_event *event)
{
    cl_int status;
    struct dgma_op *op = op_new(queue, DGMA_OP_WRITE, 0, &status);
    if (!op)
        return status;
    atomic_fetch_add(&buffer->marker_object->pending_writes, 1);
    status = dgma_writes_send(queue->handle, mem, buffer, list->count, list->events, op);
    if (status == CL_SUCCESS)
        status = dgma_next.clRetainMemObject(mem);
    if (status == CL_SUCCESS) {
        op->mem = mem;
        status = stall(queue, op, CL_COMMAND_WRITE_SIGNAL_AMD, event);
    }
    if (status) {
        atomic_fetch_sub(&buffer->marker_object->pending_writes, 1);
        dgma_op_finish(op, status);
        return status;
    }
    op->copy = buffer;
    op->object = buffer->marker_object;
    op->marker = marker;
    op->value = value;
    dgma_poller_watch(op->gate);
    dgma_poller_submit(op);
    return CL_SUCCESS;
}

static cl_int write_signal(const struct queue *queue, cl_mem mem, struct dgma_buffer *buffer,
                           cl_uint value, cl_ulong offset, cl_uint num_events,
                           const cl_event *wait_list, cl_event *event)
{
    struct joined_list list;
    cl_int status = join_earlier(queue, num_events, wait_list, &list);
    if (status)
        return status;
    _Atomic uint32_t *marker = buffer->marker + offset / sizeof *marker;
    bool declared = buffer->surface_object->written || buffer->marker_object->written;
    bool in_queue = !buffer->copies && !declared && queue->device->runs_host_functions;
    status = (in_queue ? write_in_queue : write_by_poller)(queue, mem, buffer, marker, value, &list,
                                                           event);
    joined_list_free(&list);
    if (status == CL_SUCCESS)
        dgma_next.clFlush(queue->handle);
    return status;
}

cl_int CL_API_CALL dgma_enqueue_wait_signal(cl_command_queue handle, cl_mem mem, cl_uint value,
                                            cl_uint num_events, const cl_event *wait_list,
                                            cl_event *event)
{
    struct queue queue;
    if (!open_queue(handle, &queue))
        return CL_INVALID_COMMAND_QUEUE;
    struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    if (!buffer && queue.device->native && queue.device->wait_signal)
        return queue.device->wait_signal(handle, mem, value, num_events, wait_list, event);
    if (!buffer || buffer->kind != DGMA_BUS)
        return CL_INVALID_MEM_OBJECT;
    if (queue.context != buffer->context)
        return CL_INVALID_CONTEXT;
    cl_int status = check_wait_list(num_events, wait_list);
    return status ? status : wait_signal(&queue, mem, buffer, value, num_events, wait_list, event);
}

cl_int CL_API_CALL dgma_enqueue_write_signal(cl_command_queue handle, cl_mem mem, cl_uint value,
                                             cl_ulong offset, cl_uint num_events,
                                             const cl_event *wait_list, cl_event *event)
{
    struct queue queue;
    if (!open_queue(handle, &queue))
        return CL_INVALID_COMMAND_QUEUE;
    struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    if (!buffer && queue.device->native && queue.device->write_signal)
        return queue.device->write_signal(handle, mem, value, offset, num_events, wait_list, event);
    if (!buffer || buffer->kind != DGMA_EXTERNAL)
        return CL_INVALID_MEM_OBJECT;
    /* AMD's driver accepts offsets up to size + page, which would exceed the mapping. */
    if (offset > buffer->size + DGMA_PAGE - sizeof value ||
        offset > buffer->marker_room - sizeof value)
        return CL_INVALID_BUFFER_SIZE;
    if (offset % sizeof value)
        return CL_INVALID_VALUE;
    if (queue.context != buffer->context)
        return CL_INVALID_CONTEXT;
    cl_int status = check_wait_list(num_events, wait_list);
    return status ? status
                  : write_signal(&queue, mem, buffer, value, offset, num_events, wait_list, event);
}

static void give_addresses(cl_uint num_mems, const cl_mem *mems, cl_bus_address_amd *addresses)
{
    for (cl_uint i = 0; i < num_mems; i++) {
        const struct dgma_buffer *buffer = dgma_buffer_get(mems[i]);
        addresses[i].surface_bus_address = buffer->surface_object->base;
        addresses[i].marker_bus_address = buffer->surface_object->base + buffer->size;
    }
}

/* Polls the event's status, because clWaitForEvents on PoCL's `basic` device reports success while
 * the command is still blocked by a user event. */
static cl_int wait_until_ended(cl_event event)
{
    cl_int status = dgma_next.clWaitForEvents(1, &event);
    while (status == CL_SUCCESS) {
        cl_int state = CL_COMPLETE;
        status = dgma_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                          &state, NULL);
        if (status || state == CL_COMPLETE)
            return status;
        if (state < 0)
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return status;
}

/* A blocking call needs neither the thread nor a user event. */
static cl_int make_resident_now(const struct queue *queue, cl_uint num_mems, const cl_mem *mems,
                                cl_bus_address_amd *addresses, cl_uint num_events,
                                const cl_event *wait_list, cl_event *event)
{
    cl_event reached = NULL;
    cl_int status =
        dgma_next.clEnqueueMarkerWithWaitList(queue->handle, num_events, wait_list, &reached);
    if (status)
        return status;
    status = wait_until_ended(reached);
    if (status == CL_SUCCESS)
        give_addresses(num_mems, mems, addresses);
    if (status == CL_SUCCESS && event) {
        dgma_event_track(reached, CL_COMMAND_MAKE_BUFFERS_RESIDENT_AMD);
        *event = reached;
    } else {
        dgma_gate_release(reached);
    }
    return status;
}

static cl_int make_resident_later(const struct queue *queue, cl_uint num_mems, const cl_mem *mems,
                                  cl_bus_address_amd *addresses, cl_uint num_events,
                                  const cl_event *wait_list, cl_event *event)
{
    cl_int status;
    struct dgma_op *op = op_new(queue, DGMA_OP_RESIDENT, num_mems, &status);
    if (!op)
        return status;
    give_addresses(num_mems, mems, op->addresses);
    op->out = addresses;
    status = dgma_next.clEnqueueMarkerWithWaitList(queue->handle, num_events, wait_list, &op->gate);
    if (status == CL_SUCCESS)
        status = stall(queue, op, CL_COMMAND_MAKE_BUFFERS_RESIDENT_AMD, event);
    if (status) {
        dgma_op_finish(op, status);
        return status;
    }
    dgma_poller_watch(op->gate);
    dgma_poller_submit(op);
    return CL_SUCCESS;
}

cl_int CL_API_CALL dgma_enqueue_make_resident(cl_command_queue handle, cl_uint num_mems,
                                              cl_mem *mems, cl_bool blocking,
                                              cl_bus_address_amd *addresses, cl_uint num_events,
                                              const cl_event *wait_list, cl_event *event)
{
    struct queue queue;
    if (!open_queue(handle, &queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!mems)
        return CL_INVALID_MEM_OBJECT;
    if (!addresses || num_mems == 0)
        return CL_INVALID_VALUE;
    if (!dgma_buffer_get(mems[0]) && queue.device->native && queue.device->make_resident)
        return queue.device->make_resident(handle, num_mems, mems, blocking, addresses, num_events,
                                           wait_list, event);
    memset(addresses, 0, num_mems * sizeof addresses[0]);
    for (cl_uint i = 0; i < num_mems; i++) {
        const struct dgma_buffer *buffer = mems[i] ? dgma_buffer_get(mems[i]) : NULL;
        if (!buffer || buffer->kind != DGMA_BUS)
            return CL_INVALID_MEM_OBJECT;
        if (queue.context != buffer->context)
            return CL_INVALID_CONTEXT;
    }
    cl_int status = check_wait_list(num_events, wait_list);
    if (status)
        return status;
    for (cl_uint i = 0; i < num_mems; i++)
        if (!dgma_buffer_place(dgma_buffer_get(mems[i]), queue.device_id))
            return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return (blocking ? make_resident_now : make_resident_later)(&queue, num_mems, mems, addresses,
                                                                num_events, wait_list, event);
}
