/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connecting, and the handshake, which makes the sessions. */
#include "stream/receiver/receiver.h"

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <gpudirect/channel.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* === session ================================================================================= */

/* --- making -------------------------------------------------------------------------------- */

/* Wakes a sender that polls the channel; called by any thread that releases a frame. */
static void send_kick(void *arg)
{
    const struct gpud_session *session = arg;
    struct gpud_message kick = {.type = GPUD_MESSAGE_KICK};
    gpud_channel_send(session->channel, &kick, NULL);
}

/* Makes our page. Between hosts the sender's card writes it, and ours the sender's, which it
 * attaches. */
static enum gpud_status make_page(struct gpud_session *session, const struct gpud_remote_ops *ops,
                                  const struct gpud_handle *theirs, struct gpud_error *error)
{
    void *page = NULL;
    enum gpud_status status;
    if (ops) {
        status = ops->create(session->channel, &session->remote, &session->remote_page, error);
        if (status == GPUD_OK)
            status = ops->attach(session->remote, theirs, error);
    } else {
        status = gpud_memfd_create("gpudirect-page", sizeof(struct gpud_page), GPUD_SHARE_WRITABLE,
                                   &session->page_fd, &page, error);
    }
    if (status != GPUD_OK)
        return status;
    gpud_page_rx_init(&session->view, ops ? session->remote->page : page, session->remote,
                      session->entries);
    session->view.end.send_kick = send_kick;
    session->view.end.send_kick_arg = session;
    /* Once pinned, the watchdog owns the page and unmaps it when the device is done with it. */
    if (!ops && session->place == GPUD_SIGNAL_PAGE)
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

/* How many frames may be in flight or held at once. */
static uint32_t session_slots(const struct gpud_session *session)
{
    return atomic_load_explicit(&session->view.credits, memory_order_relaxed);
}

/* How many at most, if the sender is asked. */
static uint32_t session_slots_max(const struct gpud_session *session)
{
    uint32_t most = session->slots_max < session->entries ? session->slots_max : session->entries;
    uint32_t slots = session_slots(session);
    return most > slots ? most : slots;
}

/* The sender says that so many may be. */
static void session_set_slots(struct gpud_session *session, uint32_t slots)
{
    if (slots > session->entries)
        slots = session->entries;
    atomic_store_explicit(&session->view.credits, slots, memory_order_relaxed);
}

/* Maps memories that the sender added to its ring. */
static enum gpud_status session_grow(struct gpud_session *session,
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

/* Unmaps all but the first memories. GPUD_PEER: there are no others, or their frames are held. */
static enum gpud_status session_shrink(struct gpud_session *session, uint32_t memories,
                                       struct gpud_error *error)
{
    struct gpud_ring *ring = &session->ring;
    if (memories < 1 || memories >= ring->memories)
        return gpud_fail(error, GPUD_PEER, "the sender's ring of %u memories is to shrink to %u",
                         ring->memories, memories);
    /* A device may still read a frame that was given back, so an honest sender does not ask this.
     */
    bool reads = session->uploads || !(session->device->caps & GPUD_CAP_SYNCHRONOUS);
    gpud_lock_take(&session->lock);
    for (uint32_t i = 0; i < session->entries; i++)
        reads |= atomic_load(&session->view.held[i]) && session->frame_of[i] &&
                 session->frame_of[i]->frame.slot / ring->slots_per_memory >= memories;
    gpud_lock_release(&session->lock);
    if (reads)
        return gpud_fail(error, GPUD_PEER,
                         "the sender takes back memory whose frames are still being read");
    while (ring->memories > memories) {
        session->views[--ring->memories] = NULL;
        gpud_memory_unref(&ring->memory[ring->memories]);
    }
    GPUD_STOP_POINT("receiver: SHRINK done");
    return GPUD_OK;
}

/* Gets a memory from the application for each slot. */
static enum gpud_status take_memories(struct gpud_session *session,
                                      const struct gpud_own_memory *own, struct gpud_error *error)
{
    gpud_ring_init(&session->upload, session->device, GPUD_USAGE_LOCAL, session->layout.size, 1);
    for (uint32_t slot = 0; slot < session->entries; slot++) {
        struct gpud_memory *memory = NULL;
        struct gpud_error why = {0};
        enum gpud_status status = own->alloc(own->user, &session->layout, slot, &memory, &why);
        if (status != GPUD_OK) {
            /* An acquire would report these statuses as the stream's. */
            if (status == GPUD_AGAIN || status == GPUD_TIMEOUT || status == GPUD_CLOSED)
                status = GPUD_INVALID;
            return gpud_fail_native(error, status, why.origin, why.native,
                                    "the application made no memory for slot %u%s%s", slot,
                                    why.reason[0] ? ": " : "", why.reason);
        }
        if (!memory)
            return gpud_fail(error, GPUD_INVALID,
                             "the application's `alloc` succeeded and gave no memory for slot %u",
                             slot);
        for (uint32_t i = 0; i < slot; i++)
            if (memory == session->upload.memory[i]) /* given before, with its only reference */
                return gpud_fail(error, GPUD_INVALID,
                                 "the application gave one memory for the slots %u and %u", i,
                                 slot);
        if (memory->device != session->device)
            status = gpud_fail(error, GPUD_INVALID,
                               "the application's memory for slot %u lies on %s, and the receiver "
                               "works on %s: make it there",
                               slot, memory->device->info.name, session->device->info.name);
        else if (memory->size < session->layout.size)
            status = gpud_fail(
                error, GPUD_INVALID,
                "the application's memory for slot %u has %llu bytes, and a frame %llu", slot,
                (unsigned long long)memory->size, (unsigned long long)session->layout.size);
        else
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

/* Makes a session for an OFFER, without its frames. The offer is untrusted; receiver->own.failed
 * distinguishes the application's failure from the offer's. */
static enum gpud_status session_create(struct gpud_receiver *receiver,
                                       const struct gpud_offer *offer,
                                       const struct gpud_route_ops *route, uint32_t slots,
                                       struct gpud_session **session, struct gpud_error *error)
{
    const struct gpud_log *log = &receiver->context->log;
    struct gpud_own_memory *own = &receiver->own;
    struct gpud_channel *channel = receiver->channel;
    struct gpud_device *device = receiver->queue->device;
    struct gpud_layout layout;
    enum gpud_status status = gpud_media_get_layout(&offer->media, &layout, error);
    /* The sender chooses where the signals are; the route and this device must support it. */
    if (status == GPUD_OK &&
        !gpud_route_has_signal(route, (enum gpud_signal_place)offer->signal, device->caps))
        status = gpud_fail(error, GPUD_PEER, "the sender offers %s with signals that %s lacks",
                           route->name, device->info.name);
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
    made->device = gpud_device_ref(device);
    made->host = gpud_device_ref(receiver->host);
    made->queue = gpud_queue_ref(receiver->queue);
    made->epoch = offer->epoch;
    made->layout = layout;
    made->units = gpud_media_get_units(&offer->media);
    made->entries = slots;
    made->page_fd = made->metas_handle.fd = -1;
    atomic_init(&made->wake, -1);

    const struct gpud_remote_ops *remote = route->network ? channel->ops->remote : NULL;
    if (route->network && !remote) {
        status =
            gpud_fail(error, GPUD_PEER, "the sender offers %s, and is on this host", route->name);
    } else if (made->owns_ring) {
        status = make_ring(made, log, error);
    } else { /* the sender's */
        gpud_ring_init(&made->ring, made->on_host ? made->host : device, GPUD_USAGE_SHARE,
                       layout.size, 1);
        made->ring.has_images = layout.modifier != 0;
        status = session_grow(made, &offer->ring, error);
    }
    if (status == GPUD_OK && made->ring.memories && made->views[0]->unpinned)
        gpud_log_info(log, "receiver", "the CPU carries each frame: %s does not pin %s",
                      device->info.name,
                      made->views[0]->read_only ? "host memory that may only be read"
                                                : "the host memory that carries the frames");
    made->uploads = own->alloc || made->ring.device != device;
    if (!made->owns_ring && !made->uploads)
        made->entries = GPUD_PAGE_ENTRIES; /* the sender's ring may grow */
    if (status == GPUD_OK && made->uploads)
        status = make_upload(made, own, error);
    if (status == GPUD_OK)
        status = make_page(made, remote, &offer->page, error);
    made->slots_max = offer->slots_max;
    if (offer->slots)
        session_set_slots(made, offer->slots);
    if (status == GPUD_OK)
        status = make_metas(made, offer->large_meta_max, error);
    if (status != GPUD_OK) {
        gpud_session_unref(&made);
        return status;
    }
    *session = made;
    return GPUD_OK;
}

/* After the ACCEPT was sent: this side needs only the mappings. */
static void session_close_fds(struct gpud_session *session)
{
    gpud_fd_close(&session->page_fd);
    gpud_fd_close(&session->metas_handle.fd);
}

static void session_destroy(void *arg)
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
    session_close_fds(gone);
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
        gpud_watchdog_end(&gone->watchdog, session_destroy, gone);
        return;
    }
    gpud_memory_unmap_pages(gone->page, sizeof(*gone->page));
    session_destroy(gone);
}

/* Ends the receiver's use of the session; its held frames stay valid for their holders. */
static void session_detach(struct gpud_session *session)
{
    if (session->remote)
        session->remote->ops->detach(session->remote);
}

/* Why frames cannot come while they are written; NULL: they can. */
static const char *session_whole_reason(const struct gpud_session *session)
{
    if (gpud_layout_is_block(&session->layout))
        return "a block has no lines: it comes as a whole";
    if (session->place == GPUD_SIGNAL_MEMORY)
        return "this route has a signal for a frame, and none for its rows";
    if (session->route->slots)
        return "this route gives the frame's memory to the receiver's device, as a whole";
    if (session->layout.modifier && (session->owns_ring || session->uploads || session->on_host))
        return "the frames are copied, and their pixels do not lie row by row";
    return NULL;
}

/* === connect ================================================================================= */
/* From OFFLINE to a connection on which HELLO was sent, and the end of every connection. */

#define AREA "receiver"

static const struct gpud_log *log_of(const struct gpud_receiver *receiver)
{
    return &receiver->context->log;
}

/* GPUD_PEER: the sender is gone. GPUD_INVALID: this message cannot be encoded. */
static enum gpud_status receiver_send(struct gpud_receiver *receiver, struct gpud_message *message,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_channel_send(receiver->channel, message, error);
    if (status == GPUD_OK || status == GPUD_INVALID)
        return status;
    /* What the sender sent before its end is read first, and says more. */
    if (status == GPUD_PEER && receiver->state != GPUD_RECEIVER_HELLO)
        return GPUD_OK;
    return gpud_fail(error, GPUD_PEER, "the sender vanished during the handshake");
}

/* Another thread than the one that acquires may send, as those that release frames do. A message
 * that does not fit is sent with the next wish, or the next format. */
void gpud_receiver_ask_for_slots(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    struct gpud_message message = {.type = GPUD_MESSAGE_SLOTS};
    if (!session || session->owns_ring)
        return;
    uint32_t most = session_slots_max(session);
    message.slots = receiver->slots_wished < most ? receiver->slots_wished : most;
    if (message.slots <= session_slots(session) || message.slots <= session->slots_asked)
        return;
    if (gpud_channel_send(session->channel, &message, NULL) == GPUD_OK)
        session->slots_asked = message.slots;
}

/* Handles the sender's refusal of this receiver; *error has its reason. */
static enum gpud_status receiver_take_refusal(struct gpud_receiver *receiver,
                                              const struct gpud_refuse *refuse,
                                              struct gpud_error *error)
{
    /* AGAIN would tell the caller that nothing is wrong. */
    enum gpud_status status = refuse->status == GPUD_AGAIN       ? GPUD_PEER
                              : refuse->status == GPUD_NO_ACCESS ? GPUD_NO_ACCESS
                                                                 : GPUD_UNSUPPORTED;
    receiver->refused = true;
    return gpud_fail(error, status, "the sender refused: %s", refuse->reason);
}

/* --- ending -------------------------------------------------------------------------------- */

void gpud_receiver_collect(struct gpud_receiver *receiver, struct gpud_receiver_info *info)
{
    if (!receiver->session)
        return;
    info->kicks += atomic_load(&receiver->session->kicks);
    info->copies_cpu += atomic_load(&receiver->session->copies_cpu);
    info->copies_gpu += atomic_load(&receiver->session->copies_gpu);
    info->waits_device += atomic_load(&receiver->session->waits_device);
}

/* Ends the session, if there is one; frames still held stay valid. */
static void receiver_drop_session(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    if (!session)
        return;
    gpud_lock_take(&receiver->lock);
    gpud_receiver_collect(receiver, &receiver->info);
    receiver->session = NULL;
    gpud_lock_release(&receiver->lock);
    session_detach(session);
    gpud_session_unref(&session);
}

/* The same for one that was never used. */
static void receiver_drop_next(struct gpud_receiver *receiver)
{
    if (!receiver->next.session)
        return;
    session_detach(receiver->next.session);
    gpud_session_unref(&receiver->next.session);
}

void gpud_receiver_disconnect(struct gpud_receiver *receiver, int64_t retry_in, const char *why)
{
    if (receiver->channel) {
        struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
        gpud_log_info(log_of(receiver), AREA, "the link to %s is over: %s",
                      receiver->peer.name[0] ? receiver->peer.name : receiver->address.place, why);
        gpud_print(message.refuse.reason, "%s", why);
        /* If the BYE cannot be sent, hang up: held frames would keep the connection open. */
        if (gpud_channel_send(receiver->channel, &message, NULL) != GPUD_OK)
            gpud_channel_hang_up(receiver->channel);
        GPUD_STOP_POINT("receiver: BYE sent");
    }
    if (receiver->session)
        gpud_session_poison(receiver->session);
    receiver_drop_session(receiver);
    receiver_drop_next(receiver);
    receiver->next.state = GPUD_RECEIVER_OFFLINE;
    receiver->next.failed = false;
    if (receiver->pending)
        gpud_message_close(&receiver->message);
    gpud_receiver_poll_unwatch(receiver);
    gpud_channel_unref(&receiver->channel);
    gpud_lock_take(&receiver->lock);
    if (receiver->info.connected)
        receiver->info.disconnects++;
    receiver->info.connected = false;
    gpud_print(receiver->info.path, "none");
    receiver->info.degraded = GPUD_DEGRADED_NO;
    receiver->info.encrypted[0] = '\0';
    gpud_lock_release(&receiver->lock);
    receiver->pending = receiver->eof = receiver->unread = false;
    receiver->refused = receiver->has_refused = false;
    receiver->own.failed = false;
    /* A failed queue stays failed: the next session gets a new one. */
    gpud_lock_take(&receiver->lock);
    struct gpud_queue *queue = receiver->queue;
    receiver->queue = NULL;
    if (queue)
        receiver->info.waits_device += atomic_load(&queue->waits);
    gpud_lock_release(&receiver->lock);
    gpud_queue_unref(&queue);
    receiver->state = GPUD_RECEIVER_OFFLINE;
    receiver->deadline = INT64_MAX;
    receiver->retry = gpud_now() + retry_in;
    receiver->discontinuity = true;
    free(receiver->reported_format);
    receiver->reported_format = NULL;
    receiver->last_sequence = 0;
    receiver->counting = false;
}

int64_t gpud_receiver_retry_in(const struct gpud_receiver *receiver, enum gpud_status status)
{
    if (receiver->refused || receiver->own.failed || status == GPUD_NO_MEMORY ||
        status == GPUD_UNSUPPORTED)
        return GPUD_RETRY_LATER;
    /* After an orderly end another sender may have the address already; a misbehaving one would
     * only misbehave again. */
    bool left = receiver->state == GPUD_RECEIVER_STREAMING && receiver->eof;
    return left ? 0 : GPUD_RETRY_SOON;
}

/* --- connecting ---------------------------------------------------------------------------- */

static enum gpud_status say_hello(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    gpud_endpoint_describe(&message.hello, receiver->device, receiver->name);
    if (receiver->modifier_count)
        message.hello.caps |= receiver->device->caps & GPUD_CAP_IMAGES;
    gpud_print(message.hello.route, "%s", receiver->route);
    message.hello.slots = receiver->slots;
    message.hello.slow_receiver = (uint8_t)receiver->slow_receiver;
    message.hello.require_direct = receiver->require_direct;
    const struct gpud_remote_ops *remote = receiver->channel->ops->remote;
    if (remote)
        remote->describe(receiver->channel, receiver->device, &message.hello.network);
    return receiver_send(receiver, &message, error);
}

static enum gpud_status greet(struct gpud_receiver *receiver, struct gpud_error *error)
{
    receiver->state = GPUD_RECEIVER_HELLO;
    receiver->deadline = gpud_deadline(GPUD_HELLO_DEADLINE);
    gpud_channel_watch_peer(receiver->channel);
    enum gpud_status status = say_hello(receiver, error);
    if (status != GPUD_OK) {
        /* The sender may have sent a refusal. */
        struct gpud_message message;
        struct gpud_error why;
        bool refused = false;
        if (gpud_channel_receive(receiver->channel, &message, NULL) == GPUD_OK) {
            refused = message.type == GPUD_MESSAGE_REFUSE;
            if (refused)
                receiver_take_refusal(receiver, &message.refuse, &why);
            gpud_message_close(&message);
        }
        gpud_receiver_disconnect(receiver, refused ? GPUD_RETRY_LATER : GPUD_RETRY_SOON,
                                 "the handshake failed");
        if (refused) {
            receiver->failure = why;
            return gpud_fail(error, why.status, "%s", why.reason);
        }
        return gpud_fail(error, GPUD_AGAIN, "no sender listens on %.120s", receiver->address.place);
    }
    gpud_await_end(&receiver->waiting);
    GPUD_STOP_POINT("receiver: HELLO sent");
    return GPUD_OK;
}

static void go_on_waiting(struct gpud_receiver *receiver)
{
    gpud_await_sender(&receiver->waiting, &receiver->address, &receiver->access, receiver->name);
}

/* Advances from OFFLINE and CONNECTING towards HELLO; as gpud_receiver_step(). */
static enum gpud_status receiver_connect(struct gpud_receiver *receiver, struct gpud_error *error)
{
    if (gpud_now() < receiver->retry)
        return gpud_fail(error, GPUD_AGAIN, "no sender listens on %.120s", receiver->address.place);
    if (!receiver->queue) {
        enum gpud_status made = gpud_queue_create(receiver->device, &receiver->queue, error);
        if (made != GPUD_OK)
            return made;
    }
    enum gpud_status status =
        gpud_channel_connect(&receiver->address, &receiver->access, &receiver->channel, error);
    if (status == GPUD_AGAIN || status == GPUD_NO_DEVICE)
        go_on_waiting(receiver);
    if (status != GPUD_OK) {
        receiver->retry = gpud_now() + (status == GPUD_AGAIN ? GPUD_RETRY_SOON : GPUD_RETRY_LATER);
        receiver->failure = *error;
        if (status == GPUD_AGAIN)
            receiver->failure.status = GPUD_OK;
        /* A network, with its cards and modules, may come up later. */
        return status == GPUD_NO_DEVICE ? GPUD_AGAIN : status;
    }
    receiver->peer = (struct gpud_peer_info){.name = ""};
    if (atomic_load(&receiver->channel->connected))
        return greet(receiver, error);
    receiver->state = GPUD_RECEIVER_CONNECTING;
    receiver->deadline = gpud_deadline(GPUD_CONNECT_DEADLINE);
    return GPUD_OK;
}

static enum gpud_status receiver_await_channel(struct gpud_receiver *receiver,
                                               struct gpud_error *error)
{
    struct gpud_channel *channel = receiver->channel;
    struct gpud_message message;
    if (atomic_load(&channel->connected))
        return greet(receiver, error);
    enum gpud_status status = gpud_channel_receive(channel, &message, error);
    if (atomic_load(&channel->connected) && status == GPUD_AGAIN)
        return greet(receiver, error);
    if (status == GPUD_OK) { /* a sender only answers */
        gpud_message_close(&message);
        status = gpud_fail(error, GPUD_PEER,
                           "%.120s is not a gpudirect sender: it sends before it is asked",
                           receiver->address.place);
    }
    if (status == GPUD_AGAIN && gpud_now() >= receiver->deadline)
        status = gpud_fail(error, GPUD_TIMEOUT, "%.120s did not answer within %d s",
                           receiver->address.place, (int)(GPUD_CONNECT_DEADLINE / GPUD_SEC));
    if (status == GPUD_AGAIN)
        return status;
    /* Schedules another try, because the cause may go away; a caller that times out meanwhile gets
     * this reason. GPUD_NO_ACCESS is final. */
    struct gpud_error why = *error;
    go_on_waiting(receiver);
    gpud_receiver_disconnect(receiver, GPUD_RETRY_LATER, why.reason);
    receiver->failure = why;
    return why.status == GPUD_NO_ACCESS ? GPUD_NO_ACCESS
                                        : gpud_fail(error, GPUD_AGAIN, "%s", why.reason);
}

/* === handshake =============================================================================== */
/* The receiver's side of the handshake; wire/wire.h shows the sequence. */

static void handshake_tell(struct gpud_receiver *receiver, enum gpud_event event, const void *data)
{
    if (receiver->on_event)
        receiver->on_event(receiver->user, event, data);
}

/* --- an offer ------------------------------------------------------------------------------ */

/* Tells the sender why its offer is of no use here; it offers the next route. */
static enum gpud_status receiver_refuse(struct gpud_receiver *receiver, uint32_t epoch,
                                        const struct gpud_error *why, struct gpud_error *error)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    message.refuse.epoch = epoch;
    message.refuse.status = why->status;
    gpud_print(message.refuse.reason, "%s", why->reason);
    gpud_log_info(log_of(receiver), AREA, "refused what the sender offered: %s", why->reason);
    receiver->has_refused = true;
    return receiver_send(receiver, &message, error);
}

static enum gpud_status refuse_offer(struct gpud_receiver *receiver, uint32_t epoch,
                                     const struct gpud_error *why, struct gpud_error *error)
{
    receiver_drop_session(receiver);
    receiver->state = GPUD_RECEIVER_IDLE;
    receiver->deadline = gpud_deadline(GPUD_IMPORT_DEADLINE);
    return receiver_refuse(receiver, epoch, why, error);
}

/* Whether this receiver takes such frames. */
static enum gpud_status check_layout(const struct gpud_receiver *receiver,
                                     const struct gpud_offer *offer, struct gpud_error *error)
{
    struct gpud_layout layout;
    enum gpud_status status = gpud_media_get_layout(&offer->media, &layout, error);
    if (status != GPUD_OK)
        return status;
    /* Memory that a sender has not written costs it nothing; here each page that is read does. */
    uint64_t most =
        receiver->max_frame_size ? receiver->max_frame_size : gpud_layout_reasonable_size(&layout);
    if (layout.size > most)
        return gpud_fail(
            error, GPUD_UNSUPPORTED,
            "a frame of %ux%u %s has %llu bytes, and this receiver takes %llu at most: "
            "set max-frame-size (max_frame_size) there if the sender may be trusted",
            layout.width, layout.height, layout.format, (unsigned long long)layout.size,
            (unsigned long long)most);
    /* Images of a receiver that asked for some; another one gets the bytes of a picture with a
     * modifier as they are. */
    if (receiver->modifier_count == 0 || layout.modifier == 0 ||
        !(receiver->device->caps & GPUD_CAP_IMAGES))
        return GPUD_OK;
    return gpud_image_check(receiver->device, &layout,
                            offer->ring.memories ? offer->ring.slot_size : 0, receiver->modifiers,
                            receiver->modifier_count, error);
}

static enum gpud_status make_session(struct gpud_receiver *receiver, const struct gpud_offer *offer,
                                     struct gpud_session **session, struct gpud_error *error)
{
    const struct gpud_route_ops *route = gpud_route_find(offer->route);
    if (!route)
        return gpud_fail(error, GPUD_UNSUPPORTED, "the route \"%s\" is not known here",
                         offer->route);
    if ((receiver->require_direct && gpud_route_is_detour(route, receiver->device->caps)) ||
        (receiver->route[0] && strcmp(receiver->route, route->name) != 0))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the route \"%s\" is not what this receiver asked for", route->name);
    if (route->ring == GPUD_RING_SENDER_DEVICE && !route->network && offer->ring.memories == 0)
        return gpud_fail(error, GPUD_PEER, "the sender offers to share a ring and sends none");
    enum gpud_status status = check_layout(receiver, offer, error);
    uint32_t slots = receiver->slots ? receiver->slots : offer->slots;
    if (status == GPUD_OK && !slots)
        slots = route->memory_per_slot
                    ? receiver->picture_slots
                    : gpud_media_default_slots(&offer->media, receiver->picture_slots);
    if (status == GPUD_OK)
        status = session_create(receiver, offer, route, slots, session, error);
    if (status != GPUD_OK)
        return status;
    if (receiver->by_lines && !session_whole_reason(*session)) {
        (*session)->by_lines = true;
        gpud_page_ask_for_lines(&(*session)->view); /* before the sender knows the page */
    }
    gpud_session_make_frames(*session);
    return GPUD_OK;
}

