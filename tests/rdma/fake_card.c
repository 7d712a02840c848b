/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake_card.h"

#include "support/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

struct completions {
    struct ibv_cq cq;
    struct ibv_wc *list;
    unsigned first, count, size;
    bool armed, solicited_only;
};

struct request {
    struct ibv_send_wr wr;
    struct ibv_sge place;
    char bytes[512]; /* inline */
    enum ibv_wc_status status;
};

struct receive {
    uint64_t id;
    struct ibv_sge place;
};

struct pair {
    struct ibv_qp qp;
    struct pair *peer;
    struct request *requests;
    struct receive *receives;
    unsigned depth, inline_max, receives_max;
    uint64_t posted, delivered, completed, reported; /* reported: what one may count on */
    uint64_t receives_posted, receives_used;
};

static pthread_mutex_t in_use = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int fake_card_enter(void)
{
    return pthread_mutex_lock(&in_use);
}

void fake_card_leave(const int *inside)
{
    pthread_mutex_unlock(&in_use);
}

struct fake_card fake_card;

static struct ibv_device device = {.name = "fake0"};
static struct ibv_context context;

void fake_card_check_empty(void)
{
    ONE_AT_A_TIME;
    CHECK(!fake_card.domains && !fake_card.channels && !fake_card.queues && !fake_card.pairs &&
              !fake_card.regions,
          "left: %u domains, %u channels, %u queues, %u pairs, %u regions", fake_card.domains,
          fake_card.channels, fake_card.queues, fake_card.pairs, fake_card.regions);
}

void fake_card_reset(void)
{
    ONE_AT_A_TIME;
    fake_card_check_empty();
    fake_card = (struct fake_card){.transport = IBV_TRANSPORT_IB,
                                   .queue_max = 32768,
                                   .completions_max = 1 << 22,
                                   .inline_max = 512,
                                   .message_max = 1 << 30,
                                   .create_max = 32768,
                                   .dmabuf_errno = EBADF};
}

/* --- completions ------------------------------------------------------------------------------ */

static void push(struct completions *queue, const struct ibv_wc *wc, bool solicited)
{
    CHECK(queue->count < queue->size, "the completion queue overflows");
    queue->list[(queue->first + queue->count++) % queue->size] = *wc;
    if (!queue->armed || (queue->solicited_only && !solicited && wc->status == IBV_WC_SUCCESS))
        return;
    queue->armed = false;
    uint64_t one = 1;
    CHECK(write(queue->cq.channel->fd, &one, sizeof(one)) == sizeof(one), "eventfd: %m");
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct completions *queue = (struct completions *)cq;
    int count = 0;
    for (; count < most && queue->count; count++) {
        wc[count] = queue->list[queue->first];
        queue->first = (queue->first + 1) % queue->size;
        queue->count--;
    }
    return count;
}

/* Cards differ: this one forgets what it was asked before. */
static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    struct completions *queue = (struct completions *)cq;
    queue->armed = true;
    queue->solicited_only = solicited_only;
    return 0;
}

/* --- queue pairs ------------------------------------------------------------------------------ */

static void flush(struct pair *pair);

static void break_pair(struct pair *pair)
{
    if (pair->qp.state == IBV_QPS_ERR)
        return;
    pair->qp.state = IBV_QPS_ERR;
    flush(pair);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct pair *pair = (struct pair *)qp;
    for (; wr; wr = wr->next) {
        *bad = wr;
        CHECK(pair->peer || qp->state == IBV_QPS_ERR, "a request before there is a peer");
        CHECK(pair->posted - pair->reported < pair->depth, "the send queue overflows");
        CHECK(wr->num_sge <= 1, "one piece at a time");
        struct request *request = &pair->requests[pair->posted++ % pair->depth];
        *request = (struct request){.wr = *wr, .status = IBV_WC_SUCCESS};
        if (wr->num_sge)
            request->place = wr->sg_list[0];
        CHECK(request->place.length <= fake_card.message_max, "a piece is too long");
        if (wr->send_flags & IBV_SEND_INLINE) {
            CHECK(request->place.length <= pair->inline_max, "too many bytes inline");
            memcpy(request->bytes, (void *)(uintptr_t)request->place.addr, request->place.length);
        }
    }
    if (qp->state == IBV_QPS_ERR)
        flush(pair);
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct pair *pair = (struct pair *)qp;
    for (; wr; wr = wr->next) {
        *bad = wr;
        CHECK(pair->receives_posted - pair->receives_used < pair->receives_max,
              "the receive queue overflows");
        pair->receives[pair->receives_posted++ % pair->receives_max] =
            (struct receive){.id = wr->wr_id, .place = wr->sg_list[0]};
    }
    if (qp->state == IBV_QPS_ERR)
        flush(pair);
    return 0;
}

