/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of OpenCL, of peers and of other drivers. */
#include "device/opencl/opencl.h"

#include "base/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* === external ================================================================================ */
/* Memory of the same GPU that another driver made; queue.c says how it is used. */

/* --- import; handles are untrusted --------------------------------------------------------- */

/* A buffer over all of the allocation, from a descriptor of this type. */
static cl_mem opencl_memory_create(const struct opencl_device *device, cl_uint type, int fd,
                                   uint64_t size, bool read_only, cl_int *code)
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

static enum gpud_status import_external(struct gpud_memory *memory,
                                        const struct gpud_handle *handle, struct gpud_error *error)
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
        record->memory = opencl_memory_create(device, CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR,
                                              handle->fd, size, read_only, &code);
    if (!record->memory && device->external.opaque_fd)
        record->memory = opencl_memory_create(device, CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR,
                                              handle->fd, size, read_only, &code);
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

/* === memory ================================================================================== */
/* OpenCL buffers, and the two kinds that DirectGMA adds: our own, which peers write through a bus
 * address, and a peer's behind its bus address. */

/* GPUD_IO while a command on the service queue has not finished in time: each further one would
 * leave one more memory stuck in the driver. */
static enum gpud_status check_service(const struct gpud_device *device, struct gpud_error *error)
{
    if (gpud_opencl_queue_idle(gpud_opencl_device(device)->service))
        return GPUD_OK;
    return gpud_fail(error, GPUD_IO,
                     "%s has not done what it was asked for within %d s: the device or its driver "
                     "is stuck, and gives no memory until it goes on",
                     device->info.name, (int)(OPENCL_SERVICE_TIMEOUT / GPUD_SEC));
}

static void free_record(struct opencl_memory *record)
{
    gpud_opencl_free_bounces(record);
    if (record->used)
        clReleaseEvent(record->used);
    if (record->view)
        clReleaseMemObject(record->view);
    if (record->memory)
        clReleaseMemObject(record->memory);
    free(record);
}

/* --- bus addresses ------------------------------------------------------------------------- */

/* Makes a buffer for a bus address. The driver maps the marker's page; each write passes the word's
 * offset in it. */
static cl_mem open_external(struct opencl_device *device, const struct opencl_bus_address *bus,
                            uint64_t size, cl_int *code)
{
    struct opencl_bus_address pages = {bus->surface, bus->marker & ~(OPENCL_PAGE - 1)};
    cl_mem external = clCreateBuffer(
        device->context, CL_MEM_EXTERNAL_PHYSICAL_AMD | CL_MEM_WRITE_ONLY, size, &pages, code);
    return *code == CL_SUCCESS ? external : NULL;
}

/* AMD requires this once for each external buffer, before its first use. */
static enum gpud_status settle(struct opencl_device *device, cl_mem external,
                               struct gpud_error *error)
{
    cl_event event;
    cl_int code =
        clEnqueueMigrateMemObjects(device->service->queue, 1, &external, 0, 0, NULL, &event);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "the driver refused to move to a bus address");
    return gpud_opencl_serve(device, event, "reach memory behind a bus address", error);
}

static void CL_CALLBACK free_late(cl_event event, cl_int state, void *record)
{
    free_record(record);
}

/* Gives *record its buffer, its addresses and its view of itself. On failure *record may be NULL:
 * then the driver still has it, and it is freed when the driver is done. */
