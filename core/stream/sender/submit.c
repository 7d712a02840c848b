/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The application's frames and formats. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <string.h>

/* === epoch =================================================================================== */
/* Epochs: a format and the rings made for it. */

/* The previous epoch's pools; release them without the lock, because that may free memory. */
struct gpud_old_pools {
    struct gpud_pool *device, *host;
};

/* How long a change of format, counted from the one before, and the end of the sender wait for
 * receivers that still prepare their rings. */
#define CHANGE_PATIENCE (100 * GPUD_MSEC)
#define END_PATIENCE GPUD_SEC

/* Fails a call during which the epoch ended. */
static enum gpud_status sender_new_format(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID, "the format changed meanwhile");
}

enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error)
{
    bool staging = place == GPUD_RING_SENDER_HOST && sender->device != sender->host;
    struct gpud_pool **own = staging ? &sender->host_pool : &sender->device_pool;
    struct gpud_device *device = staging ? sender->host : sender->device;
    uint32_t epoch = sender->epoch;
    while (!*own && sender->epoch == epoch) {
        struct gpud_pool *made;
        struct gpud_layout layout = *gpud_sender_layout(sender, place);
        bool dmabufs = sender->dmabufs, apart = gpud_route_gives_slots(device);
        uint32_t slots = gpud_sender_slots(sender, apart);
        gpud_sender_unlock(sender);
        enum gpud_status status = gpud_pool_create(
            device, device->caps & GPUD_CAP_SYNCHRONOUS ? NULL : sender->queue,
            device->caps & GPUD_CAP_SHARE ? GPUD_USAGE_SHARE : GPUD_USAGE_LOCAL, dmabufs,
            staging ? sender->device : NULL, &layout, epoch, slots, apart, &made, error);
        gpud_sender_lock(sender);
        if (status != GPUD_OK)
            return status;
        made->lender = sender;
        if (!*own && sender->epoch == epoch) {
            *own = made;
            break;
        }
        gpud_sender_unlock(sender); /* another thread was faster */
        gpud_pool_unref(&made);
        gpud_sender_lock(sender);
    }
    if (sender->epoch != epoch)
        return sender_new_format(error);
    *pool = *own;
    return GPUD_OK;
}

/* Starts a new epoch with the current layout; the listener's thread offers its ring to every
 * receiver. Under the lock. */
static struct gpud_old_pools sender_start_epoch(struct gpud_sender *sender)
{
    struct gpud_old_pools old = {.device = sender->device_pool, .host = sender->host_pool};
    gpud_sender_poll_disarm(sender); /* the new epoch has other pools to watch */
    gpud_event_raise(sender->loop.event);
    /* Not reused: receivers may still read slots of the previous epoch. */
    sender->device_pool = sender->host_pool = NULL;
    sender->epoch++;
    sender->epoch_start = sender->sequence;
    sender->epoch_began = gpud_now();
    gpud_sender_wake_listener(sender);
    return old;
}

static void old_pools_release(struct gpud_old_pools *pools)
{
    gpud_pool_unref(&pools->host);
    gpud_pool_unref(&pools->device);
}

/* --- frames that wait for a new ring --------------------------------------------------------- */

static bool some_prepare(const struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (gpud_waiting_is_preparing(sender->links[i]))
            return true;
    return false;
}

static void await_prepared(struct gpud_sender *sender, int64_t deadline)
{
    while (some_prepare(sender) && (!atomic_load(&sender->interrupted) || sender->ended) &&
           gpud_now() < deadline)
        gpud_sender_wait_for_change(sender, deadline);
    for (uint32_t i = 0; i < sender->link_count; i++)
        sender->links[i]->waiting.was_late |= gpud_waiting_is_preparing(sender->links[i]);
}

/* Before the next format, and before the end of the sender: waits, for a moment, until frames have
 * gone out whose receivers still prepare their rings. Under the lock, which is dropped meanwhile.
 */
