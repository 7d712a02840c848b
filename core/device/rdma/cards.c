/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network cards, and what they can do. */
#include "device/rdma/internal.h"

#include "device/device.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/capability.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* === ability ================================================================================= */

void gpud_rdma_explain_transport(const char *card, char why[GPUD_REASON_MAX])
{
    gpud_print_n(why, GPUD_REASON_MAX,
                 "%s is not for InfiniBand or RoCE: others (iWARP, say) have no way to notify the "
                 "peer of a write; soft-RoCE has, at the speed of the CPU, on the same Ethernet "
                 "interface, which `rdma link` names: modprobe rdma_rxe && rdma link add rxe0 type "
                 "rxe netdev INTERFACE (if %s is software, rdma link del %s first)",
                 card, card, card);
}

/* --- dma-buf ------------------------------------------------------------------------------- */

int gpud_rdma_ask_dmabuf(struct ibv_pd *domain)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(domain, 0, page, 0, -1, 0);
    if (!mr)
        return errno;
    ibv_dereg_mr(mr);
    return EBADF;
}

enum gpud_status gpud_rdma_explain_dmabuf(int number, const char *card, struct gpud_error *error)
{
    if (number == EBADF)
        return GPUD_OK;
    if (number == EOPNOTSUPP || number == EPROTONOSUPPORT)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s takes no dma-bufs (mlx5, bnxt_re, irdma, efa, mana and "
                         "ionic do, from Linux 5.12 on)",
                         card);
    errno = number;
    return gpud_fail_errno(error, "the driver of %s does not say whether it takes dma-bufs", card);
}

/* --- peermem ------------------------------------------------------------------------------- */

enum gpud_status gpud_rdma_check_peermem(const struct gpud_device_ops *backend,
                                         struct gpud_error *error)
{
    if (!backend->peermem)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "no driver gives network cards memory of such devices");
    for (const char *const *each = backend->peermem; *each; each++) {
        char path[GPUD_SYSFS_PATH_MAX];
        glob_t found = {0};
        gpud_sysfs_path(path, "%s", *each);
        bool there = glob(path, 0, NULL, &found) == 0;
        globfree(&found);
        if (there)
            return GPUD_OK;
    }
    return gpud_fail(error, GPUD_UNSUPPORTED, "%s", backend->no_peermem);
}

/* --- how much ------------------------------------------------------------------------------ */

/* The number behind a key of /proc/self/status. */
static unsigned long long read_status(const char *word, int base)
{
    char line[128];
    unsigned long long number = 0;
    size_t length = strlen(word);
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, word, length) != 0)
            continue;
        number = strtoull(line + length, NULL, base);
        break;
    }
    if (file)
        fclose(file);
    return number;
}

/* Bytes that the process has registered so far, with any card. */
static uint64_t rdma_pinned_bytes(void)
{
    return read_status("VmPin:", 10) * 1024;
}

uint64_t gpud_rdma_pin_room(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    /* The kernel checks the capability in the initial user namespace; root of another one has it
     * only there. */
    unsigned long long first = 1, outside = 1, count = 0;
    FILE *file = fopen("/proc/self/uid_map", "re");
    if (file) {
        if (fscanf(file, "%llu %llu %llu", &first, &outside, &count) != 3)
            count = 0;
        fclose(file);
    }
    bool initial = first == 0 && outside == 0 && count == UINT32_MAX;
    if (initial && read_status("CapEff:", 16) >> CAP_IPC_LOCK & 1)
        return UINT64_MAX;
    uint64_t pinned = rdma_pinned_bytes();
    return limit.rlim_cur > pinned ? limit.rlim_cur - pinned : 0;
}

#define RING_SIZE (UINT64_C(4) * 3840 * 2160 * 4)

/* Messages, the ring page's words, and the driver's queues. */
#define BESIDE_SIZE (UINT64_C(4) << 20)

void gpud_rdma_explain_pin_room(uint64_t room, char why[GPUD_REASON_MAX])
{
    why[0] = '\0';
    if (room >= RING_SIZE + BESIDE_SIZE)
        return;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "this process may register %llu kB of memory with network cards, and a ring of 4 "
                 "slots of 3840x2160 at 4 bytes a pixel needs %llu kB for each connection: raise "
                 "that limit (ulimit -l unlimited, memlock in /etc/security/limits.conf, "
                 "LimitMEMLOCK=infinity of a systemd service)",
                 (unsigned long long)room / 1024,
                 (unsigned long long)(RING_SIZE + BESIDE_SIZE) / 1024);
}

