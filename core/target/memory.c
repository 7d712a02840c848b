/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The memory of a target's ring: allocated, freed, or left with the driver. */
#include "target/memory.h"

#include "base/fd.h"

#include <stdlib.h>

#define PAGE UINT64_C(4096)

/* --- allocating ---------------------------------------------------------------------------- */

static enum gpud_status export_fd(struct gpud_memory *memory, int *fd, struct gpud_error *error)
{
    struct gpud_handle handle;
    enum gpud_status status = gpud_memory_export(memory, &handle, error);
    if (status == GPUD_OK)
        *fd = handle.fd;
    return status;
}

static enum gpud_status make_words(struct gpud_target_ring *ring, struct gpud_error *error)
{
    enum gpud_status status = gpud_memory_alloc_for(ring->host, GPUD_TARGET_WORDS_SIZE,
                                                    GPUD_USAGE_TARGET, &ring->words, error);
    return status == GPUD_OK ? export_fd(ring->words, &ring->words_fd, error) : status;
}

static enum gpud_status make_one(struct gpud_target_ring *ring, enum gpud_usage usage,
                                 struct gpud_error *error)
{
    enum gpud_status status = gpud_memory_alloc_for(ring->device, ring->slots * ring->slot_size,
                                                    usage, &ring->memory[0], error);
    if (status == GPUD_OK)
        ring->memories = 1;
    return status;
}

static enum gpud_status make_host(struct gpud_target_ring *ring, struct gpud_error *error)
{
    ring->kind = GPUD_TARGET_HOST;
    enum gpud_status status = make_one(ring, GPUD_USAGE_TARGET, error);
    return status == GPUD_OK ? export_fd(ring->memory[0], &ring->memory_fd, error) : status;
}

static enum gpud_status make_dmabuf(struct gpud_target_ring *ring, struct gpud_error *error)
{
    struct gpud_error why;
    ring->kind = GPUD_TARGET_DMABUF;
    enum gpud_status status = make_one(ring, GPUD_USAGE_DMABUF, error);
    if (status == GPUD_OK &&
        gpud_memory_export_dmabuf(ring->memory[0], 0, ring->memory[0]->size, &ring->memory_fd,
                                  &ring->memory_fd_offset, &why) != GPUD_OK)
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "other writers cannot write memory of %s: %s; use device=host",
                           ring->device->info.name, why.reason);
    return status;
}

static enum gpud_status make_bus_address(struct gpud_target_ring *ring, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    ring->kind = GPUD_TARGET_BUS_ADDRESS;
    for (uint32_t i = 0; i < ring->slots && status == GPUD_OK; i++) {
        struct gpud_target_place *place = &ring->place[i];
        status = gpud_memory_alloc_for(ring->device, ring->slot_size, GPUD_USAGE_TARGET,
                                       &ring->memory[i], error);
        if (status != GPUD_OK)
            return status;
        ring->memories++;
        status = gpud_memory_export(ring->memory[i], &place->bus, error);
        if (status == GPUD_OK)
            status = gpud_signal_create(ring->memory[i], 0, &place->signal, error);
    }
    return status;
}

static enum gpud_status make_memory(struct gpud_target_ring *ring, struct gpud_error *error)
{
    const struct gpud_device *device = ring->device;
    if (device == ring->host)
        return make_host(ring, error);
    if (device->caps & GPUD_CAP_BUS_ADDRESSABLE)
        return make_bus_address(ring, error);
    if (device->ops->dmabuf)
        return make_dmabuf(ring, error);
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "other writers cannot write memory of %s%s%s; use device=host",
                     device->info.name, device->no_direct[0] ? ": " : "", device->no_direct);
}

uint64_t gpud_target_slot_size(const struct gpud_layout *layout)
{
    return (layout->size + PAGE - 1) / PAGE * PAGE;
}

enum gpud_status gpud_target_memory_create(struct gpud_context *context, struct gpud_device *device,
                                           struct gpud_device *host,
                                           const struct gpud_target_params *params,
                                           struct gpud_target_ring **ring, struct gpud_error *error)
{
    struct gpud_target_ring *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a target");
    atomic_init(&made->references, 1);
    gpud_lock_init(&made->lock, GPUD_RANK_TARGET_RING);
    made->context = context;
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(host);
    gpud_print(made->name, "%s", params->name ? params->name : "");
    made->layout = *params->layout;
    made->slots = params->slots;
    made->slot_size = gpud_target_slot_size(params->layout);
    made->words_fd = made->memory_fd = -1;
    for (uint32_t i = 0; i < made->slots; i++)
        made->place[i].ring = made;
    enum gpud_status status = make_words(made, error);
    if (status == GPUD_OK)
        status = make_memory(made, error);
    if (status != GPUD_OK)
        gpud_target_ring_unref(made);
    else
        *ring = made;
    return status;
}

/* --- freeing ------------------------------------------------------------------------------- */

static void drop_memory(struct gpud_target_ring *ring, bool abandon)
{
    for (uint32_t i = 0; i < ring->memories; i++) {
        if (abandon)
            gpud_memory_abandon(&ring->memory[i]);
        else
            gpud_memory_unref(&ring->memory[i]);
    }
    gpud_memory_unref(&ring->words);
}

bool gpud_target_has_stopped(const struct gpud_target_ring *ring)
{
    return atomic_load_explicit(gpud_target_word(ring, GPUD_TARGET_STOPPED),
                                memory_order_acquire) == 1;
}

static int64_t finish(void *arg)
{
    struct gpud_target_ring *ring = arg;
    bool abandon = atomic_load(&ring->exposed) && !gpud_target_has_stopped(ring);
    for (uint32_t i = 0; i < ring->slots; i++) {
        gpud_signal_destroy(&ring->place[i].signal);
        gpud_queue_unref(&ring->frames[i].queue);
    }
    drop_memory(ring, abandon);
    gpud_fd_close(&ring->memory_fd);
    gpud_fd_close(&ring->words_fd);
    gpud_device_close(&ring->host);
    gpud_device_close(&ring->device);
    gpud_lock_destroy(&ring->lock);
    free(ring);
    return -1;
}

/* A driver's thread may drop the last reference, and must not wait for its device. */
void gpud_target_ring_unref(struct gpud_target_ring *ring)
{
    if (atomic_fetch_sub_explicit(&ring->references, 1, memory_order_acq_rel) != 1)
        return;
    if (ring->device == ring->host)
        finish(ring);
    else
        gpud_worker_add(&ring->context->later, &ring->work, finish, ring);
}
