/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lists network cards: what the kernel shows of each to any user, and what the card says once it is
 * opened. */
#include "device/network_cards.h"

#include "device/backends.h"
#include "device/rdma/ability.h"
#include "device/rdma/host.h"
#include "device/rdma/sysfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum gpud_status fail_memory(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
}

/* --- what the kernel shows ----------------------------------------------------------------- */

static enum gpud_status add_gids(const char *card, struct gpud_network_port *port,
                                 struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    size_t count;
    struct gpud_sysfs_name *names =
        gpud_sysfs_list(&count, "/sys/class/infiniband/%s/ports/%u/gids", card, port->info.number);
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_network_gid_info gid = {0};
        if (!gpud_rdma_read_gid(card, &port->info, (uint32_t)strtoul(names[i].text, NULL, 10),
                                &gid))
            continue;
        struct gpud_network_gid_info *more =
            realloc(port->gids, (port->gid_count + 1) * sizeof(*more));
        if (!more) {
            status = fail_memory(error);
            break;
        }
        port->gids = more;
        port->gids[port->gid_count++] = gid;
    }
    free(names);
    return status;
}

/* Link-local addresses (fe80::) do not count: every interface has one. */
static void check_addresses(struct gpud_network_port *port)
{
    if (!port->info.active || port->info.link_layer != GPUD_LINK_LAYER_ETHERNET)
        return;
    for (size_t i = 0; i < port->gid_count; i++)
        if (port->gids[i].address[0] && strncmp(port->gids[i].address, "fe80:", 5) != 0)
            return;
    if (port->info.netdev[0])
        gpud_print(port->info.reason, "%s has no IP address: ip address add ADDRESS/24 dev %s",
                   port->info.netdev, port->info.netdev);
    else
        gpud_print(port->info.reason, "it has no IP address: another network namespace may have "
                                      "its interface");
}

static enum gpud_status add_ports(struct gpud_network_card *card, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    const char *name = card->info.name;
    size_t count;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/infiniband/%s/ports", name);
    card->ports = count > 0 ? calloc(count, sizeof(*card->ports)) : NULL;
    if (count > 0 && !card->ports)
        status = fail_memory(error);
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_network_port *port = &card->ports[card->port_count++];
        gpud_rdma_read_port(name, (uint32_t)strtoul(names[i].text, NULL, 10), &port->info);
        status = add_gids(name, port, error);
        check_addresses(port);
    }
    free(names);
    return status;
}

/* --- what the card says -------------------------------------------------------------------- */

static void ask_ports(struct gpud_network_card *card, struct ibv_context *verbs)
{
    for (size_t i = 0; i < card->port_count; i++) {
        struct gpud_network_port_info *port = &card->ports[i].info;
        struct ibv_port_attr attr;
        if (port->number > UINT8_MAX || ibv_query_port(verbs, (uint8_t)port->number, &attr) != 0)
            continue;
        /* IBV_MTU_256 is 1, IBV_MTU_4096 is 5. */
        if (attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= IBV_MTU_4096)
            port->mtu = UINT32_C(128) << attr.active_mtu;
        port->message_max = attr.max_msg_sz;
    }
}

static void ask_dmabuf(struct gpud_network_card_info *info, struct ibv_context *verbs)
{
    struct gpud_error error = {0};
    struct ibv_pd *domain = ibv_alloc_pd(verbs);
    enum gpud_status status =
        domain ? gpud_rdma_explain_dmabuf(gpud_rdma_ask_dmabuf(domain), info->name, &error)
               : gpud_fail_errno(&error, "%s gives no protection domain", info->name);
    if (domain)
        ibv_dealloc_pd(domain);
    info->dmabuf = status == GPUD_OK;
    gpud_print(info->no_dmabuf, "%s", error.reason);
}

/* For GPUs of any backend, because a module is loaded only for those. Without one, the first
 * candidate is named. */
