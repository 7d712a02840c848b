/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory objects, apertures, and buffers of another device's. */
#include "layer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* === aperture ================================================================================ */
/* The aperture: a real card exposes only a small window of its memory on the bus, to which programs
 * size their rings. So the layer has one, too: GPUDIRECT_DGMA_APERTURE, per device and process. */

#define MIB ((size_t)1 << 20)
#define DEFAULT_APERTURE (96 * MIB)
#define LARGEST_APERTURE ((size_t)3072 * MIB) /* an object has to fit between two bus addresses */

struct dgma_aperture {
    cl_device_id device;
    size_t used;
    struct dgma_aperture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dgma_aperture *apertures;
static size_t limit;

/* "96M", "1G", "512K" or bytes; 0: not a size. */
static size_t parse_size(const char *text)
{
    static const char units[] = "KkMmGg";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-')
        return 0;
    const char *unit = *end ? strchr(units, *end) : NULL;
    size_t shift = unit ? 10 * (size_t)((unit - units) / 2 + 1) : 0;
    if (end[unit ? 1 : 0] != '\0' || number > LARGEST_APERTURE >> shift)
        return 0;
    return (size_t)number << shift;
}

static void read_limit(void)
{
    const char *text = getenv("GPUDIRECT_DGMA_APERTURE");
    limit = DEFAULT_APERTURE;
    if (!text || !*text)
        return;
    size_t size = parse_size(text);
    if (size > MIB)
        limit = size;
    else
        dgma_log(
            "GPUDIRECT_DGMA_APERTURE=%s is no size above 1M and up to 3G (like 96M): 96M is used",
            text);
}

static void log_no_room(size_t size, size_t left)
{
    dgma_log("a bus addressable buffer of %zu bytes does not fit: the aperture has %zu of %zu "
             "bytes left and takes buffers up to %zu; use fewer or smaller buffers or raise "
             "GPUDIRECT_DGMA_APERTURE",
             size, left, limit, limit - MIB);
}

/* What a buffer takes of the aperture: its marker page, too. */
static size_t bytes_of(const struct dgma_buffer *buffer)
{
    return buffer->size + DGMA_PAGE;
}

/* Under the lock: the device's aperture. NULL: the buffer does not fit, and `*left` is raised to
 * the space that is left. */
static struct dgma_aperture *fitting(cl_device_id device, const struct dgma_buffer *buffer,
                                     size_t *left)
{
    if (!limit)
        read_limit();
    struct dgma_aperture *aperture = apertures;
    while (aperture && aperture->device != device)
        aperture = aperture->next;
    if (!aperture) {
        aperture = calloc(1, sizeof *aperture);
        if (!aperture)
            return NULL;
        aperture->device = device;
        aperture->next = apertures;
        apertures = aperture;
    }
    size_t free_bytes = limit - aperture->used;
    if (*left < free_bytes)
        *left = free_bytes;
    return buffer->size <= limit - MIB && bytes_of(buffer) <= free_bytes ? aperture : NULL;
}

bool dgma_buffer_place(struct dgma_buffer *buffer, cl_device_id device)
{
    size_t left = 0;
    pthread_mutex_lock(&lock);
    struct dgma_aperture *aperture = buffer->aperture ? NULL : fitting(device, buffer, &left);
    if (aperture) {
        aperture->used += bytes_of(buffer);
        buffer->aperture = aperture;
    }
    bool has = buffer->aperture != NULL;
    pthread_mutex_unlock(&lock);
    if (!has)
        log_no_room(buffer->size, left);
    return has;
}

/* In a context of several devices, the buffer's device is known only when a queue makes it
 * resident; until then it has to fit on one of them. */
static bool find_room(struct dgma_buffer *buffer)
{
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    cl_uint count = dgma_context_devices(buffer->context, devices);
    if (count == 1)
        return dgma_buffer_place(buffer, devices[0]);
    bool room = false;
    size_t left = 0;
    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < count && !room; i++)
        room = fitting(devices[i], buffer, &left) != NULL;
    pthread_mutex_unlock(&lock);
    if (!room)
        log_no_room(buffer->size, left);
    return room;
}

/* Frees the buffer's share. */
static void leave(struct dgma_buffer *buffer)
{
    if (!buffer->aperture)
        return;
    pthread_mutex_lock(&lock);
    buffer->aperture->used -= bytes_of(buffer);
    pthread_mutex_unlock(&lock);
    buffer->aperture = NULL;
}

