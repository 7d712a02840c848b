/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The memory objects of the extension. BUS: the layer's memory with a bus address, passed to the
 * driver. EXTERNAL: the memory of another buffer's bus address, mapped and passed to the driver.
 *
 * A CPU device works on that memory in place (CL_MEM_USE_HOST_PTR). Other devices' drivers handle
 * USE_HOST_PTR in unspecified ways, so these get plain memory, and the bytes are copied at each
 * signal (commands.c). */

#include <stdlib.h>
#include <string.h>

#include "bring.h"
#include "buffer.h"
#include "device.h"
#include "memobject.h"
#include "registry.h"
#include "writes.h"

#define HOST_POINTER_FLAGS (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)
#define HOST_ACCESS_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

static void buffer_destroy(struct dgma_buffer *buffer)
{
    dgma_buffer_leave(buffer);
    dgma_writes_free(buffer);
    dgma_bring_free(buffer);
    if (buffer->kind == DGMA_BUS && buffer->surface_object)
        dgma_object_unpublish(buffer->surface_object);
    dgma_object_unref(buffer->surface_object);
    dgma_object_unref(buffer->marker_object);
    free(buffer);
}

static cl_int check_flags(cl_mem_flags flags)
{
    bool bus = (flags & CL_MEM_BUS_ADDRESSABLE_AMD) != 0;
    bool external = (flags & CL_MEM_EXTERNAL_PHYSICAL_AMD) != 0;
    if (bus && external)
        return CL_INVALID_VALUE;
    if (bus && (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR)))
        return CL_INVALID_VALUE;
    if (external && (flags & (HOST_POINTER_FLAGS | CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)))
        return CL_INVALID_VALUE;
    return CL_SUCCESS;
}

