/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From OFFLINE to a connection on which HELLO was sent, and the end of every connection. */
#include "stream/receiver/connect.h"

#include "base/stop.h"
#include "route/route.h"
#include "stream/receiver/frames.h"
#include "stream/receiver/poll.h"

#include <stdlib.h>

#define AREA "receiver"

static const struct gpud_log *log_of(const struct gpud_receiver *receiver)
{
    return &receiver->context->log;
}

enum gpud_status gpud_receiver_send(struct gpud_receiver *receiver, struct gpud_message *message,
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
    uint32_t most = gpud_session_slots_max(session);
    message.slots = receiver->slots_wished < most ? receiver->slots_wished : most;
    if (message.slots <= gpud_session_slots(session) || message.slots <= session->slots_asked)
        return;
    if (gpud_channel_send(session->channel, &message, NULL) == GPUD_OK)
        session->slots_asked = message.slots;
}

/* The status for the caller: AGAIN would mean that nothing is wrong. */
static enum gpud_status refusal_status(uint32_t said)
{
    if (said == GPUD_AGAIN)
        return GPUD_PEER;
    return said == GPUD_NO_ACCESS ? GPUD_NO_ACCESS : GPUD_UNSUPPORTED;
}

enum gpud_status gpud_receiver_take_refusal(struct gpud_receiver *receiver,
                                            const struct gpud_refuse *refuse,
                                            struct gpud_error *error)
{
    receiver->refused = true;
    return gpud_fail(error, refusal_status(refuse->status), "the sender refused: %s",
                     refuse->reason);
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

void gpud_receiver_drop_session(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    if (!session)
        return;
    gpud_lock_take(&receiver->lock);
    gpud_receiver_collect(receiver, &receiver->info);
    receiver->session = NULL;
    gpud_lock_release(&receiver->lock);
    gpud_session_detach(session);
    gpud_session_unref(&session);
}

void gpud_receiver_drop_next(struct gpud_receiver *receiver)
{
    if (!receiver->next.session)
        return;
    gpud_session_detach(receiver->next.session);
    gpud_session_unref(&receiver->next.session);
}

static void say_goodbye(const struct gpud_receiver *receiver, const char *why)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
    gpud_print(message.refuse.reason, "%s", why);
    /* If the BYE cannot be sent, hang up: held frames would keep the connection open. */
    if (gpud_channel_send(receiver->channel, &message, NULL) != GPUD_OK)
        gpud_channel_hang_up(receiver->channel);
    GPUD_STOP_POINT("receiver: BYE sent");
}

void gpud_receiver_disconnect(struct gpud_receiver *receiver, int64_t retry_in, const char *why)
{
    if (receiver->channel)
        gpud_log_info(log_of(receiver), AREA, "the link to %s is over: %s",
                      receiver->peer.name[0] ? receiver->peer.name : receiver->address.place, why);
    if (receiver->channel)
        say_goodbye(receiver, why);
    if (receiver->session)
        gpud_session_poison(receiver->session);
    gpud_receiver_drop_session(receiver);
    gpud_receiver_drop_next(receiver);
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
    return gpud_receiver_send(receiver, &message, error);
}

/* Whether the sender has sent a refusal, after a HELLO could not be sent. */
static bool was_refused(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_message message;
    if (gpud_channel_receive(receiver->channel, &message, NULL) != GPUD_OK)
        return false;
    bool refused = message.type == GPUD_MESSAGE_REFUSE;
    if (refused)
        gpud_receiver_take_refusal(receiver, &message.refuse, error);
    gpud_message_close(&message);
    return refused;
}

static enum gpud_status greet(struct gpud_receiver *receiver, struct gpud_error *error)
{
    receiver->state = GPUD_RECEIVER_HELLO;
    receiver->deadline = gpud_deadline(GPUD_HELLO_DEADLINE);
    gpud_channel_watch_peer(receiver->channel);
    enum gpud_status status = say_hello(receiver, error);
    if (status != GPUD_OK) {
        struct gpud_error why;
        bool refused = was_refused(receiver, &why);
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

enum gpud_status gpud_receiver_connect(struct gpud_receiver *receiver, struct gpud_error *error)
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

/* Schedules another try, because the cause may go away; a caller that times out meanwhile gets this
 * reason. GPUD_NO_ACCESS is final. */
static enum gpud_status give_up(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_error why = *error;
    go_on_waiting(receiver);
    gpud_receiver_disconnect(receiver, GPUD_RETRY_LATER, why.reason);
    receiver->failure = why;
    return why.status == GPUD_NO_ACCESS ? GPUD_NO_ACCESS
                                        : gpud_fail(error, GPUD_AGAIN, "%s", why.reason);
}

enum gpud_status gpud_receiver_await_channel(struct gpud_receiver *receiver,
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
    return status == GPUD_AGAIN ? status : give_up(receiver, error);
}
