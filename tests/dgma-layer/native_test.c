/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A device that has the extension itself: its driver gets every call as the program made it. This
 * program is also the OpenCL layer that stands in for such a driver: its devices have the
 * extension, and every part of it answers with its own status, so that main() can tell which one
 * answered. */
#include "common.h"

#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <string.h>

/* The answers by which the program knows that this layer gave them. */
#define NATIVE_FLAGS BUS_ADDRESSABLE
#define NATIVE_BUFFER (-9001)
#define NATIVE_WAIT (-9002)
#define NATIVE_WRITE (-9003)
#define NATIVE_RESIDENT (-9004)

static cl_icd_dispatch next, table;

static CL_API_ENTRY cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info name,
                                                   size_t size, void *value, size_t *size_ret)
{
    static const char extensions[] = "cl_khr_byte_addressable_store cl_amd_bus_addressable_memory";
    if (name != CL_DEVICE_EXTENSIONS)
        return next.clGetDeviceInfo(device, name, size, value, size_ret);
    if (value && size < sizeof extensions)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, extensions, sizeof extensions);
    if (size_ret)
        *size_ret = sizeof extensions;
    return CL_SUCCESS;
}

static CL_API_ENTRY cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags,
                                                     size_t size, void *host_ptr, cl_int *status)
{
    if (!(flags & NATIVE_FLAGS))
        return next.clCreateBuffer(context, flags, size, host_ptr, status);
    if (status)
        *status = flags == NATIVE_FLAGS ? NATIVE_BUFFER : CL_INVALID_VALUE;
    return NULL;
}

static cl_int CL_API_CALL wait_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                      cl_uint num_events, const cl_event *wait_list,
                                      cl_event *event)
{
    (void)queue, (void)mem, (void)num_events, (void)wait_list, (void)event;
    return value == 11 ? NATIVE_WAIT : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL write_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                       cl_ulong offset, cl_uint num_events,
                                       const cl_event *wait_list, cl_event *event)
{
    (void)queue, (void)mem, (void)num_events, (void)wait_list, (void)event;
    return value == 12 && offset == 13 ? NATIVE_WRITE : CL_INVALID_VALUE;
}

static cl_int CL_API_CALL make_resident(cl_command_queue queue, cl_uint num_mems, cl_mem *mems,
                                        cl_bool blocking, void *addresses, cl_uint num_events,
                                        const cl_event *wait_list, cl_event *event)
{
    (void)queue, (void)mems, (void)blocking, (void)addresses, (void)num_events, (void)wait_list,
        (void)event;
    return num_mems == 1 ? NATIVE_RESIDENT : CL_INVALID_VALUE;
}

static CL_API_ENTRY void *CL_API_CALL find_function(cl_platform_id platform, const char *name)
{
    if (platform && strcmp(name, "clEnqueueWaitSignalAMD") == 0)
        return (void *)wait_signal;
    if (platform && strcmp(name, "clEnqueueWriteSignalAMD") == 0)
        return (void *)write_signal;
    if (platform && strcmp(name, "clEnqueueMakeBuffersResidentAMD") == 0)
        return (void *)make_resident;
    return next.clGetExtensionFunctionAddressForPlatform(platform, name);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                               size_t *size_ret)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (name != CL_LAYER_API_VERSION || (value && size < sizeof version))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, &version, sizeof version);
    if (size_ret)
        *size_ret = sizeof version;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target,
                                            cl_uint *num_entries_ret,
                                            const cl_icd_dispatch **layer_ret)
{
    if (num_entries < sizeof table / sizeof(void *))
        return CL_INVALID_VALUE;
    next = *target;
    table = next;
    table.clGetDeviceInfo = device_info;
    table.clCreateBuffer = create_buffer;
    table.clGetExtensionFunctionAddressForPlatform = find_function;
    *num_entries_ret = sizeof table / sizeof(void *);
    *layer_ret = &table;
    return CL_SUCCESS;
}

int main(void)
{
    AUTO(close_cl) struct cl cl = open_cl(60);
    char list[8192];
    const char *name = "cl_amd_bus_addressable_memory";
    OK(clGetDeviceInfo(cl.devices[0], CL_DEVICE_EXTENSIONS, sizeof list, list, NULL));
    CHECK(strstr(list, name) && !strstr(strstr(list, name) + 1, name));

    cl_int status = 0;
    CHECK(!clCreateBuffer(cl.context, NATIVE_FLAGS, PAGE, NULL, &status));
    CHECK_CL(NATIVE_BUFFER, status);
    AUTO(drop_mem) cl_mem plain = new_plain(&cl, PAGE);
    struct bus_address address = {1, 1};
    CHECK_CL(NATIVE_WAIT, cl.wait_signal(cl.queue, plain, 11, 0, NULL, NULL));
    CHECK_CL(NATIVE_WRITE, cl.write_signal(cl.queue, plain, 12, 13, 0, NULL, NULL));
    CHECK_CL(NATIVE_RESIDENT,
             cl.make_resident(cl.queue, 1, &plain, CL_TRUE, &address, 0, NULL, NULL));
    CHECK(address.surface == 1);
    return 0;
}
