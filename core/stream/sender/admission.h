/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who may connect to a sender, so that no process can keep others out: not by holding all places,
 * not by connecting without end. */
#ifndef GPUD_STREAM_SENDER_ADMISSION_H
#define GPUD_STREAM_SENDER_ADMISSION_H

#include "base/clock.h"
#include <gpudirect/sender.h>
#include <sys/types.h>

/* Places that one process or other host can have. Those whose process the kernel does not name
 * (they live in another PID namespace) count as one, with more places, and so does each other host.
 */
#define GPUD_PLACES_A_PROCESS (GPUD_RECEIVERS_MAX / 2)
#define GPUD_PLACES_UNNAMED (GPUD_RECEIVERS_MAX * 3 / 4)

/* Connections in a second. An honest receiver whose handshakes fail tries 50 times. */
#define GPUD_CONNECTS_A_PROCESS 300
#define GPUD_CONNECTS 1000

/* Connections of the second that began at `since`. */
struct gpud_connects {
    int64_t key; /* gpud_peer_key() */
    uint32_t count;
    int64_t since;
};

/* Starts zeroed. */
struct gpud_admission {
    struct gpud_connects all, process[GPUD_RECEIVERS_MAX];
};

/* Counts a connection of the peer with this key. false: it comes too soon; *told is whether that
 * was said for this second already. */
bool gpud_admission_count(struct gpud_admission *admission, int64_t key, int64_t now, bool *told);

#endif
