/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the program's commands write into external buffers, until a WriteSignal sends it. */
#include "layer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* === unfollowed ============================================================================== */
/* Writes by the program that the layer cannot track. */

static atomic_bool unfollowed;

void dgma_unfollowed_note(const char *function)
{
    if (!atomic_exchange(&unfollowed, true))
        dgma_log("what %s writes is not followed: each WriteSignal sends its whole buffer",
                 function);
}

/* === kernels ================================================================================= */
/* Records the external buffers that kernels have as arguments, because a kernel that runs may write
 * them. All arguments of a reused kernel handle must be set anew, so stale records of a released
 * kernel are overwritten before the next one runs. */

static struct dgma_table kernels = DGMA_TABLE_INIT;

struct argument {
    cl_uint index;
    cl_mem mem;
};

/* OpenCL's rule for clSetKernelArg: only one thread at a time sets up a kernel. */
struct kernel {
    unsigned count;
    struct argument arguments[];
};

static bool is_external(cl_mem mem)
{
    const struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    return buffer && buffer->kind == DGMA_EXTERNAL;
}

/* Replaces one of the kernel's arguments. */
static void kernels_set(cl_kernel handle, cl_uint index, cl_mem mem)
{
    const struct kernel *old = dgma_table_get(&kernels, handle);
    unsigned count = old ? old->count : 0;
    if (!old && !mem)
        return;
    struct kernel *kernel = malloc(sizeof *kernel + (count + 1) * sizeof kernel->arguments[0]);
    if (!kernel) {
        dgma_unfollowed_note("a kernel (out of memory)");
        return;
    }
    kernel->count = 0;
    for (unsigned i = 0; i < count; i++)
        if (old->arguments[i].index != index)
            kernel->arguments[kernel->count++] = old->arguments[i];
    if (mem)
        kernel->arguments[kernel->count++] = (struct argument){index, mem};
    free(dgma_table_take(&kernels, handle, NULL));
    if (!dgma_table_put(&kernels, handle, kernel)) {
        free(kernel);
        dgma_unfollowed_note("a kernel (out of memory)");
    }
}

static CL_API_ENTRY cl_int CL_API_CALL set_kernel_arg(cl_kernel kernel, cl_uint index, size_t size,
                                                      const void *value)
{
    cl_int status = dgma_next.clSetKernelArg(kernel, index, size, value);
    if (status)
        return status;
    cl_mem mem = NULL;
    if (value && size == sizeof mem)
        memcpy(&mem, value, sizeof mem); /* any other eight bytes are not a handle of ours */
    kernels_set(kernel, index, is_external(mem) ? mem : NULL);
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_kernel CL_API_CALL clone_kernel(cl_kernel from, cl_int *status)
{
    cl_kernel to = dgma_next.clCloneKernel(from, status);
    const struct kernel *kernel = to ? dgma_table_get(&kernels, from) : NULL;
    for (unsigned i = 0; kernel && i < kernel->count; i++)
        kernels_set(to, kernel->arguments[i].index, kernel->arguments[i].mem);
    return to;
}

static CL_API_ENTRY cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    cl_uint refs = 0;
    if (dgma_table_get(&kernels, kernel) &&
        dgma_next.clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof refs, &refs, NULL) ==
            CL_SUCCESS &&
        refs == 1)
        free(dgma_table_take(&kernels, kernel, NULL));
    return dgma_next.clReleaseKernel(kernel);
}

/* === writes ================================================================================== */
/* Tracks what the program's commands write into external buffers, until a WriteSignal sends it. A
 * command specifies the bytes; a kernel does not, and counts as writing the whole buffer. Only
 * buffers with two versions are tracked: this device keeps a copy, or the owner does. */

enum { MOST_WRITES = 4096 }; /* unsent ones per buffer; more count as writing all of it */

struct dgma_write {
    struct dgma_write *next;
    struct dgma_box box;
    cl_command_queue queue; /* only for comparison */
    cl_event event;         /* owned */
};

static pthread_mutex_t writes_lock = PTHREAD_MUTEX_INITIALIZER; /* every buffer's writes */

static struct dgma_box line(size_t offset, size_t size)
{
    return (struct dgma_box){.offset = offset, .width = size, .rows = 1, .slices = 1};
}

static void writes_drop(struct dgma_write **at)
{
    struct dgma_write *write = *at;
    *at = write->next;
    dgma_next.clReleaseEvent(write->event);
    free(write);
}

/* Before a command: where its event goes. p->buffer is NULL if the command is not tracked. */
struct pending {
    struct dgma_buffer *buffer;
    cl_event own;
};

