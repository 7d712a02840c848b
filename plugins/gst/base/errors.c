/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The core's errors as the messages that a GStreamer application expects on the bus. */
#include "base/errors.h"

#include <errno.h>
#include <string.h>

static gint code_of_errno(long number, enum gpud_gst_activity activity)
{
    static const gint by_activity[] = {
        [GPUD_GST_OPEN_SOURCE] = GST_RESOURCE_ERROR_OPEN_READ,
        [GPUD_GST_OPEN_SINK] = GST_RESOURCE_ERROR_OPEN_WRITE,
        [GPUD_GST_READ] = GST_RESOURCE_ERROR_READ,
        [GPUD_GST_WRITE] = GST_RESOURCE_ERROR_WRITE,
    };

    switch (number) {
    case EADDRINUSE:
    case EBUSY:
        return GST_RESOURCE_ERROR_BUSY;
    case EACCES:
    case EPERM:
        return GST_RESOURCE_ERROR_NOT_AUTHORIZED;
    case ENOMEM:
    case ENOSPC:
        return GST_RESOURCE_ERROR_NO_SPACE_LEFT;
    case ENODEV:
    case ENXIO:
        return GST_RESOURCE_ERROR_NOT_FOUND;
    default:
        return by_activity[activity];
    }
}

void gpud_gst_error_classify(const struct gpud_error *error, enum gpud_gst_activity activity,
                             GQuark *domain, gint *code)
{
    gboolean from_system =
        !error->origin || strcmp(error->origin, "errno") == 0 || strcmp(error->origin, "v4l2") == 0;

    *domain = GST_RESOURCE_ERROR;
    switch (error->status) {
    case GPUD_INVALID:
    case GPUD_UNSUPPORTED:
        *code = GST_RESOURCE_ERROR_SETTINGS;
        break;
    case GPUD_NO_DEVICE:
        *code = GST_RESOURCE_ERROR_NOT_FOUND;
        break;
    case GPUD_NO_MEMORY:
        *code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
        break;
    case GPUD_NO_ACCESS:
        *code = GST_RESOURCE_ERROR_NOT_AUTHORIZED;
        break;
    default:
        if (from_system) {
            *code = code_of_errno(error->native, activity);
        } else {
            *domain = GST_LIBRARY_ERROR;
            *code = GST_LIBRARY_ERROR_FAILED;
        }
    }
}

static void post(GstElement *element, GstMessageType type, enum gpud_gst_activity activity,
                 const struct gpud_error *error, const char *what)
{
    GQuark domain;
    gint code;

    gpud_gst_error_classify(error, activity, &domain, &code);
    char *text = g_strdup_printf("%s: %s.", what, error->reason);
    char *detail = g_strdup_printf("status %s, %s %ld", gpud_status_string(error->status),
                                   error->origin ? error->origin : "native code", error->native);
    gst_element_message_full(element, type, domain, code, text, detail, __FILE__, GST_FUNCTION,
                             __LINE__);
}

void gpud_gst_error_post(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *what)
{
    post(element, GST_MESSAGE_ERROR, activity, error, what);
}

void gpud_gst_error_warn(GstElement *element, enum gpud_gst_activity activity,
                         const struct gpud_error *error, const char *what)
{
    post(element, GST_MESSAGE_WARNING, activity, error, what);
}