/* The same picture, where it could not be received as an image. */
static bool is_as_rows(const struct gpud_media *now, const struct gpud_media *before)
{
    struct gpud_media same = *before;
    if (now->kind != GPUD_MEDIA_PICTURE || before->kind != GPUD_MEDIA_PICTURE ||
        before->picture.layout.modifier == 0 || now->picture.layout.modifier != 0)
        return false;
    same.picture.layout = now->picture.layout;
    return gpud_media_equal(&same, now);
}

/* An epoch has one format on all routes, because the application reads frames by the format it was
 * given. */
static enum gpud_status check_epoch(const struct gpud_receiver *receiver,
                                    const struct gpud_offer *offer, struct gpud_error *error)
{
    const struct gpud_format_event *known = receiver->reported_format;
    if (offer->epoch == 0)
        return gpud_fail(error, GPUD_PEER, "the sender broke the protocol: epochs count from 1");
    if (!known || receiver->offered_epoch != offer->epoch ||
        gpud_media_equal(&known->media, &offer->media) ||
        (receiver->state != GPUD_RECEIVER_STREAMING && is_as_rows(&offer->media, &known->media)))
        return GPUD_OK;
    return gpud_fail(error, GPUD_PEER,
                     "the sender broke the protocol: another format, and the same epoch");
}

