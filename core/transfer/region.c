/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Registered memory. */
#include "transfer/transfer.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define ACCESS_ALL (GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ)

/* The least time that a peer has to stop using a region. */
#define REVOKE_MIN GPUD_SEC

_Static_assert((int)GPUD_REGION_REMOTE_WRITE == (int)GPUD_VERBS_REMOTE_WRITE &&
                   (int)GPUD_REGION_REMOTE_READ == (int)GPUD_VERBS_REMOTE_READ,
               "the same bits");

/* --- registering --------------------------------------------------------------------------- */

/* The device of the memory, by the caller's word or the drivers'. */
static enum gpud_status region_find_device(struct gpud_context *context,
                                           const struct gpud_region_params *params,
                                           struct gpud_device **device, struct gpud_error *error)
{
    struct gpud_pointer_info info = GPUD_INFO_INIT(info);
    if (params->device && strcmp(params->device, "auto") != 0)
        return gpud_device_open(context, params->device, device, error);
    gpud_pointer_get_info(params->address, &info);
    if (info.kind == GPUD_POINTER_MANAGED)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the address is managed memory, which moves between %s and the host by "
                         "itself: no card can follow; allocate it on the device (cuMemAlloc)",
                         info.device);
    return gpud_device_open(context, info.device, device, error);
}

static enum gpud_status find_memory(struct gpud_context *context,
                                    const struct gpud_region_params *params,
                                    struct gpud_memory **memory, struct gpud_error *error)
{
    struct gpud_device *device = NULL;
    uint64_t end;
    if (params->memory && (params->address || params->length || params->device))
        return gpud_fail(error, GPUD_INVALID,
                         "either a memory, or an address with its length and device");
    if (params->memory) {
        *memory = gpud_memory_ref(params->memory);
        return GPUD_OK;
    }
    if (!params->address || params->length == 0 ||
        __builtin_add_overflow((uintptr_t)params->address, params->length, &end))
        return gpud_fail(error, GPUD_INVALID, "no memory, and no bytes at an address");
    enum gpud_status status = region_find_device(context, params, &device, error);
    if (status == GPUD_OK)
        status =
            gpud_memory_wrap(device, params->address, params->length, NULL, NULL, memory, error);
    gpud_device_close(&device);
    return status;
}

static enum gpud_status find_slot_locked(struct gpud_connection *connection,
                                         struct gpud_region *region, struct gpud_error *error)
{
    enum gpud_status status = gpud_connection_check_locked(connection, error);
    uint32_t slot = 0;
    if (status != GPUD_OK)
        return status;
    while (slot < GPUD_REGIONS_MAX && connection->regions[slot])
        slot++;
    if (slot == GPUD_REGIONS_MAX)
        return gpud_fail(error, GPUD_NO_MEMORY,
                         "%d regions are registered with this connection, which are the most: "
                         "register larger ones, and use ranges of them",
                         GPUD_REGIONS_MAX);
    region->slot = slot;
    region->generation = ++connection->generations[slot];
    connection->regions[slot] = region;
    return GPUD_OK;
}

static void region_discard(struct gpud_region *region)
{
    struct gpud_connection *connection = region->connection;
    if (region->verbs.record)
        connection->channel->ops->verbs->unregister(&region->verbs);
    gpud_queue_unref(&region->queue);
    gpud_memory_unref(&region->memory);
    gpud_connection_unref(connection);
    free(region);
}

enum gpud_status gpud_region_create(struct gpud_connection *connection,
                                    const struct gpud_region_params *params,
                                    struct gpud_region **region, struct gpud_error *error)
{
    struct gpud_region_params own;
    enum gpud_status status =
        connection && region
            ? gpud_sized_read(&own, sizeof(own), params,
                              GPUD_END_OF(struct gpud_region_params, memory), "gpud_region_params",
                              error)
            : gpud_fail(error, GPUD_INVALID, "no connection, or no place for the region");
    if (status == GPUD_OK && own.access & ~(unsigned)ACCESS_ALL)
        status = gpud_fail(error, GPUD_INVALID, "there is no access 0x%x", own.access);
    if (status != GPUD_OK)
        return status;
    struct gpud_region *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a region");
    made->connection = gpud_connection_ref(connection);
    made->access = own.access;
    status = find_memory(connection->transfer->context, &own, &made->memory, error);
    if (status == GPUD_OK && made->memory->read_only)
        status = gpud_fail(error, GPUD_INVALID, "read-only memory cannot be registered: copy it");
    if (status == GPUD_OK)
        status = connection->channel->ops->verbs->register_memory(connection->channel, made->memory,
                                                                  own.access, &made->verbs, error);
    if (status == GPUD_OK) {
        gpud_lock_take(&connection->lock);
        status = find_slot_locked(connection, made, error);
        gpud_lock_release(&connection->lock);
    }
    if (status == GPUD_OK)
        *region = made;
    else
        region_discard(made);
    return status;
}

