/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Commands: copies, writes of another device's memory, and how they are followed. */
#include "layer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static void kernels_put(cl_kernel handle, struct kernel *kernel)
{
    free(dgma_table_take(&kernels, handle));
    if (kernel && !dgma_table_put(&kernels, handle, kernel)) {
        free(kernel);
        dgma_unfollowed_note("a kernel (out of memory)");
    }
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
    kernels_put(handle, kernel);
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
        kernels_put(kernel, NULL);
    return dgma_next.clReleaseKernel(kernel);
}

/* Calls `give` for each of them. */
static void dgma_kernel_externals(cl_kernel handle, void (*give)(void *user_data, cl_mem mem),
                                  void *user_data)
{
    const struct kernel *kernel = dgma_table_get(&kernels, handle);
    for (unsigned i = 0; kernel && i < kernel->count; i++)
        if (is_external(kernel->arguments[i].mem))
            give(user_data, kernel->arguments[i].mem);
}

static void dgma_kernels_install(cl_icd_dispatch *table)
{
    table->clSetKernelArg = set_kernel_arg;
    table->clReleaseKernel = release_kernel;
    if (table->clCloneKernel)
        table->clCloneKernel = clone_kernel;
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

static struct dgma_box whole_of(const struct dgma_buffer *buffer)
{
    return (struct dgma_box){.width = buffer->size, .rows = 1, .slices = 1};
}

static bool covers(const struct dgma_buffer *buffer, const struct dgma_box *box,
                   const struct dgma_box *other)
{
    return (box->rows == 1 && box->slices == 1 && box->offset == 0 && box->width == buffer->size) ||
           memcmp(box, other, sizeof *box) == 0;
}

static void writes_drop(struct dgma_write **at)
{
    struct dgma_write *write = *at;
    *at = write->next;
    dgma_next.clReleaseEvent(write->event);
    free(write);
}

/* Takes ownership of `event`. */
static void add_locked(struct dgma_buffer *buffer, const struct dgma_box *box,
                       cl_command_queue queue, cl_event event)
{
    unsigned count = 0;
    struct dgma_write **at = &buffer->writes;
    while (*at)
        if ((*at)->queue == queue && covers(buffer, box, &(*at)->box)) {
            writes_drop(at); /* a later command of the queue overwrites it */
        } else {
            at = &(*at)->next;
            count++;
        }
    struct dgma_write *write = calloc(1, sizeof *write);
    if (!write || count >= MOST_WRITES) {
        free(write);
        dgma_next.clReleaseEvent(event);
        buffer->all_written = true; /* permanently, as the end of this write is not tracked */
        return;
    }
    *write = (struct dgma_write){NULL, *box, queue, event};
    *at = write;
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

static cl_int writes_end(struct pending *p, cl_int status, cl_command_queue queue,
                         const struct dgma_box *box, const cl_event *event)
{
    if (!p->buffer || status)
        return status;
    cl_event done = p->own ? p->own : *event;
    if (!p->own)
        dgma_next.clRetainEvent(done);
    pthread_mutex_lock(&writes_lock);
    add_locked(p->buffer, box, queue, done);
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

static cl_int writes_take(struct dgma_buffer *buffer, cl_command_queue queue, cl_uint num_events,
                          const cl_event *wait_list, struct dgma_op *op)
{
    cl_int status = CL_SUCCESS;
    pthread_mutex_lock(&writes_lock);
    cl_uint count = 0;
    for (const struct dgma_write *write = buffer->writes; write; write = write->next)
        count++;
    bool all = buffer->all_written || dgma_unfollowed_any();
    op->boxes = calloc(all ? 1 : count + 1, sizeof op->boxes[0]);
    if (!op->boxes)
        status = CL_OUT_OF_HOST_MEMORY;
    for (struct dgma_write **at = &buffer->writes; op->boxes && *at;) {
        if (!all)
            op->boxes[op->num_boxes++] = (*at)->box;
        if (is_settled(*at, queue, num_events, wait_list))
            writes_drop(at);
        else
            at = &(*at)->next;
    }
    if (op->boxes && all)
        op->boxes[op->num_boxes++] = whole_of(buffer);
    pthread_mutex_unlock(&writes_lock);
    return status;
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

/* Enqueues what a WriteSignal must send, and fills in the gate and the written ranges of `op`. */
static cl_int dgma_writes_send(cl_command_queue queue, cl_mem mem, struct dgma_buffer *buffer,
                               cl_uint num_events, const cl_event *wait_list, struct dgma_op *op)
{
    cl_int status = writes_take(buffer, queue, num_events, wait_list, op);
    if (status || !buffer->copies || op->num_boxes == 0)
        return status
                   ? status
                   : dgma_next.clEnqueueMarkerWithWaitList(queue, num_events, wait_list, &op->gate);
    cl_event *events = calloc(op->num_boxes, sizeof *events);
    if (!events)
        return CL_OUT_OF_HOST_MEMORY;
    cl_uint count = 0;
    while (count < op->num_boxes && status == CL_SUCCESS) {
        status = read_box(queue, mem, buffer->surface, &op->boxes[count], num_events, wait_list,
                          &events[count]);
        if (status == CL_SUCCESS)
            count++;
    }
    if (status == CL_SUCCESS)
        status = dgma_next.clEnqueueMarkerWithWaitList(queue, count, events, &op->gate);
    for (cl_uint i = 0; i < count; i++)
        dgma_next.clReleaseEvent(events[i]);
    free(events);
    return status;
}

/* ---- the commands ---- */

static struct dgma_box line(size_t offset, size_t size)
{
    return (struct dgma_box){.offset = offset, .width = size, .rows = 1, .slices = 1};
}

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
    struct dgma_box box = line(offset, size);
    return writes_end(&p,
                      dgma_next.clEnqueueWriteBuffer(queue, mem, blocking, offset, size, from,
                                                     num_events, wait_list, at),
                      queue, &box, at);
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
    struct dgma_box box = box_of(origin, region, row_pitch, slice_pitch);
    return writes_end(&p, status, queue, &box, at);
}

static CL_API_ENTRY cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem,
                                                   const void *pattern, size_t pattern_size,
                                                   size_t offset, size_t size, cl_uint num_events,
                                                   const cl_event *wait_list, cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, mem, event);
    struct dgma_box box = line(offset, size);
    return writes_end(&p,
                      dgma_next.clEnqueueFillBuffer(queue, mem, pattern, pattern_size, offset, size,
                                                    num_events, wait_list, at),
                      queue, &box, at);
}

static CL_API_ENTRY cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                                   size_t from_offset, size_t offset, size_t size,
                                                   cl_uint num_events, const cl_event *wait_list,
                                                   cl_event *event)
{
    struct pending p;
    cl_event *at = writes_begin(&p, to, event);
    struct dgma_box box = line(offset, size);
    return writes_end(&p,
                      dgma_next.clEnqueueCopyBuffer(queue, from, to, from_offset, offset, size,
                                                    num_events, wait_list, at),
                      queue, &box, at);
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
    struct dgma_box box = box_of(origin, region, row_pitch, slice_pitch);
    return writes_end(&p, status, queue, &box, at);
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
    struct dgma_box box = whole_of(p.buffer);
    if (dgma_next.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL) ==
        CL_SUCCESS)
        box = line(offset, region[0] * region[1] * region[2] * element);
    return writes_end(&p, status, queue, &box, at);
}

