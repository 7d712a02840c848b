/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From nobody to a connection on which the receiver has said who it is. */
#include "base/stop.h"
#include "stream/receiver/receiver.h"

enum gpud_status gpud_receiver_send(struct gpud_receiver *receiver, struct gpud_message *message,
                                    struct gpud_error *error)
{
    enum gpud_status status = gpud_channel_send(receiver->channel, message, error);
    if (status == GPUD_OK || status == GPUD_INVALID)
        return status;
    return gpud_fail(error, GPUD_PEER, "the sender vanished during the handshake");
}

/* --- connecting ---------------------------------------------------------------------------- */

static enum gpud_status say_hello(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    gpud_endpoint_describe(&message.hello, receiver->device, receiver->name);
    gpud_print(message.hello.route, "%s", receiver->route);
    message.hello.slots = receiver->slots;
    message.hello.slow_receiver = (uint8_t)receiver->slow_receiver;
    message.hello.require_direct = receiver->require_direct;
    const struct gpud_remote_ops *remote = receiver->channel->ops->remote;
    if (remote)
        remote->describe(receiver->channel, receiver->device, &message.hello.network);
    return gpud_receiver_send(receiver, &message, error);
}

/* A HELLO cannot be sent: whether the sender has said why. */
static bool was_refused(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_message message;
    if (gpud_channel_receive(receiver->channel, &message, NULL) != GPUD_OK)
        return false;
    bool refused = message.type == GPUD_MESSAGE_REFUSE;
    if (refused)
        gpud_receiver_handle(receiver, &message, error);
    gpud_message_close(&message);
    return refused;
}

static enum gpud_status greet(struct gpud_receiver *receiver, struct gpud_error *error)
{
    receiver->state = GPUD_RECEIVER_HELLO;
    receiver->deadline = gpud_deadline(GPUD_HELLO_DEADLINE);
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
        return gpud_fail(error, GPUD_AGAIN, "nobody sends on %.120s", receiver->address.place);
    }
    GPUD_STOP_POINT("receiver: HELLO sent");
    return GPUD_OK;
}

enum gpud_status gpud_receiver_connect(struct gpud_receiver *receiver, struct gpud_error *error)
{
    if (gpud_now() < receiver->retry)
        return gpud_fail(error, GPUD_AGAIN, "nobody sends on %.120s", receiver->address.place);
    if (!receiver->queue) {
        enum gpud_status made = gpud_queue_create(receiver->device, &receiver->queue, error);
        if (made != GPUD_OK)
            return made;
    }
    enum gpud_status status =
        gpud_channel_connect(&receiver->address, &receiver->access, &receiver->channel, error);
    if (status != GPUD_OK) {
        receiver->retry = gpud_now() + (status == GPUD_AGAIN ? GPUD_RETRY_SOON : GPUD_RETRY_LATER);
        receiver->failure = *error;
        if (status == GPUD_AGAIN)
            receiver->failure.status = GPUD_OK;
        /* A network may come up later, and its cards and their modules with it. */
        return status == GPUD_NO_DEVICE ? GPUD_AGAIN : status;
    }
    receiver->peer = (struct gpud_peer_info){.name = ""};
    if (atomic_load(&receiver->channel->connected))
        return greet(receiver, error);
    receiver->state = GPUD_RECEIVER_CONNECTING;
    receiver->deadline = gpud_deadline(GPUD_CONNECT_DEADLINE);
    return GPUD_OK;
}

/* What stands in the way may go away by itself: another try follows, and whoever waits for that in
 * vain is told. GPUD_NO_ACCESS does not. */
static enum gpud_status give_up(struct gpud_receiver *receiver, struct gpud_error *error)
{
    struct gpud_error why = *error;
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
    if (status == GPUD_OK) { /* nobody speaks before we have said who we are */
        gpud_message_close(&message);
        status = gpud_fail(error, GPUD_PEER, "%.120s is no gpudirect sender: it speaks unasked",
                           receiver->address.place);
    }
    if (status == GPUD_AGAIN && gpud_now() >= receiver->deadline)
        status = gpud_fail(error, GPUD_TIMEOUT, "%.120s did not answer within %d s",
                           receiver->address.place, (int)(GPUD_CONNECT_DEADLINE / GPUD_SEC));
    return status == GPUD_AGAIN ? status : give_up(receiver, error);
}