static void export_key(const struct gpud_region *region, struct gpud_region_key *key)
{
    const struct transfer_message message = {
        .type = TRANSFER_KEY,
        .slot = region->slot,
        .generation = region->generation,
        .address = region->verbs.address,
        .size = region->memory->size,
        .key = region->verbs.key,
        .value = region->access,
    };
    struct gpud_connection *connection = region->connection;
    gpud_lock_take(&connection->lock);
    const struct transfer_secret secret = {connection->nonce, connection->peer_nonce};
    gpud_lock_release(&connection->lock);
    gpud_transfer_seal(&message, &secret, key->bytes);
}

void gpud_region_get_info(const struct gpud_region *region, struct gpud_region_info *info)
{
    struct gpud_region_info made = {.length = region->memory->size, .access = region->access};
    gpud_print(made.device, "%s", region->memory->device->info.name);
    gpud_print(made.way, "%s", region->verbs.way);
    if (region->access != GPUD_REGION_LOCAL)
        export_key(region, &made.key);
    gpud_sized_copy(info, info->size, &made, sizeof(made));
}

/* --- deregistering ------------------------------------------------------------------------- */

/* Waits for this side's own operations. */
static enum gpud_status await_own_locked(struct gpud_region *region, int64_t deadline,
                                         struct gpud_error *error)
{
    struct gpud_connection *connection = region->connection;
    gpud_connection_progress_locked(connection);
    while (region->uses > 0) {
        enum gpud_status status = gpud_connection_wait_locked(connection, deadline, error);
        if (status == GPUD_TIMEOUT)
            return gpud_fail(error, status,
                             "%u operations of the region are not done: receives wait for a "
                             "message of the peer's, and end with the connection",
                             region->uses);
        if (status != GPUD_OK)
            return status;
    }
    return GPUD_OK;
}

/* Waits until the peer has finished its pending operations, or its time is over. */
static void revoke_locked(struct gpud_region *region, int64_t deadline)
{
    struct gpud_connection *connection = region->connection;
    const struct transfer_message message = {
        .type = TRANSFER_REVOKE,
        .slot = region->slot,
        .generation = region->generation,
    };
    if (region->access == GPUD_REGION_LOCAL || connection->phase != CONNECTION_OPEN)
        return;
    gpud_connection_say_locked(connection, &message);
    while (!region->revoked && connection->phase == CONNECTION_OPEN &&
           gpud_connection_wait_locked(connection, deadline, NULL) == GPUD_OK)
        ;
}

enum gpud_status gpud_region_destroy(struct gpud_region **region, int64_t timeout_ns,
                                     struct gpud_error *error)
{
    if (!region || !*region)
        return GPUD_OK;
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_region *gone = *region;
    struct gpud_connection *connection = gone->connection;
    int64_t now = gpud_now();
    gpud_lock_take(&connection->lock);
    gone->closing = true;
    enum gpud_status status = await_own_locked(gone, gpud_deadline_from(now, timeout_ns), error);
    gone->closing = status == GPUD_OK;
    if (status == GPUD_OK) {
        revoke_locked(gone,
                      gpud_deadline_from(now, timeout_ns < REVOKE_MIN ? REVOKE_MIN : timeout_ns));
        connection->regions[gone->slot] = NULL;
    }
    gpud_lock_release(&connection->lock);
    if (status != GPUD_OK)
        return status;
    *region = NULL;
    region_discard(gone);
    return GPUD_OK;
}