static void sender_settle_change(struct gpud_sender *sender)
{
    await_prepared(sender, sender->epoch_began + CHANGE_PATIENCE);
}

void gpud_sender_settle_end(struct gpud_sender *sender)
{
    await_prepared(sender, gpud_deadline(END_PATIENCE));
}

/* Model: turn.1 in turns.pml.
 *
 * Delivers the link's oldest frame to it alone, like any frame; later ones join those that wait.
 * false: not now. */
static bool deliver_one(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = link->waiting.frames;
    struct gpud_transport *transport = link->transport;
    uint32_t entry;
    if (!gpud_waiting_take_entry(link, &entry))
        return false;
    struct gpud_delivery delivery = {
        .frame = &frame->slot->frame,
        .info = &frame->info,
        .submitted = frame->info.submitted_ns,
        .device_slot = frame->slot,
        .corrupted = frame->info.flags & GPUD_FRAME_CORRUPTED,
        .sequence = frame->sequence,
        .count = 1,
        .target[0] = {.link = link, .transport = transport, .entry = entry},
    };
    if (gpud_transport_shares_slots(transport) && transport->pool != frame->slot->pool &&
        !(delivery.host_slot = gpud_pool_take(transport->pool))) {
        gpud_transport_untake(transport, entry);
        return false;
    }
    gpud_link_take_waiting(link);
    link->references++;
    transport->references++;
    gpud_slot_hold(frame->slot);
    link->waiting.late++;
    link->waiting.is_delivering = true;
    gpud_deliver(link->sender, &delivery, NULL);
    link->waiting.is_delivering = false;
    link->waiting.late--;
    gpud_waiting_frame_free(frame);
    GPUD_STOP_POINT("sender: waiting frame published");
    return true;
}

void gpud_sender_deliver_waiting(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        bool some = false;
        while (gpud_waiting_needs_device(link) && deliver_one(link))
            some = true;
        if (!some)
            continue;
        gpud_waiting_advance(link);
        gpud_sender_changed(sender);
    }
}

void gpud_sender_set_dmabufs(struct gpud_sender *sender, bool wanted)
{
    gpud_sender_lock(sender);
    sender->dmabufs_wanted = wanted;
    gpud_sender_unlock(sender);
}

/* The media's, or that of images where the application asked for them and the driver has some that
 * work. */
static struct gpud_layout choose_layout(const struct gpud_sender *sender,
                                        const struct gpud_media *media,
                                        const struct gpud_layout *rows)
{
    struct gpud_layout image;
    struct gpud_error error;
    if (sender->modifier_count == 0 || media->kind != GPUD_MEDIA_PICTURE || rows->modifier)
        return *rows;
    if (gpud_image_find(sender->device, rows, sender->modifiers, sender->modifier_count, &image,
                        &error) == GPUD_OK &&
        (gpud_layout_equal(&image, &sender->layout) || /* that of before, which was proved */
         gpud_image_prove(sender->queue, sender->host, rows, &image, &error) == GPUD_OK))
        return image;
    gpud_log_info(&sender->context->log, "sender", "frames are lent as rows: %s", error.reason);
    return *rows;
}

enum gpud_status gpud_sender_configure(struct gpud_sender *sender, const struct gpud_media *media,
                                       struct gpud_error *error)
{
    struct gpud_layout layout;
    enum gpud_status status = gpud_media_get_layout(media, &layout, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_layout slots = choose_layout(sender, media, &layout);
    gpud_sender_lock(sender);
    gpud_lines_give_up(sender);
    sender_settle_change(sender);
    sender->media = *media;
    sender->rows = layout;
    sender->layout = slots;
    atomic_store(&sender->has_images, slots.modifier != layout.modifier);
    sender->configured = true;
    sender->ended = false;
    sender->dmabufs = sender->dmabufs_wanted;
    struct gpud_old_pools old = sender_start_epoch(sender);
    gpud_sender_unlock(sender);
    old_pools_release(&old);
    gpud_listener_tell(sender->listener);
    return GPUD_OK;
}

/* === submit ================================================================================== */
/* The application's frames. Lending one takes a slot; submitting it takes a credit of every
 * receiver, by its policy, and the slots that routes need, and then delivers it. */

/* --- lending ------------------------------------------------------------------------------- */

static enum gpud_status not_configured(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID,
                     "the sender has no format yet: call gpud_sender_configure() first");
}

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

