/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a process that ends by exit(), with links open, still says: a BYE on every connection, so
 * that the other ends need not take it for a crash. It no longer listens by then, so that nobody
 * connects again to a process that is about to end.
 *
 * The table of sockets needs no lock: exit() may be called while other threads run, by a thread
 * that holds any lock, or from a signal handler. A child of fork() has an empty table: its exit()
 * says nothing on the connections of its parent. A process that is killed says nothing. */
#ifndef GPUD_WIRE_UNIX_FAREWELL_H
#define GPUD_WIRE_UNIX_FAREWELL_H

#include <stdatomic.h>
#include <stdbool.h>

enum gpud_farewell { GPUD_FAREWELL_BYE, GPUD_FAREWELL_UNLISTEN };

/* Notes a socket; *place is where, for gpud_farewell_remove(), or −1 where there is no room: then
 * this end will be taken for a crash. */
void gpud_farewell_add(int fd, enum gpud_farewell what, atomic_int *place);

/* Nothing is to be said on the socket any more. false: the process is just saying it, and the
 * descriptor must stay open. */
bool gpud_farewell_remove(atomic_int *place);

#endif
