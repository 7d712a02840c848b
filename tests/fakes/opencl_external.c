/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An OpenCL layer that makes PoCL's device the first GPU of the CUDA driver in this folder: it has
 * that GPU's UUID and place on the bus, and takes the memory that the driver exports
 * (cl_khr_external_memory_opaque_fd).
 *
 *   GPUD_FAKE_OPENCL_GPU=1         it is the second one; none: it does not say
 *   GPUD_FAKE_OPENCL_TYPE=dma-buf  it takes dma-bufs instead, as AMD's drivers export; none: it has
 *                                  the extension, and takes nothing
 *
 * As strict as the specification: the descriptor is the layer's once it is taken, and only then; no
 * other size than the allocation's; no flags of host memory; and no command on a buffer that is not
 * acquired, no release of one that is not, nor of one that is mapped. A broken rule is a line on
 * stderr, and with GPUD_FAKE_CUDA_STRICT=exit the end of the process with status 86. Kernels and
 * sub-buffers are not looked after. */

#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICE_LIST 0x2051 /* CL_MEM_DEVICE_HANDLE_LIST_KHR */
#define EXPORT __attribute__((visibility("default")))

static cl_icd_dispatch next, table;

/* --- the records ----------------------------------------------------------------------------- */

struct record {
    cl_mem memory;
    void *pages;
    size_t size;
    bool acquired;
    unsigned mappings;
    struct record *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record *records;

/* Under the lock; NULL: a buffer of no other driver. */
static struct record *find(cl_mem memory)
{
    struct record *record = records;
    while (record && record->memory != memory)
        record = record->next;
    return record;
}

static void CL_CALLBACK forget(cl_mem memory, void *arg)
{
    struct record *gone = arg;
    pthread_mutex_lock(&lock);
    struct record **link = &records;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&lock);
    munmap(gone->pages, gone->size);
    free(gone);
}

/* --- rules ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static cl_int broken(cl_int code, const char *format, ...)
{
    const char *strict = getenv("GPUD_FAKE_CUDA_STRICT");
    va_list args;
    va_start(args, format);
    fputs("fake-opencl-external: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (strict && strcmp(strict, "exit") == 0)
        _exit(86);
    return code;
}

static cl_int check_use(cl_mem memory, const char *call)
{
    pthread_mutex_lock(&lock);
    const struct record *record = find(memory);
    bool usable = !record || record->acquired;
    pthread_mutex_unlock(&lock);
    return usable ? CL_SUCCESS
                  : broken(CL_INVALID_OPERATION, "%s on memory that is not acquired", call);
}

/* --- what the device says -------------------------------------------------------------------- */

static cl_int give(const void *answer, size_t length, size_t size, void *value, size_t *size_ret)
{
    if (value && size < length)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, answer, length);
    if (size_ret)
        *size_ret = length;
    return CL_SUCCESS;
}

static bool is_set(const char *variable, const char *to)
{
    const char *value = getenv(variable);
    return value && strcmp(value, to) == 0;
}

/* Its place among the driver's; -1: it does not say. */
static int gpu(void)
{
    const char *number = getenv("GPUD_FAKE_OPENCL_GPU");
    return is_set("GPUD_FAKE_OPENCL_GPU", "none") ? -1 : number ? atoi(number) : 0;
}

static cl_uint handle_type(void)
{
    return is_set("GPUD_FAKE_OPENCL_TYPE", "dma-buf") ? CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR
                                                      : CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR;
}

static cl_int give_types(size_t size, void *value, size_t *size_ret)
{
    cl_uint type = handle_type();
    return give(&type, is_set("GPUD_FAKE_OPENCL_TYPE", "none") ? 0 : sizeof type, size, value,
                size_ret);
}

static cl_int give_extensions(cl_device_id device, size_t size, void *value, size_t *size_ret)
{
    size_t length = 0;
    cl_int code = next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &length);
    char *text = code == CL_SUCCESS ? calloc(1, length + 200) : NULL;
    if (!text)
        return code == CL_SUCCESS ? CL_OUT_OF_HOST_MEMORY : code;
    code = next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, length, text, NULL);
    strcat(text, " cl_khr_external_memory");
    if (!is_set("GPUD_FAKE_OPENCL_TYPE", "none"))
        strcat(text, handle_type() == CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR
                         ? " cl_khr_external_memory_dma_buf"
                         : " cl_khr_external_memory_opaque_fd");
    if (gpu() >= 0)
        strcat(text, " cl_khr_device_uuid cl_khr_pci_bus_info");
    if (code == CL_SUCCESS)
        code = give(text, strlen(text) + 1, size, value, size_ret);
    free(text);
    return code;
}

