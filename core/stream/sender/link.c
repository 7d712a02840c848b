/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver, from its first message to its end: its ring and page in one epoch, its route and
 * its handshake. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
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

/* Counts a sent message in the page. */
static void transport_count_message(struct gpud_transport *transport)
{
    gpud_page_count_message(&transport->page);
    gpud_page_notify(&transport->page.end);
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
 * listener's thread then logs it, notifies the application and frees the link. */

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
    gpud_waiting_clear(link);
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
        gpud_waiting_clear(link);
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

/* === receivers =============================================================================== */
/* Adding and removing receivers. Links that other threads have ended, under the lock, are logged,
 * reported and freed here. */

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

/* --- beginning ----------------------------------------------------------------------------- */

/* Describes this side to the receiver. */
static void link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint)
{
    const struct gpud_sender *sender = link->sender;
    const struct gpud_remote_ops *remote = link->channel->ops->remote;
    gpud_endpoint_describe(endpoint, sender->device, sender->name);
    if (atomic_load(&sender->has_images))
        endpoint->caps |= GPUD_CAP_IMAGES;
    if (remote)
        remote->describe(link->channel, sender->device, &endpoint->network);
    gpud_print(endpoint->route, "%s", sender->route);
    endpoint->slots = sender->slots;
    endpoint->slow_receiver = (uint8_t)sender->slow_receiver;
    endpoint->require_direct = sender->require_direct;
}

/* Without the lock: this may query drivers and the machine. */
static void learn_peer(struct gpud_link *link, const struct gpud_endpoint *hello)
{
    const struct gpud_sender *sender = link->sender;
    link->peer = *hello;
    /* Every peer knows our token, so only the channel can tell which peer is this process. */
    if (!link->channel->peer.same_process)
        link->peer.token = 0;
    if (gpud_link_is_same_process(link))
        link->peer_device = gpud_context_find_device(sender->context, hello->device);
    if (link->peer_device)
        link->peer.common = link->peer_device->common;
    char why[GPUD_REASON_MAX];
    gpud_route_explain_link(sender->device, hello, why);
    gpud_route_note_link(link->trials, why);
    link->requested_policy = (enum gpud_slow_receiver)hello->slow_receiver;
}

enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why)
{
    *why = "its HELLO requests something that does not exist";
    if (hello->slow_receiver > GPUD_SLOW_DROP_OLDEST || hello->slots > GPUD_SLOTS_MAX)
        return GPUD_INVALID;
    struct gpud_link *made = calloc(1, sizeof(*made));
    if (made)
        made->trials = gpud_route_trials_create();
    if (!made || !made->trials) {
        *why = "out of memory for a link";
        free(made);
        return GPUD_AGAIN;
    }
    GPUD_STOP_POINT("sender: HELLO read");
    made->references = 1;
    made->sender = sender;
    made->id = ++sender->link_ids;
    made->channel = channel;
    made->state = GPUD_LINK_IDLE;
    made->deadline = made->raise_at = INT64_MAX;
    learn_peer(made, hello);
    gpud_channel_watch_peer(channel);
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    link_describe(made, &message.hello);
    gpud_endpoints_distance(&message.hello, hello); /* known now; later uses are under the lock */
    made->same_clock =
        gpud_endpoints_share_clock(hello, &message.hello, gpud_peer_is_here(&channel->peer));
    struct gpud_error error;
    enum gpud_status status = gpud_channel_send(channel, &message, &error);
    /* A peer that has closed the connection may have sent BYE before. */
    if (status != GPUD_OK && status != GPUD_PEER) {
        made->channel = NULL; /* stays the caller's */
        gpud_links_free(made);
        *why = "its HELLO cannot be answered";
        return GPUD_AGAIN;
    }
    *link = made;
    return GPUD_OK;
}

/* --- the end ------------------------------------------------------------------------------- */

void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    gpud_sender_lock(link->sender);
    gpud_link_kill(link, level, why);
    gpud_sender_unlock(link->sender);
}

void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    gpud_sender_lock(link->sender);
    message.refuse.epoch = link->sender->epoch;
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", reason);
    if (link->state != GPUD_LINK_DEAD)
        gpud_link_send(link, &message);
    gpud_link_kill(link, GPUD_LOG_WARNING, reason);
    gpud_sender_unlock(link->sender);
}