/* Makes the offered session, and accepts it. The descriptors of the ACCEPT are the session's,
 * except for the ring's handles. */
static enum gpud_status take_offer(struct gpud_receiver *receiver, const struct gpud_offer *offer,
                                   struct gpud_session **made, struct gpud_error *why)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_ACCEPT};
    struct gpud_accept *accept = &message.accept;
    enum gpud_status status = make_session(receiver, offer, made, why);
    if (status != GPUD_OK)
        return status;
    GPUD_STOP_POINT("receiver: ring imported");
    const struct gpud_session *session = *made;
    accept->epoch = session->epoch;
    accept->entries = session->entries;
    accept->large_metas = session->metas_handle;
    if (session->remote) {
        accept->page = session->remote_page;
        status = session->remote->ops->expose(session->remote, &session->ring, &accept->ring, why);
    } else {
        accept->page = (struct gpud_handle){
            .type = GPUD_HANDLE_MEMFD, .fd = session->page_fd, .size = sizeof(struct gpud_page)};
        accept->ring.memories = 0;
        if (session->owns_ring) /* the same handles carry the signals, which are the memories' */
            status = gpud_ring_describe(&session->ring, 0, false, &accept->ring, why);
    }
    if (status == GPUD_OK) {
        status = receiver_send(receiver, &message, why);
        GPUD_STOP_POINT("receiver: ACCEPT sent");
        gpud_ring_description_close(&accept->ring);
        session_close_fds(*made); /* this side needs only the mappings */
    }
    if (status != GPUD_OK)
        gpud_session_unref(made);
    return status;
}

