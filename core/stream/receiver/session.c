/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/receiver/session.h"

#include "base/fd.h"
#include "base/stop.h"
#include "frame/large_meta.h"
#include "frame/media/media.h"
#include "route/route.h"

#include <stdlib.h>

/* --- making -------------------------------------------------------------------------------- */

/* Wakes a sender that polls the channel; called by any thread that releases a frame. */
static void send_kick(void *arg)
{
    const struct gpud_session *session = arg;
    struct gpud_message kick = {.type = GPUD_MESSAGE_KICK};
    gpud_channel_send(session->channel, &kick, NULL);
}

static void init_view(struct gpud_session *session, struct gpud_page *page)
{
    gpud_page_rx_init(&session->view, page, session->remote, session->entries);
    session->view.end.send_kick = send_kick;
    session->view.end.send_kick_arg = session;
}

/* Makes our page, which the sender's card writes, and attaches the sender's, which our card writes.
 */
static enum gpud_status make_remote_page(struct gpud_session *session,
                                         const struct gpud_remote_ops *ops,
                                         const struct gpud_handle *theirs, struct gpud_error *error)
{
    enum gpud_status status =
        ops->create(session->channel, &session->remote, &session->remote_page, error);
    if (status == GPUD_OK)
        status = ops->attach(session->remote, theirs, error);
    if (status == GPUD_OK)
        init_view(session, session->remote->page);
    return status;
}

static enum gpud_status make_page(struct gpud_session *session, struct gpud_error *error)
{
    /* Once pinned, the watchdog owns the page and unmaps it when the device is done with it. */
    void *page;
    enum gpud_status status =
        gpud_memfd_create("gpudirect-page", sizeof(struct gpud_page), GPUD_SHARE_WRITABLE,
                          &session->page_fd, &page, error);
    if (status != GPUD_OK)
        return status;
    init_view(session, page);
    if (session->place == GPUD_SIGNAL_PAGE)
        status = gpud_watchdog_create(session->device, page, session->entries, session->channel,
                                      GPUD_SIDE_RECEIVER, &session->watchdog, error);
    if (status == GPUD_OK)
        session->page = page;
    return status;
}

static size_t metas_size(const struct gpud_session *session)
{
    return session->entries * session->meta_room;
}

/* Makes the memory for large metas. On this host it takes pages as they are written. */
static enum gpud_status make_metas(struct gpud_session *session, uint32_t large_meta_max,
                                   struct gpud_error *error)
{
    if (large_meta_max == 0)
        return GPUD_OK;
    session->meta_room = gpud_large_meta_room(large_meta_max);
    if (session->remote)
        return session->remote->ops->share_metas(session->remote, metas_size(session),
                                                 &session->metas_handle, &session->metas, error);
    struct gpud_handle *handle = &session->metas_handle;
    enum gpud_status status =
        gpud_memfd_create("gpudirect-metas", metas_size(session), GPUD_SHARE_WRITABLE, &handle->fd,
                          &session->metas, error);
    if (status == GPUD_OK) {
        handle->type = GPUD_HANDLE_MEMFD;
        handle->size = metas_size(session);
    }
    return status;
}

/* Makes our own ring, for the sender to write; with fewer slots if the aperture is too small. */
static enum gpud_status make_ring(struct gpud_session *session, const struct gpud_log *log,
                                  struct gpud_error *error)
{
    struct gpud_device *device = session->on_host ? session->host : session->device;
    enum gpud_usage usage = session->route->network ? GPUD_USAGE_LOCAL : GPUD_USAGE_TARGET;
    uint32_t a_memory = session->route->memory_per_slot ? 1 : session->entries;
    uint32_t memories = session->route->memory_per_slot ? session->entries : 1;
    struct gpud_error reason;
    gpud_ring_init(&session->ring, device, usage, session->layout.size, a_memory);
    while (session->ring.memories < memories) {
        enum gpud_status status = gpud_ring_grow(&session->ring, &reason);
        if (status == GPUD_OK)
            continue;
        if (status != GPUD_NO_MEMORY || session->ring.memories < 2)
            return gpud_fail_native(error, status, reason.origin, reason.native, "%s",
                                    reason.reason);
        gpud_log_warning(log, "receiver", "the ring has %u slots instead of %u: %s",
                         session->ring.memories, session->entries, reason.reason);
        session->entries = session->ring.memories;
        break;
    }
    for (uint32_t i = 0; session->place == GPUD_SIGNAL_MEMORY && i < session->entries; i++) {
        enum gpud_status status =
            gpud_signal_create(session->ring.memory[i], 0, &session->signal[i], error);
        if (status != GPUD_OK)
            return status;
    }
    return gpud_ring_view(&session->ring, session->device, 0, session->views, error);
}

