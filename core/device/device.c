/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts, and their open devices. */
#include "device/device.h"

#include "base/clock.h"
#include "base/host.h"
#include "base/lock.h"
#include "base/sized.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum gpud_status gpud_context_create(const struct gpud_context_params *params,
                                     struct gpud_context **context, struct gpud_error *error)
{
    struct gpud_context_params own = GPUD_PARAMS_INIT(own);
    enum gpud_status status = GPUD_OK;
    if (params)
        status = gpud_sized_read(&own, sizeof(own), params, sizeof(params->size),
                                 "gpud_context_params", error);
    if (status != GPUD_OK)
        return status;

    struct gpud_context *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a context");
    if (getrandom(&made->token, sizeof(made->token), 0) != sizeof(made->token))
        status = gpud_fail_errno(error, "no random numbers from the system");
    if (status == GPUD_OK)
        status = gpud_host_read_id(made->host, error);
    if (status != GPUD_OK) {
        free(made);
        return status;
    }
    gpud_log_init(&made->log, own.log, own.log_user, own.log_level);
    for (size_t i = 0; i < GPUD_BACKENDS_MAX; i++)
        gpud_lock_init(&made->opening[i], GPUD_RANK_OPENING);
    gpud_lock_init(&made->lock, GPUD_RANK_CONTEXT);
    gpud_worker_init(&made->watch);
    gpud_worker_init(&made->later);
    *context = made;
    return GPUD_OK;
}

static size_t devices_in_use(struct gpud_context *context)
{
    size_t count = 0;
    gpud_lock_take(&context->lock);
    for (size_t i = 0; i < context->device_count; i++)
        count += atomic_load(&context->devices[i]->references) > 0;
    gpud_lock_release(&context->lock);
    return count;
}

/* A device that takes longer is most likely stuck. */
#define SETTLING_MAX GPUD_SEC

void gpud_context_drain(struct gpud_context *context)
{
    int64_t deadline = gpud_deadline(SETTLING_MAX);
    while (atomic_load(&context->ending) || !gpud_worker_is_idle(&context->later)) {
        if (gpud_now() >= deadline)
            return;
        gpud_worker_hurry(&context->watch);
        gpud_worker_hurry(&context->later);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = GPUD_MSEC / 2}, NULL);
    }
}

void gpud_context_keep(struct gpud_context *context, struct gpud_kept *kept)
{
    gpud_lock_take(&context->lock);
    kept->next = context->kept;
    context->kept = kept;
    gpud_lock_release(&context->lock);
}

struct gpud_kept *gpud_context_take_kept(struct gpud_context *context,
                                         bool (*fits)(const struct gpud_kept *kept,
                                                      const void *arg),
                                         const void *arg)
{
    gpud_lock_take(&context->lock);
    struct gpud_kept **link = &context->kept;
    while (*link && !fits(*link, arg))
        link = &(*link)->next;
    struct gpud_kept *found = *link;
    if (found)
        *link = found->next;
    gpud_lock_release(&context->lock);
    return found;
}

static bool fits_any(const struct gpud_kept *kept, const void *arg)
{
    return true;
}

void gpud_context_destroy(struct gpud_context **context)
{
    if (!context || !*context)
        return;
    struct gpud_context *gone = *context;
    *context = NULL;
    for (struct gpud_kept *kept; (kept = gpud_context_take_kept(gone, fits_any, NULL));)
        kept->end(kept);
    /* A frame that was released a moment ago may still be in a driver's thread. */
    int64_t deadline = gpud_deadline(GPUD_SEC);
    gpud_worker_hurry(&gone->watch);
    gpud_worker_hurry(&gone->later);
    while (devices_in_use(gone) && gpud_now() < deadline)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = GPUD_MSEC / 2}, NULL);
    if (devices_in_use(gone)) {
        gpud_log_error(&gone->log, "context",
                       "destroyed while %zu devices are in use: it is not freed",
                       devices_in_use(gone));
        return;
    }
    gpud_worker_finish(&gone->watch);
    gpud_worker_finish(&gone->later);
    while (gone->device_count) {
        struct gpud_device *device = gone->devices[--gone->device_count];
        device->ops->close(device);
        free(device);
    }
    gpud_log_finish(&gone->log);
    gpud_lock_destroy(&gone->lock);
    for (size_t i = 0; i < GPUD_BACKENDS_MAX; i++)
        gpud_lock_destroy(&gone->opening[i]);
    free(gone->devices);
    free(gone->local);
    free(gone);
}

/* --- devices ------------------------------------------------------------------------------- */

size_t gpud_context_list_open(struct gpud_context *context, const struct gpud_device_ops *ops,
                              const struct gpud_device **list, size_t max)
{
    size_t count = 0;
    gpud_lock_take(&context->lock);
    for (size_t i = 0; i < context->device_count && count < max; i++)
        if (context->devices[i]->ops == ops)
            list[count++] = context->devices[i];
    gpud_lock_release(&context->lock);
    return count;
}

struct gpud_device *gpud_context_find_device(struct gpud_context *context, const char *name)
{
    struct gpud_device *found = NULL;
    gpud_lock_take(&context->lock);
    for (size_t i = 0; i < context->device_count && !found; i++)
        if (strcmp(context->devices[i]->info.name, name) == 0)
            found = gpud_device_ref(context->devices[i]);
    gpud_lock_release(&context->lock);
    return found;
}

bool gpud_devices_have_common_memory(const struct gpud_device *a, const struct gpud_device *b)
{
    return a->common && a->common == b->common && a->context == b->context;
}

struct gpud_device *gpud_device_ref(struct gpud_device *device)
{
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

/* The device stays open until its context ends: the last reference may be dropped in a driver's own
 * thread, which must not close its driver. */
void gpud_device_close(struct gpud_device **device)
{
    if (!device || !*device)
        return;
    atomic_fetch_sub_explicit(&(*device)->references, 1, memory_order_acq_rel);
    *device = NULL;
}

void gpud_device_get_info(const struct gpud_device *device, struct gpud_device_info *info)
{
    gpud_sized_copy(info, info->size, &device->info, sizeof(device->info));
}

void *gpud_device_get_native(const struct gpud_device *device)
{
    return device->ops->native ? device->ops->native(device) : NULL;
}

const char *gpud_device_kind(const struct gpud_device *device)
{
    return device->ops->name;
}

void gpud_device_ask_link(const struct gpud_device *from, const struct gpud_device *to,
                          struct gpud_device_link *link)
{
    if (from->ops->link)
        from->ops->link(from, to, link);
    else
        gpud_print(link->reason, "%s devices tell nothing of ways from one to another",
                   from->ops->name);
}
