/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sends a BYE on every open connection when the process calls exit(), so that the other ends do not
 * take it for a crash. Listening stops first, so that no receiver reconnects to an ending process.
 *
 * The table of sockets needs no lock: exit() may be called while other threads run, by a thread
 * that holds any lock, or from a signal handler. A child of fork() has an empty table: its exit()
 * says nothing on the connections of its parent. A process that is killed says nothing. */
#ifndef GPUD_WIRE_UNIX_FAREWELL_H
#define GPUD_WIRE_UNIX_FAREWELL_H

#include <stdatomic.h>
#include <stdbool.h>

enum gpud_farewell { GPUD_FAREWELL_BYE, GPUD_FAREWELL_UNLISTEN };

/* Adds a socket. *place: its index, for gpud_farewell_remove(), or −1 if the table is full; then an
 * exit() will look like a crash. */
void gpud_farewell_add(int fd, enum gpud_farewell what, atomic_int *place);

/* Removes the socket. false: exit() is using it, and the descriptor must stay open. */
bool gpud_farewell_remove(atomic_int *place);

#endif