static cl_event *writes_begin(struct pending *p, cl_mem mem, cl_event *event)
{
    struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    bool follow = buffer && buffer->kind == DGMA_EXTERNAL &&
                  (buffer->copies || buffer->surface_object->written);
    *p = (struct pending){.buffer = follow ? buffer : NULL};
    return follow && !event ? &p->own : event;
}

static cl_int writes_end(const struct pending *p, cl_int status, cl_command_queue queue,
                         struct dgma_box box, const cl_event *event)
{
    struct dgma_buffer *buffer = p->buffer;
    if (!buffer || status)
        return status;
    cl_event done = p->own ? p->own : *event;
    if (!p->own)
        dgma_next.clRetainEvent(done);
    bool whole = box.rows == 1 && box.slices == 1 && box.offset == 0 && box.width == buffer->size;
    pthread_mutex_lock(&writes_lock);
    unsigned count = 0;
    struct dgma_write **at = &buffer->writes;
    while (*at)
        if ((*at)->queue == queue && (whole || memcmp(&box, &(*at)->box, sizeof box) == 0)) {
            writes_drop(at); /* a later command of the queue overwrites it */
        } else {
            at = &(*at)->next;
            count++;
        }
    struct dgma_write *write = count < MOST_WRITES ? calloc(1, sizeof *write) : NULL;
    if (write) {
        *write = (struct dgma_write){NULL, box, queue, done};
        *at = write;
    } else {
        dgma_next.clReleaseEvent(done);
        buffer->all_written = true; /* permanently, as the end of this write is not tracked */
    }
    pthread_mutex_unlock(&writes_lock);
    return status;
}

void dgma_writes_free(struct dgma_buffer *buffer)
{
    pthread_mutex_lock(&writes_lock);
    while (buffer->writes)
        writes_drop(&buffer->writes);
    pthread_mutex_unlock(&writes_lock);
}

/* ---- sending ---- */

/* Whether this signal certainly sends the write, so that the next one need not. */
static bool is_settled(const struct dgma_write *write, cl_command_queue queue, cl_uint num_events,
                       const cl_event *wait_list)
{
    cl_int state = CL_QUEUED;
    if (write->queue == queue)
        return true;
    for (cl_uint i = 0; i < num_events; i++)
        if (wait_list[i] == write->event)
            return true;
    dgma_next.clGetEventInfo(write->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                             NULL);
    return state <= CL_COMPLETE;
}

/* The written ranges, of which those that this signal certainly sends are forgotten. */
static bool writes_take(struct dgma_buffer *buffer, cl_command_queue queue, cl_uint num_events,
                        const cl_event *wait_list, struct dgma_boxes *boxes)
{
    pthread_mutex_lock(&writes_lock);
    cl_uint count = 1;
    for (const struct dgma_write *write = buffer->writes; write; write = write->next)
        count++;
    bool all = buffer->all_written || atomic_load(&unfollowed);
    boxes->list = calloc(all ? 1 : count, sizeof boxes->list[0]);
    for (struct dgma_write **at = &buffer->writes; boxes->list && *at;) {
        if (!all)
            boxes->list[boxes->count++] = (*at)->box;
        if (is_settled(*at, queue, num_events, wait_list))
            writes_drop(at);
        else
            at = &(*at)->next;
    }
    if (boxes->list && all)
        boxes->list[boxes->count++] = line(0, buffer->size);
    pthread_mutex_unlock(&writes_lock);
    return boxes->list != NULL;
}

static cl_int read_box(cl_command_queue queue, cl_mem mem, uint8_t *surface,
                       const struct dgma_box *box, cl_uint num_events, const cl_event *wait_list,
                       cl_event *event)
{
    if (box->rows == 1 && box->slices == 1)
        return dgma_next.clEnqueueReadBuffer(queue, mem, CL_FALSE, box->offset, box->width,
                                             surface + box->offset, num_events, wait_list, event);
    size_t slice = box->slices > 1 ? box->slice_pitch : 0, in_slice = box->offset;
    size_t origin[3] = {0, 0, 0};
    if (slice) {
        origin[2] = box->offset / slice;
        in_slice = box->offset % slice;
    }
    origin[1] = in_slice / box->row_pitch;
    origin[0] = in_slice % box->row_pitch;
    const size_t region[3] = {box->width, box->rows, box->slices};
    return dgma_next.clEnqueueReadBufferRect(queue, mem, CL_FALSE, origin, origin, region,
                                             box->row_pitch, slice, box->row_pitch, slice, surface,
                                             num_events, wait_list, event);
}