static void log_end(struct gpud_link *link)
{
    char peer_text[GPUD_PEER_TEXT_MAX];
    link->end_logged = true;
    gpud_log_at(log_of(link), link->end.level, AREA, "receiver %" PRIu64 " (%s, %s): %s", link->id,
                link->peer.name, gpud_peer_text(&link->channel->peer, peer_text), link->end.why);
}

static void receivers_report(const struct gpud_link *link,
                             void (*callback)(void *user, const struct gpud_peer_info *peer))
{
    struct gpud_peer_info info;
    if (!callback)
        return;
    gpud_link_peer_info(link, &info);
    callback(link->sender->user, &info);
}

/* Reports each link that streamed, and its end, to the application. */
static void report_changes(struct gpud_link *link, bool ended)
{
    const struct gpud_sender *sender = link->sender;
    if (link->streamed && !link->connect_reported) {
        link->connect_reported = true;
        receivers_report(link, sender->on_connect);
    }
    if (ended && !link->end_logged)
        log_end(link);
    if (ended && link->connect_reported && !link->end_reported) {
        link->end_reported = true;
        receivers_report(link, sender->on_disconnect);
    }
}

void gpud_links_settle(struct gpud_sender *sender)
{
    bool ended[GPUD_RECEIVERS_MAX], dead[GPUD_RECEIVERS_MAX];
    uint32_t count = sender->link_count, kept = 0;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < count; i++) {
        ended[i] = sender->links[i]->end.is_set;
        dead[i] = sender->links[i]->state == GPUD_LINK_DEAD;
    }
    gpud_sender_unlock(sender);
    for (uint32_t i = 0; i < count; i++)
        if (dead[i])
            gpud_channel_hang_up(sender->links[i]->channel); /* before the application is called */
    for (uint32_t i = 0; i < count; i++)
        report_changes(sender->links[i], ended[i]);
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_link *link = sender->links[i];
        if (dead[i]) {
            gpud_transport_unref(&link->transport);
            gpud_link_unref(link);
        } else {
            sender->links[kept++] = link;
        }
    }
    sender->link_count = kept;
    struct gpud_transport *transports = gpud_retired_take(&sender->retired);
    struct gpud_link *links = sender->retired_links;
    sender->retired_links = NULL;
    gpud_sender_unlock(sender);
    gpud_retired_destroy(transports);
    gpud_links_free(links);
}

/* === offer =================================================================================== */
/* Chooses a route for a receiver and offers it. In the listener's thread, without the lock, which
 * it takes for state that application threads use. */

#define OFFER_PAUSE (20 * GPUD_MSEC)

/* --- the offer ----------------------------------------------------------------------------- */

/* The parts of an offer. */
struct offer {
    const struct gpud_route_ops *route;
    struct gpud_pool *pool;     /* a reference; NULL if the receiver owns the ring */
    struct gpud_remote *remote; /* NULL if the ends share memory */
    struct gpud_transport *transport;
    struct gpud_message message;
};

/* Gets the pool for a route that shares the sender's ring, with room for this link. */
static enum gpud_status prepare_pool(struct gpud_link *link, struct offer *offer,
                                     struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_pool *pool;
    gpud_sender_lock(sender);
    enum gpud_status status = gpud_sender_get_pool(sender, offer->route->ring, &pool, error);
    if (status == GPUD_OK)
        gpud_pool_ref(offer->pool = pool);
    gpud_sender_unlock(sender);
    if (status == GPUD_OK)
        status = gpud_room_make(link, pool, error);
    if (status == GPUD_OK) {
        offer->message.offer.slots = link->slots;
        offer->message.offer.slots_max = gpud_room_most(link, pool);
    }
    if (status != GPUD_OK || offer->route->network)
        return status;
    if (!link->streamed)
        status = gpud_room_clear(link, pool, error);
    if (status == GPUD_OK && gpud_pool_describe(pool, 0, gpud_link_goes_by_pointer(link, pool),
                                                &offer->message.offer.ring, error) != GPUD_OK)
        status = GPUD_AGAIN;
    return status;
}

static enum gpud_status offer_prepare(struct gpud_link *link, struct offer *offer,
                                      struct gpud_error *error)
{
    struct gpud_endpoint self;
    enum gpud_status status = GPUD_OK;
    link_describe(link, &self);
    offer->message.offer.signal = gpud_route_signal(offer->route, &self, &link->peer);
    if (!gpud_ring_is_receivers(offer->route->ring))
        status = prepare_pool(link, offer, error);
    if (status == GPUD_OK && offer->route->network)
        status = link->channel->ops->remote->create(link->channel, &offer->remote,
                                                    &offer->message.offer.page, error);
    if (status == GPUD_OK)
        status =
            gpud_transport_create(offer->route, (enum gpud_signal_place)offer->message.offer.signal,
                                  offer->pool, &link->sender->retired, &offer->transport, error);
    return status;
}

