/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A link over TCP: its page, its ring and its large metas, see wire/wire.h. */
#include "wire/tcp/tcp.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* How long destroying a link waits for what was published to be sent. */
#define DRAIN_MAX GPUD_SEC
#define DRAIN_NAP (GPUD_MSEC / 2)

/* A page's sleeper checks the peer so often at least; the connection's end wakes it before. */
#define ASK_AFTER (2 * GPUD_SEC)

static struct tcp_remote *remote_of(const struct gpud_page_end *end)
{
    return (struct tcp_remote *)end->remote;
}

static size_t own_size(const struct tcp_remote *remote)
{
    return remote->is_sender ? sizeof(struct gpud_sender_half) : sizeof(struct gpud_receiver_half);
}

static char *half_of(const struct tcp_remote *remote, bool senders)
{
    struct gpud_page *page = remote->base.page;
    return senders ? (char *)&page->sender : (char *)&page->receiver;
}

/* Out of memory: the other side would miss something. */
static void give_up(struct tcp_channel *channel)
{
    if (!channel->hung_up)
        gpud_fail(&channel->end, GPUD_NO_MEMORY, "out of memory for a connection");
    channel->hung_up = true;
    gpud_event_raise(channel->event);
}

/* === the page ================================================================================ */

static bool is_published(const struct tcp_remote *remote)
{
    return remote->peer_number && !remote->detached && !remote->channel->ended;
}

/* Queues the range unless it is as it was; or, with TCP_WAKE, in any case. */
static bool publish_flagged(const struct gpud_page_end *end, size_t offset, size_t size,
                            uint16_t flags)
{
    struct tcp_remote *remote = remote_of(end);
    struct tcp_channel *channel = remote->channel;
    struct tcp_header header = {.type = TCP_RANGE, .flags = flags, .offset = offset};
    gpud_lock_take(&channel->lock);
    bool some = is_published(remote);
    header.link = remote->peer_number;
    size = (size + 3) & ~(size_t)3;
    while (some && size > 0) {
        size_t part = size < TCP_RANGE_MAX ? size : TCP_RANGE_MAX;
        if (gpud_remote_copy(remote->published + header.offset,
                             half_of(remote, remote->is_sender) + header.offset, part)) {
            header.size = (uint32_t)part;
            header.flags = part == size ? flags : 0;
            if (!gpud_io_queue_small(channel, remote, &header, remote->published + header.offset))
                give_up(channel);
            flags &= header.flags == flags ? 0 : flags;
        }
        header.offset += part;
        size -= part;
    }
    if (some && flags) { /* nothing has changed, or there was nothing to publish */
        header.size = 0;
        header.flags = flags;
        header.offset = 0;
        if (!gpud_io_queue_small(channel, remote, &header, NULL))
            give_up(channel);
    }
    if (some)
        gpud_io_wake(channel);
    gpud_lock_release(&channel->lock);
    return some;
}

static void publish(const struct gpud_page_end *end, size_t offset, size_t size)
{
    publish_flagged(end, offset, size, 0);
}

static bool notify(struct gpud_page_end *end)
{
    return publish_flagged(end, 0, 0, TCP_WAKE);
}

static bool publish_and_notify(struct gpud_page_end *end, size_t offset, size_t size)
{
    return publish_flagged(end, offset, size, TCP_WAKE);
}

/* A side sleeps on its own page, as on shared memory: the I/O thread is what wakes it. */
static const struct gpud_page_carrier carrier = {
    .name = "TCP",
    .ask_after = ASK_AFTER,
    .publish = publish,
    .notify = notify,
    .publish_and_notify = publish_and_notify,
};

bool gpud_remote_store(struct tcp_remote *remote, const struct tcp_header *header,
                       const uint8_t *bytes)
{
    char *half = half_of(remote, !remote->is_sender);
    size_t size = sizeof(struct gpud_page) - own_size(remote);
    if (header->offset % 4 || header->size % 4 || header->offset > size ||
        header->size > size - header->offset)
        return false;
    for (uint32_t at = 0; at < header->size; at += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, bytes + at, sizeof(word));
        /* What was published before is visible before: a counter behind what it counts. */
        atomic_store_explicit((_Atomic uint32_t *)(void *)(half + header->offset + at), word,
                              memory_order_release);
    }
    /* A thread may wait for more rows of one picture. */
    size_t lines = offsetof(struct gpud_sender_half, lines);
    if (!remote->is_sender && header->offset >= lines && header->size == sizeof(uint32_t) &&
        header->offset < lines + sizeof(((struct gpud_sender_half *)NULL)->lines))
        gpud_futex_wake((_Atomic uint32_t *)(void *)(half + header->offset));
    if (header->flags & TCP_WAKE)
        gpud_remote_wake(remote);
    return true;
}

void gpud_remote_wake(struct tcp_remote *remote)
{
    struct tcp_channel *channel = remote->channel;
    uint32_t sleep = gpud_waker_look(&remote->waker);
    if (!sleep || !gpud_waker_claim(&remote->waker, sleep))
        return;
    if ((sleep & GPUD_SLEEP_MODES) != GPUD_SLEEP_POLL) {
        gpud_waker_kick(&remote->waker);
        return;
    }
    atomic_store(&channel->kicked, true); /* that thread polls the connection */
    gpud_event_raise(channel->event);
}

