/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/kind.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define ALPHANUMERIC DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NAME_CHARACTERS ALPHANUMERIC "._-"

bool gpud_rdma_is_name(const char *name, size_t length)
{
    char copy[GPUD_RDMA_NAME_MAX + 1];
    if (length == 0 || length > GPUD_RDMA_NAME_MAX)
        return false;
    memcpy(copy, name, length);
    copy[length] = '\0';
    size_t channel = strspn(copy, NAME_CHARACTERS);
    if (channel == length)
        return true;
    const char *stream = copy + channel + 1;
    return channel > 0 && copy[channel] == '/' && stream[0] != '\0' &&
           channel + 1 + strspn(stream, NAME_CHARACTERS) == length;
}

/* --- reading ------------------------------------------------------------------------------- */

static enum gpud_status address_refuse(const char *text, const char *why, struct gpud_error *error)
{
    int quoted = (int)gpud_text_whole(text, strnlen(text, 64));
    return gpud_fail(error, GPUD_INVALID, "\"%.*s\": %s", quoted, text, why);
}

/* Copies the text between `from` and `to`, if it is not empty and fits. */
static bool copy_part(char *part, size_t room, const char *from, const char *to)
{
    size_t length = (size_t)(to - from);
    if (length == 0 || length >= room)
        return false;
    memcpy(part, from, length);
    part[length] = '\0';
    return true;
}

static bool is_ipv6(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *zone = strchr(host, '%'), *end = zone ? zone : host + strlen(host);
    if (zone && (!zone[1] || strlen(zone + 1) >= IF_NAMESIZE ||
                 zone[1 + strspn(zone + 1, NAME_CHARACTERS)] != '\0'))
        return false;
    return copy_part(address, sizeof(address), host, end) &&
           inet_pton(AF_INET6, address, &parsed) == 1;
}

/* false: neither an IPv4 address nor a possible host name. */
static bool find_family(struct gpud_rdma_place *place)
{
    struct in_addr parsed;
    const char *host = place->host;
    place->family = inet_pton(AF_INET, host, &parsed) == 1 ? AF_INET : AF_UNSPEC;
    if (place->family == AF_INET)
        return true;
    return host[strspn(host, NAME_CHARACTERS)] == '\0' && strchr(ALPHANUMERIC, host[0]) &&
           host[strspn(host, DIGITS ".")] != '\0';
}

/* Reads the host; *rest is what follows. Returns NULL, or why it is invalid. */
static const char *read_host(const char *text, struct gpud_rdma_place *place, const char **rest)
{
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end || !copy_part(place->host, sizeof(place->host), text + 1, end) ||
            !is_ipv6(place->host))
            return "the text in brackets is not an IPv6 address";
        place->family = AF_INET6;
        *rest = end + 1;
        return NULL;
    }
    const char *end = text + strcspn(text, ":/");
    const char *authority_end = text + strcspn(text, "/"), *colon = strrchr(text, ':');
    if (*end == ':' && colon > end && colon < authority_end)
        return "an IPv6 address needs brackets: rdma://[fd00::2]:7174";
    if (!copy_part(place->host, sizeof(place->host), text, end) || !find_family(place))
        return "write rdma://host:port/name, with a host's name or address "
               "(rdma://0.0.0.0 to listen on every card)";
    *rest = end;
    return NULL;
}

static const char *read_port(const char **text, struct gpud_rdma_place *place)
{
    place->port = GPUD_RDMA_PORT;
    if (**text != ':')
        return NULL;
    const char *from = *text + 1;
    size_t digits = strspn(from, DIGITS);
    unsigned long number = digits > 0 && digits < 6 ? strtoul(from, NULL, 10) : 0;
    if (number < 1 || number > UINT16_MAX)
        return "a port is a number from 1 to 65535";
    place->port = (uint16_t)number;
    *text = from + digits;
    return NULL;
}

static const char *address_read_name(const char *text, struct gpud_rdma_place *place)
{
    place->name[0] = '\0';
    if (text[0] == '\0' || (text[0] == '/' && text[1] == '\0'))
        return NULL;
    if (text[0] != '/' || !gpud_rdma_is_name(text + 1, strlen(text + 1)))
        return "the port is followed by /name or /name/stream: at most 48 letters, digits, '.', "
               "'_' "
               "and '-'";
    gpud_print(place->name, "%s", text + 1);
    return NULL;
}