/* Sends the OFFER, which ends the old epoch's transport, if any; the receiver may still read frames
 * published there. GPUD_AGAIN: try later. GPUD_CLOSED: it is obsolete. Under the lock. */
static enum gpud_status send_offer(struct gpud_link *link, struct offer *offer,
                                   struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_message *message = &offer->message;
    if (link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING)
        return GPUD_CLOSED;
    message->offer.epoch = sender->epoch;
    message->offer.media = sender->media;
    if (atomic_load(&sender->has_images) && offer->route->ring == GPUD_RING_SENDER_DEVICE)
        message->offer.media.picture.layout = sender->layout;
    message->offer.large_meta_max = sender->large_meta_max;
    gpud_print(message->offer.route, "%s", offer->route->name);
    gpud_print(message->offer.reason, "%s", link->fallback_reason);
    enum gpud_status status = gpud_link_try_send(link, message, error);
    GPUD_STOP_POINT(link->streamed ? "sender: new epoch's OFFER sent" : "sender: OFFER sent");
    if (status != GPUD_OK)
        return status == GPUD_INVALID ? status : GPUD_AGAIN; /* encoding it would fail again */
    struct gpud_transport *old = link->transport;
    if (old && old->page.page)
        gpud_page_get_stats(&old->page, &link->stats);
    link->transport = offer->transport;
    link->transport->remote = offer->remote;
    offer->transport = NULL;
    offer->remote = NULL;
    gpud_transport_unref(&old);
    link->state = GPUD_LINK_OFFERED;
    link->epoch = sender->epoch;
    link->waiting.is_armed = false;
    link->offer_by = 0;
    /* A receiver that is paused in mid-stream answers when it resumes; a new one must answer
     * soon. */
    link->deadline = link->streamed ? INT64_MAX : gpud_deadline(GPUD_IMPORT_DEADLINE);
    gpud_waiting_advance(link); /* sends messages held for this epoch */
    return GPUD_OK;
}

static enum gpud_status offer_route(struct gpud_link *link, const struct gpud_route_ops *route,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct offer offer = {
        .route = route,
        .message = {.type = GPUD_MESSAGE_OFFER, .offer.page.fd = -1},
    };
    enum gpud_status status = offer_prepare(link, &offer, error);
    gpud_sender_lock(sender);
    if (status == GPUD_OK)
        status = send_offer(link, &offer, error);
    else if (link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING)
        status = GPUD_CLOSED; /* the failure does not concern the next epoch */
    gpud_transport_unref(&offer.transport);
    gpud_sender_unlock(sender);
    if (offer.remote)
        offer.remote->ops->destroy(offer.remote);
    gpud_pool_unref(&offer.pool);
    return status;
}

/* The device whose queues read the device's pool for this link; NULL: the link does not use it. */
static const struct gpud_device *reader_of(const struct gpud_link *link)
{
    const struct gpud_transport *transport = link->transport;
    if (!transport || !gpud_transport_shares_slots(transport) ||
        transport->pool != link->sender->device_pool)
        return NULL;
    return gpud_route_reader(transport->route, link->sender->device, link->peer_device);
}

/* Only one device may read slots that routes give away; a link that would read them on another
 * device gets another route. */
static void exclude_multi_reader(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    if (!gpud_route_gives_slots(sender->device))
        return;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_device *reader = reader_of(sender->links[i]);
        if (sender->links[i] != link && sender->links[i]->state != GPUD_LINK_DEAD && reader)
            gpud_route_exclude_readers(link->trials, sender->device, link->peer_device, reader);
    }
    gpud_sender_unlock(sender);
}

/* The best route that has not failed; NULL: none, and link->fallback_reason says why. */
static const struct gpud_route_ops *link_choose_route(struct gpud_link *link)
{
    char reason[GPUD_REASON_MAX];
    struct gpud_endpoint self;
    exclude_multi_reader(link);
    link_describe(link, &self);
    if (link->channel->peer.foreign)
        gpud_route_exclude_foreign(link->trials, &self);
    const struct gpud_route_ops *route =
        gpud_route_select(&self, &link->peer, link->trials, reason);
    gpud_sender_lock(link->sender);
    gpud_print(link->fallback_reason, "%s", reason);
    gpud_sender_unlock(link->sender);
    return route;
}

