/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses between hosts, and what this host knows of them. */
#include "wire/network.h"

#include "base/base.h"
#include "wire/announce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === place =================================================================================== */

const struct gpud_scheme gpud_rdma_scheme = {
    .name = "rdma",
    .port = 7174,
    .notes = ".port!",
};

const struct gpud_scheme gpud_tcp_scheme = {
    .name = "tcp",
    .port = 7175,
    .notes = ".tcp-port!",
    .any = "::",
};

#define DIGITS "0123456789"
#define ALPHANUMERIC DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NAME_CHARACTERS ALPHANUMERIC "._-"

bool gpud_place_is_name(const char *name, size_t length)
{
    char copy[GPUD_PLACE_NAME_MAX + 1];
    if (length == 0 || length > GPUD_PLACE_NAME_MAX)
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

/* Reports why the text is not an address. */
static enum gpud_status place_refuse(const char *text, struct gpud_error *error, const char *format,
                                     ...) GPUD_PRINTF(3, 4);

static enum gpud_status place_refuse(const char *text, struct gpud_error *error, const char *format,
                                     ...)
{
    int quoted = (int)gpud_text_whole(text, strnlen(text, 64));
    char why[GPUD_REASON_MAX];
    va_list args;
    va_start(args, format);
    gpud_text_format(why, sizeof(why), format, args);
    va_end(args);
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
static bool find_family(struct gpud_place *place)
{
    struct in_addr parsed;
    const char *host = place->host;
    place->family = inet_pton(AF_INET, host, &parsed) == 1 ? AF_INET : AF_UNSPEC;
    if (place->family == AF_INET)
        return true;
    return host[strspn(host, NAME_CHARACTERS)] == '\0' && strchr(ALPHANUMERIC, host[0]) &&
           host[strspn(host, DIGITS ".")] != '\0';
}

/* Reads the host at *rest, which then is what follows. */
static enum gpud_status read_host(const struct gpud_scheme *scheme, const char *text,
                                  const char **rest, struct gpud_place *place,
                                  struct gpud_error *error)
{
    const char *from = *rest;
    if (scheme->any && (from[0] == ':' || from[0] == '/')) {
        gpud_print(place->host, "%s", scheme->any);
        place->family = AF_INET6;
        return GPUD_OK;
    }
    if (from[0] == '[') {
        const char *end = strchr(from, ']');
        bool fits = end && copy_part(place->host, sizeof(place->host), from + 1, end);
        char *zone = fits ? strstr(place->host, "%25") : NULL; /* as URIs write it: RFC 6874 */
        if (zone)                                              /* the rest, with its NUL */
            memmove(zone + 1, zone + 3, (size_t)(place->host + sizeof(place->host) - zone - 3));
        if (!fits || !is_ipv6(place->host))
            return place_refuse(text, error, "the text in brackets is not an IPv6 address");
        struct in6_addr parsed;
        if (inet_pton(AF_INET6, place->host, &parsed) == 1 && IN6_IS_ADDR_LINKLOCAL(&parsed))
            return place_refuse(text, error,
                                "a link-local address needs this host's interface to that link: "
                                "%s://[fe80::1%%eth0] (ip link)",
                                scheme->name);
        place->family = AF_INET6;
        *rest = end + 1;
        return GPUD_OK;
    }
    const char *end = from + strcspn(from, ":/");
    const char *authority_end = from + strcspn(from, "/"), *colon = strrchr(from, ':');
    if (*end == ':' && colon > end && colon < authority_end)
        return place_refuse(text, error, "an IPv6 address needs brackets: %s://[fd00::2]:%u",
                            scheme->name, scheme->port);
    if (!copy_part(place->host, sizeof(place->host), from, end) || !find_family(place))
        return place_refuse(text, error,
                            "write %s://host:port/name, with a host's name or address "
                            "(%s://0.0.0.0 to listen on every card)",
                            scheme->name, scheme->name);
    *rest = end;
    return GPUD_OK;
}

enum gpud_status gpud_place_parse(const struct gpud_scheme *scheme, const char *text,
                                  struct gpud_place *place, char canonical[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error)
{
    struct gpud_place made = {.family = AF_UNSPEC, .port = scheme->port, .usual_port = true};
    char begin[16], whole[2 * GPUD_ADDRESS_MAX];
    gpud_print(begin, "%s://", scheme->name);
    if (!text)
        return gpud_fail(error, GPUD_INVALID, "no address: give %shost:port/name", begin);
    if (strncmp(text, begin, strlen(begin)) != 0)
        return place_refuse(text, error, "write %shost:port/name", begin);
    if (strlen(text) >= GPUD_ADDRESS_MAX)
        return place_refuse(text, error, "this address is too long");
    const char *rest = text + strlen(begin);
    enum gpud_status status = read_host(scheme, text, &rest, &made, error);
    if (status != GPUD_OK)
        return status;
    if (*rest == ':') {
        size_t digits = strspn(++rest, DIGITS);
        unsigned long number = digits > 0 && digits < 6 ? strtoul(rest, NULL, 10) : 0;
        if (number < 1 || number > UINT16_MAX)
            return place_refuse(text, error, "a port is a number from 1 to 65535");
        made.port = (uint16_t)number;
        made.usual_port = false;
        rest += digits;
    }
    if (rest[0] && strcmp(rest, "/") != 0) {
        if (rest[0] != '/' || !gpud_place_is_name(rest + 1, strlen(rest + 1)))
            return place_refuse(text, error,
                                "the port is followed by /name or /name/stream: at most %d "
                                "letters, digits, '.', '_' and '-'",
                                GPUD_PLACE_NAME_MAX);
        gpud_print(made.name, "%s", rest + 1);
    }
    bool brackets = made.family == AF_INET6;
    gpud_print(whole, "%s%s%s%s:%u%s%s", begin, brackets ? "[" : "", made.host, brackets ? "]" : "",
               made.port, made.name[0] ? "/" : "", made.name);
    if (strlen(whole) >= GPUD_ADDRESS_MAX)
        return place_refuse(text, error, "this address is too long");
    if (place)
        *place = made;
    if (canonical)
        memcpy(canonical, whole, strlen(whole) + 1);
    return GPUD_OK;
}

/* --- socket addresses ---------------------------------------------------------------------- */

bool gpud_place_to_sockaddr(const struct gpud_place *place, struct sockaddr_storage *address)
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

bool gpud_place_is_wildcard(const struct gpud_place *place)
{
    struct sockaddr_storage address;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (!gpud_place_to_sockaddr(place, &address))
        return false;
    memcpy(&v4, &address, sizeof(v4));
    memcpy(&v6, &address, sizeof(v6));
    return place->family == AF_INET ? v4.sin_addr.s_addr == INADDR_ANY
                                    : IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

in_port_t *gpud_sockaddr_port(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
                                         : &((struct sockaddr_in6 *)address)->sin6_port;
}

void gpud_sockaddr_print_host(const struct sockaddr *address, char *text, size_t size)
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

/* === lookup ================================================================================== */
/* getaddrinfo() in a thread of its own, which cannot be cancelled: a caller that no longer wants
 * the answer leaves the thread running, and the last of the two frees what they share. */

struct gpud_lookup {
    atomic_uint references;
    atomic_bool done;
    const struct gpud_scheme *scheme;
    struct gpud_place place;
    int event; /* a duplicate: the caller's descriptor may be reused by then */
    int failed, number;
    size_t count;
    struct sockaddr_storage addresses[GPUD_LOOKUP_MAX];
};

static void lookup_unref(struct gpud_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->references, 1) != 1)
        return;
    gpud_fd_close(&lookup->event);
    free(lookup);
}

/* How long announcements are waited for. */
#define ANNOUNCED_PATIENCE (500 * GPUD_MSEC)

/* Finds the port, and addresses, if the host announces the channel. A name in ".local" belongs to
 * multicast DNS (RFC 6762, 3), which not every system asks for it. true: the addresses are all. */
static bool find_announced(struct gpud_lookup *lookup)
{
    struct gpud_place *place = &lookup->place;
    size_t length = strlen(place->host), suffix = strlen(".local");
    bool is_local = length > suffix && strcasecmp(place->host + length - suffix, ".local") == 0;
    if (place->family != AF_UNSPEC || (!place->usual_port && !is_local))
        return false;
    uint16_t port = gpud_announce_find_port(lookup->scheme, place->host, place->name,
                                            gpud_deadline(ANNOUNCED_PATIENCE), lookup->addresses,
                                            &lookup->count);
    if (port && place->usual_port)
        place->port = port;
    for (size_t i = 0; i < lookup->count; i++)
        *gpud_sockaddr_port(&lookup->addresses[i]) = htons(place->port);
    return is_local && lookup->count > 0;
}

static void *lookup_look(void *arg)
{
    struct gpud_lookup *lookup = arg;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8];
    bool is_done = find_announced(lookup);
    size_t announced = lookup->count;
    gpud_print(port, "%u", lookup->place.port);
    lookup->failed = is_done ? 0 : getaddrinfo(lookup->place.host, port, &wanted, &found);
    lookup->number = errno;
    if (found) /* better than those of an announcement, which anyone can make */
        lookup->count = 0;
    else if (announced > 0)
        lookup->failed = 0;
    for (struct addrinfo *one = found; !lookup->failed && one; one = one->ai_next)
        if (lookup->count < GPUD_LOOKUP_MAX && one->ai_addrlen <= sizeof(lookup->addresses[0]))
            memcpy(&lookup->addresses[lookup->count++], one->ai_addr, one->ai_addrlen);
    if (found)
        freeaddrinfo(found);
    atomic_store(&lookup->done, true);
    gpud_event_raise(lookup->event);
    lookup_unref(lookup);
    return NULL;
}

enum gpud_status gpud_lookup_begin(const struct gpud_scheme *scheme, const struct gpud_place *place,
                                   int fd, struct gpud_lookup **lookup, struct gpud_error *error)
{
    struct gpud_lookup *made = calloc(1, sizeof(*made));
    pthread_attr_t detached;
    pthread_t thread;
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to look up %s", place->host);
    atomic_init(&made->references, 2);
    made->scheme = scheme;
    made->place = *place;
    made->event = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (made->event < 0) {
        enum gpud_status status =
            gpud_fail_errno(error, "no descriptor to look up %s", place->host);
        free(made);
        return status;
    }
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &detached, lookup_look, made);
    pthread_attr_destroy(&detached);
    if (failed) {
        gpud_fd_close(&made->event);
        free(made);
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start a thread to look up %s", place->host);
    }
    *lookup = made;
    return GPUD_OK;
}

