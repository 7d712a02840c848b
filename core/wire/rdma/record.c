/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A link's record: its page, its registered memory, and writing its frames. records.c decides when
 * its registrations are released. */
#include "base/clock.h"
#include "wire/rdma/connect.h"
#include "wire/rdma/ending.h"
#include "wire/rdma/publish.h"
#include "wire/rdma/records.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define DRAIN_MAX GPUD_SEC
#define DRAIN_SLICE (5 * GPUD_MSEC)

/* --- the page ------------------------------------------------------------------------------ */

/* Shared, so that copy-on-write after fork() does not detach these pages from the card. */
static void *map_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static struct gpud_handle handle_of(const struct gpud_rdma_region *region, uint64_t size)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_NETWORK,
        .fd = -1,
        .size = size,
        .word = {gpud_rdma_region_address(region), gpud_rdma_region_key(region)},
    };
}

static enum gpud_status make_page(struct rdma_remote *remote, struct gpud_handle *handle,
                                  struct gpud_error *error)
{
    size_t size = sizeof(struct gpud_page) + rdma_own_size(remote);
    void *pages = map_pages(size);
    if (!pages)
        return gpud_fail_errno(error, "no memory for a ring page");
    remote->pages = pages;
    remote->base.page = pages;
    struct gpud_page *page = pages;
    void *half = remote->is_sender ? (void *)&page->receiver : (void *)&page->sender;
    size_t half_size = sizeof(struct gpud_page) - rdma_own_size(remote);
    enum gpud_status status = gpud_rdma_register(remote->rdma, half, half_size,
                                                 GPUD_RDMA_REMOTE_WRITE, &remote->theirs, error);
    if (status == GPUD_OK)
        status =
            gpud_rdma_register(remote->rdma, rdma_published_half(remote), rdma_own_size(remote),
                               GPUD_RDMA_LOCAL, &remote->published, error);
    if (status != GPUD_OK)
        return status;
    *handle = handle_of(remote->theirs, half_size);
    return GPUD_OK;
}

static enum gpud_status create(struct gpud_channel *base, struct gpud_remote **remote,
                               struct gpud_handle *page, struct gpud_error *error)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    if (!atomic_load(&base->connected))
        return gpud_fail(error, GPUD_PEER, "%s is not connected", channel->where);
    struct rdma_remote *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
    made->base.ops = &gpud_rdma_remote_ops;
    made->channel = channel;
    made->rdma = gpud_rdma_ref(channel->rdma);
    made->is_sender = channel->is_sender;
    gpud_lock_init(&made->lock, GPUD_RANK_RDMA_RECORD);
    made->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum gpud_status status = GPUD_OK;
    if (made->event < 0)
        status = gpud_fail_errno(error, "no descriptor for a link");
    if (status == GPUD_OK)
        status = make_page(made, page, error);
    if (status != GPUD_OK) {
        gpud_rdma_free_record(made);
        return status;
    }
    gpud_channel_ref(base);
    gpud_lock_take(&channel->records_lock);
    made->number = ++channel->record_count;
    made->next = channel->records;
    channel->records = made;
    gpud_lock_release(&channel->records_lock);
    *remote = &made->base;
    return GPUD_OK;
}

/* Whether a peer's handle can be memory of that size that a card may write. */
static bool is_writable(const struct gpud_handle *handle, uint64_t size)
{
    uint64_t end;
    return handle->type == GPUD_HANDLE_NETWORK && handle->size >= size &&
           !__builtin_add_overflow(handle->word[0], handle->size, &end) &&
           handle->word[1] <= UINT32_MAX;
}

/* Once the other side sees this page used, it may release earlier ones, so a sender stops writing
 * into those here. A receiver does so by detaching. */
static void switch_to(struct rdma_remote *remote)
{
    struct rdma_channel *channel = remote->channel;
    gpud_lock_take(&channel->records_lock);
    remote->was_attached = true;
    for (struct rdma_remote *one = channel->records; remote->is_sender && one; one = one->next)
        if (one->number < remote->number)
            gpud_rdma_stop_publishing(one);
    gpud_lock_release(&channel->records_lock);
}

static enum gpud_status attach(struct gpud_remote *base, const struct gpud_handle *page,
                               struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    if (page->size != rdma_own_size(remote) || !is_writable(page, page->size))
        return gpud_fail(error, GPUD_PEER, "this side cannot write the peer's ring page");
    gpud_lock_take(&remote->lock);
    remote->remote_address = page->word[0];
    remote->remote_key = (uint32_t)page->word[1];
    remote->attached = true;
    gpud_lock_release(&remote->lock);
    switch_to(remote);
    gpud_rdma_collect_records(remote->channel, false);
    return GPUD_OK;
}

/* --- large metas --------------------------------------------------------------------------- */