cl_int dgma_writes_send(cl_command_queue queue, cl_mem mem, struct dgma_buffer *buffer,
                        cl_uint num_events, const cl_event *wait_list, struct dgma_boxes *boxes,
                        cl_event *gate)
{
    if (!writes_take(buffer, queue, num_events, wait_list, boxes))
        return CL_OUT_OF_HOST_MEMORY;
    if (!buffer->copies || boxes->count == 0)
        return dgma_next.clEnqueueMarkerWithWaitList(queue, num_events, wait_list, gate);
    cl_event *events = calloc(boxes->count, sizeof *events);
    if (!events)
        return CL_OUT_OF_HOST_MEMORY;
    cl_int status = CL_SUCCESS;
    cl_uint count = 0;
    while (count < boxes->count && status == CL_SUCCESS) {
        status = read_box(queue, mem, buffer->surface, &boxes->list[count], num_events, wait_list,
                          &events[count]);
        if (status == CL_SUCCESS)
            count++;
    }
    if (status == CL_SUCCESS)
        status = dgma_next.clEnqueueMarkerWithWaitList(queue, count, events, gate);
    for (cl_uint i = 0; i < count; i++)
        dgma_next.clReleaseEvent(events[i]);
    free(events);
    return status;
}

/* ---- the commands ---- */

static struct dgma_box box_of(const size_t origin[3], const size_t region[3], size_t row_pitch,
                              size_t slice_pitch)
{
    size_t row = row_pitch ? row_pitch : region[0];
    size_t slice = slice_pitch ? slice_pitch : row * region[1];
    return (struct dgma_box){.offset = origin[2] * slice + origin[1] * row + origin[0],
                             .width = region[0],
                             .rows = region[1],
                             .row_pitch = row,
                             .slices = region[2],
                             .slice_pitch = slice};
}

static CL_API_ENTRY cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem,
                                                    cl_bool blocking, size_t offset, size_t size,
                                                    const void *from, cl_uint num_events,
                                                    const cl_event *wait_list, cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, mem, event);
    return writes_end(&p,
                      dgma_next.clEnqueueWriteBuffer(queue, mem, blocking, offset, size, from,
                                                     num_events, wait_list, at),
                      queue, line(offset, size), at);
}

static CL_API_ENTRY cl_int CL_API_CALL
write_buffer_rect(cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *origin,
                  const size_t *host_origin, const size_t *region, size_t row_pitch,
                  size_t slice_pitch, size_t host_row_pitch, size_t host_slice_pitch,
                  const void *from, cl_uint num_events, const cl_event *wait_list, cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, mem, event);
    cl_int status = dgma_next.clEnqueueWriteBufferRect(
        queue, mem, blocking, origin, host_origin, region, row_pitch, slice_pitch, host_row_pitch,
        host_slice_pitch, from, num_events, wait_list, at);
    if (status)
        return status;
    return writes_end(&p, status, queue, box_of(origin, region, row_pitch, slice_pitch), at);
}

static CL_API_ENTRY cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem,
                                                   const void *pattern, size_t pattern_size,
                                                   size_t offset, size_t size, cl_uint num_events,
                                                   const cl_event *wait_list, cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, mem, event);
    return writes_end(&p,
                      dgma_next.clEnqueueFillBuffer(queue, mem, pattern, pattern_size, offset, size,
                                                    num_events, wait_list, at),
                      queue, line(offset, size), at);
}

static CL_API_ENTRY cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                                   size_t from_offset, size_t offset, size_t size,
                                                   cl_uint num_events, const cl_event *wait_list,
                                                   cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, to, event);
    return writes_end(&p,
                      dgma_next.clEnqueueCopyBuffer(queue, from, to, from_offset, offset, size,
                                                    num_events, wait_list, at),
                      queue, line(offset, size), at);
}

static CL_API_ENTRY cl_int CL_API_CALL copy_buffer_rect(
    cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin, const size_t *origin,
    const size_t *region, size_t from_row_pitch, size_t from_slice_pitch, size_t row_pitch,
    size_t slice_pitch, cl_uint num_events, const cl_event *wait_list, cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, to, event);
    cl_int status = dgma_next.clEnqueueCopyBufferRect(queue, from, to, from_origin, origin, region,
                                                      from_row_pitch, from_slice_pitch, row_pitch,
                                                      slice_pitch, num_events, wait_list, at);
    if (status)
        return status;
    return writes_end(&p, status, queue, box_of(origin, region, row_pitch, slice_pitch), at);
}