static void report(struct pair *pair, const struct request *request, enum ibv_wc_status status)
{
    struct ibv_wc wc = {.wr_id = request->wr.wr_id, .status = status};
    pair->completed++;
    if (status == IBV_WC_SUCCESS && !(request->wr.send_flags & IBV_SEND_SIGNALED))
        return;
    pair->reported = pair->completed;
    push((struct completions *)pair->qp.send_cq, &wc, false);
}

static void flush(struct pair *pair)
{
    while (pair->completed < pair->posted) {
        const struct request *request = &pair->requests[pair->completed % pair->depth];
        bool failed = pair->completed < pair->delivered && request->status != IBV_WC_SUCCESS;
        report(pair, request, failed ? request->status : IBV_WC_WR_FLUSH_ERR);
    }
    pair->delivered = pair->posted;
    while (pair->receives_used < pair->receives_posted) {
        struct ibv_wc wc = {.wr_id = pair->receives[pair->receives_used++ % pair->receives_max].id,
                            .status = IBV_WC_WR_FLUSH_ERR};
        push((struct completions *)pair->qp.send_cq, &wc, true);
    }
}

static void take_receive(struct pair *pair, const struct request *request, const char *bytes)
{
    CHECK(pair->receives_used < pair->receives_posted, "the peer has no receive");
    const struct receive *receive = &pair->receives[pair->receives_used++ % pair->receives_max];
    bool message = request->wr.opcode == IBV_WR_SEND_WITH_IMM;
    struct ibv_wc wc = {.wr_id = receive->id,
                        .opcode = message ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
                        .byte_len = request->place.length,
                        .imm_data = request->wr.imm_data,
                        .wc_flags = IBV_WC_WITH_IMM};
    if (message) {
        char *to = fake_find(receive->place.addr, request->place.length, receive->place.lkey, false,
                             IBV_ACCESS_LOCAL_WRITE);
        CHECK(to && request->place.length <= receive->place.length, "a receive's buffer");
        memcpy(to, bytes, request->place.length);
    }
    push((struct completions *)pair->qp.send_cq, &wc, request->wr.send_flags & IBV_SEND_SOLICITED);
}