/* An upper bound for a connection's queues, if the driver pins them. */
#define QUEUES_SIZE (UINT64_C(1) << 19)

enum gpud_status gpud_rdma_fail_register(struct gpud_error *error, int number, const char *card,
                                         uint64_t size)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    uint64_t bytes = size ? size : QUEUES_SIZE, wanted = rdma_pinned_bytes() + bytes;
    if (number == ENOMEM)
        getrlimit(RLIMIT_MEMLOCK, &limit);
    if (wanted > limit.rlim_cur)
        return gpud_fail_native(
            error, GPUD_NO_MEMORY, "errno", number,
            "%s cannot register %llu bytes: this process may lock %llu kB, %llu are needed at "
            "least; raise that limit (ulimit -l unlimited, memlock in /etc/security/limits.conf, "
            "LimitMEMLOCK=infinity of a systemd service)",
            card, (unsigned long long)bytes, (unsigned long long)limit.rlim_cur / 1024,
            (unsigned long long)wanted / 1024 + 1);
    errno = number;
    return size ? gpud_fail_errno(error, "%s cannot register %llu bytes", card,
                                  (unsigned long long)size)
                : gpud_fail_errno(error, "%s has no queues for another connection", card);
}

/* === sysfs =================================================================================== */
/* What the kernel shows of network cards below /sys to any user: no card is opened. */

/* --- cards --------------------------------------------------------------------------------- */

/* Name, model, driver, firmware, PCI address, NUMA node, and whether it is software. */
static void rdma_read_card(const char *name, struct gpud_network_card_info *info)
{
    char card[GPUD_SYSFS_PATH_MAX], path[GPUD_SYSFS_PATH_MAX], parent[IFNAMSIZ];
    char vendor[16], device[16], text[32], *end = text;
    gpud_print(card, "/sys/class/infiniband/%s", name);
    gpud_print(info->name, "%s", name);
    /* Only rxe has this file; older kernels show the interface's card as its own device. */
    info->software = gpud_sysfs_read(parent, sizeof(parent), "%s/parent", card);
    if (info->software) {
        gpud_print(info->driver, "rdma_rxe");
        gpud_print(path, "/sys/class/net/%s/device", parent);
    } else {
        gpud_sysfs_follow(info->driver, sizeof(info->driver), "%s/device/driver", card);
        bool named = gpud_sysfs_read(info->model, sizeof(info->model), "%s/hca_type", card) &&
                     info->model[0];
        if (!named && gpud_sysfs_read(vendor, sizeof(vendor), "%s/device/vendor", card) &&
            gpud_sysfs_read(device, sizeof(device), "%s/device/device", card) &&
            strncmp(vendor, "0x", 2) == 0 && strncmp(device, "0x", 2) == 0)
            gpud_print(info->model, "%s:%s", vendor + 2, device + 2);
        gpud_sysfs_read(info->firmware, sizeof(info->firmware), "%s/fw_ver", card);
        gpud_print(path, "%.400s/device", card);
    }
    gpud_sysfs_find_pci(info->pci, sizeof(info->pci), path);
    info->numa_node = -1;
    if (gpud_sysfs_read(text, sizeof(text), "%.400s/numa_node", path)) {
        long number = strtol(text, &end, 0);
        if (end != text && number >= INT32_MIN && number <= INT32_MAX)
            info->numa_node = (int)number;
    }
}

/* The node below /dev/infiniband by which programs use a card. false: none. */
static bool rdma_find_uverbs(const char *card, char *node, size_t size)
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

