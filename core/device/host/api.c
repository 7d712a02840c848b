/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/device.h"
#include "device/host/host.h"

#include <stdio.h>
#include <string.h>

static unsigned host_api_count(void)
{
    return 1;
}

/* The processor's name, as users know it. */
static void host_api_describe(struct gpud_device_info *info)
{
    gpud_print(info->description, "host memory");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof(line), file)) {
        char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (!value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        gpud_print(info->description, "host memory, %.96s", value + 2);
        break;
    }
    fclose(file);
}

static void host_api_probe(struct gpud_device *device)
{
    device->caps = GPUD_CAP_HOST | GPUD_CAP_CPU_ADDRESSABLE | GPUD_CAP_SYNCHRONOUS |
                   GPUD_CAP_SHARE | GPUD_CAP_SIGNALS;
    device->info.available = true;
    device->info.direct_writes = true;
    host_api_describe(&device->info);
}

static enum gpud_status open_host(struct gpud_device *device, struct gpud_error *error)
{
    return GPUD_OK;
}

static void close_host(struct gpud_device *device)
{
}

static const struct gpud_handle_kind handles[] = {
    {.type = GPUD_HANDLE_MEMFD, .attachment = true},
};

const struct gpud_device_ops gpud_host_ops = {
    .name = "host",
    .single = true,
    .count = host_api_count,
    .probe = host_api_probe,
    .open = open_host,
    .close = close_host,
    .handles = handles,
    .handle_count = sizeof(handles) / sizeof(handles[0]),
    .memory = &gpud_host_memory_ops,
    .dmabuf = &gpud_host_dmabuf_ops,
    .queue = &gpud_host_queue_ops,
    .signal = &gpud_host_signal_ops,
};
