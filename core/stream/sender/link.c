/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver: its ring and page in one epoch, and its counters. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === transport =============================================================================== */
/* The sender's end of a link in one epoch: the receiver's ring page, the ring by its route, and the
 * published entries. Everything here is under the sender's lock, except where noted. Copies under
 * way hold a reference. */

/* The position of the next message among the frames. */
static inline uint32_t gpud_transport_position(const struct gpud_transport *transport)
{
    return transport->page.head + transport->pending;
}

/* How often to check for other events: a dead peer cannot wake this side. */
#define SLICE (50 * GPUD_MSEC)

/* Nor can a device that is still reading: checked at the pace of a frame. */
#define DEVICE_SLICE (50 * GPUD_USEC)

enum gpud_status gpud_transport_create(const struct gpud_route_ops *route,
                                       enum gpud_signal_place place, struct gpud_pool *pool,
                                       struct gpud_retired *retired,
                                       struct gpud_transport **transport, struct gpud_error *error)
{
    struct gpud_transport *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
    made->references = 1;
    made->route = route;
    made->on_host = gpud_ring_is_on_host(route->ring);
    made->place = place;
    made->retired = retired;
    if (pool) {
        made->pool = pool;
        made->known_memories = pool->ring.memories;
        gpud_pool_ref(pool);
    }
    *transport = made;
    return GPUD_OK;
}

/* Wakes a receiver that polls the channel. */
static void send_kick(void *arg)
{
    const struct gpud_transport *transport = arg;
    struct gpud_message kick = {.type = GPUD_MESSAGE_KICK};
    gpud_channel_send(transport->channel, &kick, NULL);
}

static enum gpud_status import_ring(struct gpud_transport *transport, struct gpud_device *device,
                                    struct gpud_device *host, const struct gpud_accept *accept,
                                    bool local, uint64_t frame_size, struct gpud_error *error)
{
    struct gpud_ring *ring = &transport->ring;
    struct gpud_queue **queues[] = {&transport->queues.copy, &transport->queues.post,
                                    &transport->queues.wait};
    for (int i = 0; i < 3 && transport->place == GPUD_SIGNAL_PAGE; i++) {
        enum gpud_status made = gpud_queue_create(device, queues[i], error);
        if (made != GPUD_OK)
            return made;
    }
    gpud_ring_init(ring, transport->on_host ? host : device, GPUD_USAGE_TARGET, frame_size, 1);
    /* Pinning allocates host pages, so no more are accepted than frames need. */
    if (transport->on_host &&
        (accept->ring.memories != 1 || accept->ring.slot_size != ring->slot_size ||
         accept->ring.slots_per_memory != accept->entries))
        return gpud_fail(error, GPUD_PEER,
                         "the receiver offers %u memories of %u slots of %llu bytes, where one of "
                         "%u slots of %llu bytes is needed",
                         accept->ring.memories, accept->ring.slots_per_memory,
                         (unsigned long long)accept->ring.slot_size, accept->entries,
                         (unsigned long long)ring->slot_size);
    enum gpud_status status = gpud_ring_import(ring, &accept->ring, local, frame_size, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_ring_slots(ring) < accept->entries ||
        (transport->route->memory_per_slot && ring->slots_per_memory != 1))
        return gpud_fail(error, GPUD_PEER, "the receiver offers %u entries and %u slots",
                         accept->entries, gpud_ring_slots(ring));
    status = gpud_ring_view(ring, device, 0, transport->views, error);
    if (status != GPUD_OK)
        return status;
    for (uint32_t i = 0; transport->place == GPUD_SIGNAL_MEMORY && i < accept->entries; i++) {
        status = gpud_signal_import(ring->memory[i], 0, &transport->signal[i], error);
        if (status != GPUD_OK)
            return status;
    }
    return GPUD_OK;
}

/* Maps the receiver's page. */
static enum gpud_status map_page(const struct gpud_accept *accept, struct gpud_page **page,
                                 struct gpud_error *error)
{
    void *mapped;
    if (accept->page.type != GPUD_HANDLE_MEMFD)
        return gpud_fail(error, GPUD_PEER, "the receiver's ring page is not shared memory");
    enum gpud_status status =
        gpud_memfd_map(accept->page.fd, sizeof(struct gpud_page), true, &mapped, error);
    if (status != GPUD_OK)
        return gpud_page_check_version(accept->page.fd, error) == GPUD_PEER ? GPUD_PEER : status;
    *page = mapped;
    return GPUD_OK;
}

