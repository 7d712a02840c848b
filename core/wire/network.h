/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What kinds of connections between hosts share: their addresses, and what this host knows of them.
 */
#ifndef GPUD_WIRE_NETWORK_H
#define GPUD_WIRE_NETWORK_H

#include "base/base.h"
#include "wire/wire.h"
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* === place =================================================================================== */
/* Addresses between hosts, as text:
 *
 *     rdma://10.0.0.2              rdma://host.example:7175/cam1
 *     rdma://[fd00::2]:7174        rdma://0.0.0.0        to listen on every card
 *     rdma://10.0.0.2/cam1/audio   a stream of cam1
 *
 * Several channels and streams can share a port and are then selected by name, also those of
 * several processes. Nothing here looks up names. */

#define GPUD_PLACE_NAME_MAX 48

/* One for each kind between hosts. */
struct gpud_scheme {
    const char *name; /* "rdma" */
    uint16_t port;    /* of an address that gives none */
};

struct gpud_place {
    int family;                  /* AF_INET, AF_INET6; AF_UNSPEC: host is a name */
    char host[GPUD_ADDRESS_MAX]; /* without brackets */
    uint16_t port;
    char name[GPUD_PLACE_NAME_MAX + 1]; /* "": the only channel, or the one without a name */
};

/* Either output may be NULL. text NULL is invalid. canonical: always with the port. */
enum gpud_status gpud_place_parse(const struct gpud_scheme *scheme, const char *text,
                                  struct gpud_place *place, char canonical[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error);

/* Whether it is "cam1" or "cam1/audio". */
bool gpud_place_is_name(const char *name, size_t length);

/* Whether it means every interface: valid to listen on, not to connect to. */
bool gpud_place_is_wildcard(const struct gpud_place *place);

/* false: the host is a name, or its address is invalid. */
bool gpud_place_to_sockaddr(const struct gpud_place *place, struct sockaddr_storage *address);

/* The port of an IPv4 or IPv6 address. */
in_port_t *gpud_sockaddr_port(struct sockaddr_storage *address);

/* "10.0.0.2", "fd00::2%eth0"; an IPv4-mapped address is printed as IPv4. */
void gpud_sockaddr_print_host(const struct sockaddr *address, char *text, size_t size);

/* === lookup ================================================================================== */
/* Looks up a host's addresses by its name without waiting: an answer can take half a minute. */

#define GPUD_LOOKUP_MAX 8

struct gpud_lookup;

/* Starts a look-up. fd: an eventfd, which stays the caller's; raised when it is done. */
enum gpud_status gpud_lookup_begin(const struct gpud_place *place, int fd,
                                   struct gpud_lookup **lookup, struct gpud_error *error);

/* GPUD_AGAIN: not done yet. GPUD_CLOSED: the name has no address, with why. */
enum gpud_status gpud_lookup_get(struct gpud_lookup *lookup,
                                 struct sockaddr_storage addresses[GPUD_LOOKUP_MAX], size_t *count,
                                 struct gpud_error *error);

/* Releases it, done or not; *lookup may be NULL. */
void gpud_lookup_end(struct gpud_lookup **lookup);

/* === near ==================================================================================== */
/* Which addresses are this host's own, and which of its cards leads to others. */

/* Whether an interface of this host, or of this container, has the address. */
bool gpud_network_is_own(const struct sockaddr_storage *address);

/* The PCI address of the card on the way to a place, or "". Sends nothing, and looks up no names.
 */
void gpud_network_find_card(const struct gpud_scheme *scheme, const char *place, char *pci,
                            size_t size);

#endif
