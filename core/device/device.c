/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finding and opening devices. */
#include "device/device.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

/* === device ================================================================================== */
/* Contexts, and their open devices. */

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

/* What uses the devices: memory, queues and the links that have them. */
static size_t count_users(struct gpud_context *context)
{
    size_t count = 0;
    gpud_lock_take(&context->lock);
    for (size_t i = 0; i < context->device_count; i++)
        count += atomic_load(&context->devices[i]->references);
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
    /* A frame that was released a moment ago may still be in a driver's thread, and memory with the
     * worker: they have a second, and another one whenever something is freed. */
    size_t users = count_users(gone), left;
    int64_t deadline = gpud_deadline(GPUD_SEC);
    gpud_worker_hurry(&gone->watch);
    gpud_worker_hurry(&gone->later);
    while ((left = count_users(gone)) > 0 && gpud_now() < deadline) {
        if (left < users) { /* the fewest so far, so that this ends */
            users = left;
            deadline = gpud_deadline(GPUD_SEC);
        }
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = GPUD_MSEC / 2}, NULL);
    }
    if (left > 0) {
        gpud_log_error(&gone->log, "context",
                       "destroyed while %zu objects use its devices: it is not freed", left);
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

/* === open ==================================================================================== */
/* Every backend of this build: names of devices, opening and listing them, and what else any of
 * them may answer. */

#define ROW_1(name) {#name, &gpud_##name##_ops},
#define ROW_0(name) {#name, NULL},
#define ROW_OF(name, built) ROW_##built(name)
#define ROW(name, built) ROW_OF(name, built)

const struct gpud_backend gpud_backends[] = {GPUD_BACKENDS(ROW){NULL, NULL}};

#define BACKENDS (sizeof(gpud_backends) / sizeof(gpud_backends[0]) - 1)

_Static_assert(BACKENDS <= GPUD_BACKENDS_MAX, "each has a lock to open its devices under");

/* "host", "opencl:1" */
static void print_name(struct gpud_device_info *info, const struct gpud_device_ops *ops,
                       unsigned index)
{
    if (ops->single)
        gpud_print(info->name, "%s", ops->name);
    else
        gpud_print(info->name, "%s:%u", ops->name, index);
}

static void open_probe(struct gpud_device *device, const struct gpud_device_ops *ops,
                       unsigned index)
{
    device->ops = ops;
    device->index = index;
    print_name(&device->info, ops, index);
    gpud_lock_assert_free(GPUD_RANK_SENDER); /* a driver may take seconds, a submit has none */
    ops->probe(device);
}

/* "opencl:1" is the device of opencl with the index 1, "opencl" the one with 0. Gives the backend's
 * place in the table, and the index. */
static enum gpud_status open_parse(const char *name, size_t *backend, unsigned *index,
                                   struct gpud_error *error)
{
    for (size_t i = 0; i < BACKENDS; i++) {
        const char *own = gpud_backends[i].name;
        const struct gpud_device_ops *ops = gpud_backends[i].ops;
        if (strncmp(name, own, strlen(own)) != 0)
            continue;
        const char *rest = name + strlen(own);
        if (*rest && (*rest != ':' || (ops && ops->single)))
            continue;
        if (!ops)
            return gpud_fail(error, GPUD_NO_DEVICE,
                             "this libgpudirect is built without %s: configure it with "
                             "-D%s=enabled",
                             own, own);
        char *end;
        unsigned long number = *rest ? strtoul(rest + 1, &end, 10) : 0;
        if (*rest && (end == rest + 1 || *end || number > 255))
            return gpud_fail(error, GPUD_INVALID, "\"%s\" is not a device: write %s:0, %s:1…", name,
                             own, own);
        *backend = i;
        *index = (unsigned)number;
        return GPUD_OK;
    }
    char names[160]; /* "auto, host, cuda:0, …" */
    size_t used = (size_t)gpud_print_n(names, sizeof(names), "auto");
    for (const struct gpud_backend *each = gpud_backends; each->name && used < sizeof(names);
         each++)
        used += (size_t)gpud_print_n(names + used, sizeof(names) - used, ", %s%s", each->name,
                                     each->ops && each->ops->single ? "" : ":0");
    return gpud_fail(error, GPUD_INVALID, "\"%s\" is not a device: use %s…", name, names);
}

/* What a start waits for: times of gpud_now(). */
struct opening {
    int64_t begun, found, opened;
};

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
    opening->begun = gpud_now();
    unsigned count = ops->count();
    open_probe(made, ops, index < count ? index : 0);
    enum gpud_status status = GPUD_NO_DEVICE;
    /* A backend without a driver has one unavailable device, whose reason says what is missing. */
    if (index >= count && (count > 1 || made->info.available)) {
        gpud_fail(error, status, "there is no %s:%u: the last one here is %s:%u", ops->name, index,
                  ops->name, count - 1);
    } else if (!made->info.available) {
        gpud_fail(error, status, "%s", made->info.reason);
    } else {
        opening->found = gpud_now();
        status = ops->open(made, error);
        opening->opened = gpud_now();
    }
    if (status == GPUD_OK) {
        gpud_lock_take(&context->lock);
        struct gpud_device **grown =
            reallocarray(context->devices, context->device_count + 1, sizeof(struct gpud_device *));
        if (grown) {
            context->devices = grown;
            context->devices[context->device_count++] = made;
        }
        gpud_lock_release(&context->lock);
        if (!grown) {
            status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a device");
            ops->close(made);
        }
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
    enum gpud_status status = open_parse(name, &backend, &index, error);
    if (status != GPUD_OK)
        return status;
    const struct gpud_device_ops *ops = gpud_backends[backend].ops;
    struct gpud_device_info own;
    print_name(&own, ops, index);
    struct gpud_device *found = gpud_context_find_device(context, own.name);
    struct opening opening = {0};
    if (!found) {
        gpud_lock_take(&context->opening[backend]);
        found = gpud_context_find_device(context, own.name); /* another thread may have opened it */
        if (!found)
            status = open_new(context, ops, index, &opening, &found, error);
        gpud_lock_release(&context->opening[backend]);
    }
    if (status == GPUD_OK && opening.opened) /* tests/tools/starting.py reads this */
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
            open_probe(&probed, ops, index);
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
            open_probe(probed, ops, index);
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

static const struct gpud_handle_kind *open_find_kind(const struct gpud_handle_kind *kinds,
                                                     size_t count, uint32_t type)
{
    for (size_t i = 0; i < count; i++)
        if (kinds[i].type == type)
            return &kinds[i];
    return NULL;
}

const struct gpud_handle_kind *gpud_handle_find_kind(uint32_t type)
{
    const struct gpud_handle_kind *found =
        open_find_kind(common_handles, sizeof(common_handles) / sizeof(common_handles[0]), type);
    for (size_t i = 0; i < BACKENDS && !found; i++) {
        const struct gpud_device_ops *ops = gpud_backends[i].ops;
        if (ops)
            found = open_find_kind(ops->handles, ops->handle_count, type);
    }
    return found;
}

/* === list ==================================================================================== */
/* Lists devices, as <gpudirect/device.h> gives them away. */

struct gpud_device_list {
    struct gpud_list list; /* struct gpud_device_info */
};

struct filling {
    struct gpud_list *list;
    enum gpud_status status;
    struct gpud_error *error;
};

static void list_add(const struct gpud_device *device, void *arg)
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
    gpud_device_each(context, list_add, &filling);
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

/* === network ================================================================================= */
/* What was found out about network cards, as a snapshot. */

#ifndef GPUD_WITH_RDMA
enum gpud_status gpud_rdma_find_cards(struct gpud_network_card_list *cards,
                                      struct gpud_error *error)
{
    gpud_print(cards->host.reason,
               "this libgpudirect is built without rdma: configure it with -Drdma=enabled (Debian: "
               "apt install libibverbs-dev librdmacm-dev)");
    return GPUD_OK;
}
#endif

static bool network_publish(struct gpud_network_card *card)
{
    for (size_t i = 0; i < card->port_count; i++) {
        struct gpud_network_port *port = &card->ports[i];
        for (size_t j = 0; j < port->gid_count; j++)
            port->gids[j].size = sizeof(port->gids[j]);
        port->gid = gpud_list_point(port->gids, port->gid_count, sizeof(*port->gids));
        port->info.size = sizeof(port->info);
        port->info.gids = (uint32_t)port->gid_count;
        port->info.gid = port->gid;
        if (!port->gid)
            return false;
    }
    card->port = gpud_list_point(card->ports, card->port_count, sizeof(*card->ports));
    card->info.ports = (uint32_t)card->port_count;
    card->info.port = card->port;
    return card->port;
}

enum gpud_status gpud_network_card_list_create(struct gpud_network_card_list **list,
                                               uint32_t *count, struct gpud_network_host_info *host,
                                               struct gpud_error *error)
{
    struct gpud_network_card_list *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    made->list = (struct gpud_list){.what = "network card",
                                    .entry_size = sizeof(struct gpud_network_card),
                                    .record_size = sizeof(struct gpud_network_card_info)};
    enum gpud_status status = gpud_rdma_find_cards(made, error);
    for (uint32_t i = 0; i < made->list.count && status == GPUD_OK; i++)
        if (!network_publish(gpud_network_card_at(made, i)))
            status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    if (status != GPUD_OK) {
        gpud_network_card_list_destroy(&made);
        return status;
    }
    *list = made;
    if (count)
        *count = made->list.count;
    if (host)
        gpud_sized_copy(host, host->size, &made->host, sizeof(made->host));
    return GPUD_OK;
}

void gpud_network_card_list_destroy(struct gpud_network_card_list **list)
{
    if (!list || !*list)
        return;
    for (uint32_t i = 0; i < (*list)->list.count; i++) {
        struct gpud_network_card *card = gpud_network_card_at(*list, i);
        for (size_t j = 0; j < card->port_count; j++) {
            free(card->ports[j].gids);
            free(card->ports[j].gid);
        }
        free(card->ports);
        free(card->port);
    }
    gpud_list_clear(&(*list)->list);
    free(*list);
    *list = NULL;
}

enum gpud_status gpud_network_card_list_get_info(const struct gpud_network_card_list *list,
                                                 uint32_t index,
                                                 struct gpud_network_card_info *info,
                                                 struct gpud_error *error)
{
    return gpud_list_get_info(&list->list, index, info, error);
}
