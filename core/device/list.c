/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists devices, as <gpudirect/device.h> gives them away. */
#include "device/device.h"

#include "base/list.h"

#include <stdlib.h>

struct gpud_device_list {
    struct gpud_list list; /* struct gpud_device_info */
};

struct filling {
    struct gpud_list *list;
    enum gpud_status status;
    struct gpud_error *error;
};

static void add(const struct gpud_device *device, void *arg)
{
    struct filling *filling = arg;
    struct gpud_device_info *added = NULL;
    if (filling->status == GPUD_OK)
        added = gpud_list_add(filling->list, filling->error);
    if (added)
        *added = device->info;
    else
        filling->status = GPUD_NO_MEMORY;
}

enum gpud_status gpud_device_list_create(struct gpud_context *context,
                                         struct gpud_device_list **list, uint32_t *count,
                                         struct gpud_error *error)
{
    const size_t size = sizeof(struct gpud_device_info);
    struct gpud_device_list *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of devices");
    made->list = (struct gpud_list){.what = "device", .entry_size = size, .record_size = size};
    struct filling filling = {.list = &made->list, .error = error};
    gpud_device_each(context, add, &filling);
    if (filling.status != GPUD_OK) {
        gpud_device_list_destroy(&made);
        return filling.status;
    }
    *list = made;
    if (count)
        *count = made->list.count;
    return GPUD_OK;
}

void gpud_device_list_destroy(struct gpud_device_list **list)
{
    if (!list || !*list)
        return;
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

enum gpud_status gpud_device_list_get_info(const struct gpud_device_list *list, uint32_t index,
                                           struct gpud_device_info *info, struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, info, error);
}
