/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/rdma/sysfs.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- cards --------------------------------------------------------------------------------- */

static int read_number(int otherwise, const char *path)
{
    char text[32];
    char *end;
    if (!gpud_sysfs_read(text, sizeof(text), "%s", path))
        return otherwise;
    long number = strtol(text, &end, 0);
    return end == text || number < INT32_MIN || number > INT32_MAX ? otherwise : (int)number;
}

static void find_model(const char *card, char *model, size_t size)
{
    char vendor[16], device[16];
    if (gpud_sysfs_read(model, size, "%s/hca_type", card) && model[0])
        return;
    if (gpud_sysfs_read(vendor, sizeof(vendor), "%s/device/vendor", card) &&
        gpud_sysfs_read(device, sizeof(device), "%s/device/device", card) &&
        strncmp(vendor, "0x", 2) == 0 && strncmp(device, "0x", 2) == 0)
        gpud_print_n(model, size, "%s:%s", vendor + 2, device + 2);
}

void gpud_rdma_read_card(const char *name, struct gpud_network_card_info *info)
{
    char card[GPUD_SYSFS_PATH_MAX], path[GPUD_SYSFS_PATH_MAX], parent[IFNAMSIZ];
    gpud_print(card, "/sys/class/infiniband/%s", name);
    gpud_print(info->name, "%s", name);
    /* Only rxe has this file; older kernels show the interface's card as its own device. */
    info->software = gpud_sysfs_read(parent, sizeof(parent), "%s/parent", card);
    if (info->software) {
        gpud_print(info->driver, "rdma_rxe");
        gpud_print(path, "/sys/class/net/%s/device", parent);
    } else {
        gpud_sysfs_follow(info->driver, sizeof(info->driver), "%s/device/driver", card);
        find_model(card, info->model, sizeof(info->model));
        gpud_sysfs_read(info->firmware, sizeof(info->firmware), "%s/fw_ver", card);
        gpud_print(path, "%.400s/device", card);
    }
    gpud_sysfs_find_pci(info->pci, sizeof(info->pci), path);
    char node[GPUD_SYSFS_PATH_MAX];
    gpud_print(node, "%.400s/numa_node", path);
    info->numa_node = read_number(-1, node);
}

bool gpud_rdma_is_channel_adapter(const char *card)
{
    char type[32];
    return gpud_sysfs_read(type, sizeof(type), "/sys/class/infiniband/%s/node_type", card) &&
           strncmp(type, "1:", 2) == 0;
}

bool gpud_rdma_find_uverbs(const char *card, char *node, size_t size)
{
    size_t count;
    bool found = false;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/infiniband_verbs");
    for (size_t i = 0; i < count && !found; i++) {
        char owner[GPUD_SYSFS_NAME_MAX];
        found = gpud_sysfs_read(owner, sizeof(owner), "/sys/class/infiniband_verbs/%s/ibdev",
                                names[i].text) &&
                strcmp(owner, card) == 0;
        if (found)
            gpud_print_n(node, size, "/dev/infiniband/%s", names[i].text);
    }
    free(names);
    return found;
}

/* --- ports --------------------------------------------------------------------------------- */