static void offer_later(struct gpud_link *link, const char *reason)
{
    struct gpud_sender *sender = link->sender;
    int64_t now = gpud_now();
    if (!link->offer_by) {
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " has to wait: %s", link->id, reason);
        link->offer_by = now + GPUD_IMPORT_DEADLINE;
    }
    if (now >= link->offer_by) {
        gpud_link_refuse(link, GPUD_AGAIN, reason);
        return;
    }
    gpud_sender_lock(sender);
    if (link->state < GPUD_LINK_LEAVING)
        link->state = GPUD_LINK_IDLE;
    gpud_sender_unlock(sender);
    link->deadline = now + OFFER_PAUSE;
}

/* Whether an offer for this epoch was begun and is to be repeated later. */
static bool is_due_later(const struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    gpud_sender_lock(sender);
    bool later = link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING;
    gpud_sender_unlock(sender);
    return later;
}

/* Offers a route. On a temporary shortage (of descriptors, for example) the link waits IDLE, some
 * seconds at most. */
static void link_offer(struct gpud_link *link)
{
    while (!is_due_later(link)) {
        const struct gpud_route_ops *route = link_choose_route(link);
        if (!route) {
            gpud_link_refuse(link, GPUD_UNSUPPORTED, link->fallback_reason);
            return;
        }
        struct gpud_error error = {0};
        enum gpud_status status = offer_route(link, route, &error);
        if (status == GPUD_AGAIN)
            offer_later(link, error.reason);
        if (status == GPUD_OK || status == GPUD_AGAIN || status == GPUD_CLOSED)
            return;
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": no %s: %s", link->id, route->name,
                      error.reason);
        gpud_route_failed(link->trials, route, error.reason);
    }
}

void gpud_link_offer_if_due(struct gpud_link *link, int64_t now)
{
    struct gpud_sender *sender = link->sender;
    bool due = false;
    gpud_sender_lock(sender);
    uint32_t epoch = sender->epoch; /* 0: there is no format yet */
    if (link->state >= GPUD_LINK_LEAVING || !epoch) {
        due = false;
    } else if (link->epoch_tried == epoch) {
        due = link->state == GPUD_LINK_IDLE && now >= link->deadline;
    } else if (!gpud_waiting_delays_offer(link) && link->state != GPUD_LINK_DEAD) {
        link->state = GPUD_LINK_IDLE;
        link->deadline = INT64_MAX;
        link->offer_by = 0;
        link->epoch_tried = epoch;
        gpud_route_forget_failures(link->trials); /* keeps measured rates */
        due = true;
    }
    gpud_sender_unlock(sender);
    if (due)
        link_offer(link);
}

/* Records that the offered route does not work, and offers the next one. */
static void link_try_next(struct gpud_link *link, const char *reason)
{
    const struct gpud_route_ops *route = link->transport->route;
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": %s does not work: %s", link->id,
                  route->name, reason);
    gpud_route_failed(link->trials, route, reason);
    link_offer(link);
}

/* === handshake =============================================================================== */
/* The handshake with one receiver, a state machine over its messages (wire/wire.h shows the
 * sequence). Nothing here waits for a peer: a silent one exceeds its state's deadline, which the
 * listener's thread checks. Only our own device is waited for, with a deadline: for the test
 * pattern, and to measure the link.
 *
 * Handlers run in the listener's thread without the lock, and take it for each change of state.
 * Another thread may end the link or begin a new epoch meanwhile, so each change first checks that
 * the link is still in the expected state. */

/* --- the test of the link -------------------------------------------------------------------- */

static enum gpud_status write_pattern(struct gpud_frame *frame, uint64_t *nonce,
                                      struct gpud_error *error)
{
    void *data;
    enum gpud_status status =
        gpud_frame_map(frame, GPUD_READ | GPUD_WRITE, GPUD_PATTERN_DEADLINE, &data, error);
    if (status != GPUD_OK)
        return status;
    if (getrandom(nonce, sizeof(*nonce), 0) != sizeof(*nonce))
        *nonce = (uint64_t)gpud_now();
    gpud_pattern_write(data, frame->info.layout.size, *nonce);
    gpud_frame_unmap(frame);
    frame->info.flags = GPUD_FRAME_CANARY;
    return gpud_frame_check(frame, error);
}

