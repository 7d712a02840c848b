/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits connections to a sender, so that no process can keep others out by holding all places or
 * by connecting endlessly. */
#ifndef GPUD_STREAM_SENDER_ADMISSION_H
#define GPUD_STREAM_SENDER_ADMISSION_H

#include "base/clock.h"
#include <gpudirect/sender.h>
#include <sys/types.h>

/* Places for one process. All peers without a known process (in another PID namespace) count as
 * one, with more places, and so does each other host. */
#define GPUD_PLACES_A_PROCESS (GPUD_RECEIVERS_MAX / 2)
#define GPUD_PLACES_UNNAMED (GPUD_RECEIVERS_MAX * 3 / 4)

/* Places reserved for processes, or other hosts, that have none yet. */
#define GPUD_PLACES_KEPT (GPUD_RECEIVERS_MAX / 4)

/* Places for all processes of one other user, and for all other users together, so that neither
 * keeps another user out. Only the limits above apply to other hosts. */
#define GPUD_PLACES_A_USER (GPUD_RECEIVERS_MAX * 3 / 8)
#define GPUD_PLACES_FOREIGN (GPUD_RECEIVERS_MAX * 3 / 4)

/* Connections in a second. An honest receiver whose handshakes fail tries 50 times. */
#define GPUD_CONNECTS_A_PROCESS 300
#define GPUD_CONNECTS 1000

/* Handshakes and queries in a second, of all processes together, and in a burst as many as a
 * restarted sender has receivers. Further ones wait for their turn. */
#define GPUD_HANDSHAKES 200
#define GPUD_HANDSHAKES_AT_ONCE (2 * GPUD_RECEIVERS_MAX)

/* Connections of the second that began at `since`. */
struct gpud_connects {
    int64_t key; /* gpud_peer_key() */
    uint32_t count;
    int64_t since;
};

/* Starts zeroed. */
struct gpud_admission {
    struct gpud_connects all, process[GPUD_RECEIVERS_MAX];
    int64_t handshakes_until; /* the time that the handshakes so far have used up */
};

/* Counts a connection of the peer with this key. false: it exceeds the rate; *already_logged:
 * whether this was logged in the same second. */
bool gpud_admission_count(struct gpud_admission *admission, int64_t key, int64_t now,
                          bool *already_logged);

/* Connections of the peer with this key in its current second. */
uint32_t gpud_admission_connects(const struct gpud_admission *admission, int64_t key);

/* When the next handshake may run, and the call that counts it. */
int64_t gpud_admission_next_handshake(const struct gpud_admission *admission);
void gpud_admission_count_handshake(struct gpud_admission *admission, int64_t now);

#endif
