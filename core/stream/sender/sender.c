/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public sender: epochs, lending, events; submitting stands in submit.c. */
#include "stream/sender/sender.h"

#include "base/sized.h"
#include "base/fd.h"
#include "base/stop.h"
#include "stream/shared/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AREA "sender"
#define SLICE (50 * GPUD_MSEC)

/* --- creating and destroying --------------------------------------------------------------- */

static enum gpud_status read_params(struct gpud_sender_params *own,
                                    const struct gpud_sender_params *params,
                                    struct gpud_error *error)
{
    enum gpud_status status =
        gpud_sized_read(own, sizeof(*own), params, GPUD_END_OF(struct gpud_sender_params, address),
                        "gpud_sender_params", error);
    return status == GPUD_OK
               ? gpud_route_check_params(own->slots, own->slow_receiver, own->route, error)
               : status;
}

enum gpud_status gpud_sender_create(struct gpud_context *context,
                                    const struct gpud_sender_params *params,
                                    struct gpud_sender **sender, struct gpud_error *error)
{
    struct gpud_address address;
    struct gpud_access_rule access = {.kind = GPUD_ACCESS_USER};
    struct gpud_sender_params own;
    enum gpud_status status = read_params(&own, params, error);
    params = &own;
    if (status == GPUD_OK)
        status = gpud_address_resolve(params->address, &address, error);
    if (status == GPUD_OK)
        status = gpud_access_parse(params->access, &access, error);
    if (status == GPUD_OK)
        status = gpud_access_set_key(&access, params->psk_file, error);
    if (status == GPUD_OK) {
        access.allow_unauthenticated = params->allow_unauthenticated;
        status = gpud_access_check(&access, gpud_address_is_network(&address), error);
    }
    if (status != GPUD_OK)
        return status;
    struct gpud_sender *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a sender");

    gpud_lock_init_inheriting(&made->lock, GPUD_RANK_SENDER);
    made->context = context;
    atomic_init(&made->references, 1);
    made->wake = made->retired.wake = -1;
    made->loop = GPUD_LOOP_NONE;
    made->slots = params->slots ? params->slots : 4;
    made->slow_receiver = params->slow_receiver ? params->slow_receiver : GPUD_SLOW_BLOCK;
    made->require_direct = params->require_direct;
    made->on_connect = params->on_connect;
    made->on_disconnect = params->on_disconnect;
    made->user = params->user;
    gpud_print(made->path, "none");
    gpud_print(made->route, "%s", params->route ? params->route : "");
    struct gpud_endpoint self;

    status = gpud_address_open_device(context, params->device, &address, &made->device,
                                      made->device_reason, error);
    if (status == GPUD_OK) {
        gpud_endpoint_describe(&self, made->device, params->name);
        memcpy(made->name, self.name, sizeof(made->name));
        if (self.pci[0])
            gpud_device_numa_node(made->device); /* reads the machine: later it is under the lock */
        status = gpud_device_open(context, "host", &made->host, error);
    }
    if (status == GPUD_OK)
        status = gpud_queue_create(made->device, &made->queue, error);
    if (status == GPUD_OK)
        status = gpud_queue_create(made->host, &made->host_queue, error);
    if (status == GPUD_OK)
        status = gpud_sender_listen(made, &address, &access, error);
    if (status != GPUD_OK) {
        gpud_sender_stop_listening(made);
        gpud_sender_unref(made);
        return status;
    }
    gpud_log_info(&context->log, AREA, "sending on %s, from %s", address.place,
                  made->device->info.name);
    *sender = made;
    return GPUD_OK;
}

/* The last reference: the application's, or that of the last delivery under way. */
void gpud_sender_unref(struct gpud_sender *sender)
{
    if (atomic_fetch_sub(&sender->references, 1) != 1)
        return;
    gpud_delivery_free_records(sender);
    gpud_links_free(sender->retired_links);
    gpud_loop_close(&sender->loop);
    gpud_pool_unref(&sender->host_pool);
    gpud_pool_unref(&sender->device_pool);
    gpud_queue_unref(&sender->host_queue);
    gpud_queue_unref(&sender->queue);
    gpud_device_close(&sender->host);
    gpud_device_close(&sender->device);
    for (int i = 0; i < GPUD_STICKY_MAX; i++)
        free(sender->sticky[i]);
    gpud_lock_destroy(&sender->lock);
    free(sender);
}

