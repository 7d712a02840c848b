/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* rdma: the sender's network card writes into memory of the receiver's host: into the GPU's own if
 * card and GPU can (dmabuf, peermem), else into pinned host memory.
 *
 *     rdma-dmabuf    the GPU's driver exports the memory as a dma-buf, the card's imports it
 *     rdma-peermem   the card's driver asks the GPU's for the pages (nvidia-peermem)
 *     rdma-host      pinned host memory, which GPUs copy from and to by themselves */
#include "device/device.h"
#include "route/route.h"

/* An end on the host needs no way. false: *why says what is missing. */
static bool has_way(const struct gpud_endpoint *end, const char *role, enum gpud_network_way way,
                    char why[GPUD_REASON_MAX])
{
    if (end->caps & GPUD_CAP_HOST || end->network.ways & (uint32_t)way)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX, "%s, %s and %s: %s", role, end->device, end->network.card,
                 way == GPUD_NETWORK_DMABUF ? end->network.no_dmabuf : end->network.no_peermem);
    return false;
}

static bool can_connect_by(enum gpud_network_way way, const struct gpud_endpoint *sender,
                           const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (sender->caps & receiver->caps & GPUD_CAP_HOST) {
        gpud_print_n(why, GPUD_REASON_MAX, "no GPU at either end");
        return false;
    }
    return has_way(sender, "sender", way, why) && has_way(receiver, "receiver", way, why);
}

static bool can_connect_by_dmabuf(const struct gpud_endpoint *sender,
                                  const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    return can_connect_by(GPUD_NETWORK_DMABUF, sender, receiver, why);
}

static bool can_connect_by_peermem(const struct gpud_endpoint *sender,
                                   const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    return can_connect_by(GPUD_NETWORK_PEERMEM, sender, receiver, why);
}

static bool can_connect_by_host(const struct gpud_endpoint *sender,
                                const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    return true;
}

const struct gpud_route_ops gpud_rdma_dmabuf_route = {
    .name = "rdma-dmabuf",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .network = true,
    .can_connect = can_connect_by_dmabuf,
};

const struct gpud_route_ops gpud_rdma_peermem_route = {
    .name = "rdma-peermem",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .network = true,
    .can_connect = can_connect_by_peermem,
};

const struct gpud_route_ops gpud_rdma_host_route = {
    .name = "rdma-host",
    .ring = GPUD_RING_SENDER_HOST,
    .network = true,
    .can_connect = can_connect_by_host,
};
