/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages, notices, and the credits that both carry.
 *
 * Immediate data of messages (SEND) and notices (a WRITE, perhaps of no bytes):
 *
 *     bit 31        credits only: no notice
 *     bits 15 – 29  receives of messages that were posted again
 *     bits 0 – 14   receives of notices that were posted again
 *
 * Why no side waits forever: a notice needs two credits and leaves one. The last one is spent only
 * on returning at least half of the peer's credits, and comes back with the peer's next request. So
 * both sides never run out: a side that spent its last credit has returned sixteen, and gets one
 * back before it owes as many again. Credits for messages are returned once the peer has no more
 * than that many left. The peer does not answer such a return, so the two never keep answering each
 * other. */
#include "device/rdma/internal.h"

#include <arpa/inet.h>
#include <string.h>

#define ONLY_CREDITS (UINT32_C(1) << 31)
#define UNUSED (UINT32_C(1) << 30)
#define CREDITS UINT32_C(0x7fff)

/* --- receives ------------------------------------------------------------------------------ */

void gpud_rdma_post_receives_locked(struct gpud_rdma *rdma)
{
    struct ibv_recv_wr list[GPUD_RDMA_RECEIVES], *bad;
    struct ibv_sge place[GPUD_RDMA_RECEIVES];
    uint32_t count = rdma->free_count;
    if (count == 0 || rdma->failed)
        return;
    for (uint32_t i = 0; i < count; i++) {
        place[i] = (struct ibv_sge){
            .addr = (uintptr_t)rdma_receive_buffer(rdma, rdma->free_index[i]),
            .length = GPUD_RDMA_MESSAGE_MAX,
            .lkey = rdma->buffers_mr->lkey,
        };
        list[i] = (struct ibv_recv_wr){
            .wr_id = RDMA_IS_RECEIVE | rdma->free_index[i],
            .next = i + 1 < count ? &list[i + 1] : NULL,
            .sg_list = &place[i],
            .num_sge = 1,
        };
    }
    rdma->free_count = 0;
    int number = ibv_post_recv(rdma->id->qp, list, &bad);
    if (number != 0)
        gpud_rdma_fail_locked(rdma, "the network card %s takes no receive: %s", rdma->card,
                              strerror(number));
}

/* The peer can return at most the credits that were spent. */
static bool take_back(struct rdma_credits *credits, uint32_t count)
{
    if (count > credits->out)
        return false;
    credits->out -= count;
    return true;
}

static bool take_credits(struct gpud_rdma *rdma, uint32_t said)
{
    if (!(said & UNUSED) && take_back(&rdma->notices, said & CREDITS) &&
        take_back(&rdma->messages, said >> 15 & CREDITS))
        return true;
    gpud_rdma_fail_locked(rdma, "the peer broke the protocol: it gave back more receives than were "
                                "used");
    return false;
}

void gpud_rdma_take_notice_locked(struct gpud_rdma *rdma, uint32_t index, const struct ibv_wc *wc)
{
    uint32_t said = ntohl(wc->imm_data);
    if (!take_credits(rdma, said))
        return;
    rdma->free_index[rdma->free_count++] = index;
    rdma->notices.owed++;
    if (!(said & ONLY_CREDITS))
        rdma->news = true;
}

void gpud_rdma_take_message_locked(struct gpud_rdma *rdma, uint32_t index, const struct ibv_wc *wc)
{
    uint32_t said = ntohl(wc->imm_data);
    if (said & ONLY_CREDITS || wc->byte_len == 0) {
        gpud_rdma_fail_locked(
            rdma, "the peer broke the protocol: a message is empty, or marked as credits alone");
        return;
    }
    if (!take_credits(rdma, said))
        return;
    uint32_t place = rdma->received++ % RDMA_ARRIVED;
    rdma->arrived[place].index = index;
    rdma->arrived[place].size = wc->byte_len;
    rdma->news = true;
}

/* Messages received here and not yet released: unread, or handed out. */
static uint32_t held(const struct gpud_rdma *rdma)
{
    return rdma->received - rdma->taken + rdma->handed_out;
}

/* --- sending credits ----------------------------------------------------------------------- */

bool gpud_rdma_post_with_credits_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request,
                                        uint32_t flag)
{
    request->imm_data = htonl(flag | rdma->messages.owed << 15 | rdma->notices.owed);
    if (!gpud_rdma_post_locked(rdma, request))
        return false;
    rdma->messages.owed = rdma->notices.owed = 0;
    return true;
}

static void post_notice(struct gpud_rdma *rdma, struct ibv_send_wr *request, bool urgent,
                        uint32_t flag)
{
    request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    if (urgent)
        request->send_flags |= IBV_SEND_SOLICITED;
    if (gpud_rdma_post_with_credits_locked(rdma, request, flag))
        rdma->notices.out++;
}

bool gpud_rdma_may_notify_locked(const struct gpud_rdma *rdma)
{
    return rdma_available(&rdma->notices) >= 2 && rdma_room(rdma) > 0;
}

void gpud_rdma_post_notice_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request, bool urgent)
{
    urgent |= rdma->pending && rdma->pending_urgent;
    rdma->pending = false;
    post_notice(rdma, request, urgent, 0);
}

void gpud_rdma_send_pending_locked(struct gpud_rdma *rdma)
{
    const struct rdma_credits *notices = &rdma->notices, *messages = &rdma->messages;
    rdma->unfinished = false;
    if (rdma->failed || !rdma->connected)
        return;
    /* With no bytes, the peer's card ignores address and key. */
    struct ibv_send_wr nothing = {.send_flags = 0};
    if (rdma->pending && gpud_rdma_may_notify_locked(rdma)) {
        struct ibv_send_wr request = nothing;
        gpud_rdma_post_notice_locked(rdma, &request, false);
    }
    bool tell_notices = notices->owed >= GPUD_RDMA_NOTICES / 2;
    /* The peer knows of at most this many free ones. */
    bool tell_messages = messages->owed > 0 &&
                         2 * messages->owed + held(rdma) >= GPUD_RDMA_RECEIVES - GPUD_RDMA_NOTICES;
    if (tell_notices || tell_messages) {
        uint32_t wanted = tell_notices ? 1 : 2;
        if (rdma_available(notices) >= wanted && rdma_room(rdma) > 0)
            post_notice(rdma, &nothing, false, ONLY_CREDITS);
        else
            rdma->unfinished = true;
    }
    if (rdma->pending)
        rdma->unfinished = true;
}