/* Makes the sender's queue wait for slots that receivers' devices still read, if those receivers
 * may delay the sender. */
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

/* How long after a change of format frames that wait for receivers keep slots that the application
 * needs: the ring soon grows by the receivers' shares. */
#define GROWTH_PATIENCE (50 * GPUD_MSEC)

/* Takes a free slot of a pool, and waits for one if needed (dropping the lock meanwhile). */
static enum gpud_status take_slot(struct gpud_sender *sender, struct gpud_pool *pool,
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
        int64_t now = gpud_now();
        if (await_releases(sender) ||
            gpud_waiting_reclaim_slot(
                sender, pool, now >= deadline || now >= sender->epoch_began + GROWTH_PATIENCE))
            continue;
        if (atomic_load(&sender->interrupted))
            return gpud_sender_interrupted(error);
        sender->lacks_slot = true;
        if (now >= deadline)
            return gpud_pool_explain(pool, error);
        /* Every receiver has its own share of the ring, so the application holds the sender's. */
        struct gpud_pool *kept = pool;
        gpud_pool_ref(kept);
        gpud_sender_unlock(sender);
        gpud_pool_wait(kept, now + GPUD_MSEC < deadline ? now + GPUD_MSEC : deadline);
        gpud_sender_lock(sender);
        gpud_pool_unref(&kept);
        if (epoch != sender->epoch)
            return sender_new_format(error);
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
        status = not_configured(error);
    else
        status = gpud_sender_get_pool(sender, GPUD_RING_SENDER_DEVICE, &pool, error);
    /* Reading the clock costs more than taking a slot that is free. */
    if (status == GPUD_OK && !(slot = gpud_pool_take(pool)))
        status = take_slot(sender, pool, gpud_deadline(timeout_ns), &slot, error);
    if (status == GPUD_TIMEOUT && timeout_ns == 0)
        gpud_sender_poll_arm(sender);
    gpud_sender_unlock(sender);
    if (status == GPUD_OK)
        *frame = &slot->frame;
    return status;
}

/* --- submitting ---------------------------------------------------------------------------- */

/* References the links that get this frame; later ones do not. */
static uint32_t snapshot(struct gpud_sender *sender, struct gpud_link *links[GPUD_RECEIVERS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        if (!gpud_link_takes_frames(sender->links[i]))
            continue;
        struct gpud_link *link = sender->links[i];
        if (!link->started) {
            link->started = true;
            link->start = sender->sequence;
            if (link->transport && link->transport->page.page)
                gpud_page_start(&link->transport->page, link->start);
        }
        links[count++] = link;
        link->references++;
    }
    return count;
}

static void take_target(struct gpud_link *link, uint32_t entry, struct gpud_delivery_target *target)
{
    target->link = link;
    target->transport = link->transport;
    target->entry = entry;
    target->failed = target->early = target->stepwise = false;
    link->references++;
    link->transport->references++;
}

/* A target whose frame waits in a slot, see hand.c. */
static void take_waiting_target(struct gpud_link *link, enum gpud_waiting_kind kind,
                                struct gpud_delivery_target *target)
{
    take_target(link, GPUD_NO_ENTRY, target);
    link->waiting.late++;
    if (kind != GPUD_WAITING_KEPT)
        return;
    link->waiting.late_kept++;
    gpud_transport_unref(&target->transport);
}

