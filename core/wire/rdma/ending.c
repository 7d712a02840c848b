/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ending a connection's id, and whether it may be ended now; closing.c says why it may not be. */
#include "wire/rdma/ending.h"

#include "base/fd.h"

#include <sys/socket.h>

bool gpud_rdma_has_arrived_locked(struct rdma_channel *channel)
{
    return !channel->rdma || gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, gpud_rdma_posted(channel->rdma));
}

static socklen_t size_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

bool gpud_rdma_has_route_locked(const struct rdma_channel *channel)
{
    if (channel->phase < RDMA_PROVING || !channel->id || channel->card_gone)
        return true;
    struct sockaddr_storage own = channel->id->route.addr.src_storage;
    const struct sockaddr *peer = rdma_get_peer_addr(channel->id);
    if (own.ss_family == AF_INET)
        ((struct sockaddr_in *)&own)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&own)->sin6_port = 0;
    int fd = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has =
        fd < 0 || (bind(fd, (struct sockaddr *)&own, size_of((struct sockaddr *)&own)) == 0 &&
                   connect(fd, peer, size_of(peer)) == 0);
    gpud_fd_close(&fd);
    return has;
}

void gpud_rdma_drop_id_locked(struct rdma_channel *channel)
{
    if (channel->rdma) {
        gpud_rdma_end(channel->rdma);
        gpud_rdma_unref(&channel->rdma);
    }
    if (channel->id)
        rdma_destroy_id(channel->id);
    channel->id = NULL;
}

void gpud_rdma_disconnect_locked(struct rdma_channel *channel, const char *why)
{
    gpud_received_remove(&channel->received);
    if (!channel->rdma)
        return;
    gpud_rdma_fail(channel->rdma, why);
    if (gpud_rdma_has_route_locked(channel)) /* else it is told when the id ends, see closing.c */
        rdma_disconnect(channel->id);
}