/* Frames are the session's from here on. */
static enum gpud_status use_session(struct gpud_receiver *receiver, struct gpud_session *session,
                                    const struct gpud_offer *offer, struct gpud_error *error)
{
    struct gpud_receiver_info *info = &receiver->info;
    const char *whole = receiver->by_lines ? session_whole_reason(session) : "not asked for";
    receiver->messages = 0;
    gpud_lock_take(&receiver->lock);
    receiver->session = session;
    info->slots = session_slots(session);
    info->slots_max = session_slots_max(session);
    gpud_receiver_ask_for_slots(receiver);
    gpud_print(info->path, "%s", offer->route);
    gpud_print(info->encrypted, "%s", receiver->channel->encryption);
    gpud_print(info->fallback_reason, "%s%s%s",
               receiver->own.alloc ? "the frames are copied into the application's own memory" : "",
               receiver->own.alloc && offer->reason[0] ? "; " : "", offer->reason);
    info->degraded = (enum gpud_degraded)offer->degraded;
    gpud_print(info->whole_reason, "%s", whole ? whole : "");
    gpud_lock_release(&receiver->lock);

    struct gpud_format_event *known = receiver->reported_format;
    bool same = known && receiver->offered_epoch == offer->epoch;
    session->number = same ? known->epoch : ++*receiver->last_epoch;
    if (same && !is_as_rows(&offer->media, &known->media))
        return GPUD_OK;
    if (!known)
        known = receiver->reported_format = malloc(sizeof(*known));
    if (!known)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a format");
    known->epoch = session->number;
    receiver->offered_epoch = offer->epoch;
    known->media = offer->media;
    receiver->kind = offer->media.kind;
    gpud_print(known->device, "%s", receiver->sender_device);
    gpud_print(known->pci, "%s", receiver->sender_pci);
    const struct gpud_layout *layout = &session->layout;
    gpud_log_info(log_of(receiver), AREA, "epoch %u: %ux%u %s, %" PRIu64 " bytes a frame, by %s",
                  offer->epoch, layout->width, layout->height, layout->format, layout->size,
                  offer->route);
    handshake_tell(receiver, GPUD_EVENT_FORMAT, known);
    return GPUD_OK;
}