static const char *read_all(const char *text, struct gpud_rdma_place *place)
{
    const char *rest = text + strlen(GPUD_RDMA_SCHEME);
    if (strncmp(text, GPUD_RDMA_SCHEME "//", strlen(GPUD_RDMA_SCHEME "//")) != 0)
        return "write rdma://host:port/name";
    if (strlen(text) >= GPUD_ADDRESS_MAX)
        return "this address is too long";
    const char *why = read_host(rest + 2, place, &rest);
    if (!why)
        why = read_port(&rest, place);
    return why ? why : address_read_name(rest, place);
}

enum gpud_status gpud_rdma_parse(const char *text, struct gpud_rdma_place *place,
                                 char canonical[GPUD_ADDRESS_MAX], struct gpud_error *error)
{
    struct gpud_rdma_place made = {.family = AF_UNSPEC};
    char whole[2 * GPUD_ADDRESS_MAX];
    if (!text)
        return gpud_fail(error, GPUD_INVALID, "no address: give rdma://host:port/name");
    const char *why = read_all(text, &made);
    if (why)
        return address_refuse(text, why, error);
    bool brackets = made.family == AF_INET6;
    gpud_print(whole, GPUD_RDMA_SCHEME "//%s%s%s:%u%s%s", brackets ? "[" : "", made.host,
               brackets ? "]" : "", made.port, made.name[0] ? "/" : "", made.name);
    if (strlen(whole) >= GPUD_ADDRESS_MAX)
        return address_refuse(text, "this address is too long", error);
    if (place)
        *place = made;
    if (canonical)
        memcpy(canonical, whole, strlen(whole) + 1);
    return GPUD_OK;
}

enum gpud_status gpud_rdma_resolve(const char *text, char place[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error)
{
    return gpud_rdma_parse(text, NULL, place, error);
}

enum gpud_status gpud_rdma_refuse(const char *text, char place[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_DEVICE,
                     "%.64s: this libgpudirect is built without rdma: configure it with "
                     "-Drdma=enabled",
                     text);
}

/* --- socket addresses ---------------------------------------------------------------------- */

bool gpud_rdma_to_sockaddr(const struct gpud_rdma_place *place, struct sockaddr_storage *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(place->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(place->port)};
    char host[INET6_ADDRSTRLEN];
    memset(address, 0, sizeof(*address));
    if (place->family == AF_INET && inet_pton(AF_INET, place->host, &v4.sin_addr) == 1) {
        memcpy(address, &v4, sizeof(v4));
        return true;
    }
    const char *zone = strchr(place->host, '%');
    const char *end = zone ? zone : place->host + strlen(place->host);
    if (place->family != AF_INET6 || !copy_part(host, sizeof(host), place->host, end) ||
        inet_pton(AF_INET6, host, &v6.sin6_addr) != 1)
        return false;
    if (zone) {
        v6.sin6_scope_id = if_nametoindex(zone + 1);
        if (v6.sin6_scope_id == 0)
            v6.sin6_scope_id = (uint32_t)strtoul(zone + 1, NULL, 10);
    }
    memcpy(address, &v6, sizeof(v6));
    return true;
}

bool gpud_rdma_is_wildcard(const struct gpud_rdma_place *place)
{
    struct sockaddr_storage address;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (!gpud_rdma_to_sockaddr(place, &address))
        return false;
    memcpy(&v4, &address, sizeof(v4));
    memcpy(&v6, &address, sizeof(v6));
    return place->family == AF_INET ? v4.sin_addr.s_addr == INADDR_ANY
                                    : IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

void gpud_rdma_print_host(const struct sockaddr *address, char *text, size_t size)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    char host[INET6_ADDRSTRLEN] = "?", zone[IF_NAMESIZE] = "";
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
    } else if (address->sa_family == AF_INET6) {
        memcpy(&v6, address, sizeof(v6));
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
            inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, host, sizeof(host));
        else
            inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
        if (v6.sin6_scope_id == 0 || !if_indextoname(v6.sin6_scope_id, zone))
            zone[0] = '\0';
    }
    gpud_print_n(text, size, "%s%s%s", host, zone[0] ? "%" : "", zone);
}
