/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A note that a receiver waits for a sender, read by the tools that show channels (gpudirect-info
 * --channels, gpudirect-monitor). It changes nothing for the receiver, or for the sender when that
 * comes. A note is a small file that its writer keeps locked, as the lock file of an address
 * (wire/unix/lock.h): so a reader knows whether the receiver lives, also that of another container,
 * and the file of a dead one is used again by the next.
 *
 *     /run/studio/.waiting!0.lock        RUNTIME_DIRECTORY/.waiting!0.lock
 *
 *     1234 4026531836                    1234 4026531836       process, PID namespace
 *     viewer                             viewer                what the receiver calls itself
 *     cam1                               /run/studio/cam1      what it waits for
 *     1764378249000000                   1764378249000000      since then, in µs since 1970
 *
 * It waits for a file in the same folder, a path, or "rdma://…". A note lies beside the socket, for
 * users and containers that share the folder, and in the user's runtime directory; a folder that
 * cannot be written has none. The two notes of a receiver have the same time, by which a reader
 * of both knows them. */
#ifndef GPUD_WIRE_AWAIT_H
#define GPUD_WIRE_AWAIT_H

#include "wire/access.h"
#include "wire/channel.h"

/* In the acquiring thread alone. All zeros: it does not wait. */
struct gpud_await {
    int64_t since; /* gpud_now(); 0: it does not wait */
    bool noted;
    struct gpud_await_note {
        int lock; /* -1: none */
        char path[GPUD_ADDRESS_MAX];
    } note[2];
};

/* To be called whenever no sender was found: writes the notes once it has waited for a second, with
 * the access that the receiver's rule gives. name: what the receiver calls itself. */
void gpud_await_sender(struct gpud_await *waiting, const struct gpud_address *address,
                       const struct gpud_access_rule *rule, const char *name);

/* A sender was found, or the receiver ends. */
void gpud_await_end(struct gpud_await *waiting);

#endif