static enum gpud_status open_page(struct gpud_transport *transport, uint32_t credits,
                                  struct gpud_remote *remote, const struct gpud_accept *accept,
                                  struct gpud_error *error)
{
    struct gpud_page *page = NULL;
    enum gpud_status status =
        remote ? remote->ops->attach(remote, &accept->page, error) : map_page(accept, &page, error);
    if (status != GPUD_OK)
        return status;
    /* A pool has a share for each receiver: more credits would use others' slots. */
    status = gpud_page_tx_init(
        &transport->page, remote ? remote->page : page, remote, accept->entries,
        gpud_transport_shares_slots(transport) ? credits : accept->entries, error);
    if (status != GPUD_OK)
        gpud_memory_unmap_pages(page, sizeof(struct gpud_page));
    return status;
}

/* Maps the receiver's memory for large metas, or makes memory to write them from. */
static enum gpud_status open_metas(struct gpud_transport *transport, struct gpud_remote *remote,
                                   const struct gpud_accept *accept, uint32_t large_meta_max,
                                   struct gpud_error *error)
{
    struct gpud_handle handle = accept->large_metas;
    if (handle.type == GPUD_HANDLE_NONE)
        return GPUD_OK;
    transport->meta_room = gpud_large_meta_room(large_meta_max);
    transport->metas_size = transport->page.offered * transport->meta_room;
    if (remote)
        return remote->ops->share_metas(remote, transport->metas_size, &handle, &transport->metas,
                                        error);
    if (handle.type != GPUD_HANDLE_MEMFD)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver's memory for large metas is not shared memory");
    return gpud_memfd_map(handle.fd, transport->metas_size, true, &transport->metas, error);
}

/* Attaches the receiver's ring, and registers our own with the card. */
static enum gpud_status open_remote(struct gpud_transport *transport, struct gpud_remote *remote,
                                    const struct gpud_accept *accept, uint64_t frame_size,
                                    struct gpud_error *error)
{
    const struct gpud_ring *ring = &transport->pool->ring;
    enum gpud_status status =
        remote->ops->attach_ring(remote, &accept->ring, accept->entries, frame_size, error);
    for (uint32_t i = 0; i < transport->known_memories && status == GPUD_OK; i++)
        status = remote->ops->add_source(remote, ring->memory[i], error);
    return status;
}

enum gpud_status gpud_transport_connect(struct gpud_transport *transport, uint32_t credits,
                                        struct gpud_device *device, struct gpud_device *host,
                                        struct gpud_channel *channel, struct gpud_remote *remote,
                                        const struct gpud_accept *accept, bool local,
                                        uint64_t frame_size, uint32_t large_meta_max,
                                        struct gpud_error *error)
{
    enum gpud_status status = open_page(transport, credits, remote, accept, error);
    if (status != GPUD_OK)
        return status;
    transport->channel = channel;
    transport->page.end.send_kick = send_kick;
    transport->page.end.send_kick_arg = transport;
    if (transport->place == GPUD_SIGNAL_PAGE) {
        status = gpud_watchdog_create(device, transport->page.page, accept->entries, channel,
                                      GPUD_SIDE_SENDER, &transport->watchdog, error);
        if (status != GPUD_OK) {
            transport->page.page = NULL; /* freed with the watchdog */
            return status;
        }
    }
    status = open_metas(transport, remote, accept, large_meta_max, error);
    if (status != GPUD_OK)
        return status;
    if (remote)
        status = open_remote(transport, remote, accept, frame_size, error);
    else if (!gpud_transport_shares_slots(transport))
        status = import_ring(transport, device, host, accept, local, frame_size, error);
    else if (accept->ring.memories)
        status = gpud_fail(error, GPUD_PEER, "the receiver sent a ring although ours is used");
    return status;
}

struct gpud_memory *gpud_transport_slot(const struct gpud_transport *transport, uint32_t entry,
                                        uint64_t *offset)
{
    gpud_ring_slot(&transport->ring, entry, offset);
    return transport->views[entry / transport->ring.slots_per_memory];
}