/* Model (tests/model): credit.1 to credit.4 in ring.pml.
 *
 * Takes a credit of one receiver, by its policy. GPUD_OK with *target filled; GPUD_CLOSED: it gets
 * nothing (it is dead, or the frame is dropped for it, which counts as *drop); GPUD_AGAIN,
 * GPUD_TIMEOUT: it blocks. */
static enum gpud_status take_credit(struct gpud_link *link, int64_t deadline,
                                    struct gpud_delivery_target *target, uint64_t **drop,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    *drop = NULL;
    GPUD_STOP_POINT("sender: before a credit is taken");
    for (;;) {
        if (!gpud_link_takes_frames(link))
            return GPUD_CLOSED;
        bool ready = gpud_link_is_ready(link);
        struct gpud_error reason;
        if (ready && gpud_transport_reap(link->transport, &reason) != GPUD_OK) {
            gpud_link_kill(link, GPUD_LOG_WARNING, reason.reason);
            continue;
        }
        if (ready && link->waiting.frames) {
            gpud_waiting_advance(link);
            if (!gpud_link_is_ready(link))
                continue;
        }
        enum gpud_slow_receiver policy = gpud_link_policy(link);
        bool blocks = policy == GPUD_SLOW_BLOCK;
        uint32_t entry;
        if (ready && !gpud_link_is_behind(link) && gpud_transport_has_room(link->transport) &&
            (gpud_page_take(&link->transport->page, &entry) ||
             (blocks && gpud_transport_await_release(link->transport, sender->queue) &&
              gpud_page_take(&link->transport->page, &entry)))) {
            take_target(link, entry, target);
            GPUD_STOP_POINT("sender: credit taken");
            return GPUD_OK;
        }
        enum gpud_waiting_kind waits = gpud_waiting_kind(link);
        if (waits != GPUD_WAITING_NONE) {
            take_waiting_target(link, waits, target);
            return GPUD_OK;
        }
        if (ready && policy == GPUD_SLOW_DROP_OLDEST) {
            enum gpud_status status = gpud_transport_revoke(link->transport, &reason);
            if (status == GPUD_PEER)
                gpud_link_kill(link, GPUD_LOG_WARNING, reason.reason);
            if (status == GPUD_OK) {
                gpud_link_uncount(link, 1);
                gpud_link_count_drop(link, &link->dropped_oldest);
            }
            if (status != GPUD_AGAIN)
                continue;
        }
        if (!blocks) {
            *drop = ready ? &link->dropped_newest : &link->dropped_format;
            return GPUD_CLOSED;
        }
        if (atomic_load(&sender->interrupted))
            return gpud_sender_interrupted(error);
        if (gpud_now() >= deadline) {
            char peer_text[GPUD_PEER_TEXT_MAX];
            return gpud_fail(error, GPUD_TIMEOUT, "receiver %s (%s) gave no credit back",
                             link->peer.name, gpud_peer_text(&link->channel->peer, peer_text));
        }
        if (!ready) {
            gpud_sender_wait_for_change(sender, deadline);
            continue;
        }
        sender->waits++;
        struct gpud_transport *transport = link->transport;
        struct gpud_credit_wait wait = gpud_transport_begin_wait(transport, &sender->interrupted);
        transport->references++;
        gpud_sender_unlock(sender);
        gpud_transport_sleep(&wait, &link->spin, deadline);
        gpud_sender_lock(sender);
        link->waiting.is_armed = false; /* sleeping on the page revokes the request for a KICK */
        gpud_transport_unref(&transport);
    }
}

static void submit_give_up(struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++) {
        struct gpud_delivery_target *target = &delivery->target[i];
        if (target->entry == GPUD_NO_ENTRY)
            gpud_waiting_forget(target);
        else
            gpud_transport_untake(target->transport, target->entry);
        gpud_transport_unref(&target->transport);
        gpud_link_unref(target->link);
    }
    if (delivery->device_slot)
        gpud_slot_drop(delivery->device_slot);
    if (delivery->host_slot)
        gpud_slot_drop(delivery->host_slot);
}