static enum gpud_status make_target(struct gpud_memory *memory, struct opencl_memory **record,
                                    struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    struct opencl_memory *made = *record;
    cl_int code;
    if (!device->amd.make_resident)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", memory->device->no_direct);
    made->memory = clCreateBuffer(device->context, CL_MEM_BUS_ADDRESSABLE_AMD | CL_MEM_READ_WRITE,
                                  memory->size, NULL, &code);
    cl_event event;
    if (code == CL_SUCCESS)
        code = device->amd.make_resident(device->service->queue, 1, &made->memory, CL_FALSE,
                                         &made->bus, 0, NULL, &event);
    if (code == CL_INVALID_BUFFER_SIZE || code == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
        code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY)
        return gpud_opencl_fail_as(
            error, GPUD_NO_MEMORY, code,
            "%llu bytes do not fit into the aperture for peers (AMD's default: 96 MB): "
            "take fewer or smaller slots",
            (unsigned long long)memory->size);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused memory that peers can write",
                                memory->device->info.name);

    clRetainEvent(event);
    enum gpud_status status = gpud_opencl_serve(device, event, "make memory resident", error);
    if (status != GPUD_OK && gpud_opencl_state(event) > CL_COMPLETE) {
        *record = NULL; /* the driver will write the addresses into it */
        clSetEventCallback(event, CL_COMPLETE, free_late, made);
    }
    clReleaseEvent(event);
    if (status != GPUD_OK)
        return status;
    if (!made->bus.surface || !made->bus.marker)
        return gpud_fail(error, GPUD_IO, "%s gave memory for peers no bus address",
                         memory->device->info.name);
    made->view = open_external(device, &made->bus, memory->size, &code);
    if (!made->view)
        return gpud_opencl_fail(error, code, "%s cannot reach its own bus address",
                                memory->device->info.name);
    return settle(device, made->view, error);
}

static enum gpud_status opencl_memory_alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    const char *name = memory->device->info.name;
    unsigned long long size = memory->size;
    const cl_uchar nothing = 0;
    cl_int code;
    if (memory->usage == GPUD_USAGE_SHARE)
        return gpud_fail(
            error, GPUD_UNSUPPORTED,
            "memory of %s cannot be mapped by other processes: use host memory for the ring", name);
    enum gpud_status status = check_service(memory->device, error);
    if (status != GPUD_OK)
        return status;
    struct opencl_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    if (memory->usage == GPUD_USAGE_TARGET) {
        status = make_target(memory, &record, error);
    } else {
        record->memory = clCreateBuffer(device->context, CL_MEM_ALLOC_HOST_PTR | CL_MEM_READ_WRITE,
                                        memory->size, NULL, &code);
        if (code == CL_INVALID_BUFFER_SIZE)
            status =
                gpud_opencl_fail_as(error, GPUD_NO_MEMORY, code,
                                    "%llu bytes are more than one buffer of %s holds", size, name);
        else if (code != CL_SUCCESS)
            status = gpud_opencl_fail(error, code, "no %llu bytes on %s", size, name);
    }
    if (status == GPUD_OK) {
        cl_event event;
        code = clEnqueueFillBuffer(device->service->queue, record->memory, &nothing,
                                   sizeof(nothing), 0, memory->size, 0, NULL, &event);
        status =
            code == CL_SUCCESS
                ? gpud_opencl_serve(device, event, "clear new memory", error)
                : gpud_opencl_fail(error, code, "the driver refused to clear %llu bytes", size);
    }
    if (status != GPUD_OK) {
        if (record)
            free_record(record);
        return status;
    }
    memory->backend = record;
    memory->native = record->memory;
    return GPUD_OK;
}

void gpud_opencl_memory_undo(struct gpud_device *device, void *record)
{
    if (record)
        free_record(record);
}

/* The driver keeps a buffer until its commands are done. Host pages, of the memory or of its CPU
 * copies, and an application's buffer, which may be reused once destroy is called, are unknown to
 * it: these wait for the queues. */
static void opencl_memory_free_memory(struct gpud_memory *memory)
{
    struct opencl_memory *record = memory->backend;
    if (!record->memory || record->bounces || memory->destroy) {
        gpud_free_after(&gpud_opencl_device(memory->device)->async, &record->after, memory,
                        gpud_opencl_memory_undo, 0, true);
    } else {
        free_record(record);
        gpud_memory_freed(memory);
    }
}

/* --- the application's memory -------------------------------------------------------------- */

