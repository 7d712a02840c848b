/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses of network cards, as text:
 *
 *     rdma://10.0.0.2              rdma://host.example:7175/cam1
 *     rdma://[fd00::2]:7174        rdma://0.0.0.0        to listen on every card
 *
 * Several channels can stand behind one port, told apart by name. Nothing is looked up here. */
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

/* Of the outputs one may be NULL; text NULL is none. canonical: with the port. */
enum gpud_status gpud_rdma_parse(const char *text, struct gpud_rdma_place *place,
                                 char canonical[GPUD_ADDRESS_MAX], struct gpud_error *error);

/* As a kind's resolve in wire/channel.c. */
enum gpud_status gpud_rdma_resolve(const char *text, char place[GPUD_ADDRESS_MAX],
                                   struct gpud_error *error);

/* The same in a library without network cards: refuses. */
enum gpud_status gpud_rdma_refuse(const char *text, char place[GPUD_ADDRESS_MAX],
                                  struct gpud_error *error);

bool gpud_rdma_is_name(const char *name, size_t length);

/* Every interface's: to listen on, not to connect to. */
bool gpud_rdma_is_wildcard(const struct gpud_rdma_place *place);

/* false: it is a name. */
bool gpud_rdma_to_sockaddr(const struct gpud_rdma_place *place, struct sockaddr_storage *address);

/* "10.0.0.2", "fd00::2%eth0"; an IPv4 address in IPv6's clothes as what it is. */
void gpud_rdma_print_host(const struct sockaddr *address, char *text, size_t size);

#endif
