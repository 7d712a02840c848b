/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a network card achieves without gpudirect: frames written from registered host memory into
 * another process's by plain RDMA WRITEs, as many at once as there are slots, each with a
 * completion of its own. Two processes; a failure of either ends both:
 *
 *     writer                                    target
 *     listens, says on which port
 *        |<-- connects, with address and key of its memory --|
 *        |==== frames ======================================>|
 *        |---- disconnects --------------------------------->|
 *
 * With a pace, each frame ends with a notification (WRITE_WITH_IMM), and the target measures the
 * time from the request of the write to its waking. */
#include "ceilings/ceilings.h"

#include "clock.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 5
#define ROUND (400 * GPUD_MSEC)
#define PATIENCE (10 * GPUD_SEC)
#define RESOLVE_MS 5000
#define RECEIVES 64
#define SPIN (20 * GPUD_USEC) /* how long to poll for a completion before sleeping */
#define IS_RECEIVE 1          /* wr_id */
#define MAGIC UINT64_C(0x6770756472617731)

/* Where the target's memory is. Big endian; private data may arrive longer. */
struct invitation {
    uint64_t magic, address, size; /* size of one slot */
    uint32_t key, slots;
};

struct raw {
    const struct raw_caller *caller;
    uint64_t size;  /* of a frame */
    uint32_t slots; /* frames in the memory */
    uint64_t piece; /* the largest single write */
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_mr *region;
    char *memory;
    uint64_t remote_address; /* writer: the target's memory */
    uint32_t remote_key;
    uint64_t posted, done; /* writer: frames */
};

G_NORETURN static void fail(struct raw *raw, const char *what, int error)
{
    raw_fail(raw->caller, GPUD_IO, "measuring what the network card reaches: %s: %s", what,
             g_strerror(error));
}

static void rdma_check(struct raw *raw, const char *what, bool works)
{
    if (!works)
        fail(raw, what, errno);
}

/* --- the connection --------------------------------------------------------------------------- */

static void init(struct raw *raw, const struct raw_rdma_job *job, const struct raw_caller *caller)
{
    *raw = (struct raw){.caller = caller, .size = job->size, .slots = job->slots};
    raw->events = rdma_create_event_channel();
    rdma_check(raw, "rdma_create_event_channel", raw->events);
    fcntl(raw->events->fd, F_SETFL, O_NONBLOCK);
}

/* Waits for the connection's next event, which must be this one; to be acknowledged. */
static struct rdma_cm_event *expect(struct raw *raw, enum rdma_cm_event_type type)
{
    int64_t deadline = clock_now() + 2 * PATIENCE;
    struct rdma_cm_event *event = NULL;
    while (rdma_get_cm_event(raw->events, &event) != 0) {
        struct pollfd ready = {.fd = raw->events->fd, .events = POLLIN};
        rdma_check(raw, "rdma_get_cm_event", errno == EAGAIN || errno == EINTR);
        if (clock_now() > deadline)
            raw_fail(raw->caller, GPUD_TIMEOUT,
                     "measuring what the network card reaches: %s did not come in time",
                     rdma_event_str(type));
        poll(&ready, 1, 100);
    }
    if (event->event != type)
        raw_fail(raw->caller, GPUD_PEER,
                 "measuring what the network card reaches: %s instead of %s, status %d",
                 rdma_event_str(event->event), rdma_event_str(type), event->status);
    return event;
}

static void expect_only(struct raw *raw, enum rdma_cm_event_type type)
{
    rdma_ack_cm_event(expect(raw, type));
}

static void create_memory(struct raw *raw, int access)
{
    uint64_t size = raw->size * raw->slots;
    raw->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rdma_check(raw, "memory for the frames", raw->memory != MAP_FAILED);
    memset(raw->memory, 1, size);
    raw->region = ibv_reg_mr(raw->pd, raw->memory, size, access);
    if (!raw->region)
        raw_fail(raw->caller, GPUD_NO_MEMORY,
                 "measuring what the network card reaches: %.1f MiB cannot be registered: "
                 "%s (raise the limit, ulimit -l)",
                 (double)size / (1 << 20), g_strerror(errno));
}