bool gpud_transport_has_room(const struct gpud_transport *transport)
{
    return !transport->remote || transport->remote->ops->has_room(transport->remote);
}

static void transport_destroy(struct gpud_transport *gone)
{
    if (gone->remote) /* first, because its card reads the slots */
        gone->remote->ops->destroy(gone->remote);
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++) {
        gpud_signal_destroy(&gone->signal[i]);
        if (gone->slot_of[i])
            gpud_slot_drop(gone->slot_of[i]);
    }
    if (!gone->page.end.remote)
        gpud_memory_unmap_pages(gone->metas, gone->metas_size);
    gpud_ring_finish(&gone->ring);
    gpud_queue_unref(&gone->queues.copy);
    gpud_queue_unref(&gone->queues.post);
    gpud_queue_unref(&gone->queues.wait);
    gpud_queue_unref(&gone->queues.own);
    if (gone->watchdog)
        gpud_watchdog_end(&gone->watchdog, NULL, NULL);
    else if (!gone->page.end.remote)
        gpud_memory_unmap_pages(gone->page.page, sizeof(struct gpud_page));
    gpud_pool_unref(&gone->pool);
    free(gone);
}

void gpud_transport_unref(struct gpud_transport **transport)
{
    if (!*transport)
        return;
    struct gpud_transport *gone = *transport;
    *transport = NULL;
    if (--gone->references)
        return;
    if (gone->retired->wake < 0) {
        transport_destroy(gone);
        return;
    }
    gone->next_retired = gone->retired->first;
    gone->retired->first = gone;
    gpud_event_raise(gone->retired->wake);
}

struct gpud_transport *gpud_retired_take(struct gpud_retired *retired)
{
    struct gpud_transport *first = retired->first;
    retired->first = NULL;
    return first;
}

void gpud_retired_destroy(struct gpud_transport *first)
{
    while (first) {
        struct gpud_transport *gone = first;
        first = gone->next_retired;
        transport_destroy(gone);
    }
}

/* Whether the receiver, or its device, still uses frames. */
static bool transport_is_in_use(const struct gpud_transport *transport)
{
    return transport->page.page &&
           (gpud_page_count_out(&transport->page) || transport->releasing_count);
}

/* Invalidates the receiver's frames: a shared ring's slots will be overwritten. */
static void transport_take_all_back(struct gpud_transport *transport)
{
    if (gpud_transport_shares_slots(transport) && transport_is_in_use(transport))
        gpud_page_take_all_back(&transport->page);
}

static void drop_slot(struct gpud_transport *transport, uint32_t entry)
{
    struct gpud_slot *slot = transport->slot_of[entry];
    transport->slot_of[entry] = NULL;
    if (slot)
        gpud_slot_drop(slot);
}

/* Frees the releasing entry at this index. */
static void free_releasing(struct gpud_transport *transport, uint32_t place)
{
    uint32_t entry = transport->releasing[place];
    transport->releasing_count--;
    memmove(&transport->releasing[place], &transport->releasing[place + 1],
            (transport->releasing_count - place) * sizeof(entry));
    drop_slot(transport, entry);
    gpud_page_untake(&transport->page, entry);
}

/* Handles a returned entry, which the receiver's device may still be reading. */
static void transport_take_back(struct gpud_transport *transport, uint32_t entry)
{
    uint32_t top;
    GPUD_STOP_POINT("sender: reaped");
    if (!transport->watchdog ||
        gpud_watchdog_reached(transport->watchdog, entry, transport->value_of[entry])) {
        drop_slot(transport, entry);
        return;
    }
    gpud_page_take(&transport->page, &top); /* the same entry, which was just put there */
    transport->releasing[transport->releasing_count++] = entry;
}

