/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Several processes of one user share a port. rdma_cm gives it to one of them, its holder; each of
 * the others listens on a port of its own and notes that one in the user's runtime directory, for
 * each of its channels. The holder redirects: it refuses a request for such a channel with the
 * port of the process that sends it, and the receiver connects there (GPUD_RDMA_MOVED).
 *
 *     receiver                     holder, port 7174              another process, port 40123
 *        REQUEST cam2 ────────────────▶ reads the note of cam2
 *        ◀─────────────── MOVED 40123
 *        REQUEST cam2 ───────────────────────────────────────────────▶
 *        ◀─────────────────────────────────────────────────────── REPLY
 *
 *     .port!10.0.0.1:7174.4026531840.lock           locked by the holder
 *     .port!10.0.0.1:7174!cam2 → 4026531840:40123   a note: the network namespace, and the port
 *     .rdma!10.0.0.1:7174!cam2.lock                 locked while the note is valid, see local.h
 *
 * Connections do not depend on the holder. When it ends, the kernel releases its lock, which wakes
 * the others, and one of them takes over the lock and the port. Without a runtime directory nothing
 * is shared, and a second process is refused. */
/* clang-format on */
#ifndef GPUD_WIRE_RDMA_SHARE_H
#define GPUD_WIRE_RDMA_SHARE_H

#include "wire/rdma/address.h"
#include "wire/unix/lock.h"
#include "wire/unix/resolve.h"

#include <time.h>

/* A process's part in a port. */
struct gpud_rdma_share {
    char path[GPUD_SOCKET_PATH_MAX]; /* of the lock; "": the port cannot be shared */
    int lock;                        /* this process is the holder; else -1 */
    bool waits;                      /* has `wait`: another process is the holder */
    struct gpud_lock_wait wait;
};

/* Becomes the holder of the port, whose address is "10.0.0.1:7174", or waits for it to be free. */
enum gpud_status gpud_rdma_share_open(struct gpud_rdma_share *share, const char *port,
                                      struct gpud_error *error);
void gpud_rdma_share_close(struct gpud_rdma_share *share);

/* Becomes the holder if the port has no holder. GPUD_AGAIN: it has one; poll share->wait.events.
 * Waits 20 ms at most. */
enum gpud_status gpud_rdma_share_try(struct gpud_rdma_share *share, struct gpud_error *error);

/* Makes the note of a channel, "10.0.0.1:7174/cam2", whose process listens on `number`; 0: removes
 * it. The caller has the channel's lock. */
enum gpud_status gpud_rdma_share_note(const char *channel, uint16_t number,
                                      struct gpud_error *error);

/* The port in the note of a channel that another process sends; 0: the channel has no note. */
uint16_t gpud_rdma_share_find(const char *channel);

/* A channel that another process sends, by its note. */
struct gpud_rdma_shared {
    char name[GPUD_RDMA_NAME_MAX + 1];
    uint16_t number;
};

/* Those of a port, in no order. Starts zeroed. */
struct gpud_rdma_shares {
    struct gpud_rdma_shared *entries;
    size_t count;
    int64_t until;           /* when the directory is read again, even if it did not change */
    struct timespec changed; /* the directory's last change before it was read */
};

/* Brings the list up to date. Any host may cause it, so that the directory is read ten times a
 * second at most, unless this user's processes change it. */
void gpud_rdma_shares_update(struct gpud_rdma_shares *shares, const char *port);
void gpud_rdma_shares_free(struct gpud_rdma_shares *shares);

#endif
