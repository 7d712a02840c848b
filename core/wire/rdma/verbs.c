/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The verbs of a connection's card, for the application's own data; see wire/verbs.h. */
#include "wire/rdma/verbs.h"

#include "wire/rdma/connect.h"
#include "wire/rdma/ending.h"

#include <unistd.h>

static struct gpud_rdma *rdma_of(const struct gpud_channel *base)
{
    return ((const struct rdma_channel *)base)->rdma;
}

/* --- memory -------------------------------------------------------------------------------- */

static enum gpud_status register_memory(struct gpud_channel *channel, struct gpud_memory *memory,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error)
{
    static const char *const ways[] = {
        [GPUD_RDMA_DMABUF] = "dmabuf",
        [GPUD_RDMA_PEERMEM] = "peermem",
        [GPUD_RDMA_HOST] = "host",
    };
    struct gpud_rdma_region *made;
    enum gpud_rdma_way way;
    unsigned wanted = GPUD_RDMA_LOCAL_WRITE;
    if (access & GPUD_VERBS_REMOTE_WRITE)
        wanted |= GPUD_RDMA_REMOTE_WRITE;
    if (access & GPUD_VERBS_REMOTE_READ)
        wanted |= GPUD_RDMA_REMOTE_READ;
    enum gpud_status status =
        gpud_rdma_register_memory(rdma_of(channel), memory, wanted, &made, &way, error);
    if (status == GPUD_OK)
        *region = (struct gpud_verbs_region){
            .address = gpud_rdma_region_address(made),
            .key = gpud_rdma_region_key(made),
            .way = ways[way],
            .record = made,
        };
    return status;
}

static void unregister(struct gpud_verbs_region *region)
{
    struct gpud_rdma_region *gone = region->record;
    region->record = NULL;
    gpud_rdma_unregister(&gone);
}

/* --- requests ------------------------------------------------------------------------------ */

static struct gpud_rdma_transfer transfer_of(const struct gpud_verbs_region *region,
                                             uint64_t offset, uint64_t size, uint64_t address,
                                             uint32_t key)
{
    return (struct gpud_rdma_transfer){
        .local = region->record,
        .local_offset = offset,
        .remote_address = address,
        .remote_key = key,
        .size = size,
        .tells = true,
    };
}

static enum gpud_status write_to(struct gpud_channel *channel,
                                 const struct gpud_verbs_region *region, uint64_t offset,
                                 uint64_t size, uint64_t address, uint32_t key,
                                 struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = transfer_of(region, offset, size, address, key);
    return gpud_rdma_write(rdma_of(channel), &transfer, error);
}

static enum gpud_status read_from(struct gpud_channel *channel,
                                  const struct gpud_verbs_region *region, uint64_t offset,
                                  uint64_t size, uint64_t address, uint32_t key,
                                  struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = transfer_of(region, offset, size, address, key);
    return gpud_rdma_read(rdma_of(channel), &transfer, error);
}

static enum gpud_status send_bytes(struct gpud_channel *channel, const void *bytes, size_t size,
                                   struct gpud_error *error)
{
    return gpud_rdma_send(rdma_of(channel), bytes, size, error);
}

static enum gpud_status receive_bytes(struct gpud_channel *channel, const void **bytes,
                                      size_t *size, struct gpud_error *error)
{
    return gpud_rdma_receive(rdma_of(channel), bytes, size, error);
}

/* --- completions --------------------------------------------------------------------------- */

static void look(struct gpud_channel *channel, struct gpud_verbs_state *state)
{
    struct gpud_rdma *rdma = rdma_of(channel);
    struct gpud_error why = {.reason = ""};
    gpud_rdma_progress(rdma);
    state->posted = gpud_rdma_posted(rdma);
    gpud_rdma_is_done(rdma, state->posted); /* requests a completion if none is pending */
    state->failed = gpud_rdma_has_failed(rdma, &why);
    state->done = gpud_rdma_succeeded(rdma, &state->refused);
    gpud_print(state->reason, "%s", why.reason);
}

static void arm(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    uint64_t ignored;
    ssize_t got = read(channel->event, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    gpud_lock_release(&channel->lock);
    gpud_rdma_arm(channel->rdma, false);
}

static void end(struct gpud_channel *base, const char *reason)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_lock_take(&channel->lock);
    gpud_rdma_disconnect_locked(channel, reason);
    gpud_rdma_end(channel->rdma);
    gpud_lock_release(&channel->lock);
}

const struct gpud_verbs_ops gpud_rdma_verbs = {
    .register_memory = register_memory,
    .unregister = unregister,
    .write = write_to,
    .read = read_from,
    .send = send_bytes,
    .receive = receive_bytes,
    .look = look,
    .arm = arm,
    .end = end,
};
