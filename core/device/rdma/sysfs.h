/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the kernel shows of network cards below /sys, to everybody: no card is opened. */
#ifndef GPUD_DEVICE_RDMA_SYSFS_H
#define GPUD_DEVICE_RDMA_SYSFS_H

#include "device/network.h"

/* Stands before every path below /sys and /dev: "". Tests put a folder of their own here. */
extern const char *gpud_rdma_root;

#define GPUD_SYSFS_NAME_MAX 64

/* A path below gpud_rdma_root. */
#define GPUD_SYSFS_PATH_MAX 512
void gpud_sysfs_path(char path[GPUD_SYSFS_PATH_MAX], const char *format, ...) GPUD_PRINTF(2, 3);

/* The first line of a file, without its end. false: it cannot be read; the text is "" then. */
bool gpud_sysfs_read(char *text, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* The last part of what a symbolic link leads to: a driver's name, say. */
bool gpud_sysfs_follow(char *name, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* What a folder has, in the order of names and of the numbers in them. To be freed with free();
 * NULL: nothing, or no memory. */
struct gpud_sysfs_name {
    char text[GPUD_SYSFS_NAME_MAX];
};
struct gpud_sysfs_name *gpud_sysfs_list(size_t *count, const char *format, ...) GPUD_PRINTF(2, 3);

/* Name, model, driver, firmware, PCI address, NUMA node, and whether it is software. */
void gpud_rdma_read_card(const char *name, struct gpud_network_card_info *info);

/* "InfiniBand and RoCE" cards are one kind of node; others have no writes with a notice. */
bool gpud_rdma_is_channel_adapter(const char *card);

/* The node below /dev/infiniband by which programs use a card. false: it has none. */
bool gpud_rdma_find_uverbs(const char *card, char *node, size_t size);

/* All but mtu and message_max, which the card has to be asked for. */
void gpud_rdma_read_port(const char *card, uint32_t number, struct gpud_network_port_info *info);

/* false: that entry of the port's table is empty. */
bool gpud_rdma_read_gid(const char *card, const struct gpud_network_port_info *port, uint32_t index,
                        struct gpud_network_gid_info *info);

#endif
