/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* peer: the sender's copy engine writes into memory of the receiver's GPU, over NVLink or PCIe, or
 * inside one GPU, there also between two drivers. */
#include "device/device.h"
#include "route/route.h"

#include <string.h>

static bool peer_reaches(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver)
{
    for (uint32_t i = 0; i < sender->reach_count; i++)
        if (memcmp(sender->reach[i], receiver->uuid, sizeof(receiver->uuid)) == 0)
            return true;
    return false;
}

static bool peer_can_connect(const struct gpud_endpoint *sender,
                             const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) != 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "the two ends run on different machines");
        return false;
    }
    if (gpud_endpoints_are_of_two_drivers(sender, receiver)) {
        char clause[GPUD_REASON_MAX];
        if (gpud_endpoint_imports(sender, receiver, clause))
            return true;
        gpud_print_n(why, GPUD_REASON_MAX,
                     "only between GPUs of one vendor, by CUDA or by HIP, or into the same GPU by "
                     "another driver: %s",
                     clause);
        return false;
    }
    if (strcmp(sender->kind, receiver->kind) != 0 || sender->reach_count == 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "only between GPUs of one vendor, by CUDA or by HIP");
        return false;
    }
    if (!peer_reaches(sender, receiver)) {
        gpud_print_n(
            why, GPUD_REASON_MAX,
            "the sender's driver cannot write the receiver's GPU (%s): is it visible to "
            "the sender (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, the container), and peer "
            "access possible (nvidia-smi topo -p2p w, rocm-smi --showtopo)?",
            receiver->device);
        gpud_endpoints_add_places(sender, receiver, why);
        return false;
    }
    return true;
}

const struct gpud_route_ops gpud_peer_route = {
    .name = "peer",
    .ring = GPUD_RING_RECEIVER,
    .direct = true,
    .signal = GPUD_SIGNAL_PAGE,
    .by_link = true,
    .can_connect = peer_can_connect,
};
