/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes into the peer's memory, and reads from it. */
#include "device/rdma/internal.h"

/* Bytes of each piece of a transfer. */
static uint32_t piece_of(const struct gpud_rdma *rdma, uint64_t size)
{
    uint64_t piece = size / RDMA_PIECES_MAX + (size % RDMA_PIECES_MAX != 0);
    if (piece < RDMA_SIGNAL_BYTES)
        piece = RDMA_SIGNAL_BYTES;
    return piece < rdma->piece_max ? (uint32_t)piece : rdma->piece_max;
}

static uint64_t count_pieces(const struct gpud_rdma *rdma, uint64_t size)
{
    uint32_t piece = piece_of(rdma, size);
    return size / piece + (size % piece != 0);
}

/* Requests that transfers may post now. */
static uint32_t room_for_transfers(const struct gpud_rdma *rdma)
{
    uint32_t room = rdma_room(rdma);
    return room > RDMA_KEPT_FROM_TRANSFERS ? room - RDMA_KEPT_FROM_TRANSFERS : 0;
}

bool gpud_rdma_has_room(struct gpud_rdma *rdma, uint64_t size)
{
    gpud_lock_take(&rdma->lock);
    uint64_t wanted = count_pieces(rdma, size) + RDMA_WORDS;
    if (room_for_transfers(rdma) < wanted)
        gpud_rdma_poll_locked(rdma);
    bool has = room_for_transfers(rdma) >= wanted;
    gpud_lock_release(&rdma->lock);
    return has;
}

static enum gpud_status check(const struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted,
                              bool is_read, struct gpud_error *error)
{
    const struct gpud_rdma_region *local = wanted->local;
    /* Of a queue with nothing in it but unsignalled requests. */
    uint64_t most = rdma->depth - RDMA_KEPT_FROM_TRANSFERS - RDMA_SIGNAL_EVERY;
    if (local->rdma != rdma)
        return gpud_fail(error, GPUD_INVALID, "memory that is registered for another connection");
    if (wanted->size == 0 || wanted->local_offset > local->size ||
        wanted->size > local->size - wanted->local_offset)
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes at %llu are not inside of %llu registered bytes",
                         (unsigned long long)wanted->size, (unsigned long long)wanted->local_offset,
                         (unsigned long long)local->size);
    if (is_read && !(local->access & (GPUD_RDMA_LOCAL_WRITE | GPUD_RDMA_REMOTE_WRITE)))
        return gpud_fail(error, GPUD_INVALID,
                         "memory to read into has to be registered for being written");
    if (count_pieces(rdma, wanted->size) > most)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%llu bytes are too many for one transfer by %s: %llu are the most",
                         (unsigned long long)wanted->size, rdma->card,
                         (unsigned long long)(most * rdma->piece_max));
    return GPUD_OK;
}

enum kind { WRITE, READ, NOTICE, URGENT_NOTICE };

/* The notice goes with the last piece, or follows as a request of its own. */
static void post(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted, enum kind kind)
{
    const struct gpud_rdma_region *local = wanted->local;
    bool is_inline = kind != READ && local->host && wanted->size <= rdma->inline_max;
    bool is_notice = kind >= NOTICE, goes_along = is_notice && gpud_rdma_may_notify_locked(rdma);
    uint32_t piece = piece_of(rdma, wanted->size);
    for (uint64_t done = 0; done < wanted->size;) {
        uint64_t left = wanted->size - done;
        uint32_t size = left < piece ? (uint32_t)left : piece;
        uint64_t offset = wanted->local_offset + done;
        struct ibv_sge place = {
            .addr = is_inline ? (uintptr_t)(local->host + offset) : local->address + offset,
            .length = size,
            .lkey = local->local_key,
        };
        struct ibv_send_wr request = {
            .opcode = kind == READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
            .sg_list = &place,
            .num_sge = 1,
            .send_flags = is_inline ? IBV_SEND_INLINE : 0,
            .wr.rdma = {.remote_addr = wanted->remote_address + done, .rkey = wanted->remote_key},
        };
        done += size;
        if (done == wanted->size && wanted->tells)
            request.send_flags |= IBV_SEND_SIGNALED;
        if (done == wanted->size && goes_along)
            gpud_rdma_post_notice_locked(rdma, &request, kind == URGENT_NOTICE);
        else if (!gpud_rdma_post_locked(rdma, &request))
            return;
    }
    if (is_notice && !goes_along)
        gpud_rdma_notify_locked(rdma, kind == URGENT_NOTICE);
}

static enum gpud_status transfer(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted,
                                 enum kind kind, struct gpud_error *error)
{
    enum gpud_status status = check(rdma, wanted, kind == READ, error);
    if (status != GPUD_OK)
        return status;
    uint64_t pieces = count_pieces(rdma, wanted->size);
    gpud_lock_take(&rdma->lock);
    if (rdma->pending || room_for_transfers(rdma) < pieces)
        gpud_rdma_poll_locked(rdma);
    if (!rdma->failed && (!rdma->connected || room_for_transfers(rdma) < pieces)) {
        status =
            gpud_fail(error, GPUD_AGAIN, "the queue of the network card %s is full", rdma->card);
    } else {
        if (!rdma->failed)
            post(rdma, wanted, kind);
        status = gpud_rdma_check_locked(rdma, error);
    }
    gpud_lock_release(&rdma->lock);
    return status;
}

enum gpud_status gpud_rdma_write(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted,
                                 struct gpud_error *error)
{
    return transfer(rdma, wanted, WRITE, error);
}

enum gpud_status gpud_rdma_write_and_notify(struct gpud_rdma *rdma,
                                            const struct gpud_rdma_transfer *wanted, bool urgent,
                                            struct gpud_error *error)
{
    return transfer(rdma, wanted, urgent ? URGENT_NOTICE : NOTICE, error);
}

enum gpud_status gpud_rdma_read(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted,
                                struct gpud_error *error)
{
    return transfer(rdma, wanted, READ, error);
}