static CL_API_ENTRY cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info name,
                                                       size_t size, void *value, size_t *size_ret)
{
    unsigned char uuid[CL_UUID_SIZE_KHR] = "fake gpu number";
    cl_device_pci_bus_info_khr bus = {.pci_domain = 0xface};
    switch (name) {
    case CL_DEVICE_EXTENSIONS:
        return give_extensions(device, size, value, size_ret);
    case CL_DEVICE_UUID_KHR:
        if (gpu() < 0)
            return CL_INVALID_VALUE;
        uuid[15] = (unsigned char)(gpu() + 1);
        return give(uuid, sizeof uuid, size, value, size_ret);
    case CL_DEVICE_PCI_BUS_INFO_KHR:
        if (gpu() < 0)
            return CL_INVALID_VALUE;
        bus.pci_bus = (cl_uint)gpu() + 1;
        return give(&bus, sizeof bus, size, value, size_ret);
    case CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR:
        return give_types(size, value, size_ret);
    default:
        return next.clGetDeviceInfo(device, name, size, value, size_ret);
    }
}

/* --- import ---------------------------------------------------------------------------------- */

/* The pages of exported memory of this GPU, of this very size; NULL: it is something else. */
static void *map(int fd, size_t size)
{
    char path[64], name[128];
    int physical;
    size_t told;
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    name[length > 0 ? length : 0] = '\0';
    if (sscanf(name, "/memfd:fake-cuda-v:%d:%zu:", &physical, &told) != 2 || physical != gpu() ||
        told != size || fstat(fd, &status) || (size_t)status.st_size != size)
        return NULL;
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static cl_mem import(cl_context context, int fd, cl_mem_flags flags, size_t size, cl_int *code)
{
    struct record *record = calloc(1, sizeof *record);
    if (!record) {
        *code = CL_OUT_OF_HOST_MEMORY;
        return NULL;
    }
    record->size = size;
    record->pages = map(fd, size);
    if (!record->pages) {
        free(record);
        *code = CL_INVALID_VALUE;
        return NULL;
    }
    record->memory =
        next.clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, size, record->pages, code);
    if (*code != CL_SUCCESS) {
        munmap(record->pages, size);
        free(record);
        return NULL;
    }
    cl_mem made = record->memory;
    pthread_mutex_lock(&lock);
    record->next = records;
    records = record;
    pthread_mutex_unlock(&lock);
    next.clSetMemObjectDestructorCallback(made, forget, record);
    close(fd);
    return made;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_buffer(cl_context context,
                                                     const cl_mem_properties *properties,
                                                     cl_mem_flags flags, size_t size, void *host,
                                                     cl_int *status)
{
    const cl_mem_flags hosts = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
    cl_int ignored, *code = status ? status : &ignored;
    int fd = -1;
    *code = CL_SUCCESS;
    if (!properties || !properties[0])
        return next.clCreateBufferWithProperties(context, properties, flags, size, host, status);
    for (; properties[0] && *code == CL_SUCCESS; properties += 2) {
        if (properties[0] == DEVICE_LIST && properties[1] && !properties[2]) {
            properties++; /* one device, and the end of the list */
            continue;
        }
        if (properties[0] != handle_type() || is_set("GPUD_FAKE_OPENCL_TYPE", "none") || fd >= 0)
            *code = broken(CL_INVALID_PROPERTY, "a property %#llx that it has not, or has twice",
                           (unsigned long long)properties[0]);
        fd = (int)properties[1];
    }
    if (*code == CL_SUCCESS && (host || flags & hosts))
        *code = broken(CL_INVALID_VALUE, "imported memory with flags %#llx of host memory",
                       (unsigned long long)flags);
    if (*code == CL_SUCCESS && size == 0)
        *code = CL_INVALID_BUFFER_SIZE;
    return *code == CL_SUCCESS ? import(context, fd, flags, size, code) : NULL;
}

/* --- acquire and release -----------------------------------------------------------------------
 */

static cl_int set_acquired(cl_uint count, const cl_mem *memories, bool acquired)
{
    cl_int code = count && memories ? CL_SUCCESS : CL_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; i < count && code == CL_SUCCESS; i++) {
        const struct record *record = find(memories[i]);
        if (!record)
            code = broken(CL_INVALID_MEM_OBJECT, "memory that was not imported is handed over");
        else if (!acquired && !record->acquired)
            code = broken(CL_INVALID_OPERATION, "memory is released that is not acquired");
        else if (!acquired && record->mappings)
            code = broken(CL_INVALID_OPERATION, "memory is released that is still mapped");
    }
    for (cl_uint i = 0; i < count && code == CL_SUCCESS; i++)
        find(memories[i])->acquired = acquired;
    pthread_mutex_unlock(&lock);
    return code;
}