static CL_API_ENTRY cl_int CL_API_CALL copy_image_to_buffer(
    cl_command_queue queue, cl_mem image, cl_mem to, const size_t *origin, const size_t *region,
    size_t offset, cl_uint num_events, const cl_event *wait_list, cl_event *event)
{
    struct pending p;
    size_t element = 0;
    cl_event *at = writes_begin(&p, to, event);
    cl_int status = dgma_next.clEnqueueCopyImageToBuffer(queue, image, to, origin, region, offset,
                                                         num_events, wait_list, at);
    if (status || !p.buffer)
        return status;
    struct dgma_box box = line(0, p.buffer->size);
    if (dgma_next.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL) ==
        CL_SUCCESS)
        box = line(offset, region[0] * region[1] * region[2] * element);
    return writes_end(&p, status, queue, box, at);
}

/* Each buffer holds the event. */
static void wrote_all(cl_command_queue queue, cl_mem mem, cl_event event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, mem, &event);
    writes_end(&p, CL_SUCCESS, queue, line(0, p.buffer ? p.buffer->size : 0), at);
}

static void pass_on(cl_event own, cl_event *event)
{
    if (event)
        *event = own;
    else
        dgma_next.clReleaseEvent(own);
}

static bool writes_external(cl_kernel handle)
{
    const struct kernel *kernel = dgma_table_get(&kernels, handle);
    for (unsigned i = 0; kernel && i < kernel->count; i++)
        if (is_external(kernel->arguments[i].mem))
            return true;
    return false;
}

/* `own`: its event, where it has external buffers as arguments. */
static void launched(cl_command_queue queue, cl_kernel handle, cl_event own, cl_event *event)
{
    const struct kernel *kernel = dgma_table_get(&kernels, handle);
    for (unsigned i = 0; kernel && i < kernel->count; i++)
        if (is_external(kernel->arguments[i].mem))
            wrote_all(queue, kernel->arguments[i].mem, own);
    pass_on(own, event);
}

static CL_API_ENTRY cl_int CL_API_CALL run_kernel(cl_command_queue queue, cl_kernel kernel,
                                                  cl_uint dimensions, const size_t *offset,
                                                  const size_t *global, const size_t *local,
                                                  cl_uint num_events, const cl_event *wait_list,
                                                  cl_event *event)
{
    cl_event own = NULL;
    bool external = writes_external(kernel);
    cl_int status =
        dgma_next.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local,
                                         num_events, wait_list, external ? &own : event);
    if (external && status == CL_SUCCESS)
        launched(queue, kernel, own, event);
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL run_task(cl_command_queue queue, cl_kernel kernel,
                                                cl_uint num_events, const cl_event *wait_list,
                                                cl_event *event)
{
    cl_event own = NULL;
    bool external = writes_external(kernel);
    cl_int status =
        dgma_next.clEnqueueTask(queue, kernel, num_events, wait_list, external ? &own : event);
    if (external && status == CL_SUCCESS)
        launched(queue, kernel, own, event);
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL run_native(cl_command_queue queue,
                                                  void(CL_CALLBACK *function)(void *), void *args,
                                                  size_t args_size, cl_uint num_mems,
                                                  const cl_mem *mems, const void **places,
                                                  cl_uint num_events, const cl_event *wait_list,
                                                  cl_event *event)
{
    cl_event own = NULL;
    cl_int status =
        dgma_next.clEnqueueNativeKernel(queue, function, args, args_size, num_mems, mems, places,
                                        num_events, wait_list, num_mems ? &own : event);
    if (status || !num_mems)
        return status;
    for (cl_uint i = 0; i < num_mems; i++)
        wrote_all(queue, mems[i], own);
    pass_on(own, event);
    return CL_SUCCESS;
}

void dgma_writes_install(cl_icd_dispatch *table)
{
    table->clEnqueueWriteBuffer = write_buffer;
    table->clEnqueueWriteBufferRect = write_buffer_rect;
    table->clEnqueueFillBuffer = fill_buffer;
    table->clEnqueueCopyBuffer = copy_buffer;
    table->clEnqueueCopyBufferRect = copy_buffer_rect;
    table->clEnqueueCopyImageToBuffer = copy_image_to_buffer;
    table->clEnqueueNDRangeKernel = run_kernel;
    table->clEnqueueTask = run_task;
    table->clEnqueueNativeKernel = run_native;
    table->clSetKernelArg = set_kernel_arg;
    table->clReleaseKernel = release_kernel;
    if (table->clCloneKernel)
        table->clCloneKernel = clone_kernel;
}