static enum gpud_status share_metas(struct gpud_remote *base, uint64_t size,
                                    struct gpud_handle *handle, void **metas,
                                    struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    if (remote->is_sender && !is_writable(handle, size))
        return gpud_fail(error, GPUD_PEER,
                         "this side cannot write the receiver's memory for large metas");
    remote->metas_size = size;
    remote->metas = map_pages(size);
    if (!remote->metas)
        return gpud_fail_errno(error, "no memory for large metas");
    enum gpud_status status = gpud_rdma_register(
        remote->rdma, remote->metas, size,
        remote->is_sender ? GPUD_RDMA_LOCAL : GPUD_RDMA_REMOTE_WRITE, &remote->metas_region, error);
    if (status != GPUD_OK)
        return status;
    if (remote->is_sender) {
        remote->metas_address = handle->word[0];
        remote->metas_key = (uint32_t)handle->word[1];
    } else {
        *handle = handle_of(remote->metas_region, size);
    }
    *metas = remote->metas;
    return GPUD_OK;
}

static enum gpud_status write_meta(struct gpud_remote *base, uint64_t offset, uint64_t size,
                                   struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct gpud_rdma_transfer transfer = {
        .local = remote->metas_region,
        .local_offset = offset,
        .remote_address = remote->metas_address + offset,
        .remote_key = remote->metas_key,
        .size = size,
    };
    return gpud_rdma_write(remote->rdma, &transfer, error);
}

/* --- the ring ------------------------------------------------------------------------------ */

static enum gpud_status expose(struct gpud_remote *base, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct gpud_ring_description made = {
        .slot_size = ring->slot_size,
        .slots_per_memory = ring->slots_per_memory,
        .memories = ring->memories,
    };
    enum gpud_rdma_way way;
    for (uint32_t i = 0; i < ring->memories; i++) {
        struct gpud_rdma_region **region = &remote->exposed[i];
        enum gpud_status status = GPUD_OK;
        if (!*region)
            status = gpud_rdma_register_memory(remote->rdma, ring->memory[i],
                                               GPUD_RDMA_REMOTE_WRITE, region, &way, error);
        if (status != GPUD_OK)
            return status;
        made.handle[i] = handle_of(*region, ring->slot_size * ring->slots_per_memory);
    }
    *description = made;
    return GPUD_OK;
}

static enum gpud_status attach_ring(struct gpud_remote *base,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size, struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    uint64_t memory_size;
    uint32_t memories = description->memories, slots = description->slots_per_memory;
    if (memories < 1 || memories > GPUD_RING_MEMORIES_MAX || slots < 1 ||
        slots > GPUD_RING_SLOTS_MAX ||
        __builtin_mul_overflow(description->slot_size, slots, &memory_size))
        return gpud_fail(error, GPUD_PEER,
                         "the receiver's ring is impossible: %u memories of %u slots of "
                         "%llu bytes",
                         memories, slots, (unsigned long long)description->slot_size);
    if (frame_size == 0 || description->slot_size < frame_size || memories * slots < entries)
        return gpud_fail(
            error, GPUD_PEER,
            "the receiver's ring has %u slots of %llu bytes, and %u of %llu are needed",
            memories * slots, (unsigned long long)description->slot_size, entries,
            (unsigned long long)frame_size);
    for (uint32_t i = 0; i < memories; i++)
        if (!is_writable(&description->handle[i], memory_size))
            return gpud_fail(error, GPUD_PEER,
                             "the receiver's ring has memory that this side cannot write");
    remote->entries = entries;
    remote->frame_size = frame_size;
    remote->slot_size = description->slot_size;
    remote->slots_per_memory = slots;
    remote->memories = memories;
    memcpy(remote->ring, description->handle, memories * sizeof(remote->ring[0]));
    return GPUD_OK;
}

/* --- frames -------------------------------------------------------------------------------- */

static struct gpud_rdma_region *find_source(struct rdma_remote *remote,
                                            const struct gpud_memory *memory)
{
    struct gpud_rdma_region *found = NULL;
    gpud_lock_take(&remote->lock);
    for (uint32_t i = 0; i < remote->source_count && !found; i++)
        if (remote->sources[i].memory == memory)
            found = remote->sources[i].region;
    gpud_lock_release(&remote->lock);
    return found;
}

static bool keep_source(struct rdma_remote *remote, const struct rdma_source *source)
{
    gpud_lock_take(&remote->lock);
    struct rdma_source *sources =
        realloc(remote->sources, (remote->source_count + 1) * sizeof(*sources));
    if (sources) {
        remote->sources = sources;
        sources[remote->source_count++] = *source;
    }
    gpud_lock_release(&remote->lock);
    return sources != NULL;
}

static enum gpud_status add_source(struct gpud_remote *base, struct gpud_memory *memory,
                                   struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct rdma_source source = {.memory = memory};
    enum gpud_rdma_way way;
    if (find_source(remote, memory))
        return GPUD_OK;
    enum gpud_status status = gpud_rdma_register_memory(remote->rdma, memory, GPUD_RDMA_LOCAL,
                                                        &source.region, &way, error);
    if (status == GPUD_OK && !keep_source(remote, &source)) {
        gpud_rdma_unregister(&source.region);
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
    }
    return status;
}