/* A kernel may have several external buffers: each holds its event. */
struct launch {
    cl_command_queue queue;
    cl_event event;
};

static void wrote_all(void *user_data, cl_mem mem)
{
    struct launch *launch = user_data;
    struct pending p;
    cl_event *at = writes_begin(&p, mem, &launch->event);
    struct dgma_box box = p.buffer ? whole_of(p.buffer) : line(0, 0);
    writes_end(&p, CL_SUCCESS, launch->queue, &box, at);
}

static void finds(void *user_data, cl_mem mem)
{
    (void)mem;
    *(bool *)user_data = true;
}

static bool writes_external(cl_kernel kernel)
{
    bool found = false;
    dgma_kernel_externals(kernel, finds, &found);
    return found;
}

static cl_int launched(cl_int status, bool external, cl_kernel kernel, struct launch *launch,
                       cl_event *event)
{
    if (status || !external)
        return status;
    dgma_kernel_externals(kernel, wrote_all, launch);
    if (event)
        *event = launch->event;
    else
        dgma_next.clReleaseEvent(launch->event);
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_int CL_API_CALL run_kernel(cl_command_queue queue, cl_kernel kernel,
                                                  cl_uint dimensions, const size_t *offset,
                                                  const size_t *global, const size_t *local,
                                                  cl_uint num_events, const cl_event *wait_list,
                                                  cl_event *event)
{
    struct launch launch = {.queue = queue};
    bool external = writes_external(kernel);
    cl_int status =
        dgma_next.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local,
                                         num_events, wait_list, external ? &launch.event : event);
    return launched(status, external, kernel, &launch, event);
}