uint32_t gpud_session_slots(const struct gpud_session *session)
{
    return atomic_load_explicit(&session->view.credits, memory_order_relaxed);
}

uint32_t gpud_session_slots_max(const struct gpud_session *session)
{
    uint32_t most = session->slots_max < session->entries ? session->slots_max : session->entries;
    uint32_t slots = gpud_session_slots(session);
    return most > slots ? most : slots;
}

void gpud_session_set_slots(struct gpud_session *session, uint32_t slots)
{
    if (slots > session->entries)
        slots = session->entries;
    atomic_store_explicit(&session->view.credits, slots, memory_order_relaxed);
}

enum gpud_status gpud_session_grow(struct gpud_session *session,
                                   const struct gpud_ring_description *grown,
                                   struct gpud_error *error)
{
    uint32_t before = session->ring.memories;
    enum gpud_status status = gpud_ring_import(
        &session->ring, grown, session->channel->peer.same_process, session->layout.size, error);
    if (status == GPUD_OK)
        status = gpud_ring_view(&session->ring, session->device, before, session->views, error);
    if (before)
        GPUD_STOP_POINT("receiver: GROW imported");
    return status;
}

/* Whether a frame outside the first `memories` is still held. */
static bool holds_frame_behind(struct gpud_session *session, uint32_t memories)
{
    bool holds = false;
    gpud_lock_take(&session->lock);
    for (uint32_t i = 0; i < session->entries; i++)
        holds |= atomic_load(&session->view.held[i]) && session->frame_of[i] &&
                 session->frame_of[i]->frame.slot / session->ring.slots_per_memory >= memories;
    gpud_lock_release(&session->lock);
    return holds;
}

enum gpud_status gpud_session_shrink(struct gpud_session *session, uint32_t memories,
                                     struct gpud_error *error)
{
    struct gpud_ring *ring = &session->ring;
    if (memories < 1 || memories >= ring->memories)
        return gpud_fail(error, GPUD_PEER, "the sender's ring of %u memories is to shrink to %u",
                         ring->memories, memories);
    /* A device may still read a frame that was given back, so an honest sender does not ask this.
     */
    if (session->uploads || !(session->device->caps & GPUD_CAP_SYNCHRONOUS) ||
        holds_frame_behind(session, memories))
        return gpud_fail(error, GPUD_PEER,
                         "the sender takes back memory whose frames are still being read");
    while (ring->memories > memories) {
        session->views[--ring->memories] = NULL;
        gpud_memory_unref(&ring->memory[ring->memories]);
    }
    GPUD_STOP_POINT("receiver: SHRINK done");
    return GPUD_OK;
}

/* Maps the sender's ring. */
static enum gpud_status map_ring(struct gpud_session *session,
                                 const struct gpud_ring_description *offered,
                                 struct gpud_error *error)
{
    struct gpud_device *device = session->on_host ? session->host : session->device;
    gpud_ring_init(&session->ring, device, GPUD_USAGE_SHARE, session->layout.size, 1);
    session->ring.has_images = session->layout.modifier != 0;
    return gpud_session_grow(session, offered, error);
}

static enum gpud_status check_memory(const struct gpud_session *session,
                                     const struct gpud_memory *memory, uint32_t slot,
                                     struct gpud_error *error)
{
    if (!memory)
        return gpud_fail(error, GPUD_INVALID,
                         "the application's `alloc` succeeded and gave no memory for slot %u",
                         slot);
    if (memory->device != session->device)
        return gpud_fail(error, GPUD_INVALID,
                         "the application's memory for slot %u lies on %s, and the receiver works "
                         "on %s: make it there",
                         slot, memory->device->info.name, session->device->info.name);
    if (memory->size < session->layout.size)
        return gpud_fail(error, GPUD_INVALID,
                         "the application's memory for slot %u has %llu bytes, and a frame %llu",
                         slot, (unsigned long long)memory->size,
                         (unsigned long long)session->layout.size);
    return GPUD_OK;
}