/* === buffer ================================================================================== */
/* The records of the two kinds of memory object. */

static bool flags_are_ours(cl_mem_flags flags)
{
    /* AMD's header sign-extends bit 31, so nothing above it may be looked at. */
    return (flags & (CL_MEM_BUS_ADDRESSABLE_AMD | CL_MEM_EXTERNAL_PHYSICAL_AMD)) != 0;
}

static struct dgma_table buffers = DGMA_TABLE_INIT;

struct dgma_buffer *dgma_buffer_get(cl_mem mem)
{
    return dgma_table_get(&buffers, mem);
}

/* === memobject =============================================================================== */
/* The memory objects of the extension. BUS: the layer's memory with a bus address, passed to the
 * driver. EXTERNAL: the memory of another buffer's bus address, mapped and passed to the driver.
 *
 * A CPU device works on that memory in place (CL_MEM_USE_HOST_PTR). Other devices' drivers handle
 * USE_HOST_PTR in unspecified ways, so these get plain memory, and the bytes are copied at each
 * signal (commands.c). */

#define HOST_POINTER_FLAGS (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)
#define HOST_ACCESS_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

static void buffer_destroy(struct dgma_buffer *buffer)
{
    leave(buffer);
    dgma_writes_free(buffer);
    dgma_bring_free(buffer);
    if (buffer->kind == DGMA_BUS && buffer->surface_object)
        dgma_object_unpublish(buffer->surface_object);
    dgma_object_unref(buffer->surface_object);
    dgma_object_unref(buffer->marker_object);
    free(buffer);
}

static void set_marker(struct dgma_buffer *buffer, struct dgma_object *object, size_t offset)
{
    buffer->marker_object = object;
    buffer->marker = (_Atomic uint32_t *)(void *)(object->map + offset);
    buffer->marker_room = object->total - offset;
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
    dgma_table_take(&buffers, mem, user_data);
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
    if (!dgma_table_put(&buffers, mem, buffer)) {
        dgma_next.clReleaseMemObject(mem);
        return CL_OUT_OF_HOST_MEMORY;
    }
    status = dgma_next.clSetMemObjectDestructorCallback(mem, forget, buffer);
    if (status) {
        dgma_table_take(&buffers, mem, buffer);
        dgma_next.clReleaseMemObject(mem);
        return status;
    }
    *mem_ret = mem;
    return CL_SUCCESS;
}

static cl_int memobject_create(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                               cl_mem *mem)
{
    bool bus = (flags & CL_MEM_BUS_ADDRESSABLE_AMD) != 0;
    bool external = (flags & CL_MEM_EXTERNAL_PHYSICAL_AMD) != 0;
    const cl_bus_address_amd *address = host_ptr;
    if ((bus && external) || (bus && (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR))) ||
        (external && (flags & (HOST_POINTER_FLAGS | CL_MEM_READ_WRITE | CL_MEM_READ_ONLY))))
        return CL_INVALID_VALUE;
    if (size == 0 || size > SIZE_MAX - 2 * DGMA_PAGE)
        return CL_INVALID_BUFFER_SIZE;
    if (external ? !address || !address->surface_bus_address || !address->marker_bus_address ||
                       address->surface_bus_address % DGMA_PAGE ||
                       address->marker_bus_address % DGMA_PAGE
                 : !host_ptr != !(flags & CL_MEM_COPY_HOST_PTR))
        return CL_INVALID_HOST_PTR;
    struct dgma_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return CL_OUT_OF_HOST_MEMORY;
    buffer->kind = bus ? DGMA_BUS : DGMA_EXTERNAL;
    atomic_init(&buffer->refs, 1);
    buffer->flags = flags;
    buffer->context = context;
    buffer->size = (size + DGMA_PAGE - 1) & ~(DGMA_PAGE - 1);
    buffer->copies = !dgma_context_get(context).host_memory;
    bool backed = bus ? back_bus(buffer, host_ptr, size) : back_external(buffer, address);
    cl_int status = backed ? adopt(buffer, mem) : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (status)
        buffer_destroy(buffer);
    return status;
}

/* Whether the driver makes the buffer: without the extension's flags, or with its own. */
static bool is_foreign(cl_context context, cl_mem_flags flags)
{
    cl_uint refs;
    return !flags_are_ours(flags) || !context ||
           dgma_next.clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof refs, &refs,
                                      NULL) ||
           dgma_context_get(context).native;
}