static enum gpud_status accept_offer(struct gpud_receiver *receiver, const struct gpud_offer *offer,
                                     struct gpud_error *error)
{
    struct gpud_session *session;
    struct gpud_error why;
    enum gpud_status status = check_epoch(receiver, offer, error);
    if (status != GPUD_OK)
        return status;
    GPUD_STOP_POINT(receiver->info.connected ? "receiver: new epoch's OFFER read"
                                             : "receiver: OFFER read");
    receiver_drop_session(receiver);
    receiver->has_refused = false;
    if (take_offer(receiver, offer, &session, &why) != GPUD_OK) {
        if (receiver->own.failed) /* no other route would help */
            return gpud_fail_native(error, why.status, why.origin, why.native, "%s", why.reason);
        return refuse_offer(receiver, offer->epoch, &why, error);
    }
    receiver->state = GPUD_RECEIVER_CANARY;
    receiver->deadline = gpud_deadline(GPUD_IMPORT_DEADLINE);
    return use_session(receiver, session, offer, error);
}

/* --- the test of the link ------------------------------------------------------------------ */

/* Whether the test frame holds the pattern. GPUD_AGAIN: it has not arrived; the sender publishes it
 * when its copy is done. */
static enum gpud_status check_canary(struct gpud_receiver *receiver, struct gpud_session *session,
                                     uint64_t nonce, int64_t deadline, struct gpud_error *why)
{
    struct gpud_rx_frame *rx = NULL;
    bool whole = false, late = gpud_now() >= deadline;
    enum gpud_status status = gpud_page_check_sender(&session->view, why);
    if (status != GPUD_OK)
        return status;
    status = gpud_session_next_frame(session, gpud_page_head(&session->view), &rx, why);
    if (status == GPUD_AGAIN && late)
        return gpud_fail(why, GPUD_TIMEOUT, "the test frame did not arrive within %d s",
                         (int)(GPUD_CANARY_DEADLINE / GPUD_SEC));
    if (status != GPUD_OK)
        return status;
    GPUD_STOP_POINT("receiver: test frame claimed");
    struct gpud_frame *frame = &rx->frame;
    if (!(frame->info.flags & GPUD_FRAME_CANARY))
        status = gpud_fail(why, GPUD_PEER, "the sender sent frames before the test of the link");
    else
        status = gpud_pattern_receive(frame, nonce, GPUD_CANARY_DEADLINE, &whole, why);
    if (status == GPUD_OK && !whole)
        status = gpud_fail(why, GPUD_IO,
                           "what was sent did not arrive: the test pattern is not in the "
                           "destination");
    if (receiver->last_sequence == 0)
        receiver->last_sequence = frame->info.sequence;
    session->view.last_sequence = frame->info.sequence;
    gpud_frame_release(&frame);
    return status;
}

