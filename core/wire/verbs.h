/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The verbs of a channel's network card, with which transfer/ moves an application's own data. A
 * connected channel is used either for these or for the messages of a link, not for both. One
 * thread at a time calls them, and none of them blocks.
 *
 * Requests are numbered, complete in order, and reach the peer in order. */
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

/* A registered memory. The peer needs address and key, which are secret. */
struct gpud_verbs_region {
    uint64_t address;
    uint32_t key;
    const char *way; /* "host", "dmabuf", "peermem" */
    void *record;    /* the kind's own */
};

struct gpud_verbs_state {
    uint64_t posted; /* the last request's number */
    uint64_t done;   /* every request up to this one succeeded */
    bool failed;     /* no later one will; `reason` says why */
    bool refused;    /* by the peer's card: a key or a range is wrong */
    char reason[GPUD_REASON_MAX];
};

struct gpud_verbs_ops {
    /* Any thread, also concurrently with other calls. The region keeps the memory. */
    enum gpud_status (*register_memory)(struct gpud_channel *channel, struct gpud_memory *memory,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error);
    /* No request may use the region any more, unless the channel was ended. Any thread. */
    void (*unregister)(struct gpud_verbs_region *region);
    /* Transfers bytes between a region and the peer's memory, in as many pieces as the card needs.
     * GPUD_AGAIN: the card's queue is full, and nothing was posted. */
    enum gpud_status (*write)(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                              uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                              struct gpud_error *error);
    enum gpud_status (*read)(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                             uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                             struct gpud_error *error);
    /* Sends a message, which is copied. GPUD_AGAIN: the peer does not read. */
    enum gpud_status (*send)(struct gpud_channel *channel, const void *bytes, size_t size,
                             struct gpud_error *error);
    /* The next message, valid until the next call. GPUD_AGAIN: none. GPUD_CLOSED: none will come.
     */
    enum gpud_status (*receive)(struct gpud_channel *channel, const void **bytes, size_t *size,
                                struct gpud_error *error);
    /* Gets the progress of requests, and makes sure that the posted ones will complete visibly. */
    void (*look)(struct gpud_channel *channel, struct gpud_verbs_state *state);
    /* Call before sleeping on the channel's descriptor: later events make it readable. Check once
     * more afterwards for earlier ones. */
    void (*arm)(struct gpud_channel *channel);
    /* On return no card accesses memory of this process for it; all later requests fail. */
    void (*end)(struct gpud_channel *channel, const char *reason);
};

#endif
