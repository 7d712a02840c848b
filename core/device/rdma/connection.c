/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a connection begins and ends, and how its failure is noticed.
 *
 * The card's asynchronous events are not read: rdma_cm opens a card once for all ids of the
 * process, so reading would consume other queue pairs' events. They are not needed: an error of the
 * queue pair flushes its receives, a silent card misses its deadline, and rdma_cm reports the
 * removal of a card. */
#include "device/rdma/internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "device/rdma/ability.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* ns for a byte: no network is slower than 4 MB/s. */
#define ANSWER_A_BYTE INT64_C(250)

/* --- failing ------------------------------------------------------------------------------- */

void gpud_rdma_fail(struct gpud_rdma *rdma, const char *reason)
{
    gpud_lock_take(&rdma->lock);
    gpud_rdma_poll_locked(rdma);
    gpud_rdma_fail_locked(rdma, "%s", reason);
    gpud_lock_release(&rdma->lock);
}

bool gpud_rdma_has_failed(struct gpud_rdma *rdma, struct gpud_error *error)
{
    gpud_lock_take(&rdma->lock);
    enum gpud_status status = gpud_rdma_check_locked(rdma, error);
    gpud_lock_release(&rdma->lock);
    return status != GPUD_OK;
}

/* How long the peer's card has not acknowledged a pending request. */
static int64_t silent_for(const struct gpud_rdma *rdma, int64_t now)
{
    return now - (rdma->asked_at > rdma->heard_at ? rdma->asked_at : rdma->heard_at);
}

/* Every completion shows that the peer's card answers; without any, a write of no bytes asks it.
 * The card gives up by itself after GPUD_RDMA_RETRIES, but that cannot be relied on: the peer
 * influences that number, real cards stretch the time, and soft-RoCE may forget what to resend. So
 * this side has a limit of its own. */
bool gpud_rdma_is_alive(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->lock);
    gpud_rdma_poll_locked(rdma);
    int64_t now = gpud_now();
    bool waits = rdma->signalled > rdma->completed;
    if (rdma->failed || !rdma->connected)
        ;
    else if (waits &&
             silent_for(rdma, now) > GPUD_RDMA_ANSWER + (int64_t)rdma->stretch * ANSWER_A_BYTE)
        gpud_rdma_fail_locked(rdma,
                              "the peer does not answer any more: the network card %s has heard "
                              "nothing for %lld ms, so the peer's machine has ended, or the "
                              "network between is broken",
                              rdma->card, (long long)(silent_for(rdma, now) / GPUD_MSEC));
    else if (!waits && now - rdma->heard_at >= GPUD_RDMA_SILENCE && rdma_room(rdma) > 0)
        gpud_rdma_post_marker_locked(rdma);
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

/* One descriptor for all events, which outlives the card's. */
static enum gpud_status create_fds(struct gpud_rdma *rdma, struct gpud_error *error)
{
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
    return GPUD_OK;
}

static enum gpud_status create_buffers(struct gpud_rdma *rdma, struct gpud_error *error)
{
    void *pages =
        mmap(NULL, RDMA_BUFFERS_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return gpud_fail_errno(error, "no buffers for the messages of a connection");
    rdma->buffers = pages;
    rdma->buffers_mr = ibv_reg_mr(rdma->domain, pages, RDMA_BUFFERS_SIZE, IBV_ACCESS_LOCAL_WRITE);
    if (!rdma->buffers_mr)
        return gpud_rdma_fail_register(error, errno, rdma->card, RDMA_BUFFERS_SIZE);
    return GPUD_OK;
}

static enum gpud_status create(struct gpud_rdma *rdma, struct gpud_error *error)
{
    struct ibv_device_attr limits;
    enum gpud_status status = check_card(rdma, &limits, error);
    if (status != GPUD_OK)
        return status;
    rdma->domain = ibv_alloc_pd(rdma->id->verbs);
    if (!rdma->domain)
        return gpud_fail_errno(error, "the network card %s gives no protection domain", rdma->card);
    status = create_fds(rdma, error);
    if (status == GPUD_OK)
        status = create_buffers(rdma, error);
    if (status == GPUD_OK)
        status = create_queues(rdma, &limits, error);
    if (status != GPUD_OK)
        return status;
    for (uint32_t i = 0; i < GPUD_RDMA_RECEIVES; i++)
        rdma->free_index[rdma->free_count++] = i;
    gpud_lock_take(&rdma->lock);
    gpud_rdma_post_receives_locked(rdma);
    status = gpud_rdma_check_locked(rdma, error);
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
    enum gpud_status status = create(made, error);
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
        gpud_rdma_fail_locked(rdma, "the peer says that it has %u receives: %u are the least",
                              receives, GPUD_RDMA_NOTICES + 1);
    } else {
        rdma->connected = true;
        rdma->heard_at = gpud_now();
        rdma->notices.limit = GPUD_RDMA_NOTICES;
        rdma->messages.limit = receives - GPUD_RDMA_NOTICES;
        gpud_rdma_poll_locked(rdma);
    }
    gpud_lock_release(&rdma->lock);
}

/* --- ending -------------------------------------------------------------------------------- */

static void acknowledge_events(struct gpud_rdma *rdma)
{
    struct ibv_cq *queue;
    void *context;
    unsigned events = 0;
    while (ibv_get_cq_event(rdma->channel, &queue, &context) == 0)
        events++;
    ibv_ack_cq_events(rdma->queue, events);
}

/* For the end, with domain_lock held, so that no other thread uses the list. */
static void drop_regions(struct gpud_rdma *rdma)
{
    while (rdma->regions) {
        struct gpud_rdma_region *region = rdma->regions;
        rdma->regions = region->next;
        region->link = NULL;
        ibv_dereg_mr(region->mr);
        region->mr = NULL;
    }
}

void gpud_rdma_end(struct gpud_rdma *rdma)
{
    gpud_lock_take(&rdma->domain_lock);
    gpud_lock_take(&rdma->lock);
    bool first = !rdma->ended;
    rdma->ended = true;
    gpud_rdma_fail_locked(rdma, "this side has ended the connection");
    gpud_lock_release(&rdma->lock);
    if (first) {
        /* No other thread uses these from here on. */
        if (rdma->queue) {
            rdma_destroy_qp(rdma->id);
            acknowledge_events(rdma);
            ibv_destroy_cq(rdma->queue);
        }
        if (rdma->channel)
            ibv_destroy_comp_channel(rdma->channel);
        drop_regions(rdma);
        if (rdma->buffers_mr)
            ibv_dereg_mr(rdma->buffers_mr);
        if (rdma->domain)
            ibv_dealloc_pd(rdma->domain);
    }
    gpud_lock_release(&rdma->domain_lock);
}

static void free_ways(struct gpud_rdma *rdma)
{
    while (rdma->ways) {
        struct rdma_ways *gone = rdma->ways;
        rdma->ways = gone->next;
        free(gone);
    }
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
    free_ways(gone);
    if (gone->buffers)
        munmap(gone->buffers, RDMA_BUFFERS_SIZE);
    gpud_fd_close(&gone->fd);
    gpud_fd_close(&gone->event);
    gpud_lock_destroy(&gone->lock);
    gpud_lock_destroy(&gone->ways_lock);
    gpud_lock_destroy(&gone->domain_lock);
    free(gone);
}
