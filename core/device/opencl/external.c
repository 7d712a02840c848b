/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of the same GPU that another driver made, behind a descriptor: cl_khr_external_memory,
 * which imports and does not export.
 *
 * Between an acquire and the release after it the memory is OpenCL's: the acquire makes what the
 * other driver has written visible, the release what OpenCL has. Every command has an acquire
 * before it and a release behind it, and those of one memory run in the order in which they were
 * enqueued, also on several queues: no release overtakes a command. Ownership is of the whole
 * buffer, where the other driver may write one slot while OpenCL reads another: words in the ring
 * page keep the two apart.
 *
 * CPU access is a copy to host memory, and one back. A mapping would be a use without a bound; on
 * an H200 (NVIDIA's 580) one hung when it overlapped another of the buffer and a second queue read
 * it, and large ones got 1 GB/s where copies get 12.
 *
 * That driver hangs, too, where such memory is used behind a user event that is not set yet: tests
 * hold queues so. Of the library's own queues only those that the software DirectGMA serves have
 * any.
 *
 * No queue waits for the other driver's. Semaphores (cl_khr_external_semaphore) do not help: CUDA
 * and NVIDIA's OpenCL (580) both import them, and neither exports any. Nor could the CPU end a wait
 * for a writer that died. The host hands frames over, when the writer's queue is done. */
#include "device/opencl/opencl.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* --- support ------------------------------------------------------------------------------- */

#define TYPES_MAX 16

/* The extension's name proves nothing; the list of types does. */
static void find_types(cl_device_id id, struct opencl_external *external)
{
    cl_uint types[TYPES_MAX];
    size_t size = 0;
    if (clGetDeviceInfo(id, CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR, sizeof(types), types,
                        &size) != CL_SUCCESS)
        return;
    for (size_t i = 0; i < size / sizeof(types[0]); i++) {
        external->opaque_fd |= types[i] == CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR;
        external->dma_buf |= types[i] == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR;
    }
}

void gpud_opencl_external_find(cl_platform_id platform, cl_device_id id,
                               struct opencl_external *external)
{
    memset(external, 0, sizeof(*external));
    if (!gpud_opencl_has_extension(id, "cl_khr_external_memory"))
        return;
    find_types(id, external);
    void *acquire =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueAcquireExternalMemObjectsKHR");
    void *release =
        clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueReleaseExternalMemObjectsKHR");
    if (!(external->opaque_fd || external->dma_buf) || !acquire || !release) {
        memset(external, 0, sizeof(*external));
        return;
    }
    memcpy(&external->acquire, &acquire, sizeof(acquire));
    memcpy(&external->release, &release, sizeof(release));
}

/* --- import; handles are untrusted --------------------------------------------------------- */

/* A buffer over all of the allocation, from a descriptor of this type. */
static cl_mem create(const struct opencl_device *device, cl_uint type, int fd, uint64_t size,
                     bool read_only, cl_int *code)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the driver owns it on success */
    if (own < 0) {
        *code = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    /* The context may have other GPUs, which cannot import it. */
    const cl_mem_properties properties[] = {type,
                                            (cl_mem_properties)own,
                                            CL_MEM_DEVICE_HANDLE_LIST_KHR,
                                            (cl_mem_properties)device->id,
                                            CL_MEM_DEVICE_HANDLE_LIST_END_KHR,
                                            0};
    cl_mem made = clCreateBufferWithProperties(device->context, properties,
                                               read_only ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE,
                                               size, NULL, code);
    if (*code == CL_SUCCESS && made)
        return made;
    /* NVIDIA's 580 refuses with CUDA's codes but still returns an object, which keeps the context
     * and its descriptors. */
    cl_uint references;
    if (made && clGetMemObjectInfo(made, CL_MEM_REFERENCE_COUNT, sizeof(references), &references,
                                   NULL) == CL_SUCCESS)
        clReleaseMemObject(made);
    gpud_fd_close(&own);
    return NULL;
}

enum gpud_status gpud_opencl_import_external(struct gpud_memory *memory,
                                             const struct gpud_handle *handle,
                                             struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    const char *name = memory->device->info.name;
    uint64_t size = handle->word[0];
    if (handle->fd < 0 || size < memory->size || size > (UINT64_C(1) << 41))
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory has %llu bytes and %s descriptor: %s cannot map it",
                         (unsigned long long)size, handle->fd < 0 ? "no" : "a", name);
    if (!device->external.acquire)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s imports no memory of other drivers: it has no "
                         "cl_khr_external_memory_opaque_fd",
                         name);
    struct opencl_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    /* AMD's drivers export dma-bufs. */
    bool read_only = memory->usage == GPUD_USAGE_SHARE;
    cl_int code = CL_INVALID_VALUE;
    if (handle->type == GPUD_HANDLE_HIP_FD && device->external.dma_buf)
        record->memory = create(device, CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR, handle->fd, size,
                                read_only, &code);
    if (!record->memory && device->external.opaque_fd)
        record->memory = create(device, CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR, handle->fd, size,
                                read_only, &code);
    if (!record->memory) {
        free(record);
        return gpud_opencl_fail_as(error, GPUD_PEER, code,
                                   "the peer's handle is not memory of a GPU that %s knows", name);
    }
    record->external = true;
    memory->backend = record;
    memory->native = record->memory;
    return GPUD_OK;
}

