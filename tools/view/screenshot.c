/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "screenshot.h"

#include "pngfile.h"

#include <errno.h>

#define FILES_MAX 100 /* of one second */

/* The last part of an address, as a file's name. */
static char *name_of(const char *address)
{
    const char *slash = strrchr(address, '/');
    char *name = g_strdup(slash && slash[1] ? slash + 1 : address);
    return g_strcanon(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-", '-');
}

char *screenshot_take(struct picture *picture, GstVideoFrame *mapped, const char *address)
{
    struct gpud_error error;
    GDateTime *now = g_date_time_new_now_local();
    char *time = g_date_time_format(now, "%Y%m%d-%H%M%S");
    char *name = name_of(address);
    char *said = NULL;
    for (int i = 1; i <= FILES_MAX && !said; i++) {
        char *file = i > 1 ? g_strdup_printf("%s-%s-%d.png", name, time, i)
                           : g_strdup_printf("%s-%s.png", name, time);
        if (png_write(picture, mapped, file, true, &error))
            said = g_strdup_printf("saved %s", file);
        else if (error.native != EEXIST || i == FILES_MAX)
            said = g_strdup(error.reason);
        g_free(file);
    }
    g_free(name);
    g_free(time);
    g_date_time_unref(now);
    return said;
}