/* Why the port is not active. */
static void explain_port(struct gpud_network_port_info *info)
{
    const char *netdev = info->netdev;
    char flags[16], carrier[16];
    if (info->link_layer != GPUD_LINK_LAYER_ETHERNET && strcmp(info->state, "down") == 0)
        gpud_print(info->reason, "it has no link: is the cable in, and the other end up?");
    else if (info->link_layer != GPUD_LINK_LAYER_ETHERNET)
        gpud_print(info->reason,
                   "no subnet manager has set it up: one host of the fabric or a switch has to run "
                   "one (opensm)");
    else if (!netdev[0])
        gpud_print(info->reason, "its network interface is not here: another network namespace "
                                 "may have it");
    else if (gpud_sysfs_read(flags, sizeof(flags), "/sys/class/net/%s/flags", netdev) &&
             !(strtoul(flags, NULL, 16) & IFF_UP))
        gpud_print(info->reason, "%s is down: ip link set %s up", netdev, netdev);
    else if (gpud_sysfs_read(carrier, sizeof(carrier), "/sys/class/net/%s/carrier", netdev) &&
             strcmp(carrier, "0") == 0)
        gpud_print(info->reason, "%s has no carrier: is the cable in, and the other end up?",
                   netdev);
    else
        gpud_print(info->reason, "it is not up, although %s may be: rdma link shows more", netdev);
}

/* All fields but mtu and message_max, which only the card knows. */
static void rdma_read_port(const char *card, uint32_t number, struct gpud_network_port_info *info)
{
    char port[GPUD_SYSFS_PATH_MAX], text[64], state[32], layer[32];
    unsigned whole, tenth = 0;
    gpud_print(port, "/sys/class/infiniband/%s/ports/%u", card, number);
    info->number = number;
    gpud_sysfs_read(state, sizeof(state), "%s/state", port); /* "4: ACTIVE" */
    const char *colon = strchr(state, ':');
    gpud_print(info->state, "%s", colon ? colon + 1 + strspn(colon + 1, " ") : "");
    for (char *c = info->state; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    info->active = strcmp(info->state, "active") == 0;
    gpud_sysfs_read(layer, sizeof(layer), "%s/link_layer", port);
    if (strcmp(layer, "Ethernet") == 0)
        info->link_layer = GPUD_LINK_LAYER_ETHERNET;
    else if (strcmp(layer, "InfiniBand") == 0)
        info->link_layer = GPUD_LINK_LAYER_INFINIBAND;
    /* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
    gpud_sysfs_read(text, sizeof(text), "%s/rate", port);
    bool known = sscanf(text, "%5u.%1u", &whole, &tenth) >= 1 && strstr(text, " Gb/sec");
    info->rate = known ? whole * 1000 + tenth * 100 : 0;
    find_netdev(card, port, number, info->netdev, sizeof(info->netdev));
    if (!info->active)
        explain_port(info);
}

/* === host ==================================================================================== */

/* Drivers of network interfaces whose cards become RDMA devices by another module. */
static const struct {
    const char *driver, *module;
} modules[] = {
    {"mlx5_core", "mlx5_ib"}, {"mlx4_core", "mlx4_ib"},   {"bnxt_en", "bnxt_re"},
    {"ice", "irdma"},         {"qede", "qedr"},           {"mana", "mana_ib"},
    {"ionic", "ionic_rdma"},  {"hns3", "hns_roce_hw_v2"},
};

/* NULL: no module is needed, or it is loaded already and has found nothing. */
static const char *missing_module(const char *driver)
{
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        size_t files;
        if (strcmp(modules[i].driver, driver) != 0)
            continue;
        free(gpud_sysfs_list(&files, "/sys/module/%s", modules[i].module));
        return files > 0 ? NULL : modules[i].module;
    }
    return NULL;
}

static bool is_ethernet(const char *netdev)
{
    char type[16];
    return strcmp(netdev, "lo") != 0 &&
           gpud_sysfs_read(type, sizeof(type), "/sys/class/net/%s/type", netdev) &&
           strcmp(type, "1") == 0;
}

/* Suggests an interface to make an RDMA device of: a capable card's, else any that is up, else
 * any. */
static void explain_no_device(char why[GPUD_REASON_MAX])
{
    size_t count;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/net");
    const char *any = NULL, *up = NULL;
    bool said = false;
    for (size_t i = 0; i < count && !said; i++) {
        char driver[32], state[16];
        const char *netdev = names[i].text;
        gpud_sysfs_follow(driver, sizeof(driver), "/sys/class/net/%s/device/driver", netdev);
        const char *module = missing_module(driver);
        if (module) {
            gpud_print_n(why, GPUD_REASON_MAX,
                         "this host has no RDMA device; the card of %s (driver %s) becomes one by "
                         "another module: modprobe %s",
                         netdev, driver, module);
            said = true;
        }
        if (!any && is_ethernet(netdev))
            any = netdev;
        if (!up && is_ethernet(netdev) &&
            gpud_sysfs_read(state, sizeof(state), "/sys/class/net/%s/operstate", netdev) &&
            strcmp(state, "up") == 0)
            up = netdev;
    }
    if (!said)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "this host has no RDMA device; soft-RoCE makes one of any Ethernet interface, "
                     "at the speed of the CPU: modprobe rdma_rxe && rdma link add rxe0 type rxe "
                     "netdev %s",
                     up    ? up
                     : any ? any
                           : "eth0");
    free(names);
}