/* The slots that a frame needs: by routes that share the sender's own slots, and by those that
 * share its slots on the host. */
struct needs {
    bool local, staged;
};

static void add_need(const struct gpud_sender *sender, const struct gpud_transport *transport,
                     bool waits, struct needs *needs)
{
    needs->local |= waits;
    if (waits || !transport || !gpud_transport_shares_slots(transport))
        return; /* the receiver owns the ring */
    bool staged = transport->on_host && sender->device != sender->host;
    needs->local |= !staged;
    needs->staged |= staged;
}

/* Takes those that the delivery does not have yet. */
static enum gpud_status take_slots(struct gpud_sender *sender, struct needs needs, int64_t deadline,
                                   struct gpud_delivery *delivery, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    if (needs.local && !delivery->device_slot) {
        struct gpud_pool *pool;
        status = gpud_sender_get_pool(sender, GPUD_RING_SENDER_DEVICE, &pool, error);
        struct gpud_slot *own = status == GPUD_OK ? gpud_pool_slot_of(pool, delivery->frame) : NULL;
        if (own) {
            gpud_slot_hold(own);
            delivery->device_slot = own;
        } else if (status == GPUD_OK) {
            status = take_slot(sender, pool, deadline, &delivery->device_slot, error);
        }
    }
    if (needs.staged && !delivery->host_slot && status == GPUD_OK) {
        struct gpud_pool *pool;
        status = gpud_sender_get_pool(sender, GPUD_RING_SENDER_HOST, &pool, error);
        if (status == GPUD_OK)
            status = take_slot(sender, pool, deadline, &delivery->host_slot, error);
    }
    return status;
}

/* Wakes receivers for `more` frames that will be submitted; 0 withdraws the announcement. */
static void submit_announce(struct gpud_sender *sender, struct gpud_link **links, uint32_t count,
                            uint32_t more)
{
    for (uint32_t i = 0; i < count; i++)
        if (gpud_link_is_ready(links[i]) && gpud_transport_announce(links[i]->transport, more))
            atomic_fetch_add_explicit(&sender->kicks, 1, memory_order_relaxed);
}

void gpud_sender_announce(struct gpud_sender *sender)
{
    gpud_sender_lock(sender);
    submit_announce(sender, sender->links, sender->link_count, 1);
    gpud_sender_unlock(sender);
}

/* How a frame is submitted. */
enum submission {
    CONSUME,
    KEEP,
    BY_LINES, /* it is kept, and still written */
};

/* Takes slots, then credits, then the slots that turned out to be needed as well, and delivers;
 * under the lock. *rearm: a signal nears its limit. */
static enum gpud_status submit_submit(struct gpud_sender *sender, struct gpud_frame *frame,
                                      enum submission how, int64_t deadline, bool *rearm,
                                      struct gpud_error *error)
{
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    uint32_t count = snapshot(sender, links), drops = 0;
    struct gpud_link *dropped[GPUD_RECEIVERS_MAX];
    uint64_t *cause[GPUD_RECEIVERS_MAX];
    struct gpud_delivery delivery;
    delivery.frame = frame;
    delivery.info = &frame->info;
    delivery.submitted = 0;
    delivery.consume = how == CONSUME;
    delivery.by_lines = how == BY_LINES;
    delivery.canary = delivery.corrupted = false;
    delivery.device_slot = delivery.host_slot = NULL;
    delivery.copied = delivery.lines = 0;
    delivery.count = 0;