static enum gpud_status say_ready(struct gpud_receiver *receiver, uint32_t epoch,
                                  struct gpud_error *error)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_READY, .epoch = epoch};
    enum gpud_status status = receiver_send(receiver, &message, error);
    if (status == GPUD_OK)
        GPUD_STOP_POINT("receiver: READY sent");
    return status;
}

static enum gpud_status read_message(struct gpud_receiver *receiver, struct gpud_error *error);

static enum gpud_status test_link(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_error why;
    bool dead = gpud_channel_is_dead(receiver->channel); /* first: see handle_pending() */
    enum gpud_status status =
        check_canary(receiver, receiver->session, receiver->nonce, receiver->deadline, &why);
    if (status != GPUD_OK && dead)
        return read_message(receiver, error); /* an EOS may be the last one */
    if (status == GPUD_AGAIN)
        return status;
    if (status != GPUD_OK)
        return refuse_offer(receiver, receiver->session->epoch, &why, error);
    status = say_ready(receiver, receiver->session->epoch, error);
    if (status != GPUD_OK)
        return status;

    receiver->state = GPUD_RECEIVER_STREAMING;
    receiver->deadline = INT64_MAX;
    receiver->failure.status = GPUD_OK;
    receiver->unread = true;
    gpud_lock_take(&receiver->lock);
    bool first = !receiver->info.connected;
    receiver->info.connected = true;
    receiver->info.connects += first;
    gpud_lock_release(&receiver->lock);
    if (first) {
        gpud_print(receiver->peer.path, "%s", receiver->info.path);
        gpud_print(receiver->peer.fallback_reason, "%s", receiver->info.fallback_reason);
        receiver->peer.degraded = receiver->info.degraded;
        receiver->peer.id = receiver->info.connects;
        char peer_text[GPUD_PEER_TEXT_MAX];
        gpud_log_info(log_of(receiver), AREA, "connected to %s (%s) by %s%s%s", receiver->peer.name,
                      gpud_peer_text(&receiver->channel->peer, peer_text), receiver->peer.path,
                      receiver->peer.fallback_reason[0] ? ", because " : "",
                      receiver->peer.fallback_reason);
        gpud_warn_unencrypted(log_of(receiver), AREA, receiver->channel,
                              &receiver->warned_unencrypted);
        handshake_tell(receiver, GPUD_EVENT_CONNECTED, &receiver->peer);
    }
    return GPUD_OK;
}

/* --- messages ------------------------------------------------------------------------------ */

static enum gpud_status unexpected(const struct gpud_message *message, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_PEER, "the sender broke the protocol: an unexpected %s",
                     gpud_message_name(message->type));
}

static void take_hello(struct gpud_receiver *receiver, const struct gpud_endpoint *hello)
{
    const struct gpud_peer *peer = &receiver->channel->peer;
    struct gpud_endpoint self;
    gpud_endpoint_describe(&self, receiver->device, receiver->name);
    receiver->peer.pid = peer->pid;
    gpud_print(receiver->peer.host, "%s", peer->host);
    gpud_print(receiver->peer.name, "%s", hello->name);
    gpud_print(receiver->sender_device, "%s", hello->device);
    gpud_print(receiver->sender_pci, "%s", hello->pci);
    receiver->peer.same_clock = gpud_endpoints_share_clock(hello, &self, gpud_peer_is_here(peer));
    memset(&receiver->stats, 0, sizeof(receiver->stats));
    if (!receiver->peer.same_clock) { /* latencies counted so far are another sender's */
        gpud_lock_take(&receiver->lock);
        receiver->latency_count = 0;
        gpud_lock_release(&receiver->lock);
    }
    receiver->state = GPUD_RECEIVER_IDLE;
    receiver->deadline = INT64_MAX;
}

