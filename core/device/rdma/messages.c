/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages and notices as the layers above send and receive them; see credits.c. */
#include "device/rdma/internal.h"

#include <string.h>

/* --- receives ------------------------------------------------------------------------------ */

static void take_handed_out_back(struct gpud_rdma *rdma)
{
    if (!rdma->handed_out)
        return;
    rdma->handed_out = false;
    rdma->free_index[rdma->free_count++] = rdma->arrived[(rdma->taken - 1) % RDMA_ARRIVED].index;
    rdma->messages.owed++;
}

enum gpud_status gpud_rdma_receive(struct gpud_rdma *rdma, const void **bytes, size_t *size,
                                   struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&rdma->lock);
    bool polled = rdma->handed_out;
    take_handed_out_back(rdma);
    if (polled || rdma->taken == rdma->received)
        gpud_rdma_poll_locked(rdma);
    if (rdma->taken != rdma->received) { /* what arrived before the end, too */
        uint32_t place = rdma->taken++ % RDMA_ARRIVED;
        *bytes = rdma_receive_buffer(rdma, rdma->arrived[place].index);
        *size = rdma->arrived[place].size;
        rdma->handed_out = true;
    } else if (rdma->failed) {
        status = gpud_fail(error, GPUD_CLOSED, "%s", rdma->reason);
    } else {
        status = gpud_fail(error, GPUD_AGAIN, "no message has come");
    }
    gpud_lock_release(&rdma->lock);
    return status;
}

uint32_t gpud_rdma_received(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->lock);
    gpud_rdma_poll_locked(rdma);
    uint32_t received = rdma->received;
    gpud_lock_release(&rdma->lock);
    return received;
}

/* --- sending ------------------------------------------------------------------------------- */

void gpud_rdma_notify_locked(struct gpud_rdma *rdma, bool urgent)
{
    rdma->pending_urgent = urgent || (rdma->pending && rdma->pending_urgent);
    rdma->pending = true;
    gpud_rdma_send_pending_locked(rdma);
    if (rdma->unfinished)
        gpud_rdma_poll_locked(rdma);
}

void gpud_rdma_notify(struct gpud_rdma *rdma, bool urgent)
{
    gpud_lock_take(&rdma->lock);
    gpud_rdma_notify_locked(rdma, urgent);
    gpud_lock_release(&rdma->lock);
}

/* Small messages travel inside the request, larger ones from a copy. */
static void post_message(struct gpud_rdma *rdma, const void *bytes, uint32_t size)
{
    struct ibv_sge place = {.addr = (uintptr_t)bytes, .length = size};
    struct ibv_send_wr request = {
        .opcode = IBV_WR_SEND_WITH_IMM,
        .send_flags = IBV_SEND_SOLICITED,
        .sg_list = &place,
        .num_sge = 1,
    };
    if (size <= rdma->inline_max) {
        request.send_flags |= IBV_SEND_INLINE;
        if (gpud_rdma_post_with_credits_locked(rdma, &request, 0))
            rdma->messages.out++;
        return;
    }
    uint32_t index = (rdma->send_first + rdma->send_count) % RDMA_SENDS;
    char *copy = rdma_send_buffer(rdma, index);
    memcpy(copy, bytes, size);
    place.addr = (uintptr_t)copy;
    place.lkey = rdma->buffers_mr->lkey;
    request.send_flags |= IBV_SEND_SIGNALED;
    if (gpud_rdma_post_with_credits_locked(rdma, &request, 0)) {
        rdma->messages.out++;
        rdma->send_number[index] = rdma->posted;
        rdma->send_count++;
    }
}

static bool has_room_for_message(const struct gpud_rdma *rdma, size_t size)
{
    return rdma_available(&rdma->messages) > 0 && rdma_room(rdma) > RDMA_KEPT_FROM_MESSAGES &&
           (size <= rdma->inline_max || rdma->send_count < RDMA_SENDS);
}

enum gpud_status gpud_rdma_send(struct gpud_rdma *rdma, const void *bytes, size_t size,
                                struct gpud_error *error)
{
    if (size == 0 || size > GPUD_RDMA_MESSAGE_MAX)
        return gpud_fail(error, GPUD_INVALID, "a message of %zu bytes: 1 to %d are possible", size,
                         GPUD_RDMA_MESSAGE_MAX);
    enum gpud_status status;
    gpud_lock_take(&rdma->lock);
    if (rdma->pending || !has_room_for_message(rdma, size))
        gpud_rdma_poll_locked(rdma);
    if (!rdma->failed && !has_room_for_message(rdma, size)) {
        status = gpud_fail(error, GPUD_AGAIN, "the peer has not read what was sent before");
    } else {
        if (!rdma->failed)
            post_message(rdma, bytes, (uint32_t)size);
        status = gpud_rdma_check_locked(rdma, error);
    }
    gpud_lock_release(&rdma->lock);
    return status;
}