/* Whether this process may open a node below /dev/infiniband; closes it again. */
static bool rdma_can_open(const char *node, char why[GPUD_REASON_MAX])
{
    char path[GPUD_SYSFS_PATH_MAX];
    gpud_sysfs_path(path, "%s", node);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return true;
    }
    int number = errno;
    if (number == ENOENT)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "%s is not there: a container needs it passed in (--device /dev/infiniband)",
                     node);
    else if (number == EACCES)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "user %u may not open %s: chmod 666 %s, or join the group that it belongs to",
                     geteuid(), node, node);
    else if (number == EPERM)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "this container may not open %s: start it with --device /dev/infiniband",
                     node);
    else
        gpud_print_n(why, GPUD_REASON_MAX, "%s cannot be opened: %s", node, strerror(number));
    return false;
}

/* Whether a port of any card is active; else *why explains the first. */
static bool has_active_port(const struct gpud_sysfs_name *cards, size_t count,
                            char why[GPUD_REASON_MAX])
{
    bool active = false;
    gpud_print_n(why, GPUD_REASON_MAX, "%s has no port", cards[0].text);
    for (size_t i = 0; i < count && !active; i++) {
        size_t ports;
        struct gpud_sysfs_name *names =
            gpud_sysfs_list(&ports, "/sys/class/infiniband/%s/ports", cards[i].text);
        for (size_t j = 0; j < ports && !active; j++) {
            struct gpud_network_port_info port = {0};
            rdma_read_port(cards[i].text, (uint32_t)strtoul(names[j].text, NULL, 10), &port);
            active = port.active;
            if (i == 0 && j == 0)
                gpud_print_n(why, GPUD_REASON_MAX, "port %u of %s is not active: %.400s",
                             port.number, cards[0].text, port.reason);
        }
        free(names);
    }
    return active;
}

bool gpud_rdma_find_lack(char why[GPUD_REASON_MAX])
{
    size_t count, verbs, connects;
    struct gpud_sysfs_name *cards = gpud_sysfs_list(&count, "/sys/class/infiniband");
    struct gpud_sysfs_name *nodes = gpud_sysfs_list(&verbs, "/sys/class/infiniband_verbs");
    bool has_uverbs = false; /* beside a file that is always there */
    for (size_t i = 0; i < verbs; i++)
        has_uverbs |= strncmp(nodes[i].text, "uverbs", strlen("uverbs")) == 0;
    free(gpud_sysfs_list(&connects, "/sys/class/misc/rdma_cm"));
    if (count == 0)
        explain_no_device(why);
    else if (!has_uverbs)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "programs cannot use the RDMA device %s: modprobe ib_uverbs", cards[0].text);
    else if (connects == 0)
        gpud_print_n(why, GPUD_REASON_MAX,
                     "programs cannot connect by RDMA devices, as /dev/infiniband/rdma_cm is "
                     "missing: modprobe rdma_ucm");
    else if (rdma_can_open("/dev/infiniband/rdma_cm", why) && has_active_port(cards, count, why))
        why[0] = '\0';
    free(nodes);
    free(cards);
    return why[0];
}

/* === cards =================================================================================== */
/* Lists network cards: what the kernel shows of each to any user, and what the card says once it is
 * opened. */

/* --- what the kernel shows ----------------------------------------------------------------- */