/* Makes a test frame for routes that do not share the device's slots, all of which the application
 * may hold. */
static enum gpud_status make_canary(struct gpud_device *device, const struct gpud_layout *layout,
                                    struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_memory *memory;
    enum gpud_status status =
        gpud_memory_alloc(device, layout->size, GPUD_MEMORY_PLAIN, &memory, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_frame_wrap(memory, 0, layout, frame, error);
    gpud_memory_unref(&memory);
    return status;
}

/* Whether this epoch's offer is still the link's current one. Under the lock. */
static bool is_offered(const struct gpud_link *link, uint32_t epoch)
{
    return link->state == GPUD_LINK_OFFERED && epoch == link->sender->epoch;
}

/* Takes a slot for the test frame: the pool has grown by this link's share. */
static enum gpud_status take_canary_slot(struct gpud_link *link, struct gpud_delivery *delivery,
                                         struct gpud_error *error)
{
    struct gpud_pool *pool = link->transport->pool;
    struct gpud_slot *slot = pool ? gpud_pool_take(pool) : NULL;
    if (pool && !slot && gpud_waiting_reclaim_slot(link->sender, pool, true))
        slot = gpud_pool_take(pool);
    if (pool && !slot)
        return gpud_fail(error, GPUD_NO_MEMORY, "no slot is free for the test of the link");
    if (slot && pool == link->sender->device_pool) {
        gpud_slot_hold(slot);
        delivery->device_slot = slot;
        delivery->frame = &slot->frame;
    } else {
        delivery->host_slot = slot;
    }
    return GPUD_OK;
}

static void drop_canary(struct gpud_delivery *delivery)
{
    if (delivery->device_slot)
        gpud_slot_drop(delivery->device_slot);
    if (delivery->host_slot)
        gpud_slot_drop(delivery->host_slot);
    gpud_frame_release(&delivery->frame);
}

/* Sends the CANARY and delivers the test frame to this receiver alone, like any frame. GPUD_CLOSED:
 * the link changed meanwhile, so there is no test. */
static enum gpud_status deliver_canary(struct gpud_link *link, struct gpud_delivery *delivery,
                                       struct gpud_message *message, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_delivery_target *target = &delivery->target[0];
    enum gpud_status status = is_offered(link, message->canary.epoch) ? GPUD_OK : GPUD_CLOSED;
    if (status == GPUD_OK && !gpud_page_take(&link->transport->page, &target->entry))
        status = gpud_fail(error, GPUD_PEER, "the receiver's ring has no free entry");
    if (status != GPUD_OK) {
        drop_canary(delivery);
        return status;
    }
    target->link = link;
    target->transport = link->transport;
    link->references++;
    link->transport->references++;
    /* Frames of this epoch may wait for the link, and have their numbers. */
    delivery->sequence = link->streamed ? sender->epoch_start : sender->sequence;
    delivery->info = &delivery->frame->info;
    status = gpud_deliver(sender, delivery, error);
    if (!is_offered(link, message->canary.epoch))
        return GPUD_CLOSED;
    if (status != GPUD_OK)
        return status;
    link->state = GPUD_LINK_CANARY;
    if (!link->streamed)
        link->deadline = gpud_deadline(GPUD_IMPORT_DEADLINE);
    gpud_link_send(link, message);
    return GPUD_OK;
}

static enum gpud_status send_canary(struct gpud_link *link, uint32_t epoch,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_delivery delivery = {.consume = true, .canary = true, .count = 1};
    struct gpud_message message = {.type = GPUD_MESSAGE_CANARY, .canary.epoch = epoch};
    gpud_sender_lock(sender);
    enum gpud_status status =
        is_offered(link, epoch) ? take_canary_slot(link, &delivery, error) : GPUD_CLOSED;
    struct gpud_layout layout = sender->rows;
    gpud_sender_unlock(sender);
    if (status != GPUD_OK)
        return status;
    if (!delivery.frame)
        status = make_canary(sender->device, &layout, &delivery.frame, error);
    if (status == GPUD_OK)
        status = write_pattern(delivery.frame, &message.canary.nonce, error);
    if (status != GPUD_OK) {
        drop_canary(&delivery);
        return status;
    }
    gpud_sender_lock(sender);
    status = deliver_canary(link, &delivery, &message, error);
    gpud_sender_unlock(sender);
    return status;
}

/* --- messages -------------------------------------------------------------------------------- */

/* Measures the link if the choice of its route depends on it. */
static void handshake_measure(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_route_ops *route = link->transport->route;
    struct gpud_endpoint self;
    link_describe(link, &self);
    if (!gpud_route_wants_rate(route, &self, &link->peer, link->trials))
        return;
    gpud_sender_lock(sender);
    uint64_t size = gpud_sender_layout(sender, route->ring)->size;
    gpud_sender_unlock(sender);
    gpud_route_measured(link->trials, route,
                        gpud_transport_measure(link->transport, sender->queue, size));
}

/* Makes a transport that is connected to the receiver's ring or page; it replaces the offer's when
 * ready. */
static enum gpud_status connect_transport(struct gpud_link *link, const struct gpud_accept *accept,
                                          uint64_t frame_size, struct gpud_transport **transport,
                                          struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_transport *offered = link->transport;
    enum gpud_status status = gpud_transport_create(offered->route, offered->place, offered->pool,
                                                    &sender->retired, transport, error);
    if (status != GPUD_OK)
        return status;
    if (offered->route->slots)
        status = offered->route->slots->open(link->peer_device, &(*transport)->queues.own, error);
    if (status == GPUD_OK)
        status = gpud_transport_connect(
            *transport, link->slots, sender->device, sender->host, link->channel, offered->remote,
            accept, gpud_link_is_same_process(link), frame_size, sender->large_meta_max, error);
    if (status != GPUD_OK) {
        gpud_sender_lock(sender);
        gpud_transport_unref(transport);
        gpud_sender_unlock(sender);
    }
    return status;
}

/* Replaces the offered transport by the connected one. */
static void use_transport(struct gpud_link *link, struct gpud_transport *connected)
{
    struct gpud_transport *offered = link->transport;
    connected->remote = offered->remote;
    offered->remote = NULL;
    if (!connected->remote)
        connected->known_memories = offered->known_memories;
    link->transport = connected;
    gpud_transport_unref(&offered);
}

static void handle_accept(struct gpud_link *link, const struct gpud_accept *accept)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_route_ops *route = link->transport->route;
    struct gpud_transport *connected = NULL;
    struct gpud_error error;
    gpud_sender_lock(sender);
    bool expected = is_offered(link, accept->epoch);
    uint64_t frame_size = gpud_sender_layout(sender, route->ring)->size;
    gpud_sender_unlock(sender);
    if (!expected)
        return; /* answers an offer that a later one has replaced */
    enum gpud_status status = connect_transport(link, accept, frame_size, &connected, &error);
    gpud_sender_lock(sender);
    expected = is_offered(link, accept->epoch);
    if (expected && status == GPUD_OK)
        use_transport(link, connected);
    else
        gpud_transport_unref(&connected);
    gpud_sender_unlock(sender);
    if (!expected)
        return;
    if (status == GPUD_PEER) {
        gpud_link_refuse(link, GPUD_PEER, error.reason);
        return;
    }
    if (status == GPUD_OK) {
        GPUD_STOP_POINT("sender: ACCEPT read");
        status = gpud_link_register_sources(link, &error);
    }
    if (status == GPUD_OK) {
        handshake_measure(link);
        if (link_choose_route(link) != route) {
            link_offer(link);
            return;
        }
        status = send_canary(link, accept->epoch, &error);
    }
    if (status == GPUD_OK)
        GPUD_STOP_POINT("sender: CANARY sent");
    else if (status != GPUD_CLOSED)
        link_try_next(link, error.reason);
}