    uint32_t epoch = sender->epoch;
    struct needs needs = {0};
    for (uint32_t i = 0; i < count; i++)
        add_need(sender, links[i]->transport,
                 (!gpud_link_is_ready(links[i]) || gpud_link_is_behind(links[i])) &&
                     gpud_waiting_kind(links[i]) == GPUD_WAITING_KEPT,
                 &needs);
    enum gpud_status status = take_slots(sender, needs, deadline, &delivery, error);
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        uint64_t *drop;
        status = take_credit(links[i], deadline, &delivery.target[delivery.count], &drop, error);
        if (status == GPUD_OK)
            delivery.count++;
        if (drop) {
            cause[drops] = drop;
            dropped[drops++] = links[i];
        }
        if (status == GPUD_CLOSED)
            status = GPUD_OK;
    }
    /* While a credit was awaited, a handshake may have ended with another route. */
    for (uint32_t i = 0; i < delivery.count; i++)
        add_need(sender, delivery.target[i].transport, !delivery.target[i].transport, &needs);
    if (status == GPUD_OK)
        status = take_slots(sender, needs, deadline, &delivery, error);
    if (status == GPUD_OK && epoch != sender->epoch)
        status = gpud_fail(error, GPUD_INVALID,
                           "the format changed while the frame was being submitted");
    if (status == GPUD_OK) {
        delivery.sequence = ++sender->sequence;
        GPUD_PROBE(submit, sender, delivery.count, delivery.sequence);
        sender->ended = false;
        for (uint32_t i = 0; i < drops; i++)
            gpud_link_count_drop(dropped[i], cause[i]);
        status = gpud_deliver(sender, &delivery, error);
    } else {
        submit_give_up(&delivery);
        submit_announce(sender, links, count, 0);
    }

    for (uint32_t i = 0; i < count; i++) {
        *rearm |= gpud_link_is_ready(links[i]) && links[i]->transport->value >= GPUD_SIGNAL_LIMIT;
        gpud_link_unref(links[i]);
    }
    return status;
}

static enum gpud_status check_frame(const struct gpud_sender *sender, struct gpud_frame *frame,
                                    enum submission how, struct gpud_error *error)
{
    if (!sender->configured)
        return not_configured(error);
    if (sender->writing)
        return gpud_fail(error, GPUD_INVALID,
                         "the frame before is whole up to line %u of %u: submit the rest of its "
                         "lines, or release it",
                         sender->lines, gpud_deliver_writing(sender)->info.layout.height);
    if (how == BY_LINES && !gpud_pool_was_lent_by(frame, sender))
        return gpud_fail(error, GPUD_INVALID,
                         "only a frame that this sender lent can be submitted line by line");
    if (how == BY_LINES && frame->info.flags & GPUD_FRAME_READ_ONLY)
        return gpud_fail(error, GPUD_INVALID, "the frame is whole: acquire the next one");
    if (frame->maps && !(how == BY_LINES && frame->memory->host))
        return gpud_fail(error, GPUD_INVALID,
                         "the frame is still mapped: gpud_frame_unmap() it first");
    enum gpud_status status = gpud_frame_check(frame, error);
    if (status != GPUD_OK)
        return status;
    if (!gpud_layout_same_picture(&frame->info.layout, &sender->layout) &&
        !gpud_layout_same_picture(&frame->info.layout, &sender->rows))
        return gpud_fail(
            error, GPUD_INVALID, "the frame is %s %ux%u, the sender's format is %s %ux%u",
            frame->info.layout.format, frame->info.layout.width, frame->info.layout.height,
            sender->layout.format, sender->layout.width, sender->layout.height);
    if (frame->info.large_meta_size > sender->large_meta_max)
        return gpud_fail(error, GPUD_INVALID,
                         "a large meta of %zu bytes, and gpud_sender_params.large_meta_max is %u",
                         frame->info.large_meta_size, sender->large_meta_max);
    uint64_t bytes = frame->info.bytes;
    uint32_t unit = bytes ? gpud_media_get_unit(&sender->media) : 1;
    if (unit == 0 || bytes % unit)
        return gpud_fail(
            error, GPUD_INVALID,
            "%llu bytes of the frame are in use: all, or a multiple of %u, can be sent",
            (unsigned long long)bytes, unit);
    return GPUD_OK;
}

