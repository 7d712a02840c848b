/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors of a GPU's driver. */
#include "device/gpu/driver.h"

#include "base/text.h"

#include <stdarg.h>

static enum gpud_status status_of(int result)
{
    switch (result) {
    case GPUD_GPU_OUT_OF_MEMORY:
        return GPUD_NO_MEMORY;
    case GPUD_GPU_STUB_LIBRARY:
    case GPUD_GPU_INSUFFICIENT_DRIVER:
    case GPUD_GPU_NO_DEVICE:
    case GPUD_GPU_INVALID_DEVICE:
    case GPUD_GPU_SYSTEM_NOT_READY:
    case GPUD_GPU_SYSTEM_DRIVER_MISMATCH:
        return GPUD_NO_DEVICE;
    case GPUD_GPU_NOT_PERMITTED:
        return GPUD_NO_ACCESS;
    case GPUD_GPU_NOT_SUPPORTED:
        return GPUD_UNSUPPORTED;
    default:
        return GPUD_IO;
    }
}

static enum gpud_status fail(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                             enum gpud_status status, int result, const char *format, va_list args)
{
    char text[160];
    const char *name = driver->error_name(result);
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, driver->origin, result, "%s: %s (%d)", text,
                            name ? name : "an error that the driver has no name for", result);
}

enum gpud_status gpud_gpu_fail(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                               int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status = fail(driver, error, status_of(result), result, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_gpu_fail_as(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                                  enum gpud_status status, int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(driver, error, status, result, format, args);
    va_end(args);
    return status;
}