/* === the record ============================================================================== */

/* Shared, as rdma's, so that a child of fork() does not double them. */
static void *map_pages(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static void free_record(struct tcp_remote *remote)
{
    if (remote->metas)
        munmap(remote->metas, remote->metas_size);
    if (remote->base.page)
        munmap(remote->base.page, sizeof(struct gpud_page) + own_size(remote));
    free(remote);
}

static struct gpud_handle handle_of(const struct tcp_remote *remote, uint64_t size)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_NETWORK,
        .fd = -1,
        .size = size,
        .word = {remote->number},
    };
}

static enum gpud_status create(struct gpud_channel *base, struct gpud_remote **remote,
                               struct gpud_handle *page, struct gpud_error *error)
{
    struct tcp_channel *channel = (struct tcp_channel *)base;
    struct tcp_remote *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
    made->base.ops = &gpud_tcp_remote_ops;
    made->channel = channel;
    made->is_sender = channel->is_sender;
    made->base.page = map_pages(sizeof(struct gpud_page) + own_size(made));
    if (!made->base.page) {
        free_record(made);
        return gpud_fail_errno(error, "no memory for a ring page");
    }
    made->published = (char *)(made->base.page + 1);
    struct gpud_page *own = made->base.page;
    made->waker.asleep = made->is_sender ? &own->sender.asleep : &own->receiver.asleep;
    made->waker.kicks = made->is_sender ? &own->receiver.kicks : &own->sender.kicks;
    gpud_lock_take(&channel->receive_lock);
    gpud_lock_take(&channel->lock);
    bool open = channel->phase == TCP_OPEN && !channel->ended && !channel->hung_up;
    if (channel->ended) /* what the peer did meanwhile is why there is no link */
        gpud_fail(error, GPUD_PEER, "%s", channel->end.reason);
    else if (!open)
        gpud_fail(error, GPUD_PEER, "%s is not connected", channel->where);
    if (open) {
        made->number = (uint32_t)++channel->remote_count;
        made->next = channel->remotes;
        channel->remotes = made;
    }
    gpud_lock_release(&channel->lock);
    gpud_lock_release(&channel->receive_lock);
    if (!open) {
        free_record(made);
        return GPUD_PEER;
    }
    gpud_channel_ref(base);
    *page = handle_of(made, sizeof(struct gpud_page) - own_size(made));
    *remote = &made->base;
    return GPUD_OK;
}

static enum gpud_status attach(struct gpud_remote *base, const struct gpud_handle *page,
                               struct gpud_error *error)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    struct tcp_channel *channel = remote->channel;
    if (page->type != GPUD_HANDLE_NETWORK || page->size != own_size(remote) || page->word[0] == 0 ||
        page->word[0] > UINT32_MAX)
        return gpud_fail(error, GPUD_PEER, "this side cannot write the peer's ring page");
    gpud_lock_take(&channel->lock);
    remote->peer_number = (uint32_t)page->word[0];
    gpud_lock_release(&channel->lock);
    return GPUD_OK;
}

static enum gpud_status expose(struct gpud_remote *base, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    struct tcp_channel *channel = remote->channel;
    struct gpud_ring_description made = {
        .slot_size = ring->slot_size,
        .slots_per_memory = ring->slots_per_memory,
        .memories = ring->memories,
    };
    for (uint32_t i = 0; i < ring->memories; i++) {
        if (!ring->memory[i]->host)
            return gpud_fail(error, GPUD_UNSUPPORTED, "TCP needs a ring in host memory");
        made.handle[i] = handle_of(remote, ring->slot_size * ring->slots_per_memory);
    }
    gpud_lock_take(&channel->receive_lock);
    for (uint32_t i = 0; i < ring->memories; i++)
        remote->ring[i] = ring->memory[i]->host;
    remote->slot_size = ring->slot_size;
    remote->slots_per_memory = ring->slots_per_memory;
    remote->entries = ring->memories * ring->slots_per_memory;
    gpud_lock_release(&channel->receive_lock);
    *description = made;
    return GPUD_OK;
}

static enum gpud_status attach_ring(struct gpud_remote *base,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size, struct gpud_error *error)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    enum gpud_status status = gpud_remote_check_ring(description, entries, frame_size, error);
    if (status != GPUD_OK)
        return status;
    remote->entries = entries;
    remote->slot_size = description->slot_size;
    return GPUD_OK;
}

static enum gpud_status share_metas(struct gpud_remote *base, uint64_t size,
                                    struct gpud_handle *handle, void **metas,
                                    struct gpud_error *error)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    if (remote->is_sender && (handle->type != GPUD_HANDLE_NETWORK || handle->size < size))
        return gpud_fail(error, GPUD_PEER,
                         "this side cannot write the receiver's memory for large metas");
    void *made = map_pages(size);
    if (!made)
        return gpud_fail_errno(error, "no memory for large metas");
    gpud_lock_take(&remote->channel->receive_lock);
    remote->metas = made;
    remote->metas_size = size;
    gpud_lock_release(&remote->channel->receive_lock);
    if (!remote->is_sender)
        *handle = handle_of(remote, size);
    *metas = made;
    return GPUD_OK;
}

