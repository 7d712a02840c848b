/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The properties of the driver's devices, queried once per device and cached. */

#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "device.h"

static struct dgma_table devices_known = DGMA_TABLE_INIT;

bool dgma_list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool has_extension(cl_device_id device)
{
    size_t size = 0;
    if (dgma_next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size) || size == 0)
        return false;
    char *list = calloc(1, size + 1);
    if (!list)
        return false;
    bool has =
        dgma_next.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, list, NULL) == CL_SUCCESS &&
        dgma_list_has(list, DGMA_EXTENSION_NAME);
    free(list);
    return has;
}

static void find_native_functions(cl_device_id device, struct dgma_device *info)
{
    cl_platform_id platform = NULL;
    if (dgma_next.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL))
        return;
    info->wait_signal = (dgma_wait_signal_fn)dgma_next.clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWaitSignalAMD");
    info->write_signal = (dgma_write_signal_fn)dgma_next.clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueWriteSignalAMD");
    info->make_resident = (dgma_make_resident_fn)dgma_next.clGetExtensionFunctionAddressForPlatform(
        platform, "clEnqueueMakeBuffersResidentAMD");
}

static void ask(cl_device_id device, struct dgma_device *info)
{
    cl_device_type type = 0;
    cl_device_exec_capabilities can = 0;
    dgma_next.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    dgma_next.clGetDeviceInfo(device, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL);
    info->host_memory = (type & CL_DEVICE_TYPE_CPU) != 0;
    info->runs_host_functions = (can & CL_EXEC_NATIVE_KERNEL) != 0;
    /* Copies can be forced on a CPU device, to test that case without a GPU. */
    const char *copy = getenv("GPUDIRECT_DGMA_COPY");
    if (copy && strcmp(copy, "1") == 0) {
        info->host_memory = false;
        info->runs_host_functions = false;
    }
    info->native = has_extension(device);
    if (info->native)
        find_native_functions(device, info);
}

const struct dgma_device *dgma_device_get(cl_device_id device)
{
    static const struct dgma_device unknown;
    device = dgma_card_device(device);
    struct dgma_device *info = dgma_table_get(&devices_known, device);
    if (info)
        return info;
    info = calloc(1, sizeof *info);
    if (!info)
        return &unknown;
    ask(device, info);
    /* If two threads get here, the later record hides the earlier, which is equal. */
    if (!dgma_table_put(&devices_known, device, info)) {
        free(info);
        return &unknown;
    }
    return info;
}

cl_uint dgma_context_devices(cl_context context, cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES])
{
    const struct dgma_cards *cards = dgma_table_get(&dgma_context_cards, context);
    if (cards && cards->count <= DGMA_MAX_CONTEXT_DEVICES) {
        memcpy(devices, cards->devices, cards->count * sizeof devices[0]);
        return cards->count;
    }
    size_t size = 0;
    if (dgma_next.clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &size) ||
        size > DGMA_MAX_CONTEXT_DEVICES * sizeof devices[0] ||
        dgma_next.clGetContextInfo(context, CL_CONTEXT_DEVICES, size, devices, NULL))
        return 0;
    return (cl_uint)(size / sizeof devices[0]);
}

static bool all_devices(cl_context context, bool (*is)(const struct dgma_device *))
{
    cl_device_id devices[DGMA_MAX_CONTEXT_DEVICES];
    cl_uint count = dgma_context_devices(context, devices);
    for (cl_uint i = 0; i < count; i++)
        if (!is(dgma_device_get(devices[i])))
            return false;
    return count > 0;
}

static bool lacks_extension(const struct dgma_device *device)
{
    return !device->native;
}

static bool is_host_memory(const struct dgma_device *device)
{
    return device->host_memory;
}

bool dgma_context_is_native(cl_context context)
{
    /* One device that has it is enough: its driver made the context and knows the flags. */
    return !all_devices(context, lacks_extension);
}

bool dgma_context_is_host_memory(cl_context context)
{
    return all_devices(context, is_host_memory);
}
