/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions, and waiting for them. */
#include "device/rdma/internal.h"

#include "base/base.h"

#include <poll.h>

#define POLL_COMPLETIONS 32
/* Longest sleep while draining: another thread may consume the event. */
#define DRAIN_SLICE (10 * GPUD_MSEC)
#define DRAIN_PAUSE (200 * GPUD_USEC)

/* --- completions --------------------------------------------------------------------------- */

static void rdma_completion_complete(struct gpud_rdma *rdma, uint64_t number)
{
    if (number > rdma->completed)
        rdma->completed = number;
    while (rdma->send_count && rdma->send_number[rdma->send_first] <= rdma->completed) {
        rdma->send_first = (rdma->send_first + 1) % RDMA_SENDS;
        rdma->send_count--;
    }
}

static void fail_by(struct gpud_rdma *rdma, const struct ibv_wc *wc)
{
    switch (wc->status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        gpud_rdma_fail_locked(rdma, "the peer does not answer any more: its process or machine has "
                                    "ended, or the network between is broken");
        break;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        gpud_rdma_fail_locked(rdma, "the peer had no receive where it had promised one");
        break;
    case IBV_WC_REM_ACCESS_ERR:
        rdma->refused |= !rdma->failed;
        gpud_rdma_fail_locked(rdma, "the peer's network card refused what was to be written or "
                                    "read: its key or range is wrong, or has been taken back");
        break;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        gpud_rdma_fail_locked(rdma, "the peer's network card refused a request: %s",
                              ibv_wc_status_str(wc->status));
        break;
    case IBV_WC_LOC_LEN_ERR:
        gpud_rdma_fail_locked(rdma, "the peer sent a message of more than %d bytes",
                              GPUD_RDMA_MESSAGE_MAX);
        break;
    case IBV_WC_WR_FLUSH_ERR:
        gpud_rdma_fail_locked(rdma,
                              "the connection has ended: the peer closed it, or asked for "
                              "what the network card %s refused",
                              rdma->card);
        break;
    default:
        gpud_rdma_fail_locked(rdma, "the network card %s failed: %s", rdma->card,
                              ibv_wc_status_str(wc->status));
        break;
    }
}

static void rdma_completion_handle(struct gpud_rdma *rdma, const struct ibv_wc *wc)
{
    bool is_receive = wc->wr_id & RDMA_IS_RECEIVE;
    if (!is_receive)
        rdma_completion_complete(rdma, wc->wr_id);
    if (!is_receive && wc->status == IBV_WC_SUCCESS)
        rdma->succeeded = rdma->completed;
    if (wc->status != IBV_WC_SUCCESS)
        fail_by(rdma, wc);
    else if (is_receive && !(wc->wc_flags & IBV_WC_WITH_IMM))
        gpud_rdma_fail_locked(rdma, "the peer sent something that does not say how many receives "
                                    "it has");
    else if (is_receive && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        gpud_rdma_take_notice_locked(rdma, (uint32_t)wc->wr_id, wc);
    else if (is_receive)
        gpud_rdma_take_message_locked(rdma, (uint32_t)wc->wr_id, wc);
}

/* Always ends, because only the caller posts receives again. */
static void take_completions(struct gpud_rdma *rdma)
{
    struct ibv_wc wc[POLL_COMPLETIONS];
    int count;
    do {
        count = ibv_poll_cq(rdma->queue, POLL_COMPLETIONS, wc);
        if (count < 0)
            gpud_rdma_fail_locked(rdma, "the network card %s does not say what it has done",
                                  rdma->card);
        else if (count > 0 && wc[0].status == IBV_WC_SUCCESS)
            rdma->heard_at = gpud_now();
        for (int i = 0; i < count; i++)
            rdma_completion_handle(rdma, &wc[i]);
    } while (count == POLL_COMPLETIONS);
}

void gpud_rdma_poll_locked(struct gpud_rdma *rdma)
{
    if (rdma->ended)
        return;
    for (;;) {
        take_completions(rdma);
        gpud_rdma_post_receives_locked(rdma);
        gpud_rdma_send_pending_locked(rdma);
        if (!rdma->unfinished)
            rdma->armed_unfinished = false;
        if (!rdma->unfinished || rdma->armed_unfinished || rdma->failed)
            return;
        /* A sleeper may have armed for urgent events only, but now credits count, too. Arming
         * requires one more check for earlier events. */
        rdma->armed_unfinished = true;
        ibv_req_notify_cq(rdma->queue, 0);
    }
}

bool gpud_rdma_progress(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->lock);
    gpud_rdma_poll_locked(rdma);
    bool news = rdma->news;
    rdma->news = false;
    gpud_lock_release(&rdma->lock);
    return news;
}