/* Creates it on the card that the id is bound to, for so many writes and receives at a time. */
static void create_queue_pair(struct raw *raw, uint32_t writes, uint32_t receives)
{
    struct ibv_context *card = raw->id->verbs;
    raw->pd = ibv_alloc_pd(card);
    rdma_check(raw, "ibv_alloc_pd", raw->pd);
    raw->channel = ibv_create_comp_channel(card);
    rdma_check(raw, "ibv_create_comp_channel", raw->channel);
    fcntl(raw->channel->fd, F_SETFL, O_NONBLOCK);
    raw->cq = ibv_create_cq(card, (int)(writes + receives), NULL, raw->channel, 0);
    rdma_check(raw, "ibv_create_cq", raw->cq);
    struct ibv_qp_init_attr attributes = {
        .send_cq = raw->cq,
        .recv_cq = raw->cq,
        .cap = {.max_send_wr = writes,
                .max_recv_wr = receives,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    rdma_check(raw, "rdma_create_qp", rdma_create_qp(raw->id, raw->pd, &attributes) == 0);
}

static const struct rdma_conn_param usual = {
    .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

static void rdma_destroy(struct raw *raw)
{
    rdma_destroy_qp(raw->id);
    ibv_dereg_mr(raw->region);
    ibv_destroy_cq(raw->cq);
    ibv_destroy_comp_channel(raw->channel);
    ibv_dealloc_pd(raw->pd);
    rdma_destroy_id(raw->id);
    rdma_destroy_event_channel(raw->events);
    munmap(raw->memory, raw->size * raw->slots);
}

/* --- completions ------------------------------------------------------------------------------ */

/* false: no completion. Receives that are left when the writer disconnects are not a failure. */
static bool poll_once(struct raw *raw, struct ibv_wc *completion)
{
    int got = ibv_poll_cq(raw->cq, 1, completion);
    if (got < 0)
        fail(raw, "ibv_poll_cq", -got);
    if (got > 0 && completion->status == IBV_WC_WR_FLUSH_ERR && completion->wr_id == IS_RECEIVE)
        return false;
    if (got > 0 && completion->status != IBV_WC_SUCCESS)
        raw_fail(raw->caller, GPUD_PEER, "measuring what the network card reaches: %s",
                 ibv_wc_status_str(completion->status));
    return got > 0;
}

static void take_notification(struct raw *raw)
{
    struct ibv_cq *cq;
    void *user;
    if (ibv_get_cq_event(raw->channel, &cq, &user) == 0)
        ibv_ack_cq_events(cq, 1);
}

/* Spins for a moment, for fast cards, then sleeps: software cards need the processor. */
static void wait_for_completion(struct raw *raw, struct ibv_wc *completion)
{
    int64_t start = clock_now(), deadline = start + 6 * PATIENCE;
    bool armed = false;
    while (!poll_once(raw, completion)) {
        struct pollfd ready = {.fd = raw->channel->fd, .events = POLLIN};
        int64_t now = clock_now();
        if (now > deadline)
            raw_fail(raw->caller, GPUD_TIMEOUT,
                     "measuring what the network card reaches: a frame of %.1f MiB was not "
                     "written within %d s",
                     (double)raw->size / (1 << 20), (int)((deadline - start) / GPUD_SEC));
        if (armed) {
            poll(&ready, 1, 1000);
            take_notification(raw);
            armed = false;
        } else if (now - start > SPIN) {
            rdma_check(raw, "ibv_req_notify_cq", ibv_req_notify_cq(raw->cq, 0) == 0);
            armed = true; /* then polls once more */
        }
    }
}

/* --- the writer ------------------------------------------------------------------------------- */

/* Posts the next frame in pieces that the card accepts; the last one is signalled. */
static void post_frame(struct raw *raw, bool notify)
{
    uint64_t offset = raw->posted % raw->slots * raw->size;
    for (uint64_t at = 0; at < raw->size; at += raw->piece) {
        uint64_t size = MIN(raw->piece, raw->size - at);
        bool last = at + size == raw->size;
        struct ibv_sge part = {.addr = (uintptr_t)raw->memory + offset + at,
                               .length = (uint32_t)size,
                               .lkey = raw->region->lkey};
        struct ibv_send_wr request = {
            .sg_list = &part,
            .num_sge = 1,
            .opcode = last && notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
            .send_flags = last ? IBV_SEND_SIGNALED : 0,
            .wr.rdma = {.remote_addr = raw->remote_address + offset + at, .rkey = raw->remote_key},
        };
        struct ibv_send_wr *bad;
        int error = ibv_post_send(raw->id->qp, &request, &bad);
        if (error)
            fail(raw, "ibv_post_send", error);
    }
    raw->posted++;
}

static void complete_frame(struct raw *raw)
{
    struct ibv_wc completion;
    wait_for_completion(raw, &completion);
    raw->done++;
}

/* Frames a second; `window` of them are under way all the time, also from round to round. */
static double write_for_a_while(struct raw *raw, uint32_t window)
{
    int64_t start = clock_now(), now = start;
    uint64_t first = raw->done;
    while (now - start < ROUND || raw->done - first < 2 * window) {
        while (raw->posted - raw->done < window)
            post_frame(raw, false);
        complete_frame(raw);
        now = clock_now();
    }
    return (double)(raw->done - first) * 1e9 / (double)(now - start);
}

static double write_rate(struct raw *raw, uint32_t window)
{
    double rates[ROUNDS];
    for (uint32_t i = 0; i < window; i++)
        post_frame(raw, false);
    complete_frame(raw);
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = write_for_a_while(raw, window);
    while (raw->done < raw->posted)
        complete_frame(raw);
    return stats_median(rates, ROUNDS);
}

/* One at a time. A frame begins with the time at which it was requested. */
static void write_at_pace(struct raw *raw, const struct raw_rdma_job *job)
{
    int64_t first = clock_now();
    for (uint32_t i = 1; i <= job->paced + RAW_RDMA_WARMUP; i++) {
        clock_sleep_until(first + (int64_t)(i * job->period));
        int64_t now = clock_now();
        memcpy(raw->memory + raw->posted % raw->slots * raw->size, &now, sizeof(now));
        post_frame(raw, true);
        complete_frame(raw);
    }
}

/* How many frames can be under way; also sets the size of the pieces. */
static uint32_t fit_window(struct raw *raw)
{
    struct ibv_device_attr card;
    struct ibv_port_attr port;
    int error = ibv_query_device(raw->id->verbs, &card);
    if (!error)
        error = ibv_query_port(raw->id->verbs, raw->id->port_num, &port);
    if (error)
        fail(raw, "ibv_query_port", error);
    raw->piece = MIN(raw->size, port.max_msg_sz);
    uint64_t pieces = (raw->size + raw->piece - 1) / raw->piece;
    return (uint32_t)CLAMP((uint64_t)card.max_qp_wr / pieces, 1, raw->slots);
}

static void accept_target(struct raw *raw, uint32_t *window)
{
    struct invitation invitation = {0};
    struct rdma_cm_event *event = expect(raw, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *listener = raw->id;
    raw->id = event->id;
    if (event->param.conn.private_data && event->param.conn.private_data_len >= sizeof(invitation))
        memcpy(&invitation, event->param.conn.private_data, sizeof(invitation));
    rdma_ack_cm_event(event);
    if (be64toh(invitation.magic) != MAGIC || be64toh(invitation.size) != raw->size ||
        be32toh(invitation.slots) != raw->slots)
        raw_fail(raw->caller, GPUD_PEER,
                 "measuring what the network card reaches: the peer is not a "
                 "gpudirect-bench, or has frames of another size");
    raw->remote_address = be64toh(invitation.address);
    raw->remote_key = be32toh(invitation.key);
    *window = fit_window(raw);
    create_queue_pair(raw, (uint32_t)(*window * ((raw->size + raw->piece - 1) / raw->piece)), 1);
    create_memory(raw, 0);
    struct rdma_conn_param param = usual;
    rdma_check(raw, "rdma_accept", rdma_accept(raw->id, &param) == 0);
    expect_only(raw, RDMA_CM_EVENT_ESTABLISHED);
    rdma_destroy_id(listener);
}

/* Returns the port. */
static uint16_t listen_for_target(struct raw *raw, const struct raw_rdma_job *job)
{
    rdma_check(raw, "rdma_create_id",
               rdma_create_id(raw->events, &raw->id, NULL, RDMA_PS_TCP) == 0);
    rdma_check(raw, "rdma_bind_addr",
               rdma_bind_addr(raw->id, (struct sockaddr *)job->address) == 0);
    rdma_check(raw, "rdma_listen", rdma_listen(raw->id, 1) == 0);
    return be16toh(rdma_get_src_port(raw->id));
}

uint64_t raw_rdma_write(const struct raw_rdma_job *job, const struct raw_caller *caller,
                        void (*listening)(void *user, uint16_t port), double *rate)
{
    struct raw raw;
    uint32_t window;
    init(&raw, job, caller);
    listening(caller->user, listen_for_target(&raw, job));
    accept_target(&raw, &window);
    if (job->paced)
        write_at_pace(&raw, job);
    else
        *rate = write_rate(&raw, window);
    rdma_disconnect(raw.id);
    uint64_t frames = raw.done;
    rdma_destroy(&raw);
    return frames;
}

/* --- the target ------------------------------------------------------------------------------- */

static void post_receive(struct raw *raw)
{
    struct ibv_recv_wr request = {.wr_id = IS_RECEIVE}, *bad;
    int error = ibv_post_recv(raw->id->qp, &request, &bad);
    if (error)
        fail(raw, "ibv_post_recv", error);
}

static void connect_to_writer(struct raw *raw, const struct raw_rdma_job *job)
{
    rdma_check(raw, "rdma_create_id",
               rdma_create_id(raw->events, &raw->id, NULL, RDMA_PS_TCP) == 0);
    rdma_check(raw, "rdma_resolve_addr",
               rdma_resolve_addr(raw->id, NULL, (struct sockaddr *)job->address, RESOLVE_MS) == 0);
    expect_only(raw, RDMA_CM_EVENT_ADDR_RESOLVED);
    rdma_check(raw, "rdma_resolve_route", rdma_resolve_route(raw->id, RESOLVE_MS) == 0);
    expect_only(raw, RDMA_CM_EVENT_ROUTE_RESOLVED);
    create_queue_pair(raw, 1, RECEIVES);
    create_memory(raw, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (int i = 0; i < RECEIVES; i++)
        post_receive(raw);
    const struct invitation invitation = {.magic = htobe64(MAGIC),
                                          .address = htobe64((uintptr_t)raw->memory),
                                          .size = htobe64(raw->size),
                                          .key = htobe32(raw->region->rkey),
                                          .slots = htobe32(raw->slots)};
    struct rdma_conn_param param = usual;
    param.private_data = &invitation;
    param.private_data_len = sizeof(invitation);
    rdma_check(raw, "rdma_connect", rdma_connect(raw->id, &param) == 0);
    expect_only(raw, RDMA_CM_EVENT_ESTABLISHED);
}

/* Counts the frames that have come; the first ones find cold caches and are not counted. */
static void take_frames(struct raw *raw, uint32_t paced, uint64_t *frames, int64_t *latencies)
{
    struct ibv_wc completion;
    while (poll_once(raw, &completion)) {
        int64_t now = clock_now(), sent;
        memcpy(&sent, raw->memory + *frames % raw->slots * raw->size, sizeof(sent));
        if (*frames >= RAW_RDMA_WARMUP && *frames < paced + RAW_RDMA_WARMUP)
            latencies[*frames - RAW_RDMA_WARMUP] = now - sent;
        (*frames)++;
        post_receive(raw);
    }
}

/* Runs until the writer disconnects. */
static uint64_t receive_all(struct raw *raw, const struct raw_rdma_job *job, int64_t *latencies)
{
    struct rdma_cm_event *event = NULL;
    uint64_t frames = 0;
    while (rdma_get_cm_event(raw->events, &event) != 0) {
        struct pollfd fds[] = {{.fd = raw->events->fd, .events = POLLIN},
                               {.fd = raw->channel->fd, .events = POLLIN},
                               {.fd = job->abandoned, .events = POLLIN}};
        rdma_check(raw, "rdma_get_cm_event", errno == EAGAIN || errno == EINTR);
        rdma_check(raw, "ibv_req_notify_cq", ibv_req_notify_cq(raw->cq, 0) == 0);
        take_frames(raw, job->paced, &frames, latencies);
        poll(fds, G_N_ELEMENTS(fds), 1000);
        take_notification(raw);
        take_frames(raw, job->paced, &frames, latencies);
        if (fds[2].revents)
            raw_fail(raw->caller, GPUD_PEER, "the measurement was abandoned");
    }
    bool ended = event->event == RDMA_CM_EVENT_DISCONNECTED;
    if (!ended)
        raw_fail(raw->caller, GPUD_PEER, "measuring what the network card reaches: %s",
                 rdma_event_str(event->event));
    rdma_ack_cm_event(event);
    return frames;
}

uint64_t raw_rdma_receive(const struct raw_rdma_job *job, const struct raw_caller *caller,
                          int64_t *latencies)
{
    struct raw raw;
    init(&raw, job, caller);
    connect_to_writer(&raw, job);
    uint64_t frames = receive_all(&raw, job, latencies);
    rdma_destroy(&raw);
    return frames;
}