enum gpud_status gpud_transport_reap(struct gpud_transport *transport, struct gpud_error *error)
{
    uint32_t entry;
    int got;
    for (uint32_t i = 0; i < transport->releasing_count;) {
        entry = transport->releasing[i];
        if (gpud_watchdog_reached(transport->watchdog, entry, transport->value_of[entry]))
            free_releasing(transport, i);
        else
            i++;
    }
    while ((got = gpud_page_reap(&transport->page, &entry)) > 0)
        transport_take_back(transport, entry);
    if (got < 0)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver broke the protocol: it gave back a frame it did not have");
    if (transport->watchdog && gpud_watchdog_is_broken(transport->watchdog))
        return gpud_fail(error, GPUD_PEER,
                         "the receiver gave frames back and its device did not finish with them "
                         "within %d s",
                         (int)(GPUD_WATCHDOG_TIMEOUT / GPUD_SEC));
    return GPUD_OK;
}

bool gpud_transport_await_release(struct gpud_transport *transport, struct gpud_queue *queue)
{
    if (transport->releasing_count == 0)
        return false;
    uint32_t entry = transport->releasing[0];
    if (transport->queues.wait)
        queue = transport->queues.wait;
    if (!gpud_watchdog_is_free(transport->watchdog, entry) ||
        gpud_watchdog_wait(transport->watchdog, entry, transport->value_of[entry], queue, NULL) !=
            GPUD_OK)
        return false;
    if (transport->queues.wait && gpud_queue_join(transport->queues.copy, queue, NULL) != GPUD_OK)
        return false;
    free_releasing(transport, 0);
    return true;
}

bool gpud_transport_is_drained(const struct gpud_transport *transport)
{
    return transport->watchdog &&
           gpud_watchdog_is_posted(transport->watchdog, transport->last_posted);
}

enum gpud_status gpud_transport_post(struct gpud_transport *transport, uint32_t entry,
                                     struct gpud_queue *queue, struct gpud_error *error)
{
    uint32_t value = transport->value_of[entry];
    transport->last_posted = entry;
    return transport->watchdog ? gpud_watchdog_post(transport->watchdog, entry, value, queue, error)
                               : gpud_signal_post(transport->signal[entry], value, queue, error);
}

enum gpud_status gpud_transport_revoke(struct gpud_transport *transport, struct gpud_error *error)
{
    uint32_t entry;
    int got = gpud_page_revoke(&transport->page, &entry);
    if (got < 0)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver broke the protocol: it claimed a frame that was never sent");
    if (got == 0)
        return GPUD_AGAIN;
    GPUD_STOP_POINT("sender: revoked");
    drop_slot(transport, entry);
    return GPUD_OK;
}

/* The entry's large meta. */
static char *meta_of(const struct gpud_transport *transport, uint32_t entry)
{
    return (char *)transport->metas + entry * transport->meta_room;
}

void gpud_transport_describe(struct gpud_transport *transport, uint32_t entry,
                             const struct gpud_frame_info *info, struct gpud_slot *slot,
                             uint64_t sequence, uint64_t dropped, uint64_t submitted)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, entry);
    descriptor->sequence = sequence;
    descriptor->dropped = dropped;
    descriptor->pts = info->pts_ns;
    descriptor->dts = info->dts_ns;
    descriptor->duration = info->duration_ns;
    descriptor->offset = info->offset;
    descriptor->submit_time = submitted;
    descriptor->slot = slot && !transport->remote ? slot->frame.slot : entry;
    transport->value_of[entry] = transport->place == GPUD_SIGNAL_NONE ? 0 : ++transport->value;
    descriptor->value = transport->value_of[entry];
    descriptor->flags = info->flags;
    descriptor->bytes = info->bytes;
    descriptor->meta_size = info->meta_size;
    memcpy(descriptor->meta, info->meta, info->meta_size);
    size_t large = transport->metas ? info->large_meta_size : 0;
    descriptor->large_meta_size = (uint32_t)large;
    if (large > 0)
        memcpy(meta_of(transport, entry), info->large_meta, large);
    if (slot) {
        gpud_slot_hold(slot);
        transport->slot_of[entry] = slot;
    }
    transport->pending++;
}

static enum gpud_status write_meta(struct gpud_transport *transport, uint32_t entry)
{
    uint32_t size = gpud_page_descriptor(&transport->page, entry)->large_meta_size;
    return size > 0 ? transport->remote->ops->write_meta(transport->remote,
                                                         entry * transport->meta_room, size, NULL)
                    : GPUD_OK;
}

/* Writes the slot's bytes, ahead of the words. A failure ends the connection and with it the link,
 * which the listener's thread handles. */
