/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <string.h>

const char *bench_device_of(const struct bench_job *job, uint32_t number, char *device, size_t size)
{
    char **list = g_strsplit(job->to, ",", -1);
    guint count = g_strv_length(list);
    const char *chosen = count ? list[(number > 0 ? number - 1 : 0) % count] : "host";
    g_strlcpy(device, chosen, size);
    g_strstrip(device);
    g_strfreev(list);
    return device;
}

int64_t bench_paced_time(const struct bench_job *job, double frames)
{
    return (int64_t)(frames * 1e9 * job->fps_den / job->fps_num);
}

uint64_t bench_frame_bytes(const struct bench_job *job)
{
    struct gpud_layout layout = {.size = 0};
    gpud_layout_init(&layout, job->format, job->width, job->height, 0, NULL);
    return layout.size;
}