/* Handles GROW, SHRINK and SLOTS: about the sender's ring, which the session maps. */
static enum gpud_status handle_ring(struct gpud_receiver *receiver, struct gpud_session *session,
                                    const struct gpud_message *message, struct gpud_error *error)
{
    struct gpud_error why;
    if (!session && receiver->has_refused && message->type != GPUD_MESSAGE_SHRINK)
        return GPUD_OK; /* of the refused ring: the two messages crossed */
    if (!session || session->owns_ring)
        return unexpected(message, error);
    if (message->type == GPUD_MESSAGE_SHRINK)
        return session_shrink(session, message->shrink, error);
    if (message->type == GPUD_MESSAGE_SLOTS) {
        if (message->slots == 0)
            return unexpected(message, error);
        session_set_slots(session, message->slots);
        if (session == receiver->session) {
            gpud_lock_take(&receiver->lock);
            receiver->info.slots = session_slots(session);
            gpud_lock_release(&receiver->lock);
        }
        return GPUD_OK;
    }
    /* Memory that the sender adds is part of its offer: a failure ends this link, but is not one of
     * the receiver's device. */
    enum gpud_status status = session_grow(session, &message->grow, &why);
    if (status == GPUD_OK)
        return GPUD_OK;
    return gpud_fail_native(error, status == GPUD_PEER ? GPUD_PEER : GPUD_UNSUPPORTED, why.origin,
                            why.native, "the sender's ring grew, and cannot be used: %s",
                            why.reason);
}

enum gpud_status gpud_receiver_handle(struct gpud_receiver *receiver, struct gpud_message *message,
                                      struct gpud_error *error)
{
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        if (receiver->state != GPUD_RECEIVER_HELLO)
            return unexpected(message, error);
        take_hello(receiver, &message->hello);
        return GPUD_OK;
    case GPUD_MESSAGE_OFFER:
        if (receiver->state == GPUD_RECEIVER_HELLO)
            return unexpected(message, error);
        return accept_offer(receiver, &message->offer, error);
    case GPUD_MESSAGE_CANARY:
        if (receiver->state != GPUD_RECEIVER_CANARY ||
            message->canary.epoch != receiver->session->epoch)
            return unexpected(message, error);
        receiver->nonce = message->canary.nonce;
        receiver->state = GPUD_RECEIVER_TESTING;
        receiver->deadline = gpud_deadline(GPUD_CANARY_DEADLINE);
        return GPUD_OK;
    case GPUD_MESSAGE_GROW:
    case GPUD_MESSAGE_SHRINK:
    case GPUD_MESSAGE_SLOTS:
        return handle_ring(receiver, receiver->session, message, error);
    case GPUD_MESSAGE_EVENT: {
        if (receiver->state == GPUD_RECEIVER_HELLO)
            return unexpected(message, error);
        struct gpud_user_event event = {
            .kind = message->event.kind,
            .data = message->event.data,
            .size = message->event.size,
        };
        handshake_tell(receiver, GPUD_EVENT_USER, &event);
        GPUD_STOP_POINT("receiver: event handled");
        return GPUD_OK;
    }
    case GPUD_MESSAGE_EOS:
        if (!receiver->info.connected) /* no stream has begun on this connection */
            return unexpected(message, error);
        GPUD_STOP_POINT("receiver: EOS read");
        return gpud_fail(error, GPUD_CLOSED, "the sender ended the stream");
    case GPUD_MESSAGE_KICK: /* only wakes this thread */
        return GPUD_OK;
    case GPUD_MESSAGE_BYE:
        receiver->eof = true;
        return gpud_fail(error, GPUD_PEER, "the sender said goodbye: %s", message->refuse.reason);
    case GPUD_MESSAGE_REFUSE:
        return receiver_take_refusal(receiver, &message->refuse, error);
    default:
        return unexpected(message, error);
    }
}

/* Reads and handles one message of the handshake. */
static enum gpud_status read_message(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_message message;
    enum gpud_status status = GPUD_OK;
    if (receiver->pending) { /* read when the session before was in use */
        message = receiver->message;
        receiver->pending = false;
    } else {
        status = gpud_channel_receive(receiver->channel, &message, error);
    }
    if (status == GPUD_CLOSED && receiver->state == GPUD_RECEIVER_HELLO)
        return gpud_fail(error, GPUD_PEER,
                         "the sender vanished during the handshake: it died, or is of a release "
                         "that hangs up on version %d of the protocol: use the same release",
                         GPUD_MESSAGE_VERSION);
    if (status == GPUD_CLOSED)
        return gpud_fail(error, GPUD_PEER, "the sender vanished during the handshake");
    if (status != GPUD_OK)
        return status;
    status = gpud_receiver_handle(receiver, &message, error);
    gpud_message_close(&message);
    return status;
}

/* --- the next session ------------------------------------------------------------------------ */

/* Of its handshake, beside each frame: a flood of messages must not hold the frames up. */
#define STEPS_A_CALL 4

void gpud_receiver_prepare(struct gpud_receiver *receiver)
{
    struct gpud_next_session *next = &receiver->next;
    const struct gpud_offer *offer = &receiver->message.offer;
    struct gpud_error why;
    if (!receiver->pending || receiver->message.type != GPUD_MESSAGE_OFFER || next->failed)
        return;
    const struct gpud_route_ops *route = gpud_route_find(offer->route);
    /* An application may have memory for one session only; so has a network's record. */
    next->failed = receiver->own.alloc || !route || route->network ||
                   check_epoch(receiver, offer, &why) != GPUD_OK;
    if (next->failed)
        return;
    GPUD_STOP_POINT("receiver: new epoch's OFFER read");
    next->failed = take_offer(receiver, offer, &next->session, &why) != GPUD_OK;
    if (next->failed) {
        gpud_log_debug(log_of(receiver), AREA, "what the sender offers has to wait: %s",
                       why.reason);
        return;
    }
    next->state = GPUD_RECEIVER_CANARY;
    next->position = receiver->message.position;
    next->offer = *offer;
    receiver->has_refused = receiver->pending = false;
    gpud_message_close(&receiver->message);
}