static void write_slot(struct gpud_transport *transport, uint32_t entry)
{
    const struct gpud_slot *slot = transport->slot_of[entry];
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, entry);
    if (!slot || descriptor->flags & GPUD_FRAME_VOID)
        return;
    uint64_t size = slot->frame.info.layout.size, bytes = descriptor->bytes;
    if (bytes == 0 || bytes > size)
        bytes = size;
    struct gpud_remote *remote = transport->remote;
    enum gpud_status status =
        remote->ops->write(remote, entry, 0, slot->frame.memory, slot->frame.offset, bytes, NULL);
    if (status == GPUD_OK)
        status = write_meta(transport, entry);
    if (status != GPUD_OK)
        descriptor->flags |= GPUD_FRAME_VOID;
}

bool gpud_transport_publish(struct gpud_transport *transport, uint32_t entry)
{
    transport->pending--;
    if (transport->remote)
        write_slot(transport, entry);
    return gpud_page_hand_over(&transport->page, entry);
}

bool gpud_transport_publish_early(struct gpud_transport *transport, uint32_t entry,
                                  uint64_t sequence)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, entry);
    bool described = !transport->remote || write_meta(transport, entry) == GPUD_OK;
    transport->written[entry] = described ? sequence : 0;
    transport->sent[entry] = 0;
    descriptor->flags |= described ? GPUD_FRAME_BY_LINES : GPUD_FRAME_VOID;
    gpud_page_set_lines(&transport->page, entry, 0);
    transport->pending--;
    return gpud_page_hand_over(&transport->page, entry);
}

/* Writes the slot's rows up to `lines`, plane by plane, ahead of the word; true: they are. Rows
 * that are too few for a step, or for which the card has no room, are written with the next ones.
 */
static bool write_rows(struct gpud_transport *transport, uint32_t entry, uint32_t lines, bool last)
{
    struct gpud_remote *remote = transport->remote;
    const struct gpud_slot *slot = transport->slot_of[entry];
    struct gpud_rows rows = {transport->sent[entry], lines};
    if (!slot)
        return true; /* the frame was given back */
    const struct gpud_layout *layout = &slot->frame.info.layout;
    if (!last && rows.to - rows.from < gpud_lines_step(layout->height))
        return false;
    remote->ops->catch_up(remote);
    for (uint32_t i = 0; i < layout->planes; i++) {
        uint64_t at, size;
        gpud_rows_of_plane(layout, i, rows, &at, &size);
        if (size > 0 && remote->ops->write(remote, entry, at, slot->frame.memory,
                                           slot->frame.offset + at, size, NULL) != GPUD_OK)
            return false;
    }
    transport->sent[entry] = lines;
    return true;
}

/* Model (tests/model/steps.pml): set_lines. */
bool gpud_transport_set_lines(struct gpud_transport *transport, uint32_t entry, uint64_t sequence,
                              uint32_t lines, bool last)
{
    if (transport->written[entry] != sequence)
        return false;
    if (transport->remote && lines != GPUD_LINES_LOST &&
        !write_rows(transport, entry, lines, last)) {
        if (!last)
            return true;
        lines = GPUD_LINES_LOST;
    }
    if (last)
        transport->written[entry] = 0;
    gpud_page_set_lines(&transport->page, entry, lines);
    return lines != GPUD_LINES_LOST;
}

bool gpud_transport_announce(struct gpud_transport *transport, uint32_t more)
{
    const struct gpud_page_tx *page = &transport->page;
    if (!page->free_count && !gpud_page_has_returns(page))
        more = 0; /* no credit is left for them */
    return gpud_page_announce(&transport->page, transport->pending + more);
}

void gpud_transport_untake(struct gpud_transport *transport, uint32_t entry)
{
    gpud_page_untake(&transport->page, entry);
}

/* Counts a sent message in the page. */
static void transport_count_message(struct gpud_transport *transport)
{
    gpud_page_count_message(&transport->page);
    gpud_page_notify(&transport->page.end);
}

bool gpud_transport_cancel(struct gpud_transport *transport, uint32_t entry)
{
    gpud_page_descriptor(&transport->page, entry)->flags |= GPUD_FRAME_VOID;
    drop_slot(transport, entry);
    return gpud_transport_publish(transport, entry);
}