static bool has_room(struct gpud_remote *base)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    return gpud_rdma_catch_up_record(remote) &&
           gpud_rdma_has_room(remote->rdma, remote->frame_size);
}

static enum gpud_status write_frame(struct gpud_remote *base, uint32_t entry, uint64_t at,
                                    struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                    struct gpud_error *error)
{
    struct rdma_remote *remote = (struct rdma_remote *)base;
    struct gpud_rdma_region *region = find_source(remote, memory);
    if (!region || entry >= remote->entries || at > remote->slot_size ||
        size > remote->slot_size - at)
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes at %llu for entry %u of %u, of memory that was %sadded",
                         (unsigned long long)size, (unsigned long long)at, entry, remote->entries,
                         region ? "" : "not ");
    const struct gpud_handle *to = &remote->ring[entry / remote->slots_per_memory];
    struct gpud_rdma_transfer transfer = {
        .local = region,
        .local_offset = offset,
        .remote_address = to->word[0] + entry % remote->slots_per_memory * remote->slot_size + at,
        .remote_key = (uint32_t)to->word[1],
        .size = size,
    };
    gpud_lock_take(&remote->lock);
    bool is_behind = remote->is_behind; /* earlier words are not written yet */
    gpud_lock_release(&remote->lock);
    if (is_behind)
        return gpud_fail(error, GPUD_AGAIN, "the network card's queue is full");
    return gpud_rdma_write(remote->rdma, &transfer, error);
}

/* --- the end ------------------------------------------------------------------------------- */

static void detach(struct gpud_remote *base)
{
    gpud_rdma_stop_publishing((struct rdma_remote *)base);
}

/* Waits until the card no longer reads this side's memory. Handles rdma_cm's events meanwhile: they
 * report that the peer closed the connection long before the card's retries run out. */
static void drain(struct rdma_remote *remote)
{
    struct rdma_channel *channel = remote->channel;
    uint64_t posted = gpud_rdma_posted(remote->rdma);
    int64_t deadline = gpud_deadline(DRAIN_MAX);
    while (gpud_now() < deadline) {
        if (gpud_rdma_drain(remote->rdma, posted, gpud_deadline(DRAIN_SLICE), NULL) != GPUD_TIMEOUT)
            return;
        gpud_lock_take(&channel->lock);
        gpud_rdma_drive_locked(channel);
        gpud_lock_release(&channel->lock);
    }
    gpud_lock_take(&channel->lock);
    gpud_rdma_disconnect_locked(channel, "the peer took more than a second to receive the data");
    gpud_rdma_end(remote->rdma);
    gpud_lock_release(&channel->lock);
}

static void destroy(struct gpud_remote *base)
{
    struct rdma_remote *remote = (struct rdma_remote *)base, **link;
    struct rdma_channel *channel = remote->channel;
    struct gpud_channel *kept = &channel->base;
    gpud_rdma_stop_publishing(remote);
    drain(remote);
    for (uint32_t i = 0; i < remote->source_count; i++)
        gpud_rdma_unregister(&remote->sources[i].region);
    gpud_lock_take(&channel->records_lock);
    for (link = &channel->records; *link != remote; link = &(*link)->next)
        ;
    *link = remote->next;
    remote->next = channel->retired;
    channel->retired = remote;
    gpud_lock_release(&channel->records_lock);
    gpud_rdma_collect_records(channel, false);
    gpud_channel_unref(&kept);
}

static void describe(const struct gpud_channel *base, struct gpud_device *device,
                     struct gpud_network *network)
{
    const struct rdma_channel *channel = (const struct rdma_channel *)base;
    struct gpud_network made = {.ways = 0};
    if (atomic_load(&base->connected)) {
        gpud_print(made.card, "%s", gpud_rdma_card(channel->rdma));
        made.ways = GPUD_NETWORK_HOST;
        bool is_host = device->caps & GPUD_CAP_HOST;
        if (!is_host && gpud_rdma_has_dmabuf(channel->rdma, device, made.no_dmabuf))
            made.ways |= GPUD_NETWORK_DMABUF;
        if (!is_host && gpud_rdma_has_peermem(channel->rdma, device, made.no_peermem))
            made.ways |= GPUD_NETWORK_PEERMEM;
    }
    *network = made;
}

const struct gpud_remote_ops gpud_rdma_remote_ops = {
    .carrier = &gpud_rdma_carrier,
    .describe = describe,
    .create = create,
    .attach = attach,
    .expose = expose,
    .attach_ring = attach_ring,
    .share_metas = share_metas,
    .add_source = add_source,
    .has_room = has_room,
    .write = write_frame,
    .write_meta = write_meta,
    .detach = detach,
    .destroy = destroy,
};