static cl_int CL_API_CALL acquire(cl_command_queue queue, cl_uint count, const cl_mem *memories,
                                  cl_uint events, const cl_event *after, cl_event *event)
{
    cl_int code = set_acquired(count, memories, true);
    return code == CL_SUCCESS ? next.clEnqueueBarrierWithWaitList(queue, events, after, event)
                              : code;
}

static cl_int CL_API_CALL release(cl_command_queue queue, cl_uint count, const cl_mem *memories,
                                  cl_uint events, const cl_event *after, cl_event *event)
{
    cl_int code = set_acquired(count, memories, false);
    return code == CL_SUCCESS ? next.clEnqueueBarrierWithWaitList(queue, events, after, event)
                              : code;
}

static void *find_function(const char *name)
{
    if (strcmp(name, "clEnqueueAcquireExternalMemObjectsKHR") == 0)
        return (void *)acquire;
    if (strcmp(name, "clEnqueueReleaseExternalMemObjectsKHR") == 0)
        return (void *)release;
    return NULL;
}

static CL_API_ENTRY void *CL_API_CALL get_function(const char *name)
{
    void *found = find_function(name);
    return found ? found : next.clGetExtensionFunctionAddress(name);
}

static CL_API_ENTRY void *CL_API_CALL get_function_for_platform(cl_platform_id platform,
                                                                const char *name)
{
    void *found = find_function(name);
    return found ? found : next.clGetExtensionFunctionAddressForPlatform(platform, name);
}

/* --- commands ----------------------------------------------------------------------------------
 */

static CL_API_ENTRY cl_int CL_API_CALL copy(cl_command_queue queue, cl_mem from, cl_mem to,
                                            size_t from_offset, size_t to_offset, size_t size,
                                            cl_uint events, const cl_event *after, cl_event *event)
{
    cl_int code = check_use(from, "a copy");
    if (code == CL_SUCCESS)
        code = check_use(to, "a copy");
    return code != CL_SUCCESS ? code
                              : next.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset,
                                                         size, events, after, event);
}

static CL_API_ENTRY cl_int CL_API_CALL copy_rect(cl_command_queue queue, cl_mem from, cl_mem to,
                                                 const size_t *from_origin, const size_t *to_origin,
                                                 const size_t *region, size_t from_row,
                                                 size_t from_slice, size_t to_row, size_t to_slice,
                                                 cl_uint events, const cl_event *after,
                                                 cl_event *event)
{
    cl_int code = check_use(from, "a copy");
    if (code == CL_SUCCESS)
        code = check_use(to, "a copy");
    return code != CL_SUCCESS
               ? code
               : next.clEnqueueCopyBufferRect(queue, from, to, from_origin, to_origin, region,
                                              from_row, from_slice, to_row, to_slice, events, after,
                                              event);
}

static CL_API_ENTRY cl_int CL_API_CALL read_(cl_command_queue queue, cl_mem memory,
                                             cl_bool blocking, size_t offset, size_t size,
                                             void *host, cl_uint events, const cl_event *after,
                                             cl_event *event)
{
    cl_int code = check_use(memory, "a read");
    return code != CL_SUCCESS ? code
                              : next.clEnqueueReadBuffer(queue, memory, blocking, offset, size,
                                                         host, events, after, event);
}

static CL_API_ENTRY cl_int CL_API_CALL read_rect(cl_command_queue queue, cl_mem memory,
                                                 cl_bool blocking, const size_t *origin,
                                                 const size_t *host_origin, const size_t *region,
                                                 size_t row, size_t slice, size_t host_row,
                                                 size_t host_slice, void *host, cl_uint events,
                                                 const cl_event *after, cl_event *event)
{
    cl_int code = check_use(memory, "a read");
    return code != CL_SUCCESS
               ? code
               : next.clEnqueueReadBufferRect(queue, memory, blocking, origin, host_origin, region,
                                              row, slice, host_row, host_slice, host, events, after,
                                              event);
}