static cl_int check_pointer(cl_mem_flags flags, const void *host_ptr)
{
    if (flags & CL_MEM_EXTERNAL_PHYSICAL_AMD) {
        const cl_bus_address_amd *address = host_ptr;
        if (!address || !address->surface_bus_address || !address->marker_bus_address ||
            address->surface_bus_address % DGMA_PAGE || address->marker_bus_address % DGMA_PAGE)
            return CL_INVALID_HOST_PTR;
        return CL_SUCCESS;
    }
    return !host_ptr == !(flags & CL_MEM_COPY_HOST_PTR) ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

static void set_marker(struct dgma_buffer *buffer, struct dgma_object *object, size_t offset)
{
    buffer->marker_object = object;
    buffer->marker = (_Atomic uint32_t *)(void *)(object->map + offset);
    buffer->marker_room = object->total - offset;
}

/* In a context of several devices, the buffer's device is known only when a queue makes it
 * resident. */
static bool find_room(struct dgma_buffer *buffer)
{
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    cl_uint count = dgma_context_devices(buffer->context, devices);
    if (count == 1)
        return dgma_buffer_place(buffer, devices[0]);
    return dgma_aperture_has_room(devices, count, buffer->size, buffer->size + DGMA_PAGE);
}

static bool back_bus(struct dgma_buffer *buffer, const void *content, size_t content_size)
{
    struct dgma_object *object =
        find_room(buffer) ? dgma_object_create(buffer->size, buffer->copies) : NULL;
    if (!object)
        return false;
    buffer->surface_object = object;
    buffer->surface = object->map;
    atomic_fetch_add(&object->refs, 1);
    if (content)
        memcpy(object->map, content, content_size);
    set_marker(buffer, object, buffer->size);
    return true;
}

static bool back_external(struct dgma_buffer *buffer, const cl_bus_address_amd *address)
{
    size_t offset = 0, marker_offset = 0;
    buffer->surface_object = dgma_object_find(address->surface_bus_address, &offset);
    if (!buffer->surface_object)
        return false;
    size_t surface = buffer->surface_object->total - DGMA_PAGE;
    if (offset >= surface || buffer->size > surface - offset) {
        dgma_log("an external buffer of %zu bytes at %zu, but the surface has %zu bytes",
                 buffer->size, offset, surface);
        return false;
    }
    buffer->surface = buffer->surface_object->map + offset;
    struct dgma_object *object = dgma_object_find(address->marker_bus_address, &marker_offset);
    if (!object)
        return false;
    set_marker(buffer, object, marker_offset);
    return true;
}

static cl_mem_flags driver_flags(const struct dgma_buffer *buffer)
{
    cl_mem_flags flags = buffer->flags & ~CL_MEM_BUS_ADDRESSABLE_AMD;
    if (buffer->kind == DGMA_EXTERNAL) {
        /* Programs built with AMD's header pass bit 31 sign-extended to the upper half. */
        flags &= CL_MEM_EXTERNAL_PHYSICAL_AMD - 1;
        flags |= CL_MEM_WRITE_ONLY;
    }
    flags &= ~(cl_mem_flags)HOST_POINTER_FLAGS;
    /* The layer's copies at a signal are host accesses, even if the program excludes those. */
    return buffer->copies ? (flags & ~(cl_mem_flags)HOST_ACCESS_FLAGS) | CL_MEM_COPY_HOST_PTR
                          : flags | CL_MEM_USE_HOST_PTR;
}

static void CL_CALLBACK forget(cl_mem mem, void *user_data)
{
    /* For programs that never release the object, only its context. */
    dgma_table_drop(&dgma_buffers, mem, user_data);
    buffer_destroy(user_data);
}

/* Passes the buffer's memory to the driver. On success the memory object owns the buffer. */
static cl_int adopt(struct dgma_buffer *buffer, cl_mem *mem_ret)
{
    cl_int status;
    cl_mem mem = dgma_next.clCreateBuffer(buffer->context, driver_flags(buffer), buffer->size,
                                          buffer->surface, &status);
    if (!mem)
        return status;
    if (!dgma_table_put(&dgma_buffers, mem, buffer)) {
        dgma_next.clReleaseMemObject(mem);
        return CL_OUT_OF_HOST_MEMORY;
    }
    status = dgma_next.clSetMemObjectDestructorCallback(mem, forget, buffer);
    if (status) {
        dgma_table_drop(&dgma_buffers, mem, buffer);
        dgma_next.clReleaseMemObject(mem);
        return status;
    }
    *mem_ret = mem;
    return CL_SUCCESS;
}

static cl_int create(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                     cl_mem *mem)
{
    cl_int status = check_flags(flags);
    if (status)
        return status;
    if (size == 0 || size > SIZE_MAX - 2 * DGMA_PAGE)
        return CL_INVALID_BUFFER_SIZE;
    status = check_pointer(flags, host_ptr);
    if (status)
        return status;
    struct dgma_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return CL_OUT_OF_HOST_MEMORY;
    buffer->kind = flags & CL_MEM_BUS_ADDRESSABLE_AMD ? DGMA_BUS : DGMA_EXTERNAL;
    atomic_init(&buffer->refs, 1);
    buffer->flags = flags;
    buffer->context = context;
    buffer->size = (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
    buffer->copies = !dgma_context_is_host_memory(context);
    bool backed = buffer->kind == DGMA_BUS ? back_bus(buffer, host_ptr, size)
                                           : back_external(buffer, host_ptr);
    status = backed ? adopt(buffer, mem) : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (status)
        buffer_destroy(buffer);
    return status;
}

static bool is_valid_context(cl_context context)
{
    cl_uint refs;
    return context && dgma_next.clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof refs,
                                                 &refs, NULL) == CL_SUCCESS;
}

static cl_mem create_and_report(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                                cl_int *status_ret)
{
    cl_mem mem = NULL;
    cl_int status = create(context, flags, size, host_ptr, &mem);
    if (status_ret)
        *status_ret = status;
    return mem;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags,
                                                     size_t size, void *host_ptr, cl_int *status)
{
    if (!dgma_flags_are_ours(flags) || !is_valid_context(context) ||
        dgma_context_is_native(context))
        return dgma_next.clCreateBuffer(context, flags, size, host_ptr, status);
    return create_and_report(context, flags, size, host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL
create_buffer_with_properties(cl_context context, const cl_mem_properties *properties,
                              cl_mem_flags flags, size_t size, void *host_ptr, cl_int *status)
{
    if (!dgma_flags_are_ours(flags) || !is_valid_context(context) ||
        dgma_context_is_native(context))
        return dgma_next.clCreateBufferWithProperties(context, properties, flags, size, host_ptr,
                                                      status);
    if (properties && properties[0] != 0) {
        if (status)
            *status = CL_INVALID_PROPERTY;
        return NULL;
    }
    return create_and_report(context, flags, size, host_ptr, status);
}

static CL_API_ENTRY cl_int CL_API_CALL retain_mem_object(cl_mem mem)
{
    struct dgma_buffer *buffer = dgma_buffer_get(mem);
    cl_int status = dgma_next.clRetainMemObject(mem);
    if (buffer && status == CL_SUCCESS)
        atomic_fetch_add(&buffer->refs, 1);
    return status;
}

/* NVIDIA's driver calls `forget` late, when the handle may already belong to another object. So the
 * handle is removed here, and its share of the aperture freed, as the program expects; the buffer
 * itself is freed with the driver's object. */
static CL_API_ENTRY cl_int CL_API_CALL release_mem_object(cl_mem mem)
{
    struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (buffer && atomic_fetch_sub(&buffer->refs, 1) == 1) {
        dgma_table_drop(&dgma_buffers, mem, buffer);
        dgma_buffer_leave(buffer);
        dgma_writes_free(buffer);
        dgma_bring_free(buffer);
    }
    return dgma_next.clReleaseMemObject(mem);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_sub_buffer(cl_mem mem, cl_mem_flags flags,
                                                         cl_buffer_create_type type,
                                                         const void *info, cl_int *status)
{
    if (!dgma_buffer_get(mem))
        return dgma_next.clCreateSubBuffer(mem, flags, type, info, status);
    if (status)
        *status = CL_INVALID_VALUE;
    return NULL;
}

static CL_API_ENTRY void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem,
                                                 cl_bool blocking, cl_map_flags flags,
                                                 size_t offset, size_t size, cl_uint num_events,
                                                 const cl_event *wait_list, cl_event *event,
                                                 cl_int *status)
{
    const struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (!buffer || buffer->kind != DGMA_EXTERNAL)
        return dgma_next.clEnqueueMapBuffer(queue, mem, blocking, flags, offset, size, num_events,
                                            wait_list, event, status);
    if (status)
        *status = CL_INVALID_OPERATION;
    return NULL;
}

void dgma_memobject_install(cl_icd_dispatch *table)
{
    table->clCreateBuffer = create_buffer;
    table->clRetainMemObject = retain_mem_object;
    table->clReleaseMemObject = release_mem_object;
    table->clCreateSubBuffer = create_sub_buffer;
    table->clEnqueueMapBuffer = map_buffer;
    if (table->clCreateBufferWithProperties)
        table->clCreateBufferWithProperties = create_buffer_with_properties;
}
