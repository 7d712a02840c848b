/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Posts requests to the card, and fails a connection. */
#include "device/rdma/internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

void gpud_rdma_fail_locked(struct gpud_rdma *rdma, const char *format, ...)
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

enum gpud_status gpud_rdma_check_locked(const struct gpud_rdma *rdma, struct gpud_error *error)
{
    return rdma->failed ? gpud_fail(error, GPUD_PEER, "%s", rdma->reason) : GPUD_OK;
}

static void note_signalled(struct gpud_rdma *rdma)
{
    if (rdma->signalled <= rdma->completed) {
        rdma->asked_at = gpud_now();
        rdma->stretch = 0;
    }
    if (rdma->unsignalled > rdma->stretch)
        rdma->stretch = rdma->unsignalled;
    rdma->unsignalled = 0;
    rdma->signalled = rdma->posted;
}

static bool post(struct gpud_rdma *rdma, struct ibv_send_wr *request)
{
    struct ibv_send_wr *bad;
    request->wr_id = rdma->posted + 1;
    for (int i = 0; i < request->num_sge; i++)
        rdma->unsignalled += request->sg_list[i].length;
    if (request->wr_id % RDMA_SIGNAL_EVERY == 0 || rdma->unsignalled >= RDMA_SIGNAL_BYTES)
        request->send_flags |= IBV_SEND_SIGNALED;
    int number = ibv_post_send(rdma->id->qp, request, &bad);
    if (number != 0) {
        gpud_rdma_fail_locked(rdma, "the network card %s takes no request: %s", rdma->card,
                              strerror(number));
        return false;
    }
    rdma->posted++;
    if (request->send_flags & IBV_SEND_SIGNALED)
        note_signalled(rdma);
    return true;
}

bool gpud_rdma_post_locked(struct gpud_rdma *rdma, struct ibv_send_wr *request)
{
    return !rdma->failed && post(rdma, request);
}

/* Also after a failure, when the card takes requests only to flush them: nothing else would tell
 * that it is done with the unsignalled ones before. */
bool gpud_rdma_post_marker_locked(struct gpud_rdma *rdma)
{
    /* With no bytes, the peer's card ignores address and key. */
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    return !rdma->ended && post(rdma, &request);
}