/* --- acquire and release ------------------------------------------------------------------- */

static bool is_external(const struct opencl_memory *memory)
{
    return memory && memory->external;
}

static bool concerns(struct opencl_memory *const memories[2])
{
    return is_external(memories[0]) || is_external(memories[1]);
}

/* Flushes the queue of an event's command, without which waiting for the event has no effect. */
static void start_queue_of(cl_event event)
{
    cl_command_queue queue = NULL;
    if (clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), &queue, NULL) == CL_SUCCESS &&
        queue)
        clFlush(queue);
}

/* Enqueues one of the two commands, after all uses of the memory on any queue. */
static cl_int go_behind(opencl_hand_over command, struct opencl_queue *queue,
                        struct opencl_memory *memory)
{
    cl_event after[2], event = NULL;
    cl_uint count = 0;
    if (queue->last)
        after[count++] = queue->last;
    if (memory->used && memory->used != queue->last) {
        start_queue_of(memory->used);
        after[count++] = memory->used;
    }
    cl_int code = command(queue->queue, 1, &memory->memory, count, count ? after : NULL, &event);
    if (code != CL_SUCCESS)
        return code;
    gpud_opencl_queue_push(queue, event);
    if (memory->used)
        clReleaseEvent(memory->used);
    clRetainEvent(event);
    memory->used = event;
    return CL_SUCCESS;
}

/* Acquires or releases the memories, one after the other. */
static cl_int hand_over(opencl_hand_over command, struct opencl_queue *queue,
                        struct opencl_memory *const memories[2])
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 2; i++) {
        cl_int one = is_external(memories[i]) ? go_behind(command, queue, memories[i]) : CL_SUCCESS;
        code = code == CL_SUCCESS ? one : code;
    }
    return code;
}

cl_int gpud_opencl_begin_use(struct opencl_device *device, struct opencl_queue *queue,
                             struct opencl_memory *const memories[2])
{
    if (!concerns(memories))
        return CL_SUCCESS;
    gpud_lock_take(&device->external_lock);
    return hand_over(device->external.acquire, queue, memories);
}

cl_int gpud_opencl_end_use(struct opencl_device *device, struct opencl_queue *queue,
                           struct opencl_memory *const memories[2])
{
    if (!concerns(memories))
        return CL_SUCCESS;
    cl_int code = hand_over(device->external.release, queue, memories);
    gpud_lock_release(&device->external_lock);
    return code;
}

/* --- CPU access ---------------------------------------------------------------------------- */

struct opencl_bounce {
    struct opencl_bounce *next;
    void *data;
    uint64_t room, offset, size;
    bool mapped, written;
    cl_event busy; /* the latest command that reads or writes data; NULL: none */
};

void gpud_opencl_free_bounces(struct opencl_memory *memory)
{
    while (memory->bounces) {
        struct opencl_bounce *gone = memory->bounces;
        memory->bounces = gone->next;
        if (gone->busy)
            clReleaseEvent(gone->busy);
        free(gone->data);
        free(gone);
    }
}