/* "4: ACTIVE" */
static void read_state(char *state, size_t size, const char *port)
{
    char text[32];
    gpud_sysfs_read(text, sizeof(text), "%s/state", port);
    const char *colon = strchr(text, ':');
    gpud_print_n(state, size, "%s", colon ? colon + 1 + strspn(colon + 1, " ") : "");
    for (char *c = state; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static uint32_t read_rate(const char *port)
{
    char text[64];
    unsigned whole, tenth = 0;
    gpud_sysfs_read(text, sizeof(text), "%s/rate", port);
    if (sscanf(text, "%5u.%1u", &whole, &tenth) < 1 || !strstr(text, " Gb/sec"))
        return 0;
    return whole * 1000 + tenth * 100;
}

/* An Ethernet port's interface is listed beside its first address, an InfiniBand port's beside the
 * card. */
static void find_netdev(const char *card, const char *port, uint32_t number, char *netdev,
                        size_t size)
{
    if (gpud_sysfs_read(netdev, size, "%s/gid_attrs/ndevs/0", port) ||
        gpud_sysfs_read(netdev, size, "/sys/class/infiniband/%s/parent", card))
        return;
    size_t count;
    struct gpud_sysfs_name *names =
        gpud_sysfs_list(&count, "/sys/class/infiniband/%s/device/net", card);
    for (size_t i = 0; i < count; i++) {
        char text[16];
        if (gpud_sysfs_read(text, sizeof(text), "/sys/class/infiniband/%s/device/net/%s/dev_port",
                            card, names[i].text) &&
            strtoul(text, NULL, 10) + 1 == number)
            gpud_print_n(netdev, size, "%s", names[i].text);
    }
    free(names);
}

static void explain_ethernet(const char *netdev, char *reason, size_t size)
{
    char flags[16], carrier[16];
    if (!netdev[0]) {
        gpud_print_n(reason, size,
                     "its network interface is not here: another network namespace "
                     "may have it");
        return;
    }
    bool known = gpud_sysfs_read(flags, sizeof(flags), "/sys/class/net/%s/flags", netdev);
    if (known && !(strtoul(flags, NULL, 16) & IFF_UP))
        gpud_print_n(reason, size, "%s is down: ip link set %s up", netdev, netdev);
    else if (gpud_sysfs_read(carrier, sizeof(carrier), "/sys/class/net/%s/carrier", netdev) &&
             strcmp(carrier, "0") == 0)
        gpud_print_n(reason, size, "%s has no carrier: is the cable in, and the other end up?",
                     netdev);
    else
        gpud_print_n(reason, size, "it is not up, although %s may be: rdma link shows more",
                     netdev);
}

static void explain_port(struct gpud_network_port_info *info)
{
    if (info->link_layer == GPUD_LINK_LAYER_ETHERNET)
        explain_ethernet(info->netdev, info->reason, sizeof(info->reason));
    else if (strcmp(info->state, "down") == 0)
        gpud_print(info->reason, "it has no link: is the cable in, and the other end up?");
    else
        gpud_print(info->reason,
                   "no subnet manager has set it up: one host of the fabric or a switch has to run "
                   "one (opensm)");
}

void gpud_rdma_read_port(const char *card, uint32_t number, struct gpud_network_port_info *info)
{
    char port[GPUD_SYSFS_PATH_MAX], layer[32];
    gpud_print(port, "/sys/class/infiniband/%s/ports/%u", card, number);
    info->number = number;
    read_state(info->state, sizeof(info->state), port);
    info->active = strcmp(info->state, "active") == 0;
    gpud_sysfs_read(layer, sizeof(layer), "%s/link_layer", port);
    if (strcmp(layer, "Ethernet") == 0)
        info->link_layer = GPUD_LINK_LAYER_ETHERNET;
    else if (strcmp(layer, "InfiniBand") == 0)
        info->link_layer = GPUD_LINK_LAYER_INFINIBAND;
    info->rate = read_rate(port);
    find_netdev(card, port, number, info->netdev, sizeof(info->netdev));
    if (!info->active)
        explain_port(info);
}

/* --- addresses ----------------------------------------------------------------------------- */

bool gpud_rdma_read_gid(const char *card, const struct gpud_network_port_info *port, uint32_t index,
                        struct gpud_network_gid_info *info)
{
    static const struct in6_addr none;
    char folder[GPUD_SYSFS_PATH_MAX], text[64], kind[32];
    struct in6_addr gid;
    gpud_print(folder, "/sys/class/infiniband/%s/ports/%u", card, port->number);
    if (!gpud_sysfs_read(text, sizeof(text), "%s/gids/%u", folder, index) ||
        inet_pton(AF_INET6, text, &gid) != 1 || memcmp(&gid, &none, sizeof(gid)) == 0)
        return false;
    info->index = index;
    inet_ntop(AF_INET6, &gid, info->text, sizeof(info->text));
    gpud_sysfs_read(kind, sizeof(kind), "%s/gid_attrs/types/%u", folder, index);
    gpud_sysfs_read(info->netdev, sizeof(info->netdev), "%s/gid_attrs/ndevs/%u", folder, index);
    info->kind = strcmp(kind, "RoCE v2") == 0                   ? GPUD_GID_ROCE_V2
                 : port->link_layer == GPUD_LINK_LAYER_ETHERNET ? GPUD_GID_ROCE_V1
                                                                : GPUD_GID_INFINIBAND;
    if (info->kind == GPUD_GID_INFINIBAND)
        return true;
    if (IN6_IS_ADDR_V4MAPPED(&gid))
        inet_ntop(AF_INET, &gid.s6_addr[12], info->address, sizeof(info->address));
    else
        gpud_print(info->address, "%s", info->text);
    return true;
}