static void check_peermem(struct gpud_network_card_info *info)
{
    struct gpud_error first = {0};
    if (info->software) {
        gpud_print(info->no_peermem, "%s is software: it has no DMA engine that could reach a GPU",
                   info->name);
        return;
    }
    for (const struct gpud_backend *each = gpud_backends; each->name && !info->peermem; each++)
        if (each->ops && each->ops->peermem)
            info->peermem =
                gpud_rdma_check_peermem(each->ops, first.reason[0] ? NULL : &first) == GPUD_OK;
    if (!info->peermem)
        gpud_print(info->no_peermem, "%s", first.reason);
}

/* Why this card cannot be used; "": as far as known, it can. */
static void explain_card(struct gpud_network_card_info *info)
{
    char node[GPUD_SYSFS_PATH_MAX];
    if (!gpud_rdma_is_channel_adapter(info->name))
        gpud_rdma_explain_transport(info->name, info->reason);
    else if (!gpud_rdma_find_uverbs(info->name, node, sizeof(node)))
        gpud_print(info->reason, "programs cannot use %s: modprobe ib_uverbs", info->name);
    else
        gpud_rdma_can_open(node, info->reason);
}

static void ask_card(struct gpud_network_card *card, struct ibv_device *device)
{
    struct gpud_network_card_info *info = &card->info;
    explain_card(info);
    struct ibv_context *verbs = NULL;
    struct gpud_error error = {0};
    if (!info->reason[0] && !device) {
        gpud_print(info->reason, "libibverbs has no provider for %s: apt install ibverbs-providers",
                   info->name);
    } else if (!info->reason[0]) {
        verbs = ibv_open_device(device);
        if (!verbs)
            gpud_fail_errno(&error, "libibverbs cannot open %s", info->name);
        gpud_print(info->reason, "%s", error.reason);
    }
    check_peermem(info);
    if (!verbs) {
        gpud_print(info->no_dmabuf, "%s cannot be asked: %.400s", info->name, info->reason);
        return;
    }
    info->available = true;
    ask_ports(card, verbs);
    ask_dmabuf(info, verbs);
    ibv_close_device(verbs);
}

static struct ibv_device *find_device(struct ibv_device **devices, const char *name)
{
    for (size_t i = 0; devices && devices[i]; i++)
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
            return devices[i];
    return NULL;
}

/* --- the list ------------------------------------------------------------------------------ */

static void describe_host(struct gpud_network_card_list *cards)
{
    struct gpud_network_host_info *host = &cards->host;
    host->pin_max = gpud_rdma_pin_room();
    gpud_rdma_explain_pin_room(host->pin_max, host->pin_reason);
    if (gpud_rdma_find_lack(host->reason))
        return;
    for (uint32_t i = 0; i < cards->list.count; i++) {
        const struct gpud_network_card *card = gpud_network_card_at(cards, i);
        for (size_t j = 0; j < card->port_count; j++)
            host->usable |= card->info.available && card->ports[j].info.active;
    }
    if (host->usable)
        return;
    for (uint32_t i = 0; i < cards->list.count && !host->reason[0]; i++)
        gpud_print(host->reason, "%s", gpud_network_card_at(cards, i)->info.reason);
    if (!host->reason[0])
        gpud_print(host->reason,
                   "the network cards that can be used have no active port, and those "
                   "that have one cannot be used: what each lacks stands beside it");
}

enum gpud_status gpud_rdma_find_cards(struct gpud_network_card_list *cards,
                                      struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    size_t count;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/infiniband");
    struct ibv_device **devices = count > 0 ? ibv_get_device_list(NULL) : NULL;
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_network_card *card = gpud_list_add(&cards->list, error);
        if (card)
            gpud_rdma_read_card(names[i].text, &card->info);
        status = card ? add_ports(card, error) : GPUD_NO_MEMORY;
        if (status == GPUD_OK)
            ask_card(card, find_device(devices, names[i].text));
    }
    if (devices)
        ibv_free_device_list(devices);
    free(names);
    if (status == GPUD_OK)
        describe_host(cards);
    return status;
}