static CL_API_ENTRY cl_int CL_API_CALL write_(cl_command_queue queue, cl_mem memory,
                                              cl_bool blocking, size_t offset, size_t size,
                                              const void *host, cl_uint events,
                                              const cl_event *after, cl_event *event)
{
    cl_int code = check_use(memory, "a write");
    return code != CL_SUCCESS ? code
                              : next.clEnqueueWriteBuffer(queue, memory, blocking, offset, size,
                                                          host, events, after, event);
}

static CL_API_ENTRY cl_int CL_API_CALL write_rect(
    cl_command_queue queue, cl_mem memory, cl_bool blocking, const size_t *origin,
    const size_t *host_origin, const size_t *region, size_t row, size_t slice, size_t host_row,
    size_t host_slice, const void *host, cl_uint events, const cl_event *after, cl_event *event)
{
    cl_int code = check_use(memory, "a write");
    return code != CL_SUCCESS
               ? code
               : next.clEnqueueWriteBufferRect(queue, memory, blocking, origin, host_origin, region,
                                               row, slice, host_row, host_slice, host, events,
                                               after, event);
}

static CL_API_ENTRY cl_int CL_API_CALL fill(cl_command_queue queue, cl_mem memory,
                                            const void *pattern, size_t pattern_size, size_t offset,
                                            size_t size, cl_uint events, const cl_event *after,
                                            cl_event *event)
{
    cl_int code = check_use(memory, "a fill");
    return code != CL_SUCCESS ? code
                              : next.clEnqueueFillBuffer(queue, memory, pattern, pattern_size,
                                                         offset, size, events, after, event);
}

static void count_mapping(cl_mem memory, int more)
{
    pthread_mutex_lock(&lock);
    struct record *record = find(memory);
    if (record)
        record->mappings += (unsigned)more;
    pthread_mutex_unlock(&lock);
}

static CL_API_ENTRY void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem memory,
                                                 cl_bool blocking, cl_map_flags flags,
                                                 size_t offset, size_t size, cl_uint events,
                                                 const cl_event *after, cl_event *event,
                                                 cl_int *status)
{
    cl_int code = check_use(memory, "a mapping");
    void *mapped = NULL;
    if (code == CL_SUCCESS)
        mapped = next.clEnqueueMapBuffer(queue, memory, blocking, flags, offset, size, events,
                                         after, event, &code);
    if (mapped)
        count_mapping(memory, 1);
    if (status)
        *status = code;
    return mapped;
}

static CL_API_ENTRY cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem memory, void *mapped,
                                             cl_uint events, const cl_event *after, cl_event *event)
{
    cl_int code = check_use(memory, "the end of a mapping");
    if (code == CL_SUCCESS)
        code = next.clEnqueueUnmapMemObject(queue, memory, mapped, events, after, event);
    if (code == CL_SUCCESS)
        count_mapping(memory, -1);
    return code;
}

/* --- the loader's side -------------------------------------------------------------------------
 */

EXPORT CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                                      size_t *size_ret)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    return name == CL_LAYER_API_VERSION ? give(&version, sizeof version, size, value, size_ret)
                                        : CL_INVALID_VALUE;
}

EXPORT CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries,
                                                   const cl_icd_dispatch *target,
                                                   cl_uint *num_entries_ret,
                                                   const cl_icd_dispatch **layer_ret)
{
    if (num_entries < sizeof table / sizeof(void *))
        return CL_INVALID_VALUE;
    next = *target;
    table = next;
    table.clGetDeviceInfo = get_device_info;
    table.clGetExtensionFunctionAddress = get_function;
    table.clGetExtensionFunctionAddressForPlatform = get_function_for_platform;
    table.clCreateBufferWithProperties = create_buffer;
    table.clEnqueueCopyBuffer = copy;
    table.clEnqueueCopyBufferRect = copy_rect;
    table.clEnqueueReadBuffer = read_;
    table.clEnqueueReadBufferRect = read_rect;
    table.clEnqueueWriteBuffer = write_;
    table.clEnqueueWriteBufferRect = write_rect;
    table.clEnqueueFillBuffer = fill;
    table.clEnqueueMapBuffer = map_buffer;
    table.clEnqueueUnmapMemObject = unmap;
    *num_entries_ret = sizeof table / sizeof(void *);
    *layer_ret = &table;
    return CL_SUCCESS;
}
