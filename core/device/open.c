/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every backend of this build: names of devices, opening and listing them, and what else any of
 * them may answer. */
#include "base/clock.h"
#include "base/lock.h"
#include "base/sized.h"
#include "device/backends.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROW_1(name) {#name, &gpud_##name##_ops},
#define ROW_0(name) {#name, NULL},
#define ROW_OF(name, built) ROW_##built(name)
#define ROW(name, built) ROW_OF(name, built)
const struct gpud_backend gpud_backends[] = {GPUD_BACKENDS(ROW){NULL, NULL}};
#define BACKENDS (sizeof(gpud_backends) / sizeof(gpud_backends[0]) - 1)
_Static_assert(BACKENDS <= GPUD_BACKENDS_MAX, "each has a lock to open its devices under");

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

/* "auto, host, cuda:0, …" */
static void list_names(char *text, size_t size)
{
    size_t used = (size_t)gpud_print_n(text, size, "auto");
    for (const struct gpud_backend *each = gpud_backends; each->name && used < size; each++)
        used += (size_t)gpud_print_n(text + used, size - used, ", %s%s", each->name,
                                     each->ops && each->ops->single ? "" : ":0");
}

/* "opencl:1" is a name of opencl with the index 1, "opencl" one with 0; false: of another backend.
 */
static bool is_named(const char *name, const struct gpud_backend *backend, unsigned long *index,
                     bool *well)
{
    size_t length = strlen(backend->name);
    char *end;
    *index = 0;
    *well = true;
    if (strncmp(name, backend->name, length) != 0)
        return false;
    if (!name[length])
        return true;
    if (name[length] != ':' || (backend->ops && backend->ops->single))
        return false;
    *index = strtoul(name + length + 1, &end, 10);
    *well = end != name + length + 1 && !*end && *index <= 255;
    return true;
}

/* The backend's place in the table, and the device's index. */
static enum gpud_status parse(const char *name, size_t *backend, unsigned *index,
                              struct gpud_error *error)
{
    char names[160];
    for (size_t i = 0; i < BACKENDS; i++) {
        const char *own = gpud_backends[i].name;
        unsigned long number;
        bool well;
        if (!is_named(name, &gpud_backends[i], &number, &well))
            continue;
        if (!gpud_backends[i].ops)
            return gpud_fail(error, GPUD_NO_DEVICE,
                             "this libgpudirect is built without %s: configure it with "
                             "-D%s=enabled",
                             own, own);
        if (!well)
            return gpud_fail(error, GPUD_INVALID, "\"%s\" is not a device: write %s:0, %s:1…", name,
                             own, own);
        *backend = i;
        *index = (unsigned)number;
        return GPUD_OK;
    }
    list_names(names, sizeof(names));
    return gpud_fail(error, GPUD_INVALID, "\"%s\" is not a device: use %s…", name, names);
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

/* What a start waits for: times of gpud_now(). */
struct opening {
    int64_t begun, found, opened;
};

static enum gpud_status start_driver(struct gpud_device *device, const struct gpud_device_ops *ops,
                                     unsigned index, struct opening *opening,
                                     struct gpud_error *error)
{
    opening->begun = gpud_now();
    unsigned count = ops->count();
    probe(device, ops, index < count ? index : 0);
    /* A backend without a driver has one unavailable device, whose reason says what is missing. */
    if (index >= count && (count > 1 || device->info.available))
        return gpud_fail(error, GPUD_NO_DEVICE, "there is no %s:%u: the last one here is %s:%u",
                         ops->name, index, ops->name, count - 1);
    if (!device->info.available)
        return gpud_fail(error, GPUD_NO_DEVICE, "%s", device->info.reason);
    opening->found = gpud_now();
    enum gpud_status status = ops->open(device, error);
    opening->opened = gpud_now();
    return status;
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
                                 unsigned index, struct opening *opening,
                                 struct gpud_device **device, struct gpud_error *error)
{
    struct gpud_device *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
    made->context = context;
    atomic_init(&made->references, 1);
    enum gpud_status status = start_driver(made, ops, index, opening, error);
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
    const struct gpud_device_ops *ops = gpud_backends[backend].ops;
    struct gpud_device *found = find_open(context, ops, index);
    struct opening opening = {0};
    if (!found) {
        gpud_lock_take(&context->opening[backend]);
        found = find_open(context, ops, index); /* another thread may have opened it meanwhile */
        if (!found)
            status = open_new(context, ops, index, &opening, &found, error);
        gpud_lock_release(&context->opening[backend]);
    }
    if (status == GPUD_OK && opening.opened) /* gpudirect-bench --start reads this */
        gpud_log_info(&context->log, "device", "%s: driver in %.3f ms, opened in %.3f ms",
                      found->info.name, (double)(opening.found - opening.begun) / 1e6,
                      (double)(opening.opened - opening.found) / 1e6);
    if (status == GPUD_OK)
        *device = found;
    return status;
}

void gpud_pointer_get_info(const void *pointer, struct gpud_pointer_info *info)
{
    struct gpud_pointer_info found = {.kind = GPUD_POINTER_HOST};
    gpud_print(found.device, "host");
    for (size_t i = 0; i < BACKENDS; i++) {
        const struct gpud_device_ops *ops = gpud_backends[i].ops;
        if (ops && ops->identify && ops->identify(pointer, &found))
            break;
    }
    gpud_sized_copy(info, info->size, &found, sizeof(found));
}

void gpud_device_each(struct gpud_context *context,
                      void (*fn)(const struct gpud_device *device, void *arg), void *arg)
{
    for (size_t i = 0; i < BACKENDS; i++) {
        const struct gpud_device_ops *ops = gpud_backends[i].ops;
        unsigned count = ops ? ops->count() : 0;
        for (unsigned index = 0; index < count; index++) {
            struct gpud_device probed = {.context = context};
            probe(&probed, ops, index);
            fn(&probed, arg);
        }
    }
}

bool gpud_device_probe_at(struct gpud_context *context, const char *kind, const char *pci,
                          struct gpud_device *probed)
{
    for (size_t i = 0; i < BACKENDS; i++) {
        const struct gpud_device_ops *ops = gpud_backends[i].ops;
        unsigned count = ops && strcmp(ops->name, kind) == 0 ? ops->count() : 0;
        for (unsigned index = 0; index < count; index++) {
            *probed = (struct gpud_device){.context = context};
            probe(probed, ops, index);
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
    for (size_t i = 0; i < BACKENDS && !found; i++) {
        const struct gpud_device_ops *ops = gpud_backends[i].ops;
        if (ops)
            found = find_kind(ops->handles, ops->handle_count, type);
    }
    return found;
}