/* --- sleeping for credits ------------------------------------------------------------------ */

static bool has_returns(void *arg)
{
    const struct gpud_credit_wait *wait = arg;
    const struct gpud_receiver_half *theirs = &wait->page->page->receiver;
    return atomic_load_explicit(&theirs->returned, memory_order_acquire) != wait->returned ||
           atomic_load_explicit(wait->interrupted, memory_order_relaxed);
}

struct gpud_credit_wait gpud_transport_begin_wait(struct gpud_transport *transport,
                                                  const atomic_bool *interrupted)
{
    struct gpud_page_tx *page = &transport->page;
    return (struct gpud_credit_wait){
        .page = page,
        .returned = page->returned,
        /* Half the ring: one wake for several frames. A receiver that runs dry wakes us earlier. */
        .wanted = page->entries > 1 ? page->entries / 2 : 1,
        .by_device = transport->releasing_count > 0,
        .interrupted = interrupted,
    };
}

void gpud_transport_sleep(struct gpud_credit_wait *wait, struct gpud_spin *spin, int64_t deadline)
{
    /* While a device copies, spinning would only heat the processor. */
    if (!wait->by_device && gpud_spin(spin, has_returns, wait))
        return;
    int64_t start = gpud_now();
    int64_t slice = start + (wait->by_device ? DEVICE_SLICE : SLICE);
    atomic_store_explicit(&wait->page->page->sender.wanted, wait->wanted, memory_order_relaxed);
    gpud_page_sleep(&wait->page->end, has_returns, wait, slice < deadline ? slice : deadline);
    gpud_spin_learn(spin, gpud_now() - start);
}

void gpud_transport_wake_sender(struct gpud_transport *transport)
{
    if (transport->page.page)
        gpud_page_rouse(&transport->page.end);
}

/* --- measuring ----------------------------------------------------------------------------- */

/* Vendors' figures do not cover the bridges and sockets between two cards, so the rate is measured
 * before the first frame. Copies of smaller frames are too short to measure. */
#define SIZE_MIN (UINT64_C(1) << 20)
#define COPIES 4
#define PATIENCE GPUD_SEC

/* How many nanoseconds the copies take; 0: they failed or took too long. */
static int64_t time_copies(struct gpud_queue *queue, const struct gpud_copy *copy, unsigned count)
{
    int64_t start = gpud_now();
    for (unsigned i = 0; i < count; i++)
        if (gpud_queue_copy(queue, copy, NULL) != GPUD_OK)
            return 0;
    if (gpud_queue_flush(queue, NULL) != GPUD_OK ||
        gpud_queue_finish(queue, gpud_deadline(PATIENCE), NULL) != GPUD_OK)
        return 0;
    return gpud_now() - start;
}

double gpud_transport_measure(struct gpud_transport *transport, struct gpud_queue *queue,
                              uint64_t size)
{
    struct gpud_copy copy = {.row_bytes = size, .rows = 1};
    if (size < SIZE_MIN ||
        gpud_memory_alloc(queue->device, size, GPUD_MEMORY_PLAIN, &copy.from, NULL) != GPUD_OK)
        return 0;
    copy.to = gpud_transport_slot(transport, 0, &copy.to_offset);
    if (transport->queues.copy)
        queue = transport->queues.copy;
    int64_t time = 0;
    if (time_copies(queue, &copy, 1) > 0) /* the first copy warms up */
        time = time_copies(queue, &copy, COPIES);
    gpud_memory_unref(&copy.from);
    return time > 0 ? (double)size * COPIES * 1e9 / (double)time : 0;
}

/* === link ==================================================================================== */
/* One receiver: sending to it, and its end. Any thread may end a link, under the lock; the
 * listener's thread then logs it, notifies the application and frees the link (join.c). */

bool gpud_link_is_same_process(const struct gpud_link *link)
{
    return link->peer.token == link->sender->context->token;
}

/* Even in one process, another driver has to import a device's memory. */
bool gpud_link_goes_by_pointer(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return gpud_link_is_same_process(link) &&
           (pool->device == link->sender->host ||
            strcmp(link->peer.kind, gpud_device_kind(pool->device)) == 0);
}