static enum gpud_status test_next(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_next_session *next = &receiver->next;
    uint32_t epoch = next->session->epoch;
    struct gpud_error why;
    enum gpud_status status =
        check_canary(receiver, next->session, next->nonce, next->deadline, &why);
    if (status == GPUD_AGAIN)
        return status;
    if (status != GPUD_OK) {
        receiver_drop_next(receiver);
        next->state = GPUD_RECEIVER_IDLE;
        return receiver_refuse(receiver, epoch, &why, error);
    }
    next->state = GPUD_RECEIVER_STREAMING;
    return say_ready(receiver, epoch, error);
}

/* A message of the handshake is handled at once; another one stays pending for the next session. */
static enum gpud_status handle_next(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_next_session *next = &receiver->next;
    const struct gpud_message *message = &receiver->message;
    switch (message->type) {
    case GPUD_MESSAGE_CANARY:
        if (next->state != GPUD_RECEIVER_CANARY || message->canary.epoch != next->session->epoch)
            return unexpected(message, error);
        next->nonce = message->canary.nonce;
        next->state = GPUD_RECEIVER_TESTING;
        next->deadline = gpud_deadline(GPUD_CANARY_DEADLINE);
        break;
    case GPUD_MESSAGE_OFFER: /* by another route, or of one more format */
        receiver_drop_next(receiver);
        next->state = GPUD_RECEIVER_OFFLINE;
        receiver->message.position = next->position;
        receiver->pending = true;
        gpud_receiver_prepare(receiver);
        return GPUD_OK;
    case GPUD_MESSAGE_SLOTS:
        if (message->slots == 0)
            return unexpected(message, error);
        return handle_ring(receiver, next->session, message, error);
    case GPUD_MESSAGE_GROW:
    case GPUD_MESSAGE_SHRINK:
        return handle_ring(receiver, next->session, message, error);
    case GPUD_MESSAGE_KICK:
        break;
    default:
        receiver->pending = true;
        break;
    }
    return GPUD_OK;
}

static enum gpud_status read_for_next(struct gpud_receiver *receiver, struct gpud_error *error)
{
    if (receiver->eof)
        return GPUD_AGAIN;
    enum gpud_status status = gpud_channel_receive(receiver->channel, &receiver->message, error);
    if (status == GPUD_CLOSED) {
        receiver->eof = true; /* seen again when it is its turn */
        return GPUD_AGAIN;
    }
    if (status != GPUD_OK)
        return status;
    status = handle_next(receiver, error);
    if (!receiver->pending)
        gpud_message_close(&receiver->message);
    return status;
}

enum gpud_status gpud_receiver_look_ahead(struct gpud_receiver *receiver, struct gpud_error *error)
{
    const struct gpud_page_rx *view = &receiver->session->view;
    struct gpud_next_session *next = &receiver->next;
    enum gpud_status status = GPUD_OK;
    receiver->messages = gpud_page_messages(view);
    /* Goes on with its handshake, as far as it can without waiting. */
    for (int steps = 0; steps < STEPS_A_CALL && status == GPUD_OK && !receiver->pending &&
                        next->state != GPUD_RECEIVER_STREAMING;
         steps++)
        status = next->state == GPUD_RECEIVER_TESTING ? test_next(receiver, error)
                                                      : read_for_next(receiver, error);
    if (status == GPUD_AGAIN)
        status = GPUD_OK;
    if (status != GPUD_OK || next->state == GPUD_RECEIVER_OFFLINE)
        return status;
    int reached = gpud_page_reached(view, next->position);
    if (reached < 0)
        return gpud_fail(error, GPUD_PEER,
                         "the sender broke the protocol: a format behind more frames than there "
                         "are entries");
    /* The frames before it may be lost with their sender: see handle_pending(). */
    if (reached == 0 && (gpud_page_has_frames(view) || !gpud_channel_is_dead(receiver->channel) ||
                         gpud_page_has_frames(view)))
        return GPUD_AGAIN;
    /* Every frame before it was taken: it takes over, in whatever state it is. */
    struct gpud_session *session = next->session;
    bool tested = next->state == GPUD_RECEIVER_STREAMING;
    receiver_drop_session(receiver);
    receiver->state = next->state;
    receiver->nonce = next->nonce;
    receiver->deadline = tested ? INT64_MAX : gpud_deadline(GPUD_IMPORT_DEADLINE);
    receiver->unread = true;
    next->session = NULL;
    next->state = GPUD_RECEIVER_OFFLINE;
    return session ? use_session(receiver, session, &next->offer, error) : GPUD_OK;
}

enum gpud_status gpud_receiver_step(struct gpud_receiver *receiver, struct gpud_error *error)
{
    if (receiver->state == GPUD_RECEIVER_OFFLINE)
        return receiver_connect(receiver, error);
    if (receiver->state == GPUD_RECEIVER_CONNECTING)
        return receiver_await_channel(receiver, error);
    enum gpud_status status;
    if (receiver->state == GPUD_RECEIVER_TESTING)
        status = test_link(receiver, error);
    else
        status = read_message(receiver, error);
    if (status == GPUD_AGAIN && receiver->state != GPUD_RECEIVER_TESTING &&
        gpud_now() >= receiver->deadline) {
        /* Between hosts the message follows the test frame on the same way. */
        if (receiver->state == GPUD_RECEIVER_CANARY && receiver->session &&
            gpud_address_get_host(receiver->address.text))
            status = gpud_fail(error, GPUD_PEER,
                               "the test frame did not arrive within %d s: the network is too slow "
                               "for frames of %.1f MB, or the sender is stopped",
                               (int)(GPUD_IMPORT_DEADLINE / GPUD_SEC),
                               (double)receiver->session->layout.size / 1e6);
        else
            status =
                gpud_fail(error, GPUD_PEER,
                          "the sender does not answer: is it stopped, or no gpudirect sender?");
    }
    if (status != GPUD_OK && status != GPUD_AGAIN && status != GPUD_CLOSED) {
        receiver->failure = *error;
        gpud_receiver_disconnect(receiver, gpud_receiver_retry_in(receiver, status), error->reason);
    }
    return status;
}