/* Takes host memory of that size that no command uses any more; NULL: no such memory. */
static struct opencl_bounce *take_bounce(struct opencl_device *device, struct opencl_memory *memory,
                                         uint64_t size)
{
    gpud_lock_take(&device->external_lock);
    struct opencl_bounce *bounce = memory->bounces;
    while (bounce && (bounce->mapped || bounce->room < size ||
                      (bounce->busy && gpud_opencl_state(bounce->busy) > CL_COMPLETE)))
        bounce = bounce->next;
    if (!bounce && (bounce = calloc(1, sizeof(*bounce)))) {
        bounce->room = (size + OPENCL_PAGE - 1) / OPENCL_PAGE * OPENCL_PAGE;
        bounce->data = aligned_alloc(OPENCL_PAGE, bounce->room);
        if (bounce->data) {
            bounce->next = memory->bounces;
            memory->bounces = bounce;
        } else {
            free(bounce);
            bounce = NULL;
        }
    }
    if (bounce)
        bounce->mapped = true;
    gpud_lock_release(&device->external_lock);
    return bounce;
}

static void put_bounce(struct opencl_device *device, struct opencl_bounce *bounce)
{
    gpud_lock_take(&device->external_lock);
    bounce->mapped = false;
    gpud_lock_release(&device->external_lock);
}

/* Enqueues a copy to the host, or from it. */
static enum gpud_status transfer(struct opencl_queue *queue, struct gpud_memory *memory,
                                 struct opencl_bounce *bounce, bool to_host,
                                 struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    struct opencl_memory *const memories[2] = {gpud_opencl_record(memory)};
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code = gpud_opencl_begin_use(device, queue, memories);
    if (code == CL_SUCCESS)
        code =
            to_host
                ? clEnqueueReadBuffer(queue->queue, memories[0]->memory, CL_FALSE, bounce->offset,
                                      bounce->size, bounce->data, OPENCL_AFTER(queue), &event)
                : clEnqueueWriteBuffer(queue->queue, memories[0]->memory, CL_FALSE, bounce->offset,
                                       bounce->size, bounce->data, OPENCL_AFTER(queue), &event);
    if (event)
        gpud_opencl_queue_push(queue, event);
    cl_int ended = gpud_opencl_end_use(device, queue, memories);
    code = code == CL_SUCCESS ? ended : code;
    if (event) {
        if (bounce->busy)
            clReleaseEvent(bounce->busy);
        clRetainEvent(queue->last);
        bounce->busy = queue->last;
    }
    gpud_opencl_queue_end(queue, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s cannot copy %llu bytes %s the host",
                                memory->device->info.name, (unsigned long long)bounce->size,
                                to_host ? "to" : "from");
    return gpud_opencl_queue_start(queue, error);
}

enum gpud_status gpud_opencl_map_external(struct opencl_queue *queue, struct gpud_memory *memory,
                                          uint64_t offset, uint64_t size, unsigned access,
                                          int64_t deadline, void **data, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    struct opencl_bounce *bounce = take_bounce(device, gpud_opencl_record(memory), size);
    enum gpud_status status = GPUD_OK;
    if (!bounce)
        return gpud_fail(error, GPUD_NO_MEMORY, "no %llu bytes of host memory to map a frame in",
                         (unsigned long long)size);
    bounce->offset = offset;
    bounce->size = size;
    bounce->written = access & GPUD_WRITE;
    if (access & GPUD_READ) {
        status = transfer(queue, memory, bounce, true, error);
        if (status == GPUD_OK)
            status = gpud_opencl_queue_finish(queue, deadline, error);
    }
    if (status == GPUD_OK)
        *data = bounce->data;
    else
        put_bounce(device, bounce);
    return status;
}

enum gpud_status gpud_opencl_unmap_external(struct opencl_queue *queue, struct gpud_memory *memory,
                                            void *data, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    gpud_lock_take(&device->external_lock);
    struct opencl_bounce *bounce = gpud_opencl_record(memory)->bounces;
    while (bounce && !(bounce->mapped && bounce->data == data))
        bounce = bounce->next;
    gpud_lock_release(&device->external_lock);
    if (!bounce)
        return GPUD_OK;
    enum gpud_status status = GPUD_OK;
    if (bounce->written)
        status = transfer(queue, memory, bounce, false, error);
    put_bounce(device, bounce);
    return status;
}
