/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/gpu/tables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- pinned host pages --------------------------------------------------------------------- */

struct gpud_pinned {
    struct gpud_pinned *next;
    char *start;
    uint64_t size;
    unsigned count;
};

bool gpud_pins_register(const struct gpud_gpu_driver *driver, void *pages, uint64_t size,
                        bool read_only)
{
    unsigned flags = GPUD_GPU_REGISTER_PORTABLE | GPUD_GPU_REGISTER_MAPPED;
    if (read_only && driver->read_only_flag &&
        driver->mem_host_register(pages, size, flags | driver->read_only_flag) == 0)
        return true;
    return driver->mem_host_register(pages, size, flags) == 0;
}

bool gpud_pins_add(struct gpud_gpu_driver *driver, void *data, uint64_t size, bool read_only,
                   struct gpud_pinned **pinned)
{
    struct gpud_pins *pins = &driver->pins;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct gpud_pinned *range = malloc(sizeof(*range));
    if (!range)
        return false;
    *range = (struct gpud_pinned){
        .start = data,
        .size = (size + page - 1) / page * page,
        .count = 1,
    };
    gpud_lock_take(&pins->lock);
    struct gpud_pinned *found = pins->first;
    while (found &&
           (found->start > range->start || found->start + found->size < range->start + range->size))
        found = found->next;
    if (found) {
        found->count++;
    } else if ((uintptr_t)data % page == 0 &&
               gpud_pins_register(driver, range->start, range->size, read_only)) {
        range->next = pins->first;
        pins->first = found = range;
        range = NULL;
    }
    gpud_lock_release(&pins->lock);
    free(range);
    *pinned = found;
    return true;
}

void gpud_pins_remove(struct gpud_gpu_driver *driver, struct gpud_pinned *pinned)
{
    struct gpud_pins *pins = &driver->pins;
    if (!pinned)
        return;
    gpud_lock_take(&pins->lock);
    if (--pinned->count == 0) {
        struct gpud_pinned **link = &pins->first;
        while (*link != pinned)
            link = &(*link)->next;
        *link = pinned->next;
        driver->mem_host_unregister(pinned->start);
        free(pinned);
    }
    gpud_lock_release(&pins->lock);
}

/* --- opened handles ------------------------------------------------------------------------ */

struct gpud_opened {
    struct gpud_opened *next;
    const void *context;
    struct gpud_gpu_ipc handle;
    uint64_t base;
    unsigned count;
};

static struct gpud_opened *open_new(struct gpud_gpu_driver *driver, const void *context,
                                    const struct gpud_gpu_ipc *handle, int *result)
{
    struct gpud_opened *made = calloc(1, sizeof(*made));
    *result = made ? driver->ipc_open_mem_handle(&made->base, *handle, driver->ipc_flags)
                   : GPUD_GPU_OUT_OF_MEMORY;
    if (*result) {
        free(made);
        return NULL;
    }
    made->context = context;
    made->handle = *handle;
    made->next = driver->opens.first;
    driver->opens.first = made;
    return made;
}

int gpud_opens_add(struct gpud_gpu_driver *driver, const void *context,
                   const struct gpud_gpu_ipc *handle, uint64_t *base)
{
    struct gpud_opens *opens = &driver->opens;
    int result = 0;
    gpud_lock_take(&opens->lock);
    struct gpud_opened *found = opens->first;
    while (found &&
           (found->context != context || memcmp(&found->handle, handle, sizeof(*handle)) != 0))
        found = found->next;
    if (!found)
        found = open_new(driver, context, handle, &result);
    if (found) {
        found->count++;
        *base = found->base;
    }
    gpud_lock_release(&opens->lock);
    return result;
}

void gpud_opens_remove(struct gpud_gpu_driver *driver, const void *context, uint64_t base)
{
    struct gpud_opens *opens = &driver->opens;
    gpud_lock_take(&opens->lock);
    struct gpud_opened **link = &opens->first;
    while (*link && ((*link)->context != context || (*link)->base != base))
        link = &(*link)->next;
    struct gpud_opened *found = *link;
    if (found && --found->count == 0) {
        *link = found->next;
        driver->ipc_close_mem_handle(base);
        free(found);
    }
    gpud_lock_release(&opens->lock);
}
