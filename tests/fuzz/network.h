/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Targets that are compiled with FUZZ_NETWORK run between two hosts: neither side sees the other's
 * page or ring, and what is written there goes by a card's stand-in. This is the player's end. */
#ifndef GPUD_TESTS_FUZZ_NETWORK_H
#define GPUD_TESTS_FUZZ_NETWORK_H

#include "base/base.h"
#include "support/copies.h"
#include "wire/wire.h"
#include "wire/unix/unix.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef FUZZ_NETWORK
#define FUZZ_BETWEEN_HOSTS true
#else
#define FUZZ_BETWEEN_HOSTS false
#endif

struct fuzz_network {
    struct gpud_channel *channel; /* unconnected: the player's messages use a separate socket */
    struct gpud_remote *remote;   /* NULL: closed */
    struct gpud_handle page;      /* the player's, for the other side to write */
    struct gpud_page *theirs;     /* the other side's, of which the player may write its half */
};

/* Before the first sender or receiver is made. */
static inline void fuzz_network_prepare(void)
{
    if (FUZZ_BETWEEN_HOSTS)
        copies_install();
}

static inline void fuzz_network_close(struct fuzz_network *network)
{
    if (!network->remote)
        return;
    network->remote->ops->destroy(network->remote);
    gpud_memory_unmap_pages(network->theirs, sizeof(*network->theirs));
    gpud_channel_unref(&network->channel);
    *network = (struct fuzz_network){.remote = NULL};
}

/* With nothing that was there before. */
static inline void fuzz_network_open(struct fuzz_network *network)
{
    struct gpud_peer peer = {.pid = getpid()};
    int ends[2];
    fuzz_network_close(network);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0 ||
        gpud_unix_channel_create(ends[0], &peer, &network->channel, NULL) != GPUD_OK ||
        network->channel->ops->remote->create(network->channel, &network->remote, &network->page,
                                              NULL) != GPUD_OK)
        abort();
    close(ends[1]);
}

/* The other side's page, out of its message. */
static inline void fuzz_network_attach(struct fuzz_network *network, const struct gpud_handle *page)
{
    void *mapped;
    if (network->theirs)
        return;
    if (network->remote->ops->attach(network->remote, page, NULL) != GPUD_OK ||
        gpud_memfd_map(page->fd, sizeof(*network->theirs), true, &mapped, NULL) != GPUD_OK)
        abort(); /* an honest side's page is good */
    network->theirs = mapped;
}

/* An endpoint on another host than this. */
static inline void fuzz_network_describe(struct gpud_device *device, struct gpud_endpoint *self)
{
    if (!FUZZ_BETWEEN_HOSTS)
        return;
    gpud_unix_channel->remote->describe(NULL, device, &self->network);
    self->host[0] ^= 1;
}

#endif