static enum gpud_status opencl_memory_wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    cl_mem native = memory->native;
    cl_context context = NULL;
    cl_mem_object_type type = 0;
    size_t size = 0;
    cl_int code = clGetMemObjectInfo(native, CL_MEM_CONTEXT, sizeof(context), &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(native, CL_MEM_TYPE, sizeof(type), &type, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(native, CL_MEM_SIZE, sizeof(size), &size, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail_as(error, GPUD_INVALID, code, "native is not a cl_mem");
    if (context != gpud_opencl_device(memory->device)->context)
        return gpud_fail(error, GPUD_INVALID, "the cl_mem belongs to another context than %s",
                         memory->device->info.name);
    if (type != CL_MEM_OBJECT_BUFFER)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the cl_mem is an image: only buffers can be wrapped");
    if (size < memory->size)
        return gpud_fail(error, GPUD_INVALID, "the cl_mem has %zu bytes, not %llu", size,
                         (unsigned long long)memory->size);
    struct opencl_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    code = clRetainMemObject(native);
    if (code != CL_SUCCESS) {
        free(record);
        return gpud_opencl_fail_as(error, GPUD_INVALID, code, "the cl_mem cannot be kept");
    }
    record->memory = native;
    memory->backend = record;
    return GPUD_OK;
}

/* Needs no cl_mem: copies read and write through the pointer. */
static enum gpud_status opencl_memory_wrap_host(struct gpud_memory *memory,
                                                struct gpud_error *error)
{
    memory->backend = calloc(1, sizeof(struct opencl_memory));
    return memory->backend
               ? GPUD_OK
               : gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
}

/* --- to and from other processes ----------------------------------------------------------- */

static enum gpud_status export_handle(struct gpud_memory *memory, struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    const struct opencl_memory *record = memory->backend;
    handle->type = GPUD_HANDLE_BUS_ADDRESS;
    handle->word[0] = record->bus.surface;
    handle->word[1] = record->bus.marker;
    return GPUD_OK;
}

static enum gpud_status import_bus_address(struct gpud_memory *memory,
                                           const struct gpud_handle *handle,
                                           struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    struct opencl_bus_address bus = {handle->word[0], handle->word[1]};
    if (memory->usage != GPUD_USAGE_TARGET)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "memory behind a bus address can be written, not read");
    if (!device->amd.write_signal)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", memory->device->no_direct);
    if (!bus.surface || bus.surface % OPENCL_PAGE)
        return gpud_fail(error, GPUD_PEER, "the peer's bus address is not the start of a page");
    if (bus.marker < OPENCL_PAGE || bus.marker % sizeof(uint32_t))
        return gpud_fail(error, GPUD_PEER, "the peer's signal is not at the address of a word");
    if (bus.surface > UINT64_MAX - memory->size)
        return gpud_fail(error, GPUD_PEER, "the peer's memory leaves the bus");
    enum gpud_status status = check_service(memory->device, error);
    if (status != GPUD_OK)
        return status;

    struct opencl_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    cl_int code;
    record->bus = bus;
    record->memory = open_external(device, &bus, memory->size, &code);
    if (!record->memory) {
        free(record);
        return gpud_opencl_fail_as(error, GPUD_PEER, code,
                                   "%s cannot reach the bus address that the peer gave",
                                   memory->device->info.name);
    }
    status = settle(device, record->memory, error);
    if (status != GPUD_OK) {
        free_record(record);
        return status;
    }
    memory->backend = record;
    memory->native = record->memory;
    return GPUD_OK;
}

static enum gpud_status import_handle(struct gpud_memory *memory, const struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    switch (handle->type) {
    case GPUD_HANDLE_BUS_ADDRESS:
        return import_bus_address(memory, handle, error);
    case GPUD_HANDLE_CUDA_FD:
    case GPUD_HANDLE_HIP_FD:
        return import_external(memory, handle, error);
    default:
        return gpud_fail(error, GPUD_PEER,
                         "the peer's handle is neither a bus address nor a GPU's memory");
    }
}

static enum gpud_status opencl_memory_flush_remote(struct gpud_memory *memory,
                                                   struct gpud_error *error)
{
    return GPUD_OK; /* the marker is written after the bytes, so waiting for it suffices */
}

const struct gpud_memory_ops gpud_opencl_memory_ops = {
    .alloc = opencl_memory_alloc,
    .wrap = opencl_memory_wrap,
    .wrap_host = opencl_memory_wrap_host,
    .free = opencl_memory_free_memory,
    .export_handle = export_handle,
    .import_handle = import_handle,
    .flush_remote = opencl_memory_flush_remote,
};
