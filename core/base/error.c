/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/error.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static void fill(struct gpud_error *error, enum gpud_status status, const char *origin, long native,
                 const char *format, va_list args)
{
    error->status = status;
    error->native = native;
    error->origin = origin;
    gpud_text_format(error->reason, sizeof(error->reason), format, args);
}

enum gpud_status gpud_fail(struct gpud_error *error, enum gpud_status status, const char *format,
                           ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, status, NULL, 0, format, args);
        va_end(args);
    }
    return status;
}

enum gpud_status gpud_fail_native(struct gpud_error *error, enum gpud_status status,
                                  const char *origin, long native, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, status, origin, native, format, args);
        va_end(args);
    }
    return status;
}

static enum gpud_status status_of_errno(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
        return GPUD_NO_ACCESS;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
        return GPUD_NO_MEMORY;
    case ENODEV:
    case ENXIO:
        return GPUD_NO_DEVICE;
    case ECONNRESET:
    case EPIPE:
        return GPUD_PEER;
    default:
        return GPUD_IO;
    }
}

enum gpud_status gpud_fail_errno(struct gpud_error *error, const char *format, ...)
{
    int number = errno;
    enum gpud_status status = status_of_errno(number);
    if (error) {
        va_list args;
        va_start(args, format);
        fill(error, status, "errno", number, format, args);
        va_end(args);
        size_t used = strlen(error->reason);
        gpud_print_n(error->reason + used, sizeof(error->reason) - used, ": %s", strerror(number));
    }
    return status;
}

int gpud_print_n(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int written = gpud_text_format(text, size, format, args);
    va_end(args);
    return written;
}

const char *gpud_status_string(enum gpud_status status)
{
    static const char *const names[] = {
        [GPUD_OK] = "ok",
        [GPUD_AGAIN] = "again",
        [GPUD_TIMEOUT] = "timeout",
        [GPUD_CLOSED] = "closed",
        [GPUD_INVALID] = "invalid",
        [GPUD_UNSUPPORTED] = "unsupported",
        [GPUD_NO_DEVICE] = "no device",
        [GPUD_NO_MEMORY] = "no memory",
        [GPUD_NO_ACCESS] = "no access",
        [GPUD_PEER] = "peer",
        [GPUD_IO] = "i/o",
    };
    return (unsigned)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown status";
}

const char *gpud_version_string(void)
{
    return GPUD_VERSION;
}
