/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "network.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "rdma:"
#define PORT_USUAL 7174

bool bench_is_network(const char *text)
{
    return g_str_has_prefix(text, SCHEME);
}

/* The host without brackets; *rest is what follows. */
static void read_host(const char *address, char *host, size_t size, const char **rest)
{
    const char *from = address + strlen(SCHEME);
    from += strspn(from, "/");
    size_t length = from[0] == '[' ? strcspn(++from, "]") : strcspn(from, ":/");
    g_snprintf(host, (gulong)size, "%.*s", (int)length, from);
    *rest = from + length + (from[length] == ']');
}

uint16_t bench_network_control_port(const char *address)
{
    char host[256];
    const char *rest;
    read_host(address, host, sizeof(host), &rest);
    unsigned long port = rest[0] == ':' ? strtoul(rest + 1, NULL, 10) : PORT_USUAL;
    return port > 0 && port < UINT16_MAX ? (uint16_t)(port + 1) : 0;
}

bool bench_network_resolve(const char *address, uint16_t port, struct sockaddr_storage *found,
                           struct bench_failure *failure)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char host[256], service[8];
    const char *rest;
    read_host(address, host, sizeof(host), &rest);
    g_snprintf(service, sizeof(service), "%u", port);
    int error = getaddrinfo(host, service, &hints, &list);
    if (error) {
        failure->status = GPUD_IO;
        g_snprintf(failure->reason, sizeof(failure->reason), "%s: the host \"%s\": %s", address,
                   host, gai_strerror(error));
        return false;
    }
    memcpy(found, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return true;
}

socklen_t bench_network_length(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}