/* Events are consumed only here, so other waiting threads still find the descriptor readable. Cards
 * differ when armed for less than before, so a full arming stays until an event occurs. */
void gpud_rdma_arm(struct gpud_rdma *rdma, bool urgent_only)
{
    struct ibv_cq *queue;
    void *context;
    unsigned events = 0;
    gpud_lock_take(&rdma->lock);
    if (!rdma->ended) {
        while (ibv_get_cq_event(rdma->channel, &queue, &context) == 0)
            events++;
        ibv_ack_cq_events(rdma->queue, events);
        rdma->armed_all = !urgent_only || (rdma->armed_all && events == 0);
        ibv_req_notify_cq(rdma->queue, !rdma->armed_all && !rdma->unfinished);
        rdma->armed_unfinished = rdma->unfinished;
        gpud_rdma_poll_locked(rdma);
    }
    gpud_lock_release(&rdma->lock);
}

/* --- waiting ------------------------------------------------------------------------------- */

uint64_t gpud_rdma_posted(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->lock);
    uint64_t posted = rdma->posted;
    gpud_lock_release(&rdma->lock);
    return posted;
}

static bool is_done(struct gpud_rdma *rdma, uint64_t number)
{
    if (rdma->completed >= number || rdma->ended)
        return true;
    gpud_rdma_poll_locked(rdma);
    if (number > rdma->completed && number > rdma->signalled && rdma_room(rdma) > 0)
        gpud_rdma_post_marker_locked(rdma);
    return rdma->completed >= number;
}

bool gpud_rdma_is_done(struct gpud_rdma *rdma, uint64_t number)
{
    gpud_lock_take(&rdma->lock);
    bool done = is_done(rdma, number);
    gpud_lock_release(&rdma->lock);
    return done;
}

uint64_t gpud_rdma_succeeded(struct gpud_rdma *rdma, bool *refused)
{
    gpud_lock_take(&rdma->lock);
    uint64_t succeeded = rdma->succeeded;
    *refused = rdma->refused;
    gpud_lock_release(&rdma->lock);
    return succeeded;
}

enum gpud_status gpud_rdma_drain(struct gpud_rdma *rdma, uint64_t number, int64_t deadline,
                                 struct gpud_error *error)
{
    for (;;) {
        gpud_lock_take(&rdma->lock);
        bool done = is_done(rdma, number);
        if (!done) {
            ibv_req_notify_cq(rdma->queue, 0);
            done = is_done(rdma, number);
        }
        enum gpud_status status = gpud_rdma_check_locked(rdma, error);
        gpud_lock_release(&rdma->lock);
        if (done)
            return status;
        int64_t left = deadline - gpud_now();
        if (left <= 0)
            return gpud_fail(error, GPUD_TIMEOUT,
                             "the network card %s did not finish in time what it was asked for",
                             rdma->card);
        struct pollfd wait = {.fd = rdma->fd, .events = POLLIN};
        struct timespec slice = gpud_timespec(left < DRAIN_SLICE ? left : DRAIN_SLICE);
        struct timespec pause = gpud_timespec(DRAIN_PAUSE);
        /* Another thread's event may have made it readable. */
        if (ppoll(&wait, 1, &slice, NULL) > 0)
            nanosleep(&pause, NULL);
    }
}