void gpud_link_peer_info(const struct gpud_link *link, struct gpud_peer_info *info)
{
    *info = (struct gpud_peer_info){.id = link->id, .pid = link->channel->peer.pid};
    gpud_print(info->name, "%s", link->peer.name);
    gpud_print(info->path, "%s", link->transport ? link->transport->route->name : "none");
    gpud_print(info->fallback_reason, "%s", link->fallback_reason);
    gpud_print(info->host, "%s", link->channel->peer.host);
    info->same_clock = link->same_clock;
}

/* --- references ---------------------------------------------------------------------------- */

static void free_link(struct gpud_link *link)
{
    gpud_device_close(&link->peer_device);
    gpud_channel_unref(&link->channel);
    gpud_route_trials_destroy(&link->trials);
    free(link);
}

void gpud_link_unref(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    if (--link->references)
        return;
    link->next_retired = sender->retired_links;
    sender->retired_links = link;
    gpud_sender_wake_listener(sender);
}

void gpud_links_free(struct gpud_link *first)
{
    while (first) {
        struct gpud_link *gone = first;
        first = gone->next_retired;
        free_link(gone);
    }
}

/* --- messages ------------------------------------------------------------------------------ */

enum gpud_status gpud_link_try_send(struct gpud_link *link, struct gpud_message *message,
                                    struct gpud_error *error)
{
    bool placed = link->transport && link->transport->page.page;
    if (placed)
        message->position = gpud_transport_position(link->transport);
    enum gpud_status status = gpud_channel_send(link->channel, message, error);
    if (status == GPUD_PEER)
        return GPUD_OK;
    GPUD_STOP_POINT("sender: message sent, not counted");
    if (status == GPUD_OK && placed)
        transport_count_message(link->transport);
    return status;
}

void gpud_link_send(struct gpud_link *link, struct gpud_message *message)
{
    struct gpud_error error;
    if (gpud_link_try_send(link, message, &error) != GPUD_OK)
        gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
}

/* --- the end ------------------------------------------------------------------------------- */

void gpud_sender_changed(struct gpud_sender *sender)
{
    atomic_fetch_add(&sender->changes, 1);
    gpud_futex_wake(&sender->changes);
    gpud_event_raise(sender->loop.event);
}

struct gpud_waiting_frame *gpud_link_take_waiting(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = link->waiting.frames;
    link->waiting.frames = frame->next;
    link->waiting.count--;
    return frame;
}

void gpud_waiting_frame_free(struct gpud_waiting_frame *frame)
{
    gpud_large_meta_clear(&frame->info);
    gpud_slot_drop(frame->slot);
    free(frame);
}

void gpud_link_drop_waiting(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = gpud_link_take_waiting(link);
    bool had_ring = link->state >= GPUD_LINK_STREAMING && link->epoch == frame->slot->pool->epoch;
    gpud_link_count_drop(link, had_ring ? &link->dropped_oldest : &link->dropped_format);
    gpud_waiting_frame_free(frame);
}

/* Drops the waiting frames and messages. */
static void clear_waiting(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    while (waiting->first) {
        struct gpud_held_message *gone = waiting->first;
        waiting->first = gone->next;
        free(gone);
    }
    waiting->held = 0;
    while (waiting->frames)
        gpud_link_drop_waiting(link);
    waiting->owes_offer = false;
    waiting->give_up = waiting->look = 0;
}

/* Records why the link gets no more frames. */
static void note_end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    struct gpud_sender *sender = link->sender;
    if (link->end.is_set)
        return;
    link->end.is_set = true;
    link->end.level = level;
    gpud_print(link->end.why, "%s", why);
    if (link->streamed)
        sender->disconnects++;
    else
        atomic_fetch_add(&sender->refused, 1);
}

/* Wakes threads that wait for the link, or for slots that it held. */
static void wake_all(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    if (link->transport)
        gpud_transport_wake_sender(link->transport);
    gpud_sender_changed(sender);
    if (sender->device_pool)
        gpud_pool_wake(sender->device_pool);
    gpud_sender_wake_listener(sender);
}