/* Lets the deliveries under way end, and what devices have yet to post: afterwards receivers take
 * a missing signal for a crash. */
static void wait_for_deliveries(struct gpud_sender *sender)
{
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->state != GPUD_LINK_DEAD && sender->links[i]->transport &&
            sender->links[i]->transport->queues.post)
            gpud_queue_join(sender->queue, sender->links[i]->transport->queues.post, NULL);
    gpud_sender_unlock(sender);
    if (!(sender->device->caps & GPUD_CAP_SYNCHRONOUS))
        gpud_queue_finish(sender->queue, gpud_deadline(GPUD_SEC / 2), NULL);
    int64_t deadline = gpud_deadline(GPUD_TEARDOWN_DEADLINE);
    const struct timespec nap = {.tv_nsec = GPUD_MSEC / 2};
    while (atomic_load(&sender->references) > 1 && gpud_now() < deadline)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    unsigned left = atomic_load(&sender->references) - 1;
    if (left)
        gpud_log_error(&sender->context->log, AREA,
                       "%u copies do not end: their memory is kept aside", left);
}

void gpud_sender_destroy(struct gpud_sender **sender)
{
    if (!sender || !*sender)
        return;
    struct gpud_sender *gone = *sender;
    struct gpud_context *context = gone->context;
    *sender = NULL;
    wait_for_deliveries(gone); /* first, so that BYE comes after the last frame */
    gpud_sender_stop_listening(gone);

    gpud_sender_lock(gone);
    gone->closing = true;
    gpud_sender_poll_disarm(gone);
    for (uint32_t i = 0; i < gone->link_count; i++) {
        struct gpud_link *link = gone->links[i];
        struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
        gpud_print(message.refuse.reason, "the sender stopped");
        gpud_waiting_drop(link);
        if (link->state != GPUD_LINK_DEAD)
            gpud_link_send(link, &message);
        GPUD_STOP_POINT("sender: BYE sent");
        gpud_link_kill(link, GPUD_LOG_DEBUG, "the sender stopped");
    }
    gone->on_connect = gone->on_disconnect = NULL; /* its end is no news to the application */
    gpud_sender_unlock(gone);
    gpud_links_settle(gone);
    gpud_sender_unref(gone);
    gpud_context_drain(context);
}

/* --- waiting for receivers ----------------------------------------------------------------- */

enum gpud_status gpud_sender_not_configured(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID,
                     "the sender has no format yet: call gpud_sender_configure() first");
}

enum gpud_status gpud_sender_new_format(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID, "the format changed meanwhile");
}

enum gpud_status gpud_sender_interrupted(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_AGAIN, "interrupted");
}

enum gpud_status gpud_sender_bad_timeout(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
}

static uint32_t streaming(const struct gpud_sender *sender)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++)
        count += gpud_link_is_ready(sender->links[i]);
    return count;
}

void gpud_sender_changed(struct gpud_sender *sender)
{
    atomic_fetch_add(&sender->changes, 1);
    gpud_futex_wake(&sender->changes);
    gpud_event_raise(sender->loop.event);
}

void gpud_sender_wait_for_change(struct gpud_sender *sender, int64_t deadline)
{
    int64_t slice = gpud_now() + SLICE;
    uint32_t seen = atomic_load(&sender->changes);
    gpud_sender_unlock(sender);
    gpud_futex_wait(&sender->changes, seen, slice < deadline ? slice : deadline);
    gpud_sender_lock(sender);
}

