/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a channel between hosts offers beside messages of links: the verbs of its card, for who
 * moves an application's own bytes (transfer/). Whoever uses them on a channel that is
 * connected has it to itself: gpud_channel_send() and _receive() are not called any more, and one
 * thread at a time calls these. Nothing here blocks.
 *
 * Everything posted is numbered, completes in order, and is seen by the peer in order. */
#ifndef GPUD_WIRE_VERBS_H
#define GPUD_WIRE_VERBS_H

#include "base/error.h"

struct gpud_channel;
struct gpud_memory;

enum gpud_verbs_access {
    GPUD_VERBS_LOCAL = 0, /* read and written for this side's own requests */
    GPUD_VERBS_REMOTE_WRITE = 1 << 0,
    GPUD_VERBS_REMOTE_READ = 1 << 1,
};

/* A registered memory. address and key: what the peer needs, a secret. */
struct gpud_verbs_region {
    uint64_t address;
    uint32_t key;
    const char *way; /* "host", "dmabuf", "peermem" */
    void *record;    /* the kind's own */
};

struct gpud_verbs_state {
    uint64_t posted; /* the number of what was posted last */
    uint64_t done;   /* everything up to this one succeeded */
    bool failed;     /* and nothing more will; `reason` says why */
    bool refused;    /* it was the peer's card: a key or a range is wrong */
    char reason[GPUD_REASON_MAX];
};

struct gpud_verbs_ops {
    /* Any thread, also beside the others. The memory is kept. */
    enum gpud_status (*register_memory)(struct gpud_channel *channel, struct gpud_memory *memory,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error);
    /* Nothing that names the region may be under way, unless the channel was ended. Any thread. */
    void (*unregister)(struct gpud_verbs_region *region);
    /* So many bytes between a region and the peer's memory, in as many pieces as the card wants.
     * GPUD_AGAIN: the card's queue is full, and nothing was posted. */
    enum gpud_status (*write)(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                              uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                              struct gpud_error *error);
    enum gpud_status (*read)(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                             uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                             struct gpud_error *error);
    /* A message; copied. GPUD_AGAIN: the peer does not read. */
    enum gpud_status (*send)(struct gpud_channel *channel, const void *bytes, size_t size,
                             struct gpud_error *error);
    /* The next message; valid until the next call. GPUD_AGAIN: none. GPUD_CLOSED: none will come.
     */
    enum gpud_status (*receive)(struct gpud_channel *channel, const void **bytes, size_t *size,
                                struct gpud_error *error);
    /* How far everything is. Sees to it that what is posted will say so. */
    void (*look)(struct gpud_channel *channel, struct gpud_verbs_state *state);
    /* Before a thread sleeps on the channel's descriptor: whatever happens from now on makes it
     * readable. What came before that is to be looked at once more. */
    void (*arm)(struct gpud_channel *channel);
    /* From here on no card reads or writes memory of this process for it, and everything fails. */
    void (*end)(struct gpud_channel *channel, const char *reason);
};

#endif