/* *delivered: the links have the frame; one that is not kept is the delivery's from then on. */
static enum gpud_status submit_frame(struct gpud_sender *sender, struct gpud_frame *frame,
                                     enum submission how, int64_t timeout_ns, bool *delivered,
                                     struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_sender_bad_timeout(error);
    gpud_sender_lock(sender);
    if (timeout_ns == 0)
        gpud_sender_poll_disarm(sender);
    enum gpud_status status = check_frame(sender, frame, how, error);
    bool rearm = false;
    struct gpud_old_pools old = {0};
    if (status == GPUD_OK) {
        uint64_t before = sender->sequence;
        int64_t now = gpud_now();
        status =
            submit_submit(sender, frame, how, gpud_deadline_from(now, timeout_ns), &rearm, error);
        *delivered = sender->sequence != before;
        if (*delivered)
            sender->submitted = now;
        if (status == GPUD_OK && how == BY_LINES)
            gpud_lines_begin(sender, (struct gpud_slot *)frame);
        if (*delivered && sender->is_at_rest) {
            sender->is_at_rest = false;
            gpud_sender_wake_listener(sender);
        }
        if (status == GPUD_TIMEOUT && timeout_ns == 0)
            gpud_sender_poll_arm(sender);
    }
    if (rearm)
        old = sender_start_epoch(sender);
    gpud_sender_unlock(sender);
    old_pools_release(&old);
    return status;
}

enum gpud_status gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                    int64_t timeout_ns, struct gpud_error *error)
{
    bool delivered = false;
    enum gpud_status status = submit_frame(sender, *frame, CONSUME, timeout_ns, &delivered, error);
    if (delivered)
        *frame = NULL; /* the delivery owns it */
    else if (status != GPUD_AGAIN && status != GPUD_TIMEOUT)
        gpud_frame_release(frame);
    return status;
}

enum gpud_status gpud_sender_submit_keep(struct gpud_sender *sender, struct gpud_frame *frame,
                                         int64_t timeout_ns, struct gpud_error *error)
{
    bool delivered = false;
    enum gpud_status status = submit_frame(sender, frame, KEEP, timeout_ns, &delivered, error);
    if (delivered)
        frame->info.flags |= GPUD_FRAME_READ_ONLY;
    return status;
}

/* --- line by line -------------------------------------------------------------------------- */

/* How long a device may take to write what was posted on a frame. */
#define WRITTEN_DEADLINE GPUD_SEC

static enum gpud_status check_lines(const struct gpud_frame *frame, uint32_t lines,
                                    struct gpud_error *error)
{
    const struct gpud_layout *layout = &frame->info.layout;
    if (gpud_layout_is_block(layout))
        return gpud_fail(error, GPUD_INVALID, "a block has no lines: submit it as a whole");
    if (lines > layout->height)
        return gpud_fail(error, GPUD_INVALID, "%u lines of a picture that has %u", lines,
                         layout->height);
    return GPUD_OK;
}

enum gpud_status gpud_sender_submit_lines(struct gpud_sender *sender, struct gpud_frame *frame,
                                          uint32_t lines, int64_t timeout_ns,
                                          struct gpud_error *error)
{
    bool delivered = false, begun;
    enum gpud_status status = check_lines(frame, lines, error);
    if (status == GPUD_OK && frame->queue)
        status = gpud_queue_finish(frame->queue, gpud_deadline(WRITTEN_DEADLINE), error);
    if (status != GPUD_OK)
        return status;
    gpud_sender_lock(sender);
    begun = gpud_deliver_writing(sender) == frame;
    gpud_sender_unlock(sender);
    if (!begun)
        status = submit_frame(sender, frame, BY_LINES, timeout_ns, &delivered, error);
    return status == GPUD_OK ? gpud_lines_advance(sender, frame, lines, error) : status;
}
