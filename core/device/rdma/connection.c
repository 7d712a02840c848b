/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection's queues, credits, completions, messages and writes. */
#include "device/rdma/internal.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* Depth of the send queue: what is requested, and the least that is useful. */
#define RDMA_DEPTH 1024
#define RDMA_DEPTH_MIN 128

/* Requests that transfers leave to messages and notices; requests that messages leave to
 * notices. */
#define RDMA_KEPT_FROM_TRANSFERS 64
#define RDMA_KEPT_FROM_MESSAGES 16

/* One of so many requests, or bytes, is signalled, so that the queue never fills up with
 * unsignalled ones, and a card's progress in a large transfer is seen. */
#define RDMA_SIGNAL_EVERY 16
#define RDMA_SIGNAL_BYTES (UINT64_C(1) << 20)

/* Larger transfers are cut into pieces of RDMA_SIGNAL_BYTES, but not into more than this. */
#define RDMA_PIECES_MAX 16

/* Behind a frame: its descriptor, words, and a large meta, which is one piece. */
#define RDMA_WORDS 16

/* Bytes that the card copies when they are posted. Words take at most a 64-byte line and change
 * again soon, so a card that takes less cannot be used. */
#define RDMA_INLINE 256
#define RDMA_INLINE_MIN 64

/* Marks a receive in a completion's id: the rest is the buffer's index. The id of a request is its
 * number. */
#define RDMA_IS_RECEIVE (UINT64_C(1) << 63)

#define RDMA_BUFFERS_SIZE ((size_t)(GPUD_RDMA_RECEIVES + RDMA_SENDS) * GPUD_RDMA_MESSAGE_MAX)

static char *rdma_buffer(const struct gpud_rdma *rdma, uint32_t index)
{
    return rdma->buffers + (size_t)index * GPUD_RDMA_MESSAGE_MAX;
}

/* Requests that fit into the send queue. */
static uint32_t rdma_room(const struct gpud_rdma *rdma)
{
    return rdma->depth - (uint32_t)(rdma->posted - rdma->completed);
}

/* Receives of the peer that are still free. */
static uint32_t rdma_available(const struct rdma_credits *credits)
{
    return credits->limit - credits->out;
}

/* === post ==================================================================================== */
/* Posts requests to the card, and fails a connection. */

/* Keeps the first reason. Functions that end with _locked need rdma->lock. */
static GPUD_PRINTF(2, 3) void rdma_fail_locked(struct gpud_rdma *rdma, const char *format, ...)
{
    if (rdma->failed)
        return;
    rdma->failed = true;
    va_list args;
    va_start(args, format);
    gpud_text_format(rdma->reason, sizeof(rdma->reason), format, args);
    va_end(args);
    if (!rdma->ended) {
        /* Flushes pending requests. A failed change of state means an error state already, or no
         * card. */
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
        ibv_modify_qp(rdma->id->qp, &attr, IBV_QP_STATE);
    }
    gpud_event_raise(rdma->event);
}

/* GPUD_PEER with the reason if the connection has failed. */
static enum gpud_status rdma_check_locked(const struct gpud_rdma *rdma, struct gpud_error *error)
{
    return rdma->failed ? gpud_fail(error, GPUD_PEER, "%s", rdma->reason) : GPUD_OK;
}

static bool post_post(struct gpud_rdma *rdma, struct ibv_send_wr *request)
{
    struct ibv_send_wr *bad;
    request->wr_id = rdma->posted + 1;
    for (int i = 0; i < request->num_sge; i++)
        rdma->unsignalled += request->sg_list[i].length;
    if (request->wr_id % RDMA_SIGNAL_EVERY == 0 || rdma->unsignalled >= RDMA_SIGNAL_BYTES)
        request->send_flags |= IBV_SEND_SIGNALED;
    int number = ibv_post_send(rdma->id->qp, request, &bad);
    if (number != 0) {
        rdma_fail_locked(rdma, "the network card %s takes no request: %s", rdma->card,
                         strerror(number));
        return false;
    }
    rdma->posted++;
    if (request->send_flags & IBV_SEND_SIGNALED) {
        if (rdma->signalled <= rdma->completed) {
            rdma->asked_at = gpud_now();
            rdma->stretch = 0;
        }
        if (rdma->unsignalled > rdma->stretch)
            rdma->stretch = rdma->unsignalled;
        rdma->unsignalled = 0;
        rdma->signalled = rdma->posted;
    }
    return true;
}