static enum gpud_status ask_for_memory(const struct gpud_session *session,
                                       const struct gpud_own_memory *own, uint32_t slot,
                                       struct gpud_memory **memory, struct gpud_error *error)
{
    struct gpud_error why = {0};
    enum gpud_status status = own->alloc(own->user, &session->layout, slot, memory, &why);
    if (status == GPUD_OK)
        return GPUD_OK;
    *memory = NULL;
    /* An acquire would report these statuses as the stream's. */
    if (status == GPUD_AGAIN || status == GPUD_TIMEOUT || status == GPUD_CLOSED)
        status = GPUD_INVALID;
    return gpud_fail_native(error, status, why.origin, why.native,
                            "the application made no memory for slot %u%s%s", slot,
                            why.reason[0] ? ": " : "", why.reason);
}

/* Gets a memory from the application for each slot. */
static enum gpud_status take_memories(struct gpud_session *session,
                                      const struct gpud_own_memory *own, struct gpud_error *error)
{
    gpud_ring_init(&session->upload, session->device, GPUD_USAGE_LOCAL, session->layout.size, 1);
    for (uint32_t slot = 0; slot < session->entries; slot++) {
        struct gpud_memory *memory = NULL;
        enum gpud_status status = ask_for_memory(session, own, slot, &memory, error);
        for (uint32_t i = 0; status == GPUD_OK && i < slot; i++)
            if (memory == session->upload.memory[i]) /* given before, with its only reference */
                return gpud_fail(error, GPUD_INVALID,
                                 "the application gave one memory for the slots %u and %u", i,
                                 slot);
        if (status == GPUD_OK)
            status = check_memory(session, memory, slot, error);
        if (status == GPUD_OK)
            status = gpud_ring_add(&session->upload, memory, error);
        if (status != GPUD_OK) {
            gpud_memory_unref(&memory);
            return status;
        }
    }
    return GPUD_OK;
}

/* Makes a ring on the receiver's device for frames that are copied from where the route puts them.
 */
static enum gpud_status make_upload(struct gpud_session *session, struct gpud_own_memory *own,
                                    struct gpud_error *error)
{
    enum gpud_status status;
    if (own->alloc) {
        status = take_memories(session, own, error);
        own->failed = status != GPUD_OK;
    } else {
        gpud_ring_init(&session->upload, session->device, GPUD_USAGE_LOCAL, session->layout.size,
                       session->entries);
        status = gpud_ring_grow(&session->upload, error);
    }
    while (session->upload_free_count < session->entries) {
        session->upload_free[session->upload_free_count] =
            (uint8_t)(session->entries - 1 - session->upload_free_count);
        session->upload_free_count++;
    }
    return status;
}

/* The sender chooses where the signals are; the route and this device must support it. */
static enum gpud_status check_signal(const struct gpud_offer *offer,
                                     const struct gpud_route_ops *route,
                                     const struct gpud_device *device, struct gpud_error *error)
{
    if (gpud_route_has_signal(route, (enum gpud_signal_place)offer->signal, device->caps))
        return GPUD_OK;
    return gpud_fail(error, GPUD_PEER, "the sender offers %s with signals that %s lacks",
                     route->name, device->info.name);
}

