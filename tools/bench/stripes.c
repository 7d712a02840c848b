/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_TARGET_OPENCL_VERSION 120

#include "stripes.h"

#include "control.h"
#include "ceilings/driver.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef GPUD_WITH_OPENCL
#include <CL/cl.h>
#endif

struct bench_stripes {
    int control;
    uint8_t *data;
    uint8_t **lent;            /* where the caller has the same */
    struct raw_driver *driver; /* NULL: not a GPU of CUDA or HIP */
    raw_stream stream;
    raw_address address; /* of data */
#ifdef GPUD_WITH_OPENCL
    cl_context context; /* a writer's own; NULL: none yet */
    cl_command_queue queue;
    cl_mem slot[GPUD_TARGET_SLOTS_MAX];
#endif
};

static void works(const struct bench_stripes *stripes, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(stripes->driver, reason, sizeof(reason), what, result);
    bench_child_fail(stripes->control, GPUD_IO, "%s", reason);
}

static void open_driver(struct bench_stripes *stripes, unsigned gpu, uint64_t size)
{
    char reason[GPUD_REASON_MAX];
    void *host;
    if (!raw_open(stripes->driver, reason, sizeof(reason)) ||
        !raw_enter(stripes->driver, gpu, reason, sizeof(reason)))
        bench_child_fail(stripes->control, GPUD_NO_DEVICE, "%s", reason);
    works(stripes, "a stream", raw_stream_create(stripes->driver, &stripes->stream));
    works(stripes, "pinned memory", raw_host_alloc(stripes->driver, &host, size));
    works(stripes, "its address", raw_host_address(stripes->driver, &stripes->address, host));
    stripes->data = host;
}

struct bench_stripes *bench_stripes_open(int control, const char *device, uint64_t size,
                                         uint8_t **data)
{
    struct bench_stripes *stripes = g_new0(struct bench_stripes, 1);
    unsigned gpu;
    stripes->control = control;
    stripes->driver = raw_driver_of(device, &gpu);
    if (stripes->driver)
        open_driver(stripes, gpu, size);
    else
        stripes->data = g_malloc(size);
    memset(stripes->data, 0, size);
    stripes->lent = data;
    *data = stripes->data;
    return stripes;
}

void bench_stripes_begin(struct bench_stripes *stripes, struct gpud_frame *frame)
{
    struct gpud_error error;
    if (stripes->driver && gpud_frame_wait(frame, stripes->stream, &error) != GPUD_OK)
        bench_child_fail(stripes->control, error.status, "a frame to write: %s", error.reason);
}

static void copy(struct bench_stripes *stripes, raw_address to, raw_address from, uint64_t size)
{
    int result;
    works(stripes, "a copy", raw_copy(stripes->driver, to, from, size, stripes->stream));
    if (!raw_finish(stripes->driver, stripes->stream, clock_now() + BENCH_STEP_TIMEOUT, &result))
        works(stripes, "a copy", result);
}

void bench_stripes_write(struct bench_stripes *stripes, const struct gpud_frame_info *info,
                         uint64_t offset, uint64_t size)
{
    uint8_t *to = (uint8_t *)info->native + info->memory_offset + offset;
    if (stripes->driver)
        copy(stripes, (raw_address)(uintptr_t)to, stripes->address + offset, size);
    else
        memcpy(to, stripes->data + offset, size);
}

#ifdef GPUD_WITH_OPENCL

#define EXTERNAL_PHYSICAL ((cl_mem_flags)1 << 31) /* CL_MEM_EXTERNAL_PHYSICAL_AMD */
#define PAGE UINT64_C(4096)

typedef cl_int(CL_API_CALL *write_signal_fn)(cl_command_queue, cl_mem, cl_uint, cl_ulong, cl_uint,
                                             const cl_event *, cl_event *);

static void cl_works(const struct bench_stripes *stripes, const char *what, cl_int code)
{
    if (code != CL_SUCCESS)
        bench_child_fail(stripes->control, GPUD_IO, "OpenCL, %s: %d", what, code);
}

static void open_queue(struct bench_stripes *stripes, cl_context context)
{
    cl_device_id device;
    cl_int code;
    cl_works(stripes, "the device",
             clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(device), &device, NULL));
    stripes->queue = clCreateCommandQueue(context, device, 0, &code);
    cl_works(stripes, "a queue", code);
}

static void read_opencl(struct bench_stripes *stripes, const struct gpud_frame_info *info,
                        uint64_t offset, uint64_t size)
{
    cl_context context;
    if (!stripes->queue) {
        cl_works(
            stripes, "the context",
            clGetMemObjectInfo(info->native, CL_MEM_CONTEXT, sizeof(cl_context), &context, NULL));
        open_queue(stripes, context);
    }
    cl_works(stripes, "a read",
             clEnqueueReadBuffer(stripes->queue, info->native, CL_TRUE,
                                 (size_t)(info->memory_offset + offset), (size_t)size,
                                 stripes->data + offset, 0, NULL, NULL));
}