bool fake_deliver(struct rdma_cm_id *id)
{
    ONE_AT_A_TIME;
    struct pair *pair = (struct pair *)id->qp;
    if (pair->delivered == pair->posted)
        return false;
    struct request *request = &pair->requests[pair->delivered % pair->depth];
    uint64_t size = request->place.length;
    bool read = request->wr.opcode == IBV_WR_RDMA_READ;
    bool send = request->wr.opcode == IBV_WR_SEND_WITH_IMM;
    char *local = request->wr.send_flags & IBV_SEND_INLINE
                      ? request->bytes
                      : fake_find(request->place.addr, size, request->place.lkey, false,
                                  read ? IBV_ACCESS_LOCAL_WRITE : 0);
    char *remote = NULL;
    if (size > 0 && !send)
        remote = fake_find(request->wr.wr.rdma.remote_addr, size, request->wr.wr.rdma.rkey, true,
                           read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    if (size > 0 && !local)
        request->status = IBV_WC_LOC_PROT_ERR;
    else if (size > 0 && !send && !remote)
        request->status = IBV_WC_REM_ACCESS_ERR;
    pair->delivered++;
    if (request->status != IBV_WC_SUCCESS) {
        break_pair(pair);
        break_pair(pair->peer);
        return true;
    }
    if (read && size > 0)
        memcpy(local, remote, size);
    else if (!send && size > 0)
        memcpy(remote, local, size);
    if (send || request->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        take_receive(pair->peer, request, local);
    return true;
}

bool fake_complete(struct rdma_cm_id *id)
{
    ONE_AT_A_TIME;
    struct pair *pair = (struct pair *)id->qp;
    if (pair->completed == pair->delivered)
        return false;
    report(pair, &pair->requests[pair->completed % pair->depth], IBV_WC_SUCCESS);
    return true;
}

/* --- rdma_cm ---------------------------------------------------------------------------------- */

struct rdma_cm_id *fake_id_create(void)
{
    ONE_AT_A_TIME;
    struct rdma_cm_id *id = calloc(1, sizeof(*id));
    CHECK(id, "out of memory");
    device.transport_type = fake_card.transport;
    context.device = &device;
    context.ops.poll_cq = poll_cq;
    context.ops.req_notify_cq = req_notify_cq;
    context.ops.post_send = post_send;
    context.ops.post_recv = post_recv;
    id->verbs = &context;
    id->port_num = 1;
    return id;
}

void fake_id_destroy(struct rdma_cm_id *id)
{
    ONE_AT_A_TIME;
    CHECK(!id->qp, "the id has a queue pair");
    free(id);
}

void fake_connect(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
    ONE_AT_A_TIME;
    ((struct pair *)a->qp)->peer = (struct pair *)b->qp;
    ((struct pair *)b->qp)->peer = (struct pair *)a->qp;
    a->qp->state = b->qp->state = IBV_QPS_RTS;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    ONE_AT_A_TIME;
    CHECK(pd && attr->send_cq && attr->send_cq == attr->recv_cq, "one queue for both");
    CHECK(attr->qp_type == IBV_QPT_RC && !attr->sq_sig_all, "the kind of queue pair");
    if (attr->cap.max_send_wr > fake_card.create_max ||
        attr->cap.max_inline_data > fake_card.inline_max) {
        errno = EINVAL;
        return -1;
    }
    CHECK(((struct completions *)attr->send_cq)->size >=
              attr->cap.max_send_wr + attr->cap.max_recv_wr,
          "completions of all that may fail");
    struct pair *pair = calloc(1, sizeof(*pair));
    CHECK(pair, "out of memory");
    pair->depth = attr->cap.max_send_wr;
    pair->inline_max = attr->cap.max_inline_data;
    pair->receives_max = attr->cap.max_recv_wr;
    pair->requests = calloc(pair->depth, sizeof(*pair->requests));
    pair->receives = calloc(pair->receives_max, sizeof(*pair->receives));
    pair->qp.context = &context;
    pair->qp.pd = pd;
    pair->qp.send_cq = pair->qp.recv_cq = attr->send_cq;
    id->qp = &pair->qp;
    fake_card.pairs++;
    fake_card.depth = pair->depth;
    fake_card.inline_bytes = pair->inline_max;
    return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    ONE_AT_A_TIME;
    struct pair *pair = (struct pair *)id->qp;
    if (pair->peer)
        pair->peer->peer = NULL;
    id->qp = NULL;
    free(pair->requests);
    free(pair->receives);
    free(pair);
    fake_card.pairs--;
}

/* --- verbs ------------------------------------------------------------------------------------ */

const char *ibv_get_device_name(struct ibv_device *asked)
{
    ONE_AT_A_TIME;
    return asked->name;
}

int ibv_query_device(struct ibv_context *asked, struct ibv_device_attr *attr)
{
    ONE_AT_A_TIME;
    *attr = (struct ibv_device_attr){.max_qp_wr = fake_card.queue_max,
                                     .max_cqe = fake_card.completions_max};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *asked, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    ONE_AT_A_TIME;
    ((struct ibv_port_attr *)(void *)attr)->max_msg_sz = fake_card.message_max;
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *asked)
{
    ONE_AT_A_TIME;
    struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));
    CHECK(channel, "out of memory");
    channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    fake_card.channels++;
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    ONE_AT_A_TIME;
    close(channel->fd);
    free(channel);
    fake_card.channels--;
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *asked, int size, void *user,
                             struct ibv_comp_channel *channel, int vector)
{
    ONE_AT_A_TIME;
    CHECK(size <= fake_card.completions_max, "more completions than there can be");
    struct completions *queue = calloc(1, sizeof(*queue));
    CHECK(queue, "out of memory");
    queue->list = calloc((size_t)size, sizeof(*queue->list));
    queue->size = (unsigned)size;
    queue->cq.context = &context;
    queue->cq.channel = channel;
    fake_card.queues++;
    return &queue->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    ONE_AT_A_TIME;
    struct completions *queue = (struct completions *)cq;
    CHECK(queue->cq.comp_events_completed == 0, "events are not acknowledged");
    free(queue->list);
    free(queue);
    fake_card.queues--;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)
{
    ONE_AT_A_TIME;
    uint64_t one;
    return read(channel->fd, &one, sizeof(one)) == sizeof(one) ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned events)
{
    ONE_AT_A_TIME;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    ONE_AT_A_TIME;
    CHECK(mask == IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR, "to fail is all there is");
    break_pair((struct pair *)qp);
    return 0;
}

