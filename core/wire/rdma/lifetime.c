/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes and frees a channel, with its descriptors and records. */
#include "wire/rdma/lifetime.h"

#include "base/fd.h"
#include "wire/rdma/ending.h"
#include "wire/rdma/events.h"
#include "wire/rdma/records.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

bool gpud_rdma_channel_watch(const struct rdma_channel *channel, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return epoll_ctl(channel->base.fd, EPOLL_CTL_ADD, fd, &readable) == 0;
}

static enum gpud_status open_fds(struct rdma_channel *channel, struct gpud_error *error)
{
    channel->base.fd = epoll_create1(EPOLL_CLOEXEC);
    channel->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    channel->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (channel->base.fd < 0 || channel->event < 0 || channel->timer < 0 ||
        !gpud_rdma_channel_watch(channel, channel->event) ||
        !gpud_rdma_channel_watch(channel, channel->timer))
        return gpud_fail_errno(error, "no descriptors for a connection");
    enum gpud_status status = gpud_rdma_open_events(&channel->events, error);
    if (status == GPUD_OK && !gpud_rdma_channel_watch(channel, channel->events->fd))
        status = gpud_fail_errno(error, "no descriptors for a connection");
    return status;
}

enum gpud_status gpud_rdma_channel_create(bool is_sender, const struct gpud_rdma_place *place,
                                          struct rdma_channel **channel, struct gpud_error *error)
{
    struct rdma_channel *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    made->base.ops = &gpud_rdma_channel_ops;
    atomic_init(&made->base.references, 1);
    made->base.fd = made->base.peer_fd = made->event = made->timer = -1;
    made->base.peer = (struct gpud_peer){.uid = (uid_t)-1, .foreign = true};
    gpud_print(made->base.peer.host, "%s", place->host);
    made->is_sender = is_sender;
    made->place = *place;
    made->received.lock = -1;
    made->deadline = made->ask_again = INT64_MAX;
    gpud_lock_init(&made->lock, GPUD_RANK_RDMA_CHANNEL);
    gpud_lock_init(&made->arm_lock, GPUD_RANK_RDMA_ARM);
    gpud_lock_init(&made->records_lock, GPUD_RANK_RDMA_RECORDS);
    enum gpud_status status = open_fds(made, error);
    if (status == GPUD_OK)
        *channel = made;
    else
        gpud_rdma_channel_destroy(made);
    return status;
}

void gpud_rdma_channel_destroy(struct rdma_channel *channel)
{
    gpud_rdma_disconnect_locked(channel, "this side closed the connection");
    gpud_rdma_drop_id_locked(channel);
    gpud_rdma_collect_records(channel, true);
    if (channel->events)
        rdma_destroy_event_channel(channel->events);
    gpud_rdma_lookup_end(&channel->lookup);
    while (channel->waiting_count)
        free(channel->waiting[--channel->waiting_count].bytes);
    gpud_auth_wipe_key(&channel->key);
    gpud_fd_close(&channel->timer);
    gpud_fd_close(&channel->event);
    gpud_fd_close(&channel->base.fd);
    gpud_lock_destroy(&channel->records_lock);
    gpud_lock_destroy(&channel->arm_lock);
    gpud_lock_destroy(&channel->lock);
    free(channel);
}