static enum gpud_status add_gids(const char *card, struct gpud_network_port *port,
                                 struct gpud_error *error)
{
    static const struct in6_addr none;
    char folder[GPUD_SYSFS_PATH_MAX], text[64], kind[32];
    size_t count;
    gpud_print(folder, "/sys/class/infiniband/%s/ports/%u", card, port->info.number);
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "%s/gids", folder);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)strtoul(names[i].text, NULL, 10);
        struct in6_addr gid;
        if (!gpud_sysfs_read(text, sizeof(text), "%s/gids/%u", folder, index) ||
            inet_pton(AF_INET6, text, &gid) != 1 || memcmp(&gid, &none, sizeof(gid)) == 0)
            continue; /* that entry of the port's table is empty */
        struct gpud_network_gid_info *more =
            realloc(port->gids, (port->gid_count + 1) * sizeof(*more));
        if (!more) {
            free(names);
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
        }
        port->gids = more;
        struct gpud_network_gid_info *info = &port->gids[port->gid_count++];
        *info = (struct gpud_network_gid_info){.index = index};
        inet_ntop(AF_INET6, &gid, info->text, sizeof(info->text));
        gpud_sysfs_read(kind, sizeof(kind), "%s/gid_attrs/types/%u", folder, index);
        gpud_sysfs_read(info->netdev, sizeof(info->netdev), "%s/gid_attrs/ndevs/%u", folder, index);
        info->kind = strcmp(kind, "RoCE v2") == 0                        ? GPUD_GID_ROCE_V2
                     : port->info.link_layer == GPUD_LINK_LAYER_ETHERNET ? GPUD_GID_ROCE_V1
                                                                         : GPUD_GID_INFINIBAND;
        if (info->kind != GPUD_GID_INFINIBAND && IN6_IS_ADDR_V4MAPPED(&gid))
            inet_ntop(AF_INET, &gid.s6_addr[12], info->address, sizeof(info->address));
        else if (info->kind != GPUD_GID_INFINIBAND)
            gpud_print(info->address, "%s", info->text);
    }
    free(names);
    return GPUD_OK;
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
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of network cards");
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_network_port *port = &card->ports[card->port_count++];
        rdma_read_port(name, (uint32_t)strtoul(names[i].text, NULL, 10), &port->info);
        status = add_gids(name, port, error);
        check_addresses(port);
    }
    free(names);
    return status;
}

/* --- what the card says -------------------------------------------------------------------- */

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

/* What the card says of itself, or why it cannot be used. */
static void ask_card(struct gpud_network_card *card, struct ibv_device *device)
{
    struct gpud_network_card_info *info = &card->info;
    struct ibv_context *verbs = NULL;
    struct gpud_error error = {0};
    char node[GPUD_SYSFS_PATH_MAX], type[32];
    /* InfiniBand and RoCE cards are one kind of node; others have no writes with a notice. */
    if (!gpud_sysfs_read(type, sizeof(type), "/sys/class/infiniband/%s/node_type", info->name) ||
        strncmp(type, "1:", 2) != 0)
        gpud_rdma_explain_transport(info->name, info->reason);
    else if (!rdma_find_uverbs(info->name, node, sizeof(node)))
        gpud_print(info->reason, "programs cannot use %s: modprobe ib_uverbs", info->name);
    else if (rdma_can_open(node, info->reason) && !device)
        gpud_print(info->reason, "libibverbs has no provider for %s: apt install ibverbs-providers",
                   info->name);
    else if (!info->reason[0]) {
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
    struct ibv_pd *domain = ibv_alloc_pd(verbs);
    enum gpud_status status =
        domain ? gpud_rdma_explain_dmabuf(gpud_rdma_ask_dmabuf(domain), info->name, &error)
               : gpud_fail_errno(&error, "%s gives no protection domain", info->name);
    if (domain)
        ibv_dealloc_pd(domain);
    info->dmabuf = status == GPUD_OK;
    gpud_print(info->no_dmabuf, "%s", error.reason);
    ibv_close_device(verbs);
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
    if (count > 0)
        status = gpud_library_need(&gpud_library_rdma, error);
    struct ibv_device **devices = count > 0 && status == GPUD_OK ? ibv_get_device_list(NULL) : NULL;
    for (size_t i = 0; i < count && status == GPUD_OK; i++) {
        struct gpud_network_card *card = gpud_list_add(&cards->list, error);
        if (card)
            rdma_read_card(names[i].text, &card->info);
        status = card ? add_ports(card, error) : GPUD_NO_MEMORY;
        struct ibv_device **device = devices;
        while (device && *device && strcmp(ibv_get_device_name(*device), names[i].text) != 0)
            device++;
        if (status == GPUD_OK)
            ask_card(card, device ? *device : NULL);
    }
    if (devices)
        ibv_free_device_list(devices);
    free(names);
    if (status == GPUD_OK)
        describe_host(cards);
    return status;
}
