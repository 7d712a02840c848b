/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One gpud_context for the whole process: devices are opened once however many elements use them,
 * and frames that outlive their element stay valid. It lives until the process ends, because
 * a plugin is not notified when the last buffer that points into it is gone. */
#include "base/context.h"

GST_DEBUG_CATEGORY(gpud_gst_debug);
GST_DEBUG_CATEGORY_STATIC(gpud_gst_core_debug);

static void log_core(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    static const GstDebugLevel levels[] = {
        [GPUD_LOG_ERROR] = GST_LEVEL_ERROR,
        [GPUD_LOG_WARNING] = GST_LEVEL_WARNING,
        [GPUD_LOG_INFO] = GST_LEVEL_INFO,
        [GPUD_LOG_DEBUG] = GST_LEVEL_DEBUG,
    };
    GstDebugLevel mapped = level < G_N_ELEMENTS(levels) ? levels[level] : GST_LEVEL_DEBUG;

    GST_CAT_LEVEL_LOG(gpud_gst_core_debug, mapped, NULL, "%s: %s", area, text);
}

/* The core's log level is read once: formatting lines that are not logged costs time. */
static enum gpud_log_level wanted_level(void)
{
    GstDebugLevel threshold = gst_debug_category_get_threshold(gpud_gst_core_debug);

    if (threshold >= GST_LEVEL_DEBUG)
        return GPUD_LOG_DEBUG;
    if (threshold >= GST_LEVEL_INFO)
        return GPUD_LOG_INFO;
    return threshold >= GST_LEVEL_WARNING ? GPUD_LOG_WARNING : GPUD_LOG_ERROR;
}

void gpud_gst_context_init(void)
{
    GST_DEBUG_CATEGORY_INIT(gpud_gst_debug, "gpudirect", 0, "gpudirect plugin");
    GST_DEBUG_CATEGORY_INIT(gpud_gst_core_debug, "gpudirectcore", 0, "gpudirect core library");
}

struct gpud_context *gpud_gst_context_get(struct gpud_error *error)
{
    static GMutex lock;
    static struct gpud_context *shared;

    g_mutex_lock(&lock);
    if (!shared) {
        struct gpud_context_params params = GPUD_PARAMS_INIT(params);
        params.log = log_core;
        params.log_level = wanted_level();
        if (gpud_context_create(&params, &shared, error) != GPUD_OK)
            shared = NULL;
    }
    g_mutex_unlock(&lock);
    return shared;
}