enum gpud_status gpud_sender_wait(struct gpud_sender *sender, uint32_t count, int64_t timeout_ns,
                                  struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_sender_bad_timeout(error);
    int64_t deadline = gpud_deadline(timeout_ns);
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    while (status == GPUD_OK && streaming(sender) < count) {
        if (atomic_load(&sender->interrupted))
            status = gpud_sender_interrupted(error);
        else if (gpud_now() >= deadline)
            status = gpud_fail(error, GPUD_TIMEOUT, "%u of %u receivers have connected",
                               streaming(sender), count);
        else
            gpud_sender_wait_for_change(sender, deadline);
    }
    gpud_sender_unlock(sender);
    return status;
}

/* --- lending ------------------------------------------------------------------------------- */

static void reap_all(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        struct gpud_error error;
        if (link->state != GPUD_LINK_DEAD && link->transport && link->transport->page.page &&
            gpud_transport_reap(link->transport, &error) != GPUD_OK)
            gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
    }
}

/* Slots that devices of receivers still read: the sender's queue waits for those that it may be
 * held up by. */
static bool await_releases(struct gpud_sender *sender)
{
    bool some = false;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->state != GPUD_LINK_DEAD && link->transport &&
            gpud_link_policy(link) == GPUD_SLOW_BLOCK)
            some |= gpud_transport_await_release(link->transport, sender->queue);
    }
    return some;
}

enum gpud_status gpud_sender_take_slot(struct gpud_sender *sender, struct gpud_pool *pool,
                                       int64_t deadline, struct gpud_slot **slot,
                                       struct gpud_error *error)
{
    uint32_t epoch = sender->epoch;
    enum gpud_ring_place place =
        pool == sender->device_pool ? GPUD_RING_SENDER_DEVICE : GPUD_RING_SENDER_HOST;
    for (;;) {
        if ((*slot = gpud_pool_take(pool)))
            return GPUD_OK;
        reap_all(sender);
        if ((*slot = gpud_pool_take(pool)))
            return GPUD_OK;
        if (await_releases(sender) || gpud_waiting_give_way(sender, pool))
            continue;
        if (atomic_load(&sender->interrupted))
            return gpud_sender_interrupted(error);
        int64_t now = gpud_now();
        sender->lacks_slot = true;
        if (now >= deadline)
            return gpud_pool_explain(pool, error);
        /* Every receiver has its share of the ring, so what is missing is the application's own. */
        struct gpud_pool *kept = pool;
        gpud_pool_ref(kept);
        gpud_sender_unlock(sender);
        gpud_pool_wait(kept, now + GPUD_MSEC < deadline ? now + GPUD_MSEC : deadline);
        gpud_sender_lock(sender);
        gpud_pool_unref(&kept);
        if (epoch != sender->epoch)
            return gpud_sender_new_format(error);
        enum gpud_status status = gpud_sender_get_pool(sender, place, &pool, error);
        if (status != GPUD_OK)
            return status;
    }
}

enum gpud_status gpud_sender_acquire(struct gpud_sender *sender, int64_t timeout_ns,
                                     struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_sender_bad_timeout(error);
    struct gpud_slot *slot = NULL;
    gpud_sender_lock(sender);
    if (timeout_ns == 0)
        gpud_sender_poll_disarm(sender);
    enum gpud_status status = GPUD_OK;
    struct gpud_pool *pool;
    if (!sender->configured)
        status = gpud_sender_not_configured(error);
    else
        status = gpud_sender_get_pool(sender, GPUD_RING_SENDER_DEVICE, &pool, error);
    if (status == GPUD_OK)
        status = gpud_sender_take_slot(sender, pool, gpud_deadline(timeout_ns), &slot, error);
    if (status == GPUD_TIMEOUT && timeout_ns == 0)
        gpud_sender_poll_arm(sender);
    gpud_sender_unlock(sender);
    if (status == GPUD_OK)
        *frame = &slot->frame;
    return status;
}

/* --- events -------------------------------------------------------------------------------- */

static void send_to_all(struct gpud_sender *sender, struct gpud_message *message)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (gpud_link_takes_frames(sender->links[i]))
            gpud_waiting_send(sender->links[i], message);
}

