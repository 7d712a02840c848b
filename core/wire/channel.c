/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that all kinds of channel share. */
#include "wire/channel.h"

#include "base/fd.h"
#include "base/process.h"

/* --- peers --------------------------------------------------------------------------------- */

const char *gpud_peer_text(const struct gpud_peer *peer, char text[GPUD_PEER_TEXT_MAX])
{
    if (peer->host[0])
        gpud_print_n(text, GPUD_PEER_TEXT_MAX, "%s", peer->host);
    else
        gpud_print_n(text, GPUD_PEER_TEXT_MAX, "process %d", (int)peer->pid);
    return text;
}

bool gpud_peer_has_died(const struct gpud_peer *peer)
{
    return !peer->host[0] && !peer->same_process && gpud_process_has_ended(peer->pid);
}

int64_t gpud_peer_key(const struct gpud_peer *peer)
{
    uint32_t hash = 2166136261; /* FNV-1a: hosts whose keys collide share one limit */
    if (!peer->host[0])
        return peer->pid;
    for (const char *c = peer->host; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619;
    return -1 - (int64_t)hash;
}

/* --- listening and connecting -------------------------------------------------------------- */

enum gpud_status gpud_listener_open(const struct gpud_address *address,
                                    const struct gpud_access_rule *access,
                                    struct gpud_listener **listener, struct gpud_error *error)
{
    return address->ops->listen(address, access, listener, error);
}

enum gpud_status gpud_listener_stand_by(const struct gpud_address *address,
                                        const struct gpud_access_rule *access,
                                        struct gpud_listener **listener, struct gpud_error *error)
{
    if (address->ops->stand_by)
        return address->ops->stand_by(address, access, listener, error);
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "%s is an address between hosts, which no standby can take over: give the "
                     "standby an address of its own, and receivers both (backup-address)",
                     address->text);
}

enum gpud_status gpud_listener_take_over(struct gpud_listener *listener, struct gpud_error *error)
{
    return listener->ops->take_over(listener, error);
}

void gpud_listener_close(struct gpud_listener **listener)
{
    struct gpud_listener *gone = *listener;
    *listener = NULL;
    if (gone)
        gone->ops->unlisten(gone);
}

void gpud_listener_tell(struct gpud_listener *listener)
{
    if (listener && listener->ops->tell) /* tests make senders without a listener */
        listener->ops->tell(listener);
}

enum gpud_status gpud_listener_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                      struct gpud_peer *peer, struct gpud_error *error)
{
    return listener->ops->accept(listener, channel, peer, error);
}

enum gpud_status gpud_channel_connect(const struct gpud_address *address,
                                      const struct gpud_access_rule *access,
                                      struct gpud_channel **channel, struct gpud_error *error)
{
    struct gpud_peer peer;
    return address->ops->connect(address, access, channel, &peer, error);
}

enum gpud_status gpud_channel_ask(const struct gpud_address *address, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error)
{
    *peer = (struct gpud_peer){.pid = 0};
    return address->ops->connect(address, NULL, channel, peer, error);
}

/* --- a channel ----------------------------------------------------------------------------- */

struct gpud_channel *gpud_channel_ref(struct gpud_channel *channel)
{
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    return channel;
}

void gpud_channel_unref(struct gpud_channel **channel)
{
    struct gpud_channel *gone = *channel;
    *channel = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_fd_close(&gone->peer_fd);
    gone->ops->close(gone);
}

enum gpud_status gpud_channel_send(struct gpud_channel *channel, struct gpud_message *message,
                                   struct gpud_error *error)
{
    return channel->ops->send(channel, message, error);
}

enum gpud_status gpud_channel_receive(struct gpud_channel *channel, struct gpud_message *message,
                                      struct gpud_error *error)
{
    return channel->ops->receive(channel, message, error);
}

void gpud_message_close(struct gpud_message *message)
{
    struct gpud_handle *handles[GPUD_MESSAGE_HANDLES];
    size_t count = gpud_message_attachments(message, handles);
    for (size_t i = 0; i < count; i++)
        gpud_fd_close(&handles[i]->fd);
}

void gpud_channel_watch_peer(struct gpud_channel *channel)
{
    const struct gpud_peer *peer = &channel->peer;
    bool has_ended;
    if (channel->peer_fd >= 0 || peer->host[0] || peer->same_process)
        return;
    channel->peer_fd = gpud_process_watch(channel->fd, peer->pid, &has_ended);
    if (has_ended)
        gpud_channel_hang_up(channel);
}

enum gpud_status gpud_channel_wait(const struct gpud_channel *channel, int64_t deadline,
                                   const atomic_bool *interrupted)
{
    enum gpud_status status =
        gpud_fd_wait_both(channel->fd, channel->peer_fd, deadline, interrupted);
    if (status == GPUD_OK && channel->peer_fd >= 0)
        gpud_channel_is_dead(channel);
    return status;
}

bool gpud_channel_is_dead(const struct gpud_channel *channel)
{
    return channel->ops->is_dead(channel);
}

void gpud_channel_hang_up(struct gpud_channel *channel)
{
    channel->ops->hang_up(channel);
}
