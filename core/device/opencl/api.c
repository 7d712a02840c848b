/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the OpenCL API says: its errors, and texts about a device. */
#include "device/opencl/opencl.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define CODE(code)  \
    {               \
        code, #code \
    }

static const struct {
    cl_int code;
    const char *name;
} codes[] = {
    CODE(CL_DEVICE_NOT_FOUND),
    CODE(CL_DEVICE_NOT_AVAILABLE),
    CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    CODE(CL_OUT_OF_RESOURCES),
    CODE(CL_OUT_OF_HOST_MEMORY),
    CODE(CL_MEM_COPY_OVERLAP),
    CODE(CL_MAP_FAILURE),
    CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    CODE(CL_INVALID_VALUE),
    CODE(CL_INVALID_PLATFORM),
    CODE(CL_INVALID_DEVICE),
    CODE(CL_INVALID_CONTEXT),
    CODE(CL_INVALID_QUEUE_PROPERTIES),
    CODE(CL_INVALID_COMMAND_QUEUE),
    CODE(CL_INVALID_HOST_PTR),
    CODE(CL_INVALID_MEM_OBJECT),
    CODE(CL_INVALID_EVENT_WAIT_LIST),
    CODE(CL_INVALID_EVENT),
    CODE(CL_INVALID_OPERATION),
    CODE(CL_INVALID_BUFFER_SIZE),
    CODE(CL_INVALID_PROPERTY),
    CODE(CL_PLATFORM_NOT_FOUND_KHR),
};

const char *gpud_opencl_error_name(cl_int code)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "an OpenCL error";
}

static enum gpud_status status_of(cl_int code)
{
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
        return GPUD_NO_MEMORY;
    case CL_DEVICE_NOT_FOUND:
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_PLATFORM_NOT_FOUND_KHR:
        return GPUD_NO_DEVICE;
    default:
        return GPUD_IO;
    }
}

static enum gpud_status fail(struct gpud_error *error, enum gpud_status status, cl_int code,
                             const char *format, va_list args)
{
    char text[160];
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, "opencl", code, "%s: %s (%d)", text,
                            gpud_opencl_error_name(code), code);
}

enum gpud_status gpud_opencl_fail(struct gpud_error *error, cl_int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status = fail(error, status_of(code), code, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_opencl_fail_as(struct gpud_error *error, enum gpud_status status, cl_int code,
                                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(error, status, code, format, args);
    va_end(args);
    return status;
}

/* No fixed length is long enough for all vendors. */
char *gpud_opencl_get_text(cl_device_id id, cl_device_info what)
{
    size_t size = 0;
    if (clGetDeviceInfo(id, what, 0, NULL, &size) != CL_SUCCESS || size == 0)
        return NULL;
    char *text = malloc(size + 1);
    if (!text)
        return NULL;
    if (clGetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

bool gpud_opencl_has_extension(cl_device_id id, const char *wanted)
{
    char *all = gpud_opencl_get_text(id, CL_DEVICE_EXTENSIONS);
    bool found = false;
    char *rest = all, *word;
    while (all && !found && (word = strtok_r(rest, " ", &rest)))
        found = strcmp(word, wanted) == 0;
    free(all);
    return found;
}