static cl_mem create_and_report(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                                cl_int *status_ret)
{
    cl_mem mem = NULL;
    cl_int status = memobject_create(context, flags, size, host_ptr, &mem);
    if (status_ret)
        *status_ret = status;
    return mem;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags,
                                                     size_t size, void *host_ptr, cl_int *status)
{
    if (is_foreign(context, flags))
        return dgma_next.clCreateBuffer(context, flags, size, host_ptr, status);
    return create_and_report(context, flags, size, host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL
create_buffer_with_properties(cl_context context, const cl_mem_properties *properties,
                              cl_mem_flags flags, size_t size, void *host_ptr, cl_int *status)
{
    if (is_foreign(context, flags))
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
        dgma_table_take(&buffers, mem, buffer);
        leave(buffer);
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

static CL_API_ENTRY cl_int CL_API_CALL get_mem_object_info(cl_mem mem, cl_mem_info name,
                                                           size_t size, void *value,
                                                           size_t *size_ret)
{
    const struct dgma_buffer *buffer = dgma_buffer_get(mem);
    if (buffer && name == CL_MEM_FLAGS)
        return dgma_give(&buffer->flags, sizeof buffer->flags, size, value, size_ret);
    if (buffer && name == CL_MEM_HOST_PTR) {
        void *none = NULL; /* the program passed no memory */
        return dgma_give(&none, sizeof none, size, value, size_ret);
    }
    return dgma_next.clGetMemObjectInfo(mem, name, size, value, size_ret);
}

/* === image =================================================================================== */
/* Refuses images that are bus addressable or external, or made from such a buffer. */

static bool image_refuse(cl_context context, cl_mem_flags flags, const cl_image_desc *desc,
                         cl_int *status)
{
    cl_int reason = CL_SUCCESS;
    if (flags_are_ours(flags) && context && !dgma_context_get(context).native)
        reason = CL_INVALID_VALUE;
    else if (desc && desc->mem_object && dgma_buffer_get(desc->mem_object))
        reason = CL_INVALID_IMAGE_DESCRIPTOR;
    if (reason && status)
        *status = reason;
    return reason != CL_SUCCESS;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image(cl_context context, cl_mem_flags flags,
                                                    const cl_image_format *format,
                                                    const cl_image_desc *desc, void *host_ptr,
                                                    cl_int *status)
{
    return image_refuse(context, flags, desc, status)
               ? NULL
               : dgma_next.clCreateImage(context, flags, format, desc, host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_with_properties(
    cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
    const cl_image_format *format, const cl_image_desc *desc, void *host_ptr, cl_int *status)
{
    return image_refuse(context, flags, desc, status)
               ? NULL
               : dgma_next.clCreateImageWithProperties(context, properties, flags, format, desc,
                                                       host_ptr, status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_2d(cl_context context, cl_mem_flags flags,
                                                       const cl_image_format *format, size_t width,
                                                       size_t height, size_t pitch, void *host_ptr,
                                                       cl_int *status)
{
    return image_refuse(context, flags, NULL, status)
               ? NULL
               : dgma_next.clCreateImage2D(context, flags, format, width, height, pitch, host_ptr,
                                           status);
}

static CL_API_ENTRY cl_mem CL_API_CALL create_image_3d(cl_context context, cl_mem_flags flags,
                                                       const cl_image_format *format, size_t width,
                                                       size_t height, size_t depth,
                                                       size_t row_pitch, size_t slice_pitch,
                                                       void *host_ptr, cl_int *status)
{
    return image_refuse(context, flags, NULL, status)
               ? NULL
               : dgma_next.clCreateImage3D(context, flags, format, width, height, depth, row_pitch,
                                           slice_pitch, host_ptr, status);
}

void dgma_memory_install(cl_icd_dispatch *table)
{
    table->clCreateBuffer = create_buffer;
    table->clRetainMemObject = retain_mem_object;
    table->clReleaseMemObject = release_mem_object;
    table->clGetMemObjectInfo = get_mem_object_info;
    table->clCreateSubBuffer = create_sub_buffer;
    table->clEnqueueMapBuffer = map_buffer;
    if (table->clCreateBufferWithProperties)
        table->clCreateBufferWithProperties = create_buffer_with_properties;
    table->clCreateImage = create_image;
    table->clCreateImage2D = create_image_2d;
    table->clCreateImage3D = create_image_3d;
    if (table->clCreateImageWithProperties)
        table->clCreateImageWithProperties = create_image_with_properties;
}
