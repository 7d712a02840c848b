/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_TARGET_H
#define GPUD_TARGET_TARGET_H

#include "target/state.h"

struct gpud_target {
    struct gpud_context *context;
    struct gpud_target_ring *ring;
    char file[256];
    int file_fd;
    struct gpud_target_slot slots[GPUD_TARGET_SLOTS_MAX];
    const struct gpud_target_slot *slot[GPUD_TARGET_SLOTS_MAX]; /* to each of them */
    atomic_bool interrupted;

    /* Used by the acquiring thread only. */
    struct gpud_error failure; /* why it ended */
    uint64_t sequence;
    bool discontinuity, said_full;

    struct gpud_lock lock; /* guards what follows */
    uint64_t frames, dropped;
    int64_t began, last; /* when it was created; when the last frame came, or 0 */
    char reason[GPUD_REASON_MAX];
};

#endif