/* The slot as this writer sees it, in a context that shares nothing with the library's. */
static cl_mem slot_of(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                      uint32_t index)
{
    struct {
        cl_ulong surface, marker;
    } bus = {slot->surface_address, slot->marker_address & ~(PAGE - 1)};
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    if (!stripes->context) {
        cl_works(stripes, "the platform", clGetPlatformIDs(1, &platform, NULL));
        cl_works(stripes, "the device",
                 clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
        stripes->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
        cl_works(stripes, "a context", code);
        open_queue(stripes, stripes->context);
    }
    if (stripes->slot[index])
        return stripes->slot[index];
    cl_mem made = clCreateBuffer(stripes->context, EXTERNAL_PHYSICAL | CL_MEM_WRITE_ONLY,
                                 (size_t)slot->bytes, &bus, &code);
    cl_works(stripes, "memory on the bus", code);
    cl_works(stripes, "memory on the bus",
             clEnqueueMigrateMemObjects(stripes->queue, 1, &made, 0, 0, NULL, NULL));
    stripes->slot[index] = made;
    return made;
}

static void write_bus(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                      uint32_t index, uint64_t offset, uint64_t size)
{
    cl_works(stripes, "a write",
             clEnqueueWriteBuffer(stripes->queue, slot_of(stripes, slot, index), CL_TRUE,
                                  (size_t)offset, (size_t)size, stripes->data + offset, 0, NULL,
                                  NULL));
}

static void mark_bus(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                     uint32_t index, uint32_t value)
{
    cl_mem memory = slot_of(stripes, slot, index);
    cl_platform_id platform;
    cl_works(stripes, "the platform", clGetPlatformIDs(1, &platform, NULL));
    write_signal_fn write = (write_signal_fn)clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWriteSignalAMD");
    cl_works(stripes, "a marker",
             write ? write(stripes->queue, memory, value, slot->marker_address & (PAGE - 1), 0,
                           NULL, NULL)
                   : CL_INVALID_OPERATION);
    cl_works(stripes, "a marker", clFlush(stripes->queue));
}

static void close_opencl(struct bench_stripes *stripes)
{
    for (uint32_t i = 0; i < GPUD_TARGET_SLOTS_MAX; i++)
        if (stripes->slot[i])
            clReleaseMemObject(stripes->slot[i]);
    if (stripes->queue)
        clReleaseCommandQueue(stripes->queue);
    if (stripes->context)
        clReleaseContext(stripes->context);
}

#endif

void bench_stripes_read(struct bench_stripes *stripes, const struct gpud_frame_info *info,
                        uint64_t offset, uint64_t size)
{
    const uint8_t *from = (const uint8_t *)info->native + info->memory_offset + offset;
#ifdef GPUD_WITH_OPENCL
    struct gpud_device_info device = GPUD_INFO_INIT(device);
    gpud_device_get_info(info->device, &device);
    if (g_str_has_prefix(device.name, "opencl:")) {
        read_opencl(stripes, info, offset, size);
        return;
    }
#endif
    if (stripes->driver)
        copy(stripes, stripes->address + offset, (raw_address)(uintptr_t)from, size);
    else
        memcpy(stripes->data + offset, from, size);
}

void bench_stripes_write_slot(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                              uint32_t index, uint64_t offset, uint64_t size)
{
#ifdef GPUD_WITH_OPENCL
    if (slot->kind == GPUD_TARGET_BUS_ADDRESS) {
        write_bus(stripes, slot, index, offset, size);
        return;
    }
#endif
    memcpy((uint8_t *)slot->surface + offset, stripes->data + offset, size);
}

void bench_stripes_mark_slot(struct bench_stripes *stripes, const struct gpud_target_slot *slot,
                             uint32_t index, uint32_t value)
{
#ifdef GPUD_WITH_OPENCL
    if (slot->kind == GPUD_TARGET_BUS_ADDRESS) {
        mark_bus(stripes, slot, index, value);
        return;
    }
#endif
    atomic_store_explicit((_Atomic uint32_t *)slot->marker, value, memory_order_release);
}

void bench_stripes_close(struct bench_stripes *stripes)
{
#ifdef GPUD_WITH_OPENCL
    close_opencl(stripes);
#endif
    *stripes->lent = NULL;
    if (stripes->driver) {
        raw_host_free(stripes->driver, stripes->data);
        raw_stream_destroy(stripes->driver, stripes->stream);
        raw_leave(stripes->driver);
    } else {
        g_free(stripes->data);
    }
    g_free(stripes);
}