void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    struct gpud_sender *sender = link->sender;
    if (link->state == GPUD_LINK_DEAD)
        return;
    note_end(link, level, why);
    gpud_link_uncount(link, gpud_link_count_untaken(link));
    link->state = GPUD_LINK_DEAD;
    clear_waiting(link);
    /* A receiver can only read our ring, so taking slots back is safe; it is marked in the page
     * before the connection ends and before a slot is overwritten. Model (tests/model): evict,
     * end.1 in ring.pml. */
    if (link->transport && !sender->closing)
        transport_take_all_back(link->transport);
    wake_all(link);
}

/* Takes back unclaimed frames; the receiver gives back those that it holds. Model (tests/model):
 * bye.2, bye.3 in ring.pml. */
void gpud_link_leave(struct gpud_link *link, const char *why)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    struct gpud_transport *transport = link->transport;
    while (transport && transport->page.page &&
           (status = gpud_transport_revoke(transport, &error)) == GPUD_OK)
        gpud_link_uncount(link, 1);
    if (transport && status == GPUD_AGAIN)
        status = gpud_transport_reap(transport, &error);
    if (status != GPUD_OK || !transport || transport->remote || !transport_is_in_use(transport)) {
        gpud_link_kill(link, GPUD_LOG_INFO, why);
    } else if (link->state != GPUD_LINK_DEAD) {
        note_end(link, GPUD_LOG_INFO, why);
        link->state = GPUD_LINK_LEAVING;
        link->deadline = INT64_MAX;
        clear_waiting(link);
        wake_all(link);
    }
}

/* === poll ==================================================================================== */
/* A descriptor for applications that submit from an event loop, armed when a call finds no slot or
 * no credit. Receivers then send a KICK over their channels when they give an entry back, and the
 * listener's thread reads it. */

/* How often to check a device: no descriptor reports that it has read a frame. */
#define DEVICE_LOOK (100 * GPUD_USEC)

static void watch_pools(struct gpud_sender *sender, int fd)
{
    if (sender->device_pool)
        gpud_pool_set_wake(sender->device_pool, fd);
    if (sender->host_pool)
        gpud_pool_set_wake(sender->host_pool, fd);
}

static bool has_slots(const struct gpud_sender *sender)
{
    return (sender->device_pool && gpud_pool_count_free(sender->device_pool)) ||
           (sender->host_pool && gpud_pool_count_free(sender->host_pool));
}

void gpud_sender_poll_ask(struct gpud_link *link)
{
    struct gpud_page_tx *page = &link->transport->page;
    link->kicks_due++;
    atomic_store_explicit(&page->page->sender.wanted, 1, memory_order_relaxed);
    gpud_page_poll_begin(&page->end);
}

/* Requests a KICK; true if an entry came back before. */
static bool arm_link(struct gpud_link *link, bool *device_reads)
{
    struct gpud_transport *transport = link->transport;
    if (!transport || !transport->page.page)
        return false;
    *device_reads |= transport->releasing_count > 0;
    gpud_sender_poll_ask(link);
    return gpud_page_has_returns(&transport->page);
}

void gpud_sender_poll_arm(struct gpud_sender *sender)
{
    bool ready = atomic_load(&sender->interrupted), device_reads = false;
    if (sender->loop.fd < 0)
        return;
    gpud_loop_drain(&sender->loop);
    sender->polls = true;
    watch_pools(sender, sender->loop.event);
    for (uint32_t i = 0; i < sender->link_count; i++)
        ready |= arm_link(sender->links[i], &device_reads);
    if (ready || (sender->lacks_slot && has_slots(sender)))
        gpud_event_raise(sender->loop.event);
    gpud_loop_set_timer(&sender->loop, device_reads ? gpud_now() + DEVICE_LOOK : INT64_MAX);
}

void gpud_sender_poll_disarm(struct gpud_sender *sender)
{
    sender->lacks_slot = false;
    if (!sender->polls)
        return;
    sender->polls = false;
    watch_pools(sender, -1);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (!link->transport || !link->transport->page.page || link->waiting.frames)
            continue;
        gpud_page_poll_end(&link->transport->page.end);
        link->waiting.is_armed = false;
    }
}

bool gpud_sender_poll_kick(struct gpud_link *link)
{
    if (link->kicks_due == 0)
        return false;
    link->kicks_due--;
    if (link->sender->polls)
        gpud_event_raise(link->sender->loop.event);
    return true;
}
