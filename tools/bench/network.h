/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network addresses, rdma://host:port/name, for connections of the bench besides the library's
 * links. */
#ifndef GPUD_TOOLS_BENCH_NETWORK_H
#define GPUD_TOOLS_BENCH_NETWORK_H

#include "bench.h"

#include <sys/socket.h>

bool bench_is_network(const char *text);

/* The port that the benches of two hosts use with each other: the one after the address's. 0: there
 * is none. */
uint16_t bench_network_control_port(const char *address);

/* Resolves the address's host, with another port. */
bool bench_network_resolve(const char *address, uint16_t port, struct sockaddr_storage *found,
                           struct bench_failure *failure);

/* Of the address. */
socklen_t bench_network_length(const struct sockaddr_storage *address);

#endif
