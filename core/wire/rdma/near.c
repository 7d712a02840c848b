/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/near.h"

#include "base/sysfs.h"
#include "wire/rdma/address.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

/* This host's source address for a destination, as the kernel assigns it to a datagram socket;
 * connecting such a socket sends nothing. */
static bool find_own(const struct sockaddr_storage *peer, struct sockaddr_storage *own)
{
    socklen_t length = sizeof(*own);
    int fd = socket(peer->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool found = connect(fd, (const struct sockaddr *)peer, sizeof(*peer)) == 0 &&
                 getsockname(fd, (struct sockaddr *)own, &length) == 0;
    close(fd);
    return found;
}

static bool is_same(const struct sockaddr *a, const struct sockaddr_storage *b)
{
    if (!a || a->sa_family != b->ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

bool gpud_rdma_is_own(const struct sockaddr_storage *address)
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *each = list; each && !found; each = each->ifa_next)
        found = is_same(each->ifa_addr, address);
    freeifaddrs(list);
    return found;
}

void gpud_rdma_find_card(const char *place, char *pci, size_t size)
{
    struct gpud_rdma_place parsed;
    struct sockaddr_storage peer = {0}, own = {0};
    struct ifaddrs *list = NULL;
    pci[0] = '\0';
    if (gpud_rdma_parse(place, &parsed, NULL, NULL) != GPUD_OK || gpud_rdma_is_wildcard(&parsed) ||
        !gpud_rdma_to_sockaddr(&parsed, &peer) || !find_own(&peer, &own) || getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *each = list; each && !pci[0]; each = each->ifa_next) {
        char link[GPUD_SYSFS_PATH_MAX];
        if (!is_same(each->ifa_addr, &own))
            continue;
        gpud_print(link, "/sys/class/net/%s/device", each->ifa_name);
        gpud_sysfs_find_pci(pci, size, link);
    }
    freeifaddrs(list);
}