/* Sends the sticky events, which a new receiver needs before its first frame. */
static void send_sticky(struct gpud_link *link)
{
    const struct gpud_sender *sender = link->sender;
    for (int i = 0; i < GPUD_STICKY_MAX; i++) {
        if (!sender->sticky[i])
            continue;
        struct gpud_message message = {.type = GPUD_MESSAGE_EVENT, .event = *sender->sticky[i]};
        gpud_link_send(link, &message);
    }
    if (sender->ended) {
        struct gpud_message message = {.type = GPUD_MESSAGE_EOS, .epoch = sender->epoch};
        gpud_link_send(link, &message);
    }
}

static void handle_ready(struct gpud_link *link, uint32_t epoch)
{
    struct gpud_sender *sender = link->sender;
    gpud_sender_lock(sender);
    bool expected = link->state == GPUD_LINK_CANARY && epoch == sender->epoch;
    bool first = expected && !link->streamed;
    if (expected) {
        link->state = GPUD_LINK_STREAMING;
        link->deadline = INT64_MAX;
        link->streamed = true;
        gpud_print(sender->path, "%s", link->transport->route->name);
        gpud_print(sender->fallback_reason, "%s", link->fallback_reason);
        gpud_page_start(&link->transport->page, link->started ? link->start : sender->sequence);
        GPUD_STOP_POINT("sender: READY read");
    }
    if (first) {
        sender->connects++;
        send_sticky(link);
    }
    if (expected) {
        gpud_waiting_ready(link);
        gpud_sender_changed(sender);
    }
    gpud_sender_unlock(sender);
    if (!first)
        return;
    char peer_text[GPUD_PEER_TEXT_MAX];
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " (%s, %s) connected by %s%s%s", link->id,
                  link->peer.name, gpud_peer_text(&link->channel->peer, peer_text),
                  link->transport->route->name, link->fallback_reason[0] ? ", because " : "",
                  link->fallback_reason);
}

