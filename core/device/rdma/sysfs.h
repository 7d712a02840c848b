/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the kernel shows of network cards below /sys to any user: no card is opened. */
#ifndef GPUD_DEVICE_RDMA_SYSFS_H
#define GPUD_DEVICE_RDMA_SYSFS_H

#include "base/error.h"
#include "base/sysfs.h"
#include <gpudirect/network.h>

/* Name, model, driver, firmware, PCI address, NUMA node, and whether it is software. */
void gpud_rdma_read_card(const char *name, struct gpud_network_card_info *info);

/* InfiniBand and RoCE cards are one kind of node; others have no writes with a notice. */
bool gpud_rdma_is_channel_adapter(const char *card);

/* The node below /dev/infiniband by which programs use a card. false: none. */
bool gpud_rdma_find_uverbs(const char *card, char *node, size_t size);

/* All fields but mtu and message_max, which only the card knows. */
void gpud_rdma_read_port(const char *card, uint32_t number, struct gpud_network_port_info *info);

/* false: that entry of the port's table is empty. */
bool gpud_rdma_read_gid(const char *card, const struct gpud_network_port_info *port, uint32_t index,
                        struct gpud_network_gid_info *info);

#endif
