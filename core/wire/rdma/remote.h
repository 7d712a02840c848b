/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A link's record: this side's ring page, the location of the other side's page and ring, and the
 * regions registered for them. */
#ifndef GPUD_WIRE_RDMA_REMOTE_H
#define GPUD_WIRE_RDMA_REMOTE_H

#include "wire/rdma/state.h"

struct rdma_source {
    struct gpud_memory *memory; /* the region keeps it */
    struct gpud_rdma_region *region;
};

struct rdma_remote {
    struct gpud_remote base; /* first */
    struct rdma_channel *channel;
    struct gpud_rdma *rdma;
    bool is_sender;
    uint64_t number; /* of the channel's records */

    /* Under the channel's records_lock; a record is in one of the channel's lists. */
    struct rdma_remote *next;
    bool was_attached; /* the other side's page is known */

    /* The page, followed by the published copy of our half. */
    char *pages;
    struct gpud_rdma_region *theirs;    /* the page's half that the other side writes */
    struct gpud_rdma_region *published; /* the copy */

    /* Large metas: this side's memory and, at the sender, where they are written to. */
    void *metas;
    uint64_t metas_size, metas_address;
    uint32_t metas_key;
    struct gpud_rdma_region *metas_region;

    struct gpud_lock lock; /* for publishing */
    bool attached, detached;
    uint64_t remote_address; /* of our half in the other side's page */
    uint32_t remote_key;
    bool is_behind; /* parts from `next_part` on are still to be written */
    uint32_t next_part;
    bool owes_notice;

    atomic_bool asleep;
    int event; /* wakes it */

    /* The receiver's ring; `exposed`: the receiver's registrations of it. */
    uint32_t entries, slots_per_memory, memories;
    uint64_t slot_size, frame_size;
    struct gpud_handle ring[GPUD_RING_MEMORIES_MAX];
    struct gpud_rdma_region *exposed[GPUD_RING_MEMORIES_MAX];

    /* The sender's own memories. */
    struct rdma_source *sources;
    uint32_t source_count;
};

extern const struct gpud_page_carrier gpud_rdma_carrier;
extern const struct gpud_remote_ops gpud_rdma_remote_ops;

static inline size_t rdma_own_size(const struct rdma_remote *remote)
{
    return remote->is_sender ? sizeof(struct gpud_sender_half) : sizeof(struct gpud_receiver_half);
}

static inline char *rdma_own_half(const struct rdma_remote *remote)
{
    struct gpud_page *page = remote->base.page;
    return remote->is_sender ? (char *)&page->sender : (char *)&page->receiver;
}

static inline char *rdma_published_half(const struct rdma_remote *remote)
{
    return remote->pages + sizeof(struct gpud_page);
}

#endif