static bool is_answer(enum gpud_message_type type)
{
    return type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY || type == GPUD_MESSAGE_REFUSE;
}

/* A KICK answers a request of a polling sender. Some may be late; more of them are a flood. */
#define STRAY_KICKS_MAX 64

static void handle_kick(struct gpud_link *link)
{
    gpud_sender_lock(link->sender);
    link->waiting.is_armed = false; /* this turn of the thread handles the returned entries */
    if (!gpud_sender_poll_kick(link) && ++link->stray_kicks > STRAY_KICKS_MAX)
        gpud_link_kill(link, GPUD_LOG_WARNING, "broke the protocol: unrequested KICKs");
    gpud_sender_unlock(link->sender);
}

static void handle_refuse(struct gpud_link *link, const struct gpud_refuse *refuse)
{
    gpud_sender_lock(link->sender);
    bool expected = refuse->epoch == link->sender->epoch && link->state < GPUD_LINK_STREAMING;
    gpud_sender_unlock(link->sender);
    if (expected)
        link_try_next(link, refuse->reason);
}

/* It takes effect at once in a shared ring, and else with the next offer. */
static void handle_slots(struct gpud_link *link, uint32_t asked)
{
    if (asked <= link->slots_asked)
        return; /* frames may be held, so that slots cannot be taken back */
    link->slots_asked = asked;
    link->raise_at = 0;
    gpud_room_raise(link, gpud_now());
}

void gpud_link_handle(struct gpud_link *link, struct gpud_message *message)
{
    enum gpud_link_state state = link->state;
    if (state == GPUD_LINK_DEAD)
        return;
    if (message->type == GPUD_MESSAGE_KICK) {
        handle_kick(link);
    } else if (message->type == GPUD_MESSAGE_SLOTS && link->epoch) {
        handle_slots(link, message->slots);
    } else if (message->type == GPUD_MESSAGE_BYE && state != GPUD_LINK_LEAVING) {
        char why[GPUD_REASON_MAX];
        gpud_print(why, "said goodbye: %s", message->refuse.reason);
        gpud_sender_lock(link->sender);
        gpud_link_leave(link, why);
        gpud_sender_unlock(link->sender);
    } else if (state == GPUD_LINK_OFFERED && message->type == GPUD_MESSAGE_ACCEPT) {
        handle_accept(link, &message->accept);
    } else if (state == GPUD_LINK_CANARY && message->type == GPUD_MESSAGE_READY) {
        handle_ready(link, message->epoch);
    } else if ((state == GPUD_LINK_OFFERED || state == GPUD_LINK_CANARY) &&
               message->type == GPUD_MESSAGE_REFUSE) {
        handle_refuse(link, &message->refuse);
    } else if ((state == GPUD_LINK_OFFERED && message->type == GPUD_MESSAGE_READY) ||
               (state == GPUD_LINK_IDLE && link->epoch && is_answer(message->type))) {
        return; /* answers an earlier offer */
    } else {
        char why[96];
        gpud_print(why, "broke the protocol: an unexpected %s", gpud_message_name(message->type));
        gpud_link_end(link, GPUD_LOG_WARNING, why);
    }
    /* The caller closes the attachments; handlers have duplicated those they keep. */
}