enum gpud_status gpud_lookup_get(struct gpud_lookup *lookup,
                                 struct sockaddr_storage addresses[GPUD_LOOKUP_MAX], size_t *count,
                                 struct gpud_error *error)
{
    const char *host = lookup->place.host;
    if (!atomic_load(&lookup->done))
        return GPUD_AGAIN;
    if (lookup->failed == EAI_SYSTEM)
        return gpud_fail_native(error, GPUD_CLOSED, "errno", lookup->number,
                                "the host \"%s\" cannot be looked up: %s", host,
                                strerror(lookup->number));
    if (lookup->failed)
        return gpud_fail_native(error, GPUD_CLOSED, "getaddrinfo", lookup->failed,
                                "no host has the name \"%s\": %s; is it spelled correctly (getent "
                                "ahosts %s)?",
                                host, gai_strerror(lookup->failed), host);
    if (lookup->count == 0)
        return gpud_fail(error, GPUD_CLOSED, "the host \"%s\" has no address", host);
    memcpy(addresses, lookup->addresses, lookup->count * sizeof(lookup->addresses[0]));
    *count = lookup->count;
    return GPUD_OK;
}

void gpud_lookup_end(struct gpud_lookup **lookup)
{
    if (*lookup)
        lookup_unref(*lookup);
    *lookup = NULL;
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

bool gpud_network_find_interface(const struct sockaddr_storage *address, unsigned *index,
                                 unsigned *flags)
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *each = list; each && !found; each = each->ifa_next) {
        found = is_same(each->ifa_addr, address);
        *index = if_nametoindex(each->ifa_name);
        *flags = each->ifa_flags;
    }
    freeifaddrs(list);
    return found;
}

bool gpud_network_is_own(const struct sockaddr_storage *address)
{
    unsigned index, flags;
    /* All of 127.0.0.0/8, where a sender may listen without a key, is: no interface lists it. */
    return gpud_auth_may_listen((const struct sockaddr *)address, false, false, NULL) == GPUD_OK ||
           gpud_network_find_interface(address, &index, &flags);
}

void gpud_network_find_card(const struct gpud_scheme *scheme, const char *place, char *pci,
                            size_t size)
{
    struct gpud_place parsed;
    struct sockaddr_storage peer = {0}, own = {0};
    struct ifaddrs *list = NULL;
    pci[0] = '\0';
    if (gpud_place_parse(scheme, place, &parsed, NULL, NULL) != GPUD_OK ||
        gpud_place_is_wildcard(&parsed) || !gpud_place_to_sockaddr(&parsed, &peer) ||
        !find_own(&peer, &own) || getifaddrs(&list) != 0)
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
