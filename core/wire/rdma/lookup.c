/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which channels a port of another host has, and which card is near. */
#include "wire/rdma/rdma.h"

#include "base/base.h"
#include "device/rdma/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <gpudirect/channel.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === names =================================================================================== */

struct search {
    const char *port;
    struct gpud_address *found;
    size_t count, omitted;
    char last[GPUD_RDMA_NAME_MAX + 1]; /* of the names so far */
};

/* Connects until the request is refused, which is the answer. */
static enum gpud_status await_answer(struct rdma_channel *channel, int64_t deadline,
                                     struct gpud_error *error)
{
    struct gpud_message message;
    enum gpud_status status = gpud_rdma_channel_connect(channel, error);
    while (status == GPUD_OK) {
        status = channel->base.ops->receive(&channel->base, &message, error);
        if (status != GPUD_AGAIN)
            break;
        status = gpud_channel_wait(&channel->base, deadline, NULL);
        if (status != GPUD_OK)
            return gpud_fail(error, GPUD_CLOSED, "no answer came from %s in time", channel->where);
    }
    if (channel->refusal.reason == GPUD_RDMA_NAMES)
        return GPUD_OK;
    if (status != GPUD_OK)
        return status;
    gpud_message_close(&message);
    return gpud_fail(error, GPUD_PEER, "%s answers a question for names by a message",
                     channel->where);
}

/* Asks for the names behind the last one. */
static enum gpud_status names_ask(const struct search *search, struct gpud_rdma_place *place,
                                  int64_t deadline, struct gpud_rdma_refusal *answer,
                                  struct gpud_error *error)
{
    struct rdma_channel *channel;
    gpud_print(place->name, "%s", search->last);
    enum gpud_status status = gpud_rdma_channel_create(false, place, &channel, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_channel *base = &channel->base;
    gpud_print(channel->where, "%s", search->port);
    channel->asks_names = true;
    status = await_answer(channel, deadline, error);
    *answer = channel->refusal;
    gpud_channel_unref(&base);
    return status;
}

static void add_address(struct search *search, const char *name)
{
    struct gpud_address made = {.ops = &gpud_rdma_channel_ops};
    if (search->count == GPUD_CHANNELS_MAX) {
        search->omitted++;
        return;
    }
    gpud_print(made.text, "%s%s", search->port, name);
    if (gpud_rdma_parse(made.text, NULL, made.place, NULL) == GPUD_OK)
        search->found[search->count++] = made;
}

/* *more: there are further names. GPUD_PEER: they are not in order, and asking might never end. */
static enum gpud_status take_names(struct search *search, const char *names, bool *more,
                                   struct gpud_error *error)
{
    *more = false;
    while (*names) {
        char name[GPUD_RDMA_NAME_MAX + 1];
        size_t length = strcspn(names, ",");
        gpud_print(name, "%.*s", (int)length, names);
        if (strcmp(name, search->last) <= 0)
            return gpud_fail(error, GPUD_PEER, "%s lists its channels in no order", search->port);
        memcpy(search->last, name, sizeof(name));
        add_address(search, name);
        names += length;
        *more = names[0] == ',' && names[1] == '\0';
        names += *names == ',';
    }
    return GPUD_OK;
}

enum gpud_status gpud_rdma_list_names(const char *port, int64_t deadline,
                                      struct gpud_address **found, size_t *count, size_t *omitted,
                                      struct gpud_error *error)
{
    struct search search = {.port = port};
    struct gpud_rdma_place place;
    struct gpud_rdma_refusal answer;
    bool more = true;
    enum gpud_status status = gpud_rdma_parse(port, &place, NULL, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_rdma_is_wildcard(&place))
        return gpud_fail(error, GPUD_INVALID,
                         "%s means every address, to listen on: give the sender's own", place.host);
    search.found = calloc(GPUD_CHANNELS_MAX, sizeof(*search.found));
    if (!search.found)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a list of channels");
    while (status == GPUD_OK && more && search.omitted == 0) {
        status = names_ask(&search, &place, deadline, &answer, error);
        if (status == GPUD_OK)
            status = take_names(&search, answer.names, &more, error);
    }
    if (status == GPUD_OK && search.count == 0)
        add_address(&search, ""); /* something listens there, so it is a channel without a name */
    if (status != GPUD_OK) {
        free(search.found);
        return status;
    }
    *found = search.found;
    *count = search.count;
    *omitted = search.omitted;
    return GPUD_OK;
}

/* === near ==================================================================================== */

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

/* === hint ==================================================================================== */

void gpud_rdma_hint(const char *place, char *hint, size_t size)
{
    char why[GPUD_REASON_MAX];
    gpud_rdma_find_lack(why);
    gpud_print_n(hint, size, "%s", why);
}