enum gpud_status gpud_session_create(const struct gpud_offer *offer,
                                     const struct gpud_route_ops *route,
                                     struct gpud_channel *channel, struct gpud_queue *queue,
                                     struct gpud_device *host, uint32_t slots,
                                     struct gpud_own_memory *own, const struct gpud_log *log,
                                     struct gpud_session **session, struct gpud_error *error)
{
    struct gpud_layout layout;
    enum gpud_status status = gpud_media_get_layout(&offer->media, &layout, error);
    if (status == GPUD_OK)
        status = check_signal(offer, route, queue->device, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_session *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a session");
    atomic_init(&made->references, 1);
    gpud_lock_init(&made->lock, GPUD_RANK_SESSION);
    made->route = route;
    made->owns_ring = route->network || gpud_ring_is_receivers(route->ring);
    made->on_host = gpud_ring_is_on_host(route->ring);
    made->place = (enum gpud_signal_place)offer->signal;
    made->channel = gpud_channel_ref(channel);
    made->device = gpud_device_ref(queue->device);
    made->host = gpud_device_ref(host);
    made->queue = gpud_queue_ref(queue);
    made->epoch = offer->epoch;
    made->layout = layout;
    made->unit = gpud_media_get_unit(&offer->media);
    made->entries = slots;
    made->page_fd = made->metas_handle.fd = -1;
    atomic_init(&made->wake, -1);

    const struct gpud_remote_ops *remote = route->network ? channel->ops->remote : NULL;
    if (route->network && !remote)
        status =
            gpud_fail(error, GPUD_PEER, "the sender offers %s, and is on this host", route->name);
    else if (made->owns_ring)
        status = make_ring(made, log, error);
    else
        status = map_ring(made, &offer->ring, error);
    if (status == GPUD_OK && made->ring.memories && made->views[0]->unpinned)
        gpud_log_info(log, "receiver", "the CPU carries each frame: %s does not pin %s",
                      made->device->info.name,
                      made->views[0]->read_only ? "host memory that may only be read"
                                                : "the host memory that carries the frames");
    made->uploads = own->alloc || made->ring.device != made->device;
    if (!made->owns_ring && !made->uploads)
        made->entries = GPUD_PAGE_ENTRIES; /* the sender's ring may grow */
    if (status == GPUD_OK && made->uploads)
        status = make_upload(made, own, error);
    if (status == GPUD_OK)
        status =
            remote ? make_remote_page(made, remote, &offer->page, error) : make_page(made, error);
    made->slots_max = offer->slots_max;
    if (offer->slots)
        gpud_session_set_slots(made, offer->slots);
    if (status == GPUD_OK)
        status = make_metas(made, offer->large_meta_max, error);
    if (status != GPUD_OK) {
        gpud_session_unref(&made);
        return status;
    }
    *session = made;
    return GPUD_OK;
}

void gpud_session_close_fds(struct gpud_session *session)
{
    gpud_fd_close(&session->page_fd);
    gpud_fd_close(&session->metas_handle.fd);
}

static void destroy(void *arg)
{
    struct gpud_session *gone = arg;
    if (!gone->remote)
        gpud_memory_unmap_pages(gone->metas, metas_size(gone));
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++)
        gpud_signal_destroy(&gone->signal[i]);
    if (gone->remote) /* first: the sender's card writes the ring */
        gone->remote->ops->destroy(gone->remote);
    gpud_ring_finish(&gone->upload);
    gpud_ring_finish(&gone->ring);
    gpud_session_close_fds(gone);
    int wake = atomic_load(&gone->wake);
    gpud_fd_close(&wake);
    gpud_queue_unref(&gone->queue);
    gpud_device_close(&gone->host);
    gpud_device_close(&gone->device);
    gpud_channel_unref(&gone->channel);
    gpud_lock_destroy(&gone->lock);
    free(gone);
}

void gpud_session_unref(struct gpud_session **session)
{
    struct gpud_session *gone = *session;
    *session = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    if (gone->watchdog) {
        /* The application's queues may still be reading released frames. */
        gpud_watchdog_end(&gone->watchdog, destroy, gone);
        return;
    }
    gpud_memory_unmap_pages(gone->page, sizeof(*gone->page));
    destroy(gone);
}

void gpud_session_detach(struct gpud_session *session)
{
    if (session->remote)
        session->remote->ops->detach(session->remote);
}

enum gpud_status gpud_session_describe(const struct gpud_session *session,
                                       struct gpud_accept *accept, struct gpud_error *error)
{
    accept->epoch = session->epoch;
    accept->entries = session->entries;
    accept->large_metas = session->metas_handle;
    if (session->remote) {
        accept->page = session->remote_page;
        return session->remote->ops->expose(session->remote, &session->ring, &accept->ring, error);
    }
    accept->page = (struct gpud_handle){
        .type = GPUD_HANDLE_MEMFD, .fd = session->page_fd, .size = sizeof(struct gpud_page)};
    accept->ring.memories = 0;
    if (!session->owns_ring)
        return GPUD_OK;
    /* The same handles carry the signals, which belong to the memories. */
    return gpud_ring_describe(&session->ring, 0, false, &accept->ring, error);
}
