/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses of network cards, as text:
 *
 *     rdma://10.0.0.2              rdma://host.example:7175/cam1
 *     rdma://[fd00::2]:7174        rdma://0.0.0.0        to listen on every card
 *     rdma://10.0.0.2/cam1/audio   a stream of cam1
 *
 * Several channels and streams can share a port and are then selected by name, also those of
 * several processes (share.h). Nothing here looks up names. */
#ifndef GPUD_WIRE_RDMA_ADDRESS_H
#define GPUD_WIRE_RDMA_ADDRESS_H

#include "wire/channel.h"
#include <sys/socket.h>

#define GPUD_RDMA_SCHEME "rdma:"
#define GPUD_RDMA_PORT 7174
#define GPUD_RDMA_NAME_MAX 48

struct gpud_rdma_place {
    int family;                  /* AF_INET, AF_INET6; AF_UNSPEC: host is a name */
    char host[GPUD_ADDRESS_MAX]; /* without brackets */
    uint16_t port;
    char name[GPUD_RDMA_NAME_MAX + 1]; /* "": the only channel, or the one without a name */
};

/* Either output may be NULL. text NULL is invalid. canonical: always with the port. */
enum gpud_status gpud_rdma_parse(const char *text, struct gpud_rdma_place *place,
                                 char canonical[GPUD_ADDRESS_MAX], struct gpud_error *error);

/* A kind's resolve in wire/address.c. */
enum gpud_status gpud_rdma_resolve(const char *text, char place[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error);

/* The same in a library built without rdma: always refuses. */
enum gpud_status gpud_rdma_refuse(const char *text, char place[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error);

/* Whether it is "cam1" or "cam1/audio". */
bool gpud_rdma_is_name(const char *name, size_t length);

/* Whether it means every interface: valid to listen on, not to connect to. */
bool gpud_rdma_is_wildcard(const struct gpud_rdma_place *place);

/* false: the host is a name, or its address is invalid. */
bool gpud_rdma_to_sockaddr(const struct gpud_rdma_place *place, struct sockaddr_storage *address);

/* "10.0.0.2", "fd00::2%eth0"; an IPv4-mapped address is printed as IPv4. */
void gpud_rdma_print_host(const struct sockaddr *address, char *text, size_t size);

#endif