/* The caller makes sure of room. false: the connection failed. */
static bool rdma_post_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request)
{
    return !rdma->failed && post_post(rdma, request);
}

/* Also after a failure, when the card takes requests only to flush them: nothing else would tell
 * that it is done with the unsignalled ones before. */
static bool rdma_post_marker_locked(struct gpud_rdma *rdma)
{
    /* With no bytes, the peer's card ignores address and key. */
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    return !rdma->ended && post_post(rdma, &request);
}

/* === credits ================================================================================= */
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

#define ONLY_CREDITS (UINT32_C(1) << 31)
#define UNUSED (UINT32_C(1) << 30)
#define CREDITS UINT32_C(0x7fff)

/* --- receives ------------------------------------------------------------------------------ */

/* Posts the free receives again. */
static void rdma_post_receives_locked(struct gpud_rdma *rdma)
{
    struct ibv_recv_wr list[GPUD_RDMA_RECEIVES], *bad;
    struct ibv_sge place[GPUD_RDMA_RECEIVES];
    uint32_t count = rdma->free_count;
    if (count == 0 || rdma->failed)
        return;
    for (uint32_t i = 0; i < count; i++) {
        place[i] = (struct ibv_sge){
            .addr = (uintptr_t)rdma_buffer(rdma, rdma->free_index[i]),
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
        rdma_fail_locked(rdma, "the network card %s takes no receive: %s", rdma->card,
                         strerror(number));
}

/* The peer can return at most the credits that were spent. */
static bool take_credits(struct gpud_rdma *rdma, uint32_t said)
{
    uint32_t notices = said & CREDITS, messages = said >> 15 & CREDITS;
    if (said & UNUSED || notices > rdma->notices.out || messages > rdma->messages.out) {
        rdma_fail_locked(rdma, "the peer broke the protocol: it gave back more receives than were "
                               "used");
        return false;
    }
    rdma->notices.out -= notices;
    rdma->messages.out -= messages;
    return true;
}

static void rdma_take_notice_locked(struct gpud_rdma *rdma, uint32_t index, const struct ibv_wc *wc)
{
    uint32_t said = ntohl(wc->imm_data);
    if (!take_credits(rdma, said))
        return;
    rdma->free_index[rdma->free_count++] = index;
    rdma->notices.owed++;
    if (!(said & ONLY_CREDITS))
        rdma->news = true;
}

static void rdma_take_message_locked(struct gpud_rdma *rdma, uint32_t index,
                                     const struct ibv_wc *wc)
{
    uint32_t said = ntohl(wc->imm_data);
    if (said & ONLY_CREDITS || wc->byte_len == 0) {
        rdma_fail_locked(
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

/* --- sending credits ----------------------------------------------------------------------- */

/* Posts a request together with the owed credits; flag: 0 for a message. false: the connection
 * failed. */
static bool rdma_post_with_credits_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request,
                                          uint32_t flag)
{
    request->imm_data = htonl(flag | rdma->messages.owed << 15 | rdma->notices.owed);
    if (!rdma_post_locked(rdma, request))
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
    if (rdma_post_with_credits_locked(rdma, request, flag))
        rdma->notices.out++;
}

static bool rdma_may_notify_locked(const struct gpud_rdma *rdma)
{
    return rdma_available(&rdma->notices) >= 2 && rdma_room(rdma) > 0;
}

/* Posts a write as a notice, which also covers a pending one. */
static void rdma_post_notice_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request,
                                    bool urgent)
{
    urgent |= rdma->pending && rdma->pending_urgent;
    rdma->pending = false;
    post_notice(rdma, request, urgent, 0);
}

/* Sends the pending notice and reports receives that were posted again, as far as there is room. */
static void rdma_send_pending_locked(struct gpud_rdma *rdma)
{
    const struct rdma_credits *notices = &rdma->notices, *messages = &rdma->messages;
    rdma->unfinished = false;
    if (rdma->failed || !rdma->connected)
        return;
    /* With no bytes, the peer's card ignores address and key. */
    struct ibv_send_wr nothing = {.send_flags = 0};
    if (rdma->pending && rdma_may_notify_locked(rdma)) {
        struct ibv_send_wr request = nothing;
        rdma_post_notice_locked(rdma, &request, false);
    }
    bool tell_notices = notices->owed >= GPUD_RDMA_NOTICES / 2;
    /* Messages that are not released yet: unread, or handed out. The peer knows of at most this
     * many free receives. */
    uint32_t held = rdma->received - rdma->taken + rdma->handed_out;
    bool tell_messages =
        messages->owed > 0 && 2 * messages->owed + held >= GPUD_RDMA_RECEIVES - GPUD_RDMA_NOTICES;
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

/* === completions ============================================================================= */
/* Handling completions, and waiting for them. */

#define POLL_COMPLETIONS 32
/* Longest sleep while draining: another thread may consume the event. */
#define DRAIN_SLICE (10 * GPUD_MSEC)
#define DRAIN_PAUSE (200 * GPUD_USEC)

/* --- completions --------------------------------------------------------------------------- */

static void fail_by(struct gpud_rdma *rdma, const struct ibv_wc *wc)
{
    switch (wc->status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        rdma_fail_locked(rdma, "the peer does not answer any more: its process or machine has "
                               "ended, or the network between is broken");
        break;
    case IBV_WC_RNR_RETRY_EXC_ERR:
        rdma_fail_locked(rdma, "the peer had no receive where it had promised one");
        break;
    case IBV_WC_REM_ACCESS_ERR:
        rdma->refused |= !rdma->failed;
        rdma_fail_locked(rdma, "the peer's network card refused what was to be written or "
                               "read: its key or range is wrong, or has been taken back");
        break;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        rdma_fail_locked(rdma, "the peer's network card refused a request: %s",
                         ibv_wc_status_str(wc->status));
        break;
    case IBV_WC_LOC_LEN_ERR:
        rdma_fail_locked(rdma, "the peer sent a message of more than %d bytes",
                         GPUD_RDMA_MESSAGE_MAX);
        break;
    case IBV_WC_WR_FLUSH_ERR:
        rdma_fail_locked(rdma,
                         "the connection has ended: the peer closed it, or asked for "
                         "what the network card %s refused",
                         rdma->card);
        break;
    default:
        rdma_fail_locked(rdma, "the network card %s failed: %s", rdma->card,
                         ibv_wc_status_str(wc->status));
        break;
    }
}

static void rdma_completion_handle(struct gpud_rdma *rdma, const struct ibv_wc *wc)
{
    bool is_receive = wc->wr_id & RDMA_IS_RECEIVE;
    if (!is_receive) {
        if (wc->wr_id > rdma->completed)
            rdma->completed = wc->wr_id;
        while (rdma->send_count && rdma->send_number[rdma->send_first] <= rdma->completed) {
            rdma->send_first = (rdma->send_first + 1) % RDMA_SENDS;
            rdma->send_count--;
        }
        if (wc->status == IBV_WC_SUCCESS)
            rdma->succeeded = rdma->completed;
    }
    if (wc->status != IBV_WC_SUCCESS)
        fail_by(rdma, wc);
    else if (is_receive && !(wc->wc_flags & IBV_WC_WITH_IMM))
        rdma_fail_locked(rdma, "the peer sent something that does not say how many receives "
                               "it has");
    else if (is_receive && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        rdma_take_notice_locked(rdma, (uint32_t)wc->wr_id, wc);
    else if (is_receive)
        rdma_take_message_locked(rdma, (uint32_t)wc->wr_id, wc);
}

/* Handles completions, and then sends what waited for them. */
static void rdma_poll_locked(struct gpud_rdma *rdma)
{
    struct ibv_wc wc[POLL_COMPLETIONS];
    int count;
    if (rdma->ended)
        return;
    for (;;) {
        do { /* always ends, because only the caller posts receives again */
            count = ibv_poll_cq(rdma->queue, POLL_COMPLETIONS, wc);
            if (count < 0)
                rdma_fail_locked(rdma, "the network card %s does not say what it has done",
                                 rdma->card);
            else if (count > 0 && wc[0].status == IBV_WC_SUCCESS)
                rdma->heard_at = gpud_now();
            for (int i = 0; i < count; i++)
                rdma_completion_handle(rdma, &wc[i]);
        } while (count == POLL_COMPLETIONS);
        rdma_post_receives_locked(rdma);
        rdma_send_pending_locked(rdma);
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
    rdma_poll_locked(rdma);
    bool news = rdma->news;
    rdma->news = false;
    gpud_lock_release(&rdma->lock);
    return news;
}

/* Takes the card's events, and returns how many there were. */
static unsigned rdma_clear_events(struct gpud_rdma *rdma)
{
    struct ibv_cq *queue;
    void *context;
    unsigned events = 0;
    while (ibv_get_cq_event(rdma->channel, &queue, &context) == 0)
        events++;
    ibv_ack_cq_events(rdma->queue, events);
    return events;
}

/* Events are consumed only here, so other waiting threads still find the descriptor readable. Cards
 * differ when armed for less than before, so a full arming stays until an event occurs. */
void gpud_rdma_arm(struct gpud_rdma *rdma, bool urgent_only)
{
    gpud_lock_take(&rdma->lock);
    if (!rdma->ended) {
        unsigned events = rdma_clear_events(rdma);
        rdma->armed_all = !urgent_only || (rdma->armed_all && events == 0);
        ibv_req_notify_cq(rdma->queue, !rdma->armed_all && !rdma->unfinished);
        rdma->armed_unfinished = rdma->unfinished;
        rdma_poll_locked(rdma);
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
    rdma_poll_locked(rdma);
    if (number > rdma->completed && number > rdma->signalled && rdma_room(rdma) > 0)
        rdma_post_marker_locked(rdma);
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
        enum gpud_status status = rdma_check_locked(rdma, error);
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

/* === connection ============================================================================== */
/* How a connection begins and ends, and how its failure is detected.
 *
 * The card's asynchronous events are not read: rdma_cm opens a card once for all ids of the
 * process, so reading would consume other queue pairs' events. They are not needed: an error of the
 * queue pair flushes its receives, a silent card misses its deadline, and rdma_cm reports the
 * removal of a card. */

/* ns for a byte: no network is slower than 4 MB/s. */
#define ANSWER_A_BYTE INT64_C(250)

/* --- failing ------------------------------------------------------------------------------- */

void gpud_rdma_fail(struct gpud_rdma *rdma, const char *reason)
{
    gpud_lock_take(&rdma->lock);
    rdma_poll_locked(rdma);
    rdma_fail_locked(rdma, "%s", reason);
    gpud_lock_release(&rdma->lock);
}

bool gpud_rdma_has_failed(struct gpud_rdma *rdma, struct gpud_error *error)
{
    gpud_lock_take(&rdma->lock);
    enum gpud_status status = rdma_check_locked(rdma, error);
    gpud_lock_release(&rdma->lock);
    return status != GPUD_OK;
}

/* Every completion shows that the peer's card answers; without any, a write of no bytes asks it.
 * The card gives up by itself after GPUD_RDMA_RETRIES, but that cannot be relied on: the peer
 * influences that number, real cards stretch the time, and soft-RoCE may forget what to resend. So
 * this side has a limit of its own. */
bool gpud_rdma_is_alive(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->lock);
    rdma_poll_locked(rdma);
    int64_t now = gpud_now();
    bool waits = rdma->signalled > rdma->completed;
    /* How long the peer's card has not acknowledged a pending request. */
    int64_t silent = now - (rdma->asked_at > rdma->heard_at ? rdma->asked_at : rdma->heard_at);
    if (rdma->failed || !rdma->connected)
        ;
    else if (waits && silent > GPUD_RDMA_ANSWER + (int64_t)rdma->stretch * ANSWER_A_BYTE)
        rdma_fail_locked(rdma,
                         "the peer does not answer any more: the network card %s has heard "
                         "nothing for %lld ms, so the peer's machine has ended, or the "
                         "network between is broken",
                         rdma->card, (long long)(silent / GPUD_MSEC));
    else if (!waits && now - rdma->heard_at >= GPUD_RDMA_SILENCE && rdma_room(rdma) > 0)
        rdma_post_marker_locked(rdma);
    bool alive = !rdma->failed;
    gpud_lock_release(&rdma->lock);
    return alive;
}

const char *gpud_rdma_card(const struct gpud_rdma *rdma)
{
    return rdma->card;
}

int gpud_rdma_get_fd(const struct gpud_rdma *rdma)
{
    return rdma->fd;
}

/* --- creating ------------------------------------------------------------------------------ */

/* The queue is as deep, and takes as many bytes inline, as the card allows. On success the id has a
 * queue pair. */
static enum gpud_status create_queues(struct gpud_rdma *rdma, const struct ibv_device_attr *limits,
                                      struct gpud_error *error)
{
    struct ibv_context *verbs = rdma->id->verbs;
    bool tried_less_inline = false;
    int number = 0;
    for (uint32_t depth = RDMA_DEPTH; depth >= RDMA_DEPTH_MIN; depth /= 2) {
        /* A failure completes every request, signalled or not. */
        uint32_t completions = depth + GPUD_RDMA_RECEIVES + 1;
        if (depth > (uint32_t)limits->max_qp_wr || completions > (uint32_t)limits->max_cqe)
            continue;
        rdma->queue = ibv_create_cq(verbs, (int)completions, NULL, rdma->channel, 0);
        number = errno;
        for (uint32_t bytes = RDMA_INLINE; rdma->queue && bytes >= RDMA_INLINE_MIN; bytes /= 2) {
            struct ibv_qp_init_attr attr = {
                .qp_type = IBV_QPT_RC,
                .send_cq = rdma->queue,
                .recv_cq = rdma->queue,
                .cap = {.max_send_wr = depth,
                        .max_recv_wr = GPUD_RDMA_RECEIVES,
                        .max_send_sge = 1,
                        .max_recv_sge = 1,
                        .max_inline_data = bytes},
            };
            if (rdma_create_qp(rdma->id, rdma->domain, &attr) == 0) {
                rdma->depth = depth;
                rdma->inline_max = attr.cap.max_inline_data;
                if (rdma->inline_max >= RDMA_INLINE_MIN)
                    return GPUD_OK;
                rdma_destroy_qp(rdma->id);
                tried_less_inline = true;
            }
            number = errno;
        }
        if (rdma->queue)
            ibv_destroy_cq(rdma->queue);
        rdma->queue = NULL;
    }
    if (tried_less_inline)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the network card %s takes no %d bytes along with a request (inline), "
                         "which is needed for words that change again at once: use another card",
                         rdma->card, RDMA_INLINE_MIN);
    if (number == 0)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the network card %s has queues for %d requests and %d completions only: "
                         "%d and %d are needed",
                         rdma->card, limits->max_qp_wr, limits->max_cqe, RDMA_DEPTH_MIN,
                         RDMA_DEPTH_MIN + GPUD_RDMA_RECEIVES + 1);
    return gpud_rdma_fail_register(error, number, rdma->card, 0);
}

static enum gpud_status check_card(struct gpud_rdma *rdma, struct ibv_device_attr *limits,
                                   struct gpud_error *error)
{
    struct ibv_context *verbs = rdma->id->verbs;
    struct ibv_port_attr port;
    if (verbs->device->transport_type != IBV_TRANSPORT_IB) {
        char why[GPUD_REASON_MAX];
        gpud_rdma_explain_transport(rdma->card, why);
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s", why);
    }
    errno = ibv_query_device(verbs, limits);
    if (errno != 0)
        return gpud_fail_errno(error, "the network card %s does not say what it can do",
                               rdma->card);
    errno = ibv_query_port(verbs, rdma->id->port_num, &port);
    if (errno != 0)
        return gpud_fail_errno(error, "the network card %s has no port %d", rdma->card,
                               rdma->id->port_num);
    rdma->piece_max = port.max_msg_sz && port.max_msg_sz < UINT32_C(1) << 30 ? port.max_msg_sz
                                                                             : UINT32_C(1) << 30;
    return GPUD_OK;
}

static enum gpud_status rdma_connection_create(struct gpud_rdma *rdma, struct gpud_error *error)
{
    struct ibv_device_attr limits;
    enum gpud_status status = check_card(rdma, &limits, error);
    if (status != GPUD_OK)
        return status;
    rdma->domain = ibv_alloc_pd(rdma->id->verbs);
    if (!rdma->domain)
        return gpud_fail_errno(error, "the network card %s gives no protection domain", rdma->card);
    /* One descriptor for all events, which outlives the card's. */
    rdma->channel = ibv_create_comp_channel(rdma->id->verbs);
    if (!rdma->channel)
        return gpud_fail_errno(error, "the network card %s has no descriptor to wait at",
                               rdma->card);
    rdma->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rdma->fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event watch = {.events = EPOLLIN};
    int flags = fcntl(rdma->channel->fd, F_GETFL);
    if (rdma->event < 0 || rdma->fd < 0 || flags < 0 ||
        fcntl(rdma->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        epoll_ctl(rdma->fd, EPOLL_CTL_ADD, rdma->channel->fd, &watch) < 0 ||
        epoll_ctl(rdma->fd, EPOLL_CTL_ADD, rdma->event, &watch) < 0)
        return gpud_fail_errno(error, "no descriptors for a connection of %s", rdma->card);
    void *pages =
        mmap(NULL, RDMA_BUFFERS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return gpud_fail_errno(error, "no buffers for the messages of a connection");
    rdma->buffers = pages;
    rdma->buffers_mr = ibv_reg_mr(rdma->domain, pages, RDMA_BUFFERS_SIZE, IBV_ACCESS_LOCAL_WRITE);
    if (!rdma->buffers_mr)
        return gpud_rdma_fail_register(error, errno, rdma->card, RDMA_BUFFERS_SIZE);
    status = create_queues(rdma, &limits, error);
    if (status != GPUD_OK)
        return status;
    for (uint32_t i = 0; i < GPUD_RDMA_RECEIVES; i++)
        rdma->free_index[rdma->free_count++] = i;
    gpud_lock_take(&rdma->lock);
    rdma_post_receives_locked(rdma);
    status = rdma_check_locked(rdma, error);
    gpud_lock_release(&rdma->lock);
    return status;
}

enum gpud_status gpud_rdma_create(struct rdma_cm_id *id, struct gpud_rdma **rdma,
                                  struct gpud_error *error)
{
    if (!id->verbs || id->qp)
        return gpud_fail(error, GPUD_INVALID,
                         "the id belongs to no network card yet, or has a queue pair already");
    struct gpud_rdma *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    atomic_init(&made->references, 1);
    gpud_lock_init(&made->domain_lock, GPUD_RANK_RDMA_DOMAIN);
    gpud_lock_init(&made->ways_lock, GPUD_RANK_RDMA_WAYS);
    gpud_lock_init(&made->lock, GPUD_RANK_RDMA_CONNECTION);
    made->fd = made->event = -1;
    made->id = id;
    gpud_print(made->card, "%s", ibv_get_device_name(id->verbs->device));
    enum gpud_status status = rdma_connection_create(made, error);
    if (status != GPUD_OK)
        gpud_rdma_unref(&made);
    else
        *rdma = made;
    return status;
}

void gpud_rdma_set_peer_receives(struct gpud_rdma *rdma, uint32_t receives)
{
    gpud_lock_take(&rdma->lock);
    if (receives <= GPUD_RDMA_NOTICES) {
        rdma_fail_locked(rdma, "the peer says that it has %u receives: %u are the least", receives,
                         GPUD_RDMA_NOTICES + 1);
    } else {
        rdma->connected = true;
        rdma->heard_at = gpud_now();
        rdma->notices.limit = GPUD_RDMA_NOTICES;
        rdma->messages.limit = receives - GPUD_RDMA_NOTICES;
        rdma_poll_locked(rdma);
    }
    gpud_lock_release(&rdma->lock);
}

/* --- ending -------------------------------------------------------------------------------- */

void gpud_rdma_end(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->domain_lock);
    gpud_lock_take(&rdma->lock);
    bool first = !rdma->ended;
    rdma->ended = true;
    rdma_fail_locked(rdma, "this side has ended the connection");
    gpud_lock_release(&rdma->lock);
    if (first) {
        /* No other thread uses these, or the list of regions, from here on. */
        if (rdma->queue) {
            rdma_destroy_qp(rdma->id);
            rdma_clear_events(rdma);
            ibv_destroy_cq(rdma->queue);
        }
        if (rdma->channel)
            ibv_destroy_comp_channel(rdma->channel);
        while (rdma->regions) {
            struct gpud_rdma_region *region = rdma->regions;
            rdma->regions = region->next;
            region->link = NULL;
            ibv_dereg_mr(region->mr);
            region->mr = NULL;
        }
        if (rdma->buffers_mr)
            ibv_dereg_mr(rdma->buffers_mr);
        if (rdma->domain)
            ibv_dealloc_pd(rdma->domain);
    }
    gpud_lock_release(&rdma->domain_lock);
}

struct gpud_rdma *gpud_rdma_ref(struct gpud_rdma *rdma)
{
    atomic_fetch_add_explicit(&rdma->references, 1, memory_order_relaxed);
    return rdma;
}

void gpud_rdma_unref(struct gpud_rdma **rdma)
{
    if (!rdma || !*rdma)
        return;
    struct gpud_rdma *gone = *rdma;
    *rdma = NULL;
    if (atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_rdma_end(gone);
    while (gone->ways) {
        struct rdma_ways *ways = gone->ways;
        gone->ways = ways->next;
        free(ways);
    }
    if (gone->buffers)
        munmap(gone->buffers, RDMA_BUFFERS_SIZE);
    gpud_fd_close(&gone->fd);
    gpud_fd_close(&gone->event);
    gpud_lock_destroy(&gone->lock);
    gpud_lock_destroy(&gone->ways_lock);
    gpud_lock_destroy(&gone->domain_lock);
    free(gone);
}

/* === messages ================================================================================ */
/* Messages and notices as the layers above send and receive them. */

/* --- receives ------------------------------------------------------------------------------ */

enum gpud_status gpud_rdma_receive(struct gpud_rdma *rdma, const void **bytes, size_t *size,
                                   struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&rdma->lock);
    bool gives_back = rdma->handed_out;
    if (gives_back) {
        uint32_t place = (rdma->taken - 1) % RDMA_ARRIVED;
        rdma->handed_out = false;
        rdma->free_index[rdma->free_count++] = rdma->arrived[place].index;
        rdma->messages.owed++;
    }
    if (gives_back || rdma->taken == rdma->received)
        rdma_poll_locked(rdma);
    if (rdma->taken != rdma->received) { /* what arrived before the end, too */
        uint32_t place = rdma->taken++ % RDMA_ARRIVED;
        *bytes = rdma_buffer(rdma, rdma->arrived[place].index);
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
    rdma_poll_locked(rdma);
    uint32_t received = rdma->received;
    gpud_lock_release(&rdma->lock);
    return received;
}

/* --- sending ------------------------------------------------------------------------------- */

static void rdma_notify_locked(struct gpud_rdma *rdma, bool urgent)
{
    rdma->pending_urgent = urgent || (rdma->pending && rdma->pending_urgent);
    rdma->pending = true;
    rdma_send_pending_locked(rdma);
    if (rdma->unfinished)
        rdma_poll_locked(rdma);
}

void gpud_rdma_notify(struct gpud_rdma *rdma, bool urgent)
{
    gpud_lock_take(&rdma->lock);
    rdma_notify_locked(rdma, urgent);
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
        if (rdma_post_with_credits_locked(rdma, &request, 0))
            rdma->messages.out++;
        return;
    }
    uint32_t index = (rdma->send_first + rdma->send_count) % RDMA_SENDS;
    char *copy = rdma_buffer(rdma, GPUD_RDMA_RECEIVES + index); /* behind the receives */
    memcpy(copy, bytes, size);
    place.addr = (uintptr_t)copy;
    place.lkey = rdma->buffers_mr->lkey;
    request.send_flags |= IBV_SEND_SIGNALED;
    if (rdma_post_with_credits_locked(rdma, &request, 0)) {
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
        rdma_poll_locked(rdma);
    if (!rdma->failed && !has_room_for_message(rdma, size)) {
        status = gpud_fail(error, GPUD_AGAIN, "the peer has not read what was sent before");
    } else {
        if (!rdma->failed)
            post_message(rdma, bytes, (uint32_t)size);
        status = rdma_check_locked(rdma, error);
    }
    gpud_lock_release(&rdma->lock);
    return status;
}

/* === transfer ================================================================================ */
/* Writes into the peer's memory, and reads from it. */

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
        rdma_poll_locked(rdma);
    bool has = room_for_transfers(rdma) >= wanted;
    gpud_lock_release(&rdma->lock);
    return has;
}

static enum gpud_status rdma_connection_check(const struct gpud_rdma *rdma,
                                              const struct gpud_rdma_transfer *wanted, bool is_read,
                                              struct gpud_error *error)
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
static void transfer_post(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted,
                          enum kind kind)
{
    const struct gpud_rdma_region *local = wanted->local;
    bool is_inline = kind != READ && local->host && wanted->size <= rdma->inline_max;
    bool is_notice = kind >= NOTICE, goes_along = is_notice && rdma_may_notify_locked(rdma);
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
            rdma_post_notice_locked(rdma, &request, kind == URGENT_NOTICE);
        else if (!rdma_post_locked(rdma, &request))
            return;
    }
    if (is_notice && !goes_along)
        rdma_notify_locked(rdma, kind == URGENT_NOTICE);
}

static enum gpud_status transfer(struct gpud_rdma *rdma, const struct gpud_rdma_transfer *wanted,
                                 enum kind kind, struct gpud_error *error)
{
    enum gpud_status status = rdma_connection_check(rdma, wanted, kind == READ, error);
    if (status != GPUD_OK)
        return status;
    uint64_t pieces = count_pieces(rdma, wanted->size);
    gpud_lock_take(&rdma->lock);
    if (rdma->pending || room_for_transfers(rdma) < pieces)
        rdma_poll_locked(rdma);
    if (!rdma->failed && (!rdma->connected || room_for_transfers(rdma) < pieces)) {
        status =
            gpud_fail(error, GPUD_AGAIN, "the queue of the network card %s is full", rdma->card);
    } else {
        if (!rdma->failed)
            transfer_post(rdma, wanted, kind);
        status = rdma_check_locked(rdma, error);
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