static CL_API_ENTRY cl_int CL_API_CALL run_task(cl_command_queue queue, cl_kernel kernel,
                                                cl_uint num_events, const cl_event *wait_list,
                                                cl_event *event)
{
    struct launch launch = {.queue = queue};
    bool external = writes_external(kernel);
    cl_int status = dgma_next.clEnqueueTask(queue, kernel, num_events, wait_list,
                                            external ? &launch.event : event);
    return launched(status, external, kernel, &launch, event);
}

static CL_API_ENTRY cl_int CL_API_CALL run_native(cl_command_queue queue,
                                                  void(CL_CALLBACK *function)(void *), void *args,
                                                  size_t args_size, cl_uint num_mems,
                                                  const cl_mem *mems, const void **places,
                                                  cl_uint num_events, const cl_event *wait_list,
                                                  cl_event *event)
{
    struct launch launch = {.queue = queue};
    cl_int status =
        dgma_next.clEnqueueNativeKernel(queue, function, args, args_size, num_mems, mems, places,
                                        num_events, wait_list, num_mems ? &launch.event : event);
    if (status || !num_mems)
        return status;
    for (cl_uint i = 0; i < num_mems; i++)
        wrote_all(&launch, mems[i]);
    if (event)
        *event = launch.event;
    else
        dgma_next.clReleaseEvent(launch.event);
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
    dgma_kernels_install(table);
}

/* === written ================================================================================= */
/* The written map: a file beside the object's own, /dev/shm/gpudirect-dgma-UID-SLOT-written, made
 * by an owner that keeps a copy. Any number of writers set bits; only the owner clears them. */

struct dgma_written {
    _Atomic uint32_t begun, done; /* counts of WriteSignals; different: one runs, or has died */
    _Atomic uint32_t value;       /* the value that the last one writes */
    uint32_t unused[13];
    _Atomic uint64_t bits[];
};

struct map_name {
    char text[96];
};

static struct map_name written_name_of(const char *path)
{
    struct map_name name;
    snprintf(name.text, sizeof name.text, "%s-written", path);
    return name;
}

static size_t surface_of(const struct dgma_object *object)
{
    return object->total - DGMA_PAGE;
}

