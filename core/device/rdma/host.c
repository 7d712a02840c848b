/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/rdma/host.h"

#include "device/rdma/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool is_up(const char *netdev)
{
    char state[16];
    return gpud_sysfs_read(state, sizeof(state), "/sys/class/net/%s/operstate", netdev) &&
           strcmp(state, "up") == 0;
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
        char driver[32];
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
        if (!up && is_ethernet(netdev) && is_up(netdev))
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

bool gpud_rdma_can_open(const char *node, char why[GPUD_REASON_MAX])
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

/* Whether the node that rdma_cm needs can be opened. */
static bool can_connect(char why[GPUD_REASON_MAX])
{
    size_t count;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/misc/rdma_cm");
    free(names);
    if (count > 0)
        return gpud_rdma_can_open("/dev/infiniband/rdma_cm", why);
    gpud_print_n(why, GPUD_REASON_MAX,
                 "programs cannot connect by RDMA devices, as /dev/infiniband/rdma_cm is missing: "
                 "modprobe rdma_ucm");
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
            gpud_rdma_read_port(cards[i].text, (uint32_t)strtoul(names[j].text, NULL, 10), &port);
            active = port.active;
            if (i == 0 && j == 0)
                gpud_print_n(why, GPUD_REASON_MAX, "port %u of %s is not active: %.400s",
                             port.number, cards[0].text, port.reason);
        }
        free(names);
    }
    return active;
}

/* Whether programs have a node for a card, beside a file that is always there. */
static bool has_uverbs(void)
{
    size_t count;
    bool found = false;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/infiniband_verbs");
    for (size_t i = 0; i < count; i++)
        found |= strncmp(names[i].text, "uverbs", strlen("uverbs")) == 0;
    free(names);
    return found;
}

bool gpud_rdma_find_lack(char why[GPUD_REASON_MAX])
{
    size_t count;
    struct gpud_sysfs_name *cards = gpud_sysfs_list(&count, "/sys/class/infiniband");
    if (count == 0)
        explain_no_device(why);
    else if (!has_uverbs())
        gpud_print_n(why, GPUD_REASON_MAX,
                     "programs cannot use the RDMA device %s: modprobe ib_uverbs", cards[0].text);
    else if (can_connect(why) && has_active_port(cards, count, why))
        why[0] = '\0';
    free(cards);
    return why[0];
}
