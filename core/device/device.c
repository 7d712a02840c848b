/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts, and the devices that are open in them. */
#include "device/device.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/sized.h"
#include "device/backends.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

static const struct gpud_device_ops *const backends[] = {
    &gpud_host_ops,
#ifdef GPUD_WITH_CUDA
    &gpud_cuda_ops,
#endif
#ifdef GPUD_WITH_HIP
    &gpud_hip_ops,
#endif
#ifdef GPUD_WITH_OPENCL
    &gpud_opencl_ops,
#endif
#ifdef GPUD_TEST_BACKEND
    &gpud_test_ops, /* what a test links beside the core */
#endif
};
#define BACKENDS (sizeof(backends) / sizeof(backends[0]))
_Static_assert(BACKENDS <= GPUD_BACKENDS_MAX, "each has a lock to open its devices under");

/* Backends that this build was configured without. */
static const char *const left_out[] = {
#ifndef GPUD_WITH_CUDA
    "cuda",
#endif
#ifndef GPUD_WITH_HIP
    "hip",
#endif
#ifndef GPUD_WITH_OPENCL
    "opencl",
#endif
    NULL,
};

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
    if (getrandom(&made->token, sizeof(made->token), 0) != sizeof(made->token)) {
        free(made);
        return gpud_fail_errno(error, "no random numbers from the system");
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

/* A device that takes longer is most likely stuck; a busy machine may need some of it. */
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
                       "destroyed while %zu devices are in use: it is kept aside",
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

static void probe(struct gpud_device *device, const struct gpud_device_ops *ops, unsigned index)
{
    device->ops = ops;
    device->index = index;
    if (ops->single)
        gpud_print(device->info.name, "%s", ops->name);
    else
        gpud_print(device->info.name, "%s:%u", ops->name, index);
    gpud_lock_assert_free(GPUD_RANK_SENDER); /* a driver may take seconds, a submit has none */
    ops->probe(device);
}

/* "opencl:1" → its backend's place in the table and 1; "opencl" → 0. */
static enum gpud_status parse(const char *name, size_t *backend, unsigned *index,
                              struct gpud_error *error)
{
    for (size_t i = 0; i < BACKENDS; i++) {
        size_t length = strlen(backends[i]->name);
        if (strncmp(name, backends[i]->name, length) != 0)
            continue;
        unsigned long number = 0;
        if (name[length] == ':' && !backends[i]->single) {
            char *end;
            number = strtoul(name + length + 1, &end, 10);
            if (end == name + length + 1 || *end || number > 255)
                return gpud_fail(error, GPUD_INVALID, "\"%s\" is not a device: write %s:0, %s:1…",
                                 name, backends[i]->name, backends[i]->name);
        } else if (name[length]) {
            continue;
        }
        *backend = i;
        *index = (unsigned)number;
        return GPUD_OK;
    }
    for (size_t i = 0; left_out[i]; i++)
        if (strncmp(name, left_out[i], strlen(left_out[i])) == 0)
            return gpud_fail(error, GPUD_NO_DEVICE,
                             "this libgpudirect is built without %s: configure it with "
                             "-D%s=enabled",
                             left_out[i], left_out[i]);
    return gpud_fail(
        error, GPUD_INVALID,
        "\"%s\" is not a device: use auto, host, or cuda:0, hip:0, opencl:0, opencl:1…", name);
}

/* A reference to the device if it is open; else NULL. */
static struct gpud_device *find_open(struct gpud_context *context,
                                     const struct gpud_device_ops *ops, unsigned index)
{
    struct gpud_device *found = NULL;
    gpud_lock_take(&context->lock);
    for (size_t i = 0; i < context->device_count && !found; i++)
        if (context->devices[i]->ops == ops && context->devices[i]->index == index)
            found = gpud_device_ref(context->devices[i]);
    gpud_lock_release(&context->lock);
    return found;
}

static enum gpud_status start_driver(struct gpud_device *device, const struct gpud_device_ops *ops,
                                     unsigned index, struct gpud_error *error)
{
    unsigned count = ops->count();
    if (index >= count)
        return gpud_fail(error, GPUD_NO_DEVICE, "there is no %s:%u: this machine has %s:0 to %s:%u",
                         ops->name, index, ops->name, ops->name, count - 1);
    probe(device, ops, index);
    if (!device->info.available)
        return gpud_fail(error, GPUD_NO_DEVICE, "%s", device->info.reason);
    return ops->open(device, error);
}

static enum gpud_status add_device(struct gpud_context *context, struct gpud_device *device,
                                   struct gpud_error *error)
{
    gpud_lock_take(&context->lock);
    struct gpud_device **grown =
        reallocarray(context->devices, context->device_count + 1, sizeof(struct gpud_device *));
    if (grown) {
        context->devices = grown;
        context->devices[context->device_count++] = device;
    }
    gpud_lock_release(&context->lock);
    return grown ? GPUD_OK : gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
}

/* Under the backend's `opening`. */
static enum gpud_status open_new(struct gpud_context *context, const struct gpud_device_ops *ops,
                                 unsigned index, struct gpud_device **device,
                                 struct gpud_error *error)
{
    struct gpud_device *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    made->context = context;
    atomic_init(&made->references, 1);
    enum gpud_status status = start_driver(made, ops, index, error);
    if (status == GPUD_OK) {
        status = add_device(context, made, error);
        if (status != GPUD_OK)
            ops->close(made);
    }
    if (status != GPUD_OK) {
        free(made);
        return status;
    }
    *device = made;
    return GPUD_OK;
}

enum gpud_status gpud_device_open(struct gpud_context *context, const char *name,
                                  struct gpud_device **device, struct gpud_error *error)
{
    size_t backend = 0;
    unsigned index = 0;
    if (!name || strcmp(name, "auto") == 0)
        name = "host";
    enum gpud_status status = parse(name, &backend, &index, error);
    if (status != GPUD_OK)
        return status;
    const struct gpud_device_ops *ops = backends[backend];
    struct gpud_device *found = find_open(context, ops, index);
    if (!found) {
        gpud_lock_take(&context->opening[backend]);
        found = find_open(context, ops, index); /* another thread may have opened it meanwhile */
        if (!found)
            status = open_new(context, ops, index, &found, error);
        gpud_lock_release(&context->opening[backend]);
    }
    if (status == GPUD_OK)
        *device = found;
    return status;
}

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

void gpud_pointer_identify(const void *pointer, struct gpud_pointer_info *info)
{
    struct gpud_pointer_info found = {.kind = GPUD_POINTER_HOST};
    gpud_print(found.device, "host");
    for (size_t i = 0; i < BACKENDS; i++)
        if (backends[i]->identify && backends[i]->identify(pointer, &found))
            break;
    gpud_sized_copy(info, info->size, &found, sizeof(found));
}

void gpud_device_each(struct gpud_context *context,
                      void (*fn)(const struct gpud_device *device, void *arg), void *arg)
{
    for (size_t i = 0; i < BACKENDS; i++) {
        unsigned count = backends[i]->count();
        for (unsigned index = 0; index < count; index++) {
            struct gpud_device probed = {.context = context};
            probe(&probed, backends[i], index);
            fn(&probed, arg);
        }
    }
}

struct device_list {
    struct gpud_device_info *infos;
    size_t max, count;
};

static void add_info(const struct gpud_device *device, void *arg)
{
    struct device_list *list = arg;
    size_t at = list->count++;
    if (at < list->max)
        gpud_sized_entry(list->infos, list->max, at, &device->info, sizeof(device->info));
}

size_t gpud_device_list(struct gpud_context *context, struct gpud_device_info *infos, size_t max)
{
    struct device_list list = {.infos = infos, .max = max};
    gpud_device_each(context, add_info, &list);
    return list.count;
}

bool gpud_device_probe_at(struct gpud_context *context, const char *kind, const char *pci,
                          struct gpud_device *probed)
{
    for (size_t i = 0; i < BACKENDS; i++) {
        unsigned count = strcmp(backends[i]->name, kind) == 0 ? backends[i]->count() : 0;
        for (unsigned index = 0; index < count; index++) {
            *probed = (struct gpud_device){.context = context};
            probe(probed, backends[i], index);
            if (probed->info.available && strcasecmp(probed->info.pci, pci) == 0)
                return true;
        }
    }
    return false;
}

/* --- handles ------------------------------------------------------------------------------- */

/* Those that the device layer itself makes, for all backends. */
static const struct gpud_handle_kind common_handles[] = {
    {.type = GPUD_HANDLE_NONE},
    {.type = GPUD_HANDLE_LOCAL, .words = 2},
    {.type = GPUD_HANDLE_NETWORK, .words = 2}, /* a card's, for memory of any backend */
};

static const struct gpud_handle_kind *find_kind(const struct gpud_handle_kind *kinds, size_t count,
                                                uint32_t type)
{
    for (size_t i = 0; i < count; i++)
        if (kinds[i].type == type)
            return &kinds[i];
    return NULL;
}

const struct gpud_handle_kind *gpud_handle_find_kind(uint32_t type)
{
    const struct gpud_handle_kind *found =
        find_kind(common_handles, sizeof(common_handles) / sizeof(common_handles[0]), type);
    for (size_t i = 0; i < BACKENDS && !found; i++)
        found = find_kind(backends[i]->handles, backends[i]->handle_count, type);
    return found;
}