bool gpud_remote_find_place(const struct tcp_remote *remote, const struct tcp_header *header,
                            char **place)
{
    uint64_t room = header->type == TCP_META ? remote->metas_size : remote->slot_size;
    if (header->offset > room || header->size > room - header->offset)
        return false;
    if (header->type == TCP_META) {
        *place = (char *)remote->metas + header->offset;
        return true;
    }
    if (header->entry >= remote->entries)
        return false;
    *place = remote->ring[header->entry / remote->slots_per_memory] +
             header->entry % remote->slots_per_memory * remote->slot_size + header->offset;
    return true;
}

/* === frames ================================================================================== */

/* Nothing has to be registered: the socket takes any memory of the CPU. */
static enum gpud_status add_source(struct gpud_remote *base, struct gpud_memory *memory,
                                   struct gpud_error *error)
{
    if (memory->host)
        return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED, "TCP needs frames in host memory");
}

static void catch_up(struct gpud_remote *base)
{
    /* What is published is queued without a limit: its frames have entries. */
}

static bool has_room(struct gpud_remote *base)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    struct tcp_channel *channel = remote->channel;
    gpud_lock_take(&channel->lock);
    bool has = channel->ended || channel->large_count < TCP_ROOM;
    remote->wants_room = !has;
    gpud_lock_release(&channel->lock);
    return has;
}

static enum gpud_status queue(struct tcp_remote *remote, enum tcp_record type, uint32_t entry,
                              uint64_t at, const void *bytes, uint64_t size,
                              struct gpud_error *error)
{
    struct tcp_channel *channel = remote->channel;
    bool queued = true;
    gpud_lock_take(&channel->lock);
    if (is_published(remote) && size > 0) {
        queued = gpud_io_queue_large(channel, remote, type, entry, at, bytes, size);
        gpud_io_wake(channel);
    }
    gpud_lock_release(&channel->lock);
    return queued ? GPUD_OK : gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame");
}

static enum gpud_status write_frame(struct gpud_remote *base, uint32_t entry, uint64_t at,
                                    struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                    struct gpud_error *error)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    if (!memory->host || entry >= remote->entries || at > remote->slot_size ||
        size > remote->slot_size - at || offset > memory->size || size > memory->size - offset)
        return gpud_fail(error, GPUD_INVALID, "%llu bytes at %llu for entry %u of %u",
                         (unsigned long long)size, (unsigned long long)at, entry, remote->entries);
    return queue(remote, TCP_DATA, entry, at, (const char *)memory->host + offset, size, error);
}

static enum gpud_status write_meta(struct gpud_remote *base, uint64_t offset, uint64_t size,
                                   struct gpud_error *error)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    return queue(remote, TCP_META, 0, offset, (const char *)remote->metas + offset, size, error);
}

/* === the end ================================================================================= */

static void detach(struct gpud_remote *base)
{
    struct tcp_remote *remote = (struct tcp_remote *)base;
    gpud_lock_take(&remote->channel->lock);
    remote->detached = true;
    gpud_lock_release(&remote->channel->lock);
}

static void destroy(struct gpud_remote *base)
{
    struct tcp_remote *remote = (struct tcp_remote *)base, **link;
    struct tcp_channel *channel = remote->channel;
    struct gpud_channel *kept = &channel->base;
    int64_t deadline = gpud_deadline(DRAIN_MAX);
    gpud_lock_take(&channel->lock);
    remote->detached = true;
    /* In naps, for the caller may have a lock, with which no thread sleeps on a condition. */
    while (!channel->ended && gpud_io_has_pieces(channel, remote) && gpud_now() < deadline) {
        gpud_lock_release(&channel->lock);
        gpud_nap(DRAIN_NAP);
        gpud_lock_take(&channel->lock);
    }
    gpud_io_drop(channel, remote);
    gpud_lock_release(&channel->lock);
    gpud_lock_take(&channel->receive_lock);
    gpud_lock_take(&channel->lock);
    for (link = &channel->remotes; *link != remote; link = &(*link)->next)
        ;
    *link = remote->next;
    gpud_io_forget(channel, remote);
    gpud_lock_release(&channel->lock);
    gpud_lock_release(&channel->receive_lock);
    free_record(remote);
    gpud_channel_unref(&kept);
}

static void describe(const struct gpud_channel *base, struct gpud_device *device,
                     struct gpud_network *network)
{
    *network = (struct gpud_network){.card = "tcp", .ways = GPUD_NETWORK_TCP};
}

const struct gpud_remote_ops gpud_tcp_remote_ops = {
    .carrier = &carrier,
    .describe = describe,
    .create = create,
    .attach = attach,
    .expose = expose,
    .attach_ring = attach_ring,
    .share_metas = share_metas,
    .add_source = add_source,
    .catch_up = catch_up,
    .has_room = has_room,
    .write = write_frame,
    .write_meta = write_meta,
    .detach = detach,
    .destroy = destroy,
};