/* --- what the card may read and write --------------------------------------------------------- */

#define PAGE UINT64_C(4096)

struct region {
    struct ibv_mr mr;
    struct region *next;
    char *bytes; /* as the CPU sees them */
    void *mapped;
    uint64_t address, size, mapped_size;
    int access;
};

static struct region *regions;
static uint32_t last_key;

char *fake_find(uint64_t address, uint64_t size, uint32_t key, bool remote, int access)
{
    ONE_AT_A_TIME;
    for (struct region *region = regions; region; region = region->next) {
        if ((remote ? region->mr.rkey : region->mr.lkey) != key ||
            (region->access & access) != access)
            continue;
        uint64_t offset = address - region->address;
        if (address >= region->address && offset <= region->size && size <= region->size - offset)
            return region->bytes + offset;
    }
    return NULL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *asked)
{
    ONE_AT_A_TIME;
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    fake_card.domains++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    ONE_AT_A_TIME;
    for (struct region *region = regions; region; region = region->next)
        CHECK(region->mr.pd != pd, "the domain is in use");
    free(pd);
    fake_card.domains--;
    return 0;
}

static struct ibv_mr *add_region(struct ibv_pd *pd, char *bytes, uint64_t address, uint64_t size,
                                 int access)
{
    struct region *region = calloc(1, sizeof(*region));
    CHECK(region, "out of memory");
    CHECK(!(access & IBV_ACCESS_REMOTE_WRITE) || access & IBV_ACCESS_LOCAL_WRITE,
          "to be written by others means to be written");
    *region = (struct region){.next = regions,
                              .bytes = bytes,
                              .address = address,
                              .size = size,
                              .access = access,
                              .mr = {.pd = pd, .lkey = ++last_key, .rkey = last_key * 256}};
    regions = region;
    fake_card.regions++;
    return &region->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *data, size_t size, uint64_t address,
                                unsigned int access)
{
    ONE_AT_A_TIME;
    if (fake_card.register_errno) {
        errno = fake_card.register_errno;
        return NULL;
    }
    return add_region(pd, data, address, size, (int)access);
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *data, size_t size, int access)
{
    ONE_AT_A_TIME;
    return ibv_reg_mr_iova2(pd, data, size, (uintptr_t)data, (unsigned)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t size, uint64_t address,
                                 int fd, int access)
{
    ONE_AT_A_TIME;
    if (fake_card.dmabuf_errno != EBADF || fd < 0) {
        errno = fake_card.dmabuf_errno;
        return NULL;
    }
    fake_card.dmabufs++;
    fake_card.last_offset = offset;
    fake_card.last_address = address;
    CHECK((offset ^ address) % PAGE == 0, "the offset and the address differ within a page");
    if (fake_card.register_errno) {
        errno = fake_card.register_errno;
        return NULL;
    }
    uint64_t end = (offset + size + PAGE - 1) / PAGE * PAGE;
    void *mapped = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED, "no dma-buf of that size: %m");
    struct ibv_mr *mr = add_region(pd, (char *)mapped + offset, address, size, access);
    ((struct region *)mr)->mapped = mapped;
    ((struct region *)mr)->mapped_size = end;
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    ONE_AT_A_TIME;
    struct region *gone = (struct region *)mr, **link = &regions;
    while (*link && *link != gone)
        link = &(*link)->next;
    CHECK(*link, "no such registration");
    *link = gone->next;
    if (gone->mapped)
        munmap(gone->mapped, gone->mapped_size);
    free(gone);
    fake_card.regions--;
    return 0;
}