static size_t size_of(const struct dgma_object *object)
{
    size_t size = sizeof(struct dgma_written) + surface_of(object) / 8;
    return (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
}

static int map_file(struct dgma_object *object, int fd)
{
    void *map = mmap(NULL, size_of(object), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return errno;
    object->written = map;
    return 0;
}

int dgma_written_create(struct dgma_object *object, const char *path)
{
    struct map_name name = written_name_of(path);
    unlink(name.text); /* the slot is ours, so an existing file is stale */
    int fd = open(name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = fchmod(fd, 0600) ? errno : 0;
    if (!error)
        do
            error = posix_fallocate(fd, 0, (off_t)size_of(object));
        while (error == EINTR);
    if (!error)
        error = map_file(object, fd);
    close(fd);
    if (error)
        unlink(name.text);
    return error;
}

void dgma_written_open(struct dgma_object *object, const char *path)
{
    struct stat st;
    int fd = open(written_name_of(path).text, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0 && st.st_size == (off_t)size_of(object))
        map_file(object, fd);
    close(fd);
}

void dgma_written_unlink(const char *path)
{
    unlink(written_name_of(path).text);
}

void dgma_written_close(struct dgma_object *object)
{
    if (object->written)
        munmap(object->written, size_of(object));
}

static void add_range(struct dgma_written *written, size_t at, size_t length)
{
    while (length > 0) {
        size_t bit = at % 64, count = length < 64 - bit ? length : 64 - bit;
        uint64_t mask = (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << bit;
        if (count == 64)
            atomic_store_explicit(&written->bits[at / 64], mask, memory_order_release);
        else
            atomic_fetch_or_explicit(&written->bits[at / 64], mask, memory_order_release);
        at += count;
        length -= count;
    }
}

void dgma_written_add(struct dgma_object *object, size_t at, const struct dgma_box *box)
{
    size_t surface = surface_of(object);
    for (size_t slice = 0; object->written && slice < box->slices; slice++)
        for (size_t row = 0; row < box->rows; row++) {
            size_t from = at + box->offset + slice * box->slice_pitch + row * box->row_pitch;
            if (from < surface)
                add_range(object->written, from,
                          box->width < surface - from ? box->width : surface - from);
        }
}

void dgma_written_begin_signal(struct dgma_object *object, uint32_t value)
{
    if (!object->written)
        return;
    atomic_fetch_add(&object->written->begun, 1);
    atomic_store(&object->written->value, value);
}

void dgma_written_end_signal(struct dgma_object *object)
{
    if (object->written)
        atomic_fetch_add(&object->written->done, 1);
}

/* Whether the marker has a value that no writer announced, so that its writer does not use the map.
 * `seen`: the owner's record of the value at the last check. */
static bool dgma_written_is_foreign(const struct dgma_object *object,
                                    const _Atomic uint32_t *marker, uint32_t *seen)
{
    const struct dgma_written *written = object->written;
    uint32_t done = atomic_load(&written->done);
    uint32_t now = atomic_load(marker), said = atomic_load(&written->value);
    bool quiet = atomic_load(&written->begun) == done; /* then the three are consistent */
    bool foreign = quiet && now != *seen && now != said;
    *seen = now;
    return foreign;
}

bool dgma_written_is_empty(const struct dgma_object *object, const _Atomic uint32_t *marker,
                           uint32_t seen)
{
    if (dgma_written_is_foreign(object, marker, &seen))
        return false;
    for (size_t word = 0; word < surface_of(object) / 64; word++)
        if (atomic_load_explicit(&object->written->bits[word], memory_order_acquire))
            return false;
    return true;
}

/* Calls `give` for each written range, and clears it; stops at the first error. */
static cl_int dgma_written_take(struct dgma_object *object,
                                cl_int (*give)(void *user_data, size_t offset, size_t length),
                                void *user_data)
{
    size_t words = surface_of(object) / 64, start = 0, end = 0; /* the range so far */
    cl_int status = CL_SUCCESS;
    for (size_t word = 0; word < words && status == CL_SUCCESS; word++) {
        _Atomic uint64_t *at = &object->written->bits[word];
        uint64_t bits = atomic_load_explicit(at, memory_order_relaxed);
        if (bits)
            bits = atomic_exchange_explicit(at, 0, memory_order_acquire);
        while (bits && status == CL_SUCCESS) {
            unsigned first = (unsigned)__builtin_ctzll(bits);
            uint64_t rest = ~(bits >> first);
            unsigned count = rest ? (unsigned)__builtin_ctzll(rest) : 64;
            if (word * 64 + first != end) {
                if (end > start)
                    status = give(user_data, start, end - start);
                start = word * 64 + first;
            }
            end = word * 64 + first + count;
            bits = first + count < 64 ? bits >> (first + count) << (first + count) : 0;
        }
    }
    if (end > start && status == CL_SUCCESS)
        status = give(user_data, start, end - start);
    return status;
}

/* === bring =================================================================================== */
/* Updates an owner's copy with what writers wrote, once the marker has arrived. The poller does it
 * through a queue of the layer's, since the program's own is stalled until then. The buffers of a
 * context and device share one queue. */

struct dgma_copy_queue {
    cl_context context; /* the queue holds it: the handle stays its own */
    cl_device_id device;
    cl_command_queue queue;
    unsigned refs; /* buffers */
    struct dgma_copy_queue *next;
};

static pthread_mutex_t bring_lock = PTHREAD_MUTEX_INITIALIZER; /* also every buffer's copy_queue */
static struct dgma_copy_queue *queues;

static struct dgma_copy_queue *get_locked(cl_context context, cl_device_id device, cl_int *status)
{
    struct dgma_copy_queue *at = queues;
    while (at && (at->context != context || at->device != device))
        at = at->next;
    if (at) {
        at->refs++;
        return at;
    }
    at = calloc(1, sizeof *at);
    if (!at) {
        *status = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    at->queue = dgma_next.clCreateCommandQueue(context, device, 0, status);
    if (!at->queue) {
        free(at);
        return NULL;
    }
    at->context = context;
    at->device = device;
    at->refs = 1;
    at->next = queues;
    queues = at;
    return at;
}

/* Returns a queue that the caller has to release, outside of the lock. */
static cl_command_queue put_locked(struct dgma_copy_queue *of)
{
    if (!of || --of->refs > 0)
        return NULL;
    struct dgma_copy_queue **at = &queues;
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    cl_command_queue queue = of->queue;
    free(of);
    return queue;
}

/* A queue for that, which the caller releases; the program's own is stalled meanwhile. */
static cl_command_queue dgma_bring_queue(struct dgma_buffer *buffer, cl_device_id device,
                                         cl_int *status)
{
    cl_command_queue queue = NULL, old = NULL;
    *status = CL_SUCCESS;
    pthread_mutex_lock(&bring_lock);
    if (!buffer->copy_queue || buffer->copy_queue->device != device) {
        struct dgma_copy_queue *fresh = get_locked(buffer->context, device, status);
        if (fresh) {
            old = put_locked(buffer->copy_queue);
            buffer->copy_queue = fresh;
        }
    }
    if (*status == CL_SUCCESS)
        *status = dgma_next.clRetainCommandQueue(buffer->copy_queue->queue);
    if (*status == CL_SUCCESS)
        queue = buffer->copy_queue->queue;
    pthread_mutex_unlock(&bring_lock);
    if (old)
        dgma_next.clReleaseCommandQueue(old);
    return queue;
}

void dgma_bring_free(struct dgma_buffer *buffer)
{
    pthread_mutex_lock(&bring_lock);
    cl_command_queue old = put_locked(buffer->copy_queue);
    buffer->copy_queue = NULL;
    pthread_mutex_unlock(&bring_lock);
    if (old)
        dgma_next.clReleaseCommandQueue(old);
}

/* Combines ranges of equal length and distance into one rectangle for the driver. */
struct transfer {
    cl_command_queue queue;
    cl_mem mem;
    const uint8_t *surface;
    cl_event last;
    size_t offset, length, pitch, rows; /* not yet enqueued; rows 0: nothing */
};

static cl_int write_range(struct transfer *to, size_t offset, size_t length)
{
    if (to->last)
        dgma_next.clReleaseEvent(to->last);
    to->last = NULL;
    return dgma_next.clEnqueueWriteBuffer(to->queue, to->mem, CL_FALSE, offset, length,
                                          to->surface + offset, 0, NULL, &to->last);
}

static cl_int write_rectangle(struct transfer *to)
{
    const size_t origin[3] = {to->offset % to->pitch, to->offset / to->pitch, 0};
    const size_t region[3] = {to->length, to->rows, 1};
    if (to->last)
        dgma_next.clReleaseEvent(to->last);
    to->last = NULL;
    return dgma_next.clEnqueueWriteBufferRect(to->queue, to->mem, CL_FALSE, origin, origin, region,
                                              to->pitch, 0, to->pitch, 0, to->surface, 0, NULL,
                                              &to->last);
}

static cl_int flush(struct transfer *to)
{
    cl_int status = CL_SUCCESS;
    if (to->rows > 1 && to->offset % to->pitch + to->length <= to->pitch)
        status = write_rectangle(to);
    else
        for (size_t row = 0; row < to->rows && status == CL_SUCCESS; row++)
            status = write_range(to, to->offset + row * to->pitch, to->length);
    to->rows = 0;
    return status;
}

static cl_int bring_add(void *user_data, size_t offset, size_t length)
{
    struct transfer *to = user_data;
    if (to->rows == 1 && length == to->length) {
        to->pitch = offset - to->offset;
        to->rows = 2;
        return CL_SUCCESS;
    }
    if (to->rows > 1 && length == to->length && offset == to->offset + to->rows * to->pitch) {
        to->rows++;
        return CL_SUCCESS;
    }
    cl_int status = flush(to);
    to->offset = offset;
    to->length = length;
    to->rows = 1;
    to->pitch = 0;
    return status;
}

static cl_int forget_range(void *user_data, size_t offset, size_t length)
{
    (void)user_data, (void)offset, (void)length;
    return CL_SUCCESS;
}

cl_int dgma_bring_in(struct dgma_buffer *buffer, cl_mem mem, cl_command_queue queue, cl_event *gate)
{
    struct transfer to = {.queue = queue, .mem = mem, .surface = buffer->surface};
    cl_int status;
    if (dgma_written_is_foreign(buffer->surface_object, buffer->marker, &buffer->seen_marker)) {
        dgma_written_take(buffer->surface_object, forget_range, NULL);
        status = write_range(&to, 0, buffer->size);
    } else {
        status = dgma_written_take(buffer->surface_object, bring_add, &to);
        if (status == CL_SUCCESS)
            status = flush(&to);
    }
    if (to.last)
        dgma_next.clFlush(queue);
    *gate = to.last;
    return status;
}

/* === commands ================================================================================ */
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

struct queue {
    cl_command_queue handle;
    cl_context context;
    cl_device_id device_id;
    const struct dgma_device *device;
    bool out_of_order;
};

static bool commands_open_queue(cl_command_queue handle, struct queue *queue)
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
    if (!commands_open_queue(handle, &queue))
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
    if (!commands_open_queue(handle, &queue))
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
    if (!commands_open_queue(handle, &queue))
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

/* === give ==================================================================================== */

cl_int dgma_give(const void *answer, size_t answer_size, size_t size, void *value, size_t *size_ret)
{
    if (value && size < answer_size)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, answer, answer_size);
    if (size_ret)
        *size_ret = answer_size;
    return CL_SUCCESS;
}