static enum gpud_status keep_sticky(struct gpud_sender *sender,
                                    const struct gpud_user_message *event, struct gpud_error *error)
{
    int place = 0;
    while (place < GPUD_STICKY_MAX && sender->sticky[place] &&
           sender->sticky[place]->kind != event->kind)
        place++;
    if (place == GPUD_STICKY_MAX)
        return gpud_fail(error, GPUD_INVALID, "more than %d kinds of sticky events",
                         GPUD_STICKY_MAX);
    if (!sender->sticky[place] && !(sender->sticky[place] = malloc(sizeof(*event))))
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for an event");
    *sender->sticky[place] = *event;
    return GPUD_OK;
}

enum gpud_status gpud_sender_send_event(struct gpud_sender *sender, uint32_t kind, const void *data,
                                        size_t size, struct gpud_error *error)
{
    if (size > GPUD_MEDIA_MAX)
        return gpud_fail(error, GPUD_INVALID, "an event of %zu bytes: at most %d travel", size,
                         GPUD_MEDIA_MAX);
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};
    message.event.kind = kind;
    message.event.size = (uint32_t)size;
    memcpy(message.event.data, data ? data : "", size);
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    if (kind & GPUD_EVENT_STICKY)
        status = keep_sticky(sender, &message.event, error);
    if (status == GPUD_OK)
        send_to_all(sender, &message);
    GPUD_STOP_POINT("sender: event sent");
    gpud_sender_unlock(sender);
    return status;
}

enum gpud_status gpud_sender_send_eos(struct gpud_sender *sender, struct gpud_error *error)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EOS};
    gpud_sender_lock(sender);
    message.epoch = sender->epoch;
    sender->ended = true;
    gpud_log_info(&sender->context->log, AREA, "the stream ends after %" PRIu64 " frames",
                  sender->sequence);
    send_to_all(sender, &message);
    GPUD_STOP_POINT("sender: EOS sent");
    gpud_sender_unlock(sender);
    return GPUD_OK;
}

/* --- looking ------------------------------------------------------------------------------- */

void gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info)
{
    struct gpud_sender_info now = {0};
    gpud_sender_lock(sender);
    now.receivers = streaming(sender);
    gpud_print(now.path, "%s", sender->path);
    gpud_print(now.fallback_reason, "%s", sender->fallback_reason);
    gpud_print(now.device, "%s", sender->device->info.name);
    gpud_print(now.device_reason, "%s", sender->device_reason);
    now.frames = sender->sequence;
    now.delivered = sender->delivered;
    now.dropped = sender->dropped;
    now.connects = sender->connects;
    now.disconnects = sender->disconnects;
    now.waits_cpu = sender->waits;
    now.waits_device = atomic_load(&sender->queue->waits);
    gpud_sender_unlock(sender);
    now.kicks = atomic_load(&sender->kicks);
    now.refused = atomic_load(&sender->refused);
    now.copies_cpu = atomic_load(&sender->copies_cpu);
    now.copies_gpu = atomic_load(&sender->copies_gpu);
    gpud_sized_copy(info, info->size, &now, sizeof(now));
}

/* Whoever waits, for a receiver or for a slot, looks again. */
static void wake_waiting(struct gpud_sender *sender)
{
    gpud_sender_changed(sender);
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->transport)
            gpud_transport_wake_sender(sender->links[i]->transport);
    if (sender->device_pool)
        gpud_pool_wake(sender->device_pool);
}

void gpud_sender_interrupt(struct gpud_sender *sender, bool interrupted)
{
    atomic_store(&sender->interrupted, interrupted);
    if (!interrupted)
        return;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++)
        gpud_waiting_drop(sender->links[i]);
    wake_waiting(sender);
    gpud_sender_unlock(sender);
}

enum gpud_status gpud_sender_set_slow_receiver(struct gpud_sender *sender,
                                               enum gpud_slow_receiver slow_receiver,
                                               struct gpud_error *error)
{
    enum gpud_status status = gpud_route_check_params(0, slow_receiver, NULL, error);
    if (status != GPUD_OK)
        return status;
    gpud_sender_lock(sender);
    sender->slow_receiver = slow_receiver ? slow_receiver : GPUD_SLOW_BLOCK;
    wake_waiting(sender);
    gpud_sender_unlock(sender);
    return GPUD_OK;
}
