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
#include "bench.h"

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

static struct {
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
} rdma;
static struct sockaddr_storage address; /* to listen on, or the writer's */
static uint32_t
    paced; /* how many frames are counted, one after the other; 0: as fast as possible */

G_NORETURN static void fail(const char *what, int error)
{
    bench_die(GPUD_IO, "measuring what the network card reaches: %s: %s", what, g_strerror(error));
}

static void check(const char *what, bool works)
{
    if (!works)
        fail(what, errno);
}

/* --- the connection --------------------------------------------------------------------------- */

static void init(uint16_t port)
{
    if (!bench_network_resolve(bench_job.network, port, &address))
        bench_die(bench_failure.status, "%s", bench_failure.reason);
    rdma.size = bench_layout_of(&bench_job).size;
    rdma.slots = bench_job.slots;
    paced = bench_raw_paced(&bench_job);
    rdma.events = rdma_create_event_channel();
    check("rdma_create_event_channel", rdma.events);
    fcntl(rdma.events->fd, F_SETFL, O_NONBLOCK);
    check("rdma_create_id", rdma_create_id(rdma.events, &rdma.id, NULL, RDMA_PS_TCP) == 0);
}

/* Waits for the connection's next event, which must be this one; to be acknowledged. */
static struct rdma_cm_event *expect(enum rdma_cm_event_type type)
{
    int64_t deadline = clock_now() + 2 * PATIENCE;
    struct rdma_cm_event *event = NULL;
    while (rdma_get_cm_event(rdma.events, &event) != 0) {
        struct pollfd ready = {.fd = rdma.events->fd, .events = POLLIN};
        check("rdma_get_cm_event", errno == EAGAIN || errno == EINTR);
        if (clock_now() > deadline)
            bench_die(GPUD_TIMEOUT,
                      "measuring what the network card reaches: %s did not come in time",
                      rdma_event_str(type));
        poll(&ready, 1, 100);
    }
    if (event->event != type)
        bench_die(GPUD_PEER, "measuring what the network card reaches: %s instead of %s, status %d",
                  rdma_event_str(event->event), rdma_event_str(type), event->status);
    return event;
}

static void expect_only(enum rdma_cm_event_type type)
{
    rdma_ack_cm_event(expect(type));
}

static void create_memory(int access)
{
    uint64_t size = rdma.size * rdma.slots;
    rdma.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check("memory for the frames", rdma.memory != MAP_FAILED);
    memset(rdma.memory, 1, size);
    rdma.region = ibv_reg_mr(rdma.pd, rdma.memory, size, access);
    if (!rdma.region)
        bench_die(GPUD_NO_MEMORY,
                  "measuring what the network card reaches: %.1f MiB cannot be registered: "
                  "%s (raise the limit, ulimit -l)",
                  (double)size / (1 << 20), g_strerror(errno));
}

/* Creates it on the card that the id is bound to, for so many writes and receives at a time. */
static void create_queue_pair(uint32_t writes, uint32_t receives)
{
    struct ibv_context *card = rdma.id->verbs;
    rdma.pd = ibv_alloc_pd(card);
    check("ibv_alloc_pd", rdma.pd);
    rdma.channel = ibv_create_comp_channel(card);
    check("ibv_create_comp_channel", rdma.channel);
    fcntl(rdma.channel->fd, F_SETFL, O_NONBLOCK);
    rdma.cq = ibv_create_cq(card, (int)(writes + receives), NULL, rdma.channel, 0);
    check("ibv_create_cq", rdma.cq);
    struct ibv_qp_init_attr attributes = {
        .send_cq = rdma.cq,
        .recv_cq = rdma.cq,
        .cap = {.max_send_wr = writes,
                .max_recv_wr = receives,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    check("rdma_create_qp", rdma_create_qp(rdma.id, rdma.pd, &attributes) == 0);
}

static const struct rdma_conn_param usual = {
    .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

static void destroy(void)
{
    rdma_destroy_qp(rdma.id);
    ibv_dereg_mr(rdma.region);
    ibv_destroy_cq(rdma.cq);
    ibv_destroy_comp_channel(rdma.channel);
    ibv_dealloc_pd(rdma.pd);
    rdma_destroy_id(rdma.id);
    rdma_destroy_event_channel(rdma.events);
    munmap(rdma.memory, rdma.size * rdma.slots);
}

/* --- completions ------------------------------------------------------------------------------ */

/* false: no completion. Receives that are left when the writer disconnects are not a failure. */
static bool poll_once(struct ibv_wc *completion)
{
    int got = ibv_poll_cq(rdma.cq, 1, completion);
    if (got < 0)
        fail("ibv_poll_cq", -got);
    if (got > 0 && completion->status == IBV_WC_WR_FLUSH_ERR && completion->wr_id == IS_RECEIVE)
        return false;
    if (got > 0 && completion->status != IBV_WC_SUCCESS)
        bench_die(GPUD_PEER, "measuring what the network card reaches: %s",
                  ibv_wc_status_str(completion->status));
    return got > 0;
}

static void take_notification(void)
{
    struct ibv_cq *cq;
    void *user;
    if (ibv_get_cq_event(rdma.channel, &cq, &user) == 0)
        ibv_ack_cq_events(cq, 1);
}

/* Spins for a moment, for fast cards, then sleeps: software cards need the processor. */
static void wait_for_completion(struct ibv_wc *completion)
{
    int64_t start = clock_now(), deadline = start + 6 * PATIENCE;
    bool armed = false;
    while (!poll_once(completion)) {
        struct pollfd ready = {.fd = rdma.channel->fd, .events = POLLIN};
        int64_t now = clock_now();
        if (now > deadline)
            bench_die(GPUD_TIMEOUT,
                      "measuring what the network card reaches: a frame of %.1f MiB was not "
                      "written within %d s",
                      (double)rdma.size / (1 << 20), (int)((deadline - start) / GPUD_SEC));
        if (armed) {
            poll(&ready, 1, 1000);
            take_notification();
            armed = false;
        } else if (now - start > SPIN) {
            check("ibv_req_notify_cq", ibv_req_notify_cq(rdma.cq, 0) == 0);
            armed = true; /* then polls once more */
        }
    }
}

/* --- the writer ------------------------------------------------------------------------------- */

/* Posts the next frame in pieces that the card accepts; the last one is signalled. */
static void post_frame(bool notify)
{
    uint64_t offset = rdma.posted % rdma.slots * rdma.size;
    for (uint64_t at = 0; at < rdma.size; at += rdma.piece) {
        uint64_t size = MIN(rdma.piece, rdma.size - at);
        bool last = at + size == rdma.size;
        struct ibv_sge part = {.addr = (uintptr_t)rdma.memory + offset + at,
                               .length = (uint32_t)size,
                               .lkey = rdma.region->lkey};
        struct ibv_send_wr request = {
            .sg_list = &part,
            .num_sge = 1,
            .opcode = last && notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
            .send_flags = last ? IBV_SEND_SIGNALED : 0,
            .wr.rdma = {.remote_addr = rdma.remote_address + offset + at, .rkey = rdma.remote_key},
        };
        struct ibv_send_wr *bad;
        int error = ibv_post_send(rdma.id->qp, &request, &bad);
        if (error)
            fail("ibv_post_send", error);
    }
    rdma.posted++;
}

static void complete_frame(void)
{
    struct ibv_wc completion;
    wait_for_completion(&completion);
    rdma.done++;
}

/* Frames a second; `window` of them are under way all the time, also from round to round. */
static double write_for_a_while(uint32_t window)
{
    int64_t start = clock_now(), now = start;
    uint64_t first = rdma.done;
    while (now - start < ROUND || rdma.done - first < 2 * window) {
        while (rdma.posted - rdma.done < window)
            post_frame(false);
        complete_frame();
        now = clock_now();
    }
    return (double)(rdma.done - first) * 1e9 / (double)(now - start);
}

static double write_rate(uint32_t window)
{
    double rates[ROUNDS];
    for (uint32_t i = 0; i < window; i++)
        post_frame(false);
    complete_frame();
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = write_for_a_while(window);
    while (rdma.done < rdma.posted)
        complete_frame();
    return stats_median(rates, ROUNDS);
}

/* One at a time. A frame begins with the time at which it was requested. */
static void write_at_pace(void)
{
    int64_t first = clock_now();
    for (uint32_t i = 1; i <= paced + BENCH_RAW_WARMUP; i++) {
        clock_sleep_until(first + bench_paced_time(&bench_job, i));
        int64_t now = clock_now();
        memcpy(rdma.memory + rdma.posted % rdma.slots * rdma.size, &now, sizeof(now));
        post_frame(true);
        complete_frame();
    }
}

/* How many frames can be under way; also sets the size of the pieces. */
static uint32_t fit_window(void)
{
    struct ibv_device_attr card;
    struct ibv_port_attr port;
    int error = ibv_query_device(rdma.id->verbs, &card);
    if (!error)
        error = ibv_query_port(rdma.id->verbs, rdma.id->port_num, &port);
    if (error)
        fail("ibv_query_port", error);
    rdma.piece = MIN(rdma.size, port.max_msg_sz);
    uint64_t pieces = (rdma.size + rdma.piece - 1) / rdma.piece;
    return (uint32_t)CLAMP((uint64_t)card.max_qp_wr / pieces, 1, rdma.slots);
}

/* Returns how many frames can be under way. */
static uint32_t accept_target(void)
{
    struct invitation invitation = {0};
    struct rdma_cm_event *event = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *listener = rdma.id;
    rdma.id = event->id;
    if (event->param.conn.private_data && event->param.conn.private_data_len >= sizeof(invitation))
        memcpy(&invitation, event->param.conn.private_data, sizeof(invitation));
    rdma_ack_cm_event(event);
    if (be64toh(invitation.magic) != MAGIC || be64toh(invitation.size) != rdma.size ||
        be32toh(invitation.slots) != rdma.slots)
        bench_die(GPUD_PEER, "measuring what the network card reaches: the peer is not a "
                             "gpudirect-bench, or has frames of another size");
    rdma.remote_address = be64toh(invitation.address);
    rdma.remote_key = be32toh(invitation.key);
    uint32_t window = fit_window();
    create_queue_pair((uint32_t)(window * ((rdma.size + rdma.piece - 1) / rdma.piece)), 1);
    create_memory(0);
    struct rdma_conn_param param = usual;
    check("rdma_accept", rdma_accept(rdma.id, &param) == 0);
    expect_only(RDMA_CM_EVENT_ESTABLISHED);
    rdma_destroy_id(listener);
    return window;
}

void bench_run_raw_writer(void)
{
    struct bench_result result = {0};
    init(0);
    check("rdma_bind_addr", rdma_bind_addr(rdma.id, (struct sockaddr *)&address) == 0);
    check("rdma_listen", rdma_listen(rdma.id, 1) == 0);
    uint16_t port = be16toh(rdma_get_src_port(rdma.id));
    bench_send(bench_control, BENCH_LISTENING, &port, sizeof(port));
    uint32_t window = accept_target();
    if (paced)
        write_at_pace();
    else
        result.raw_write = write_rate(window);
    rdma_disconnect(rdma.id);
    result.frames = rdma.done;
    destroy();
    bench_send_result(&result, NULL);
}

/* --- the target ------------------------------------------------------------------------------- */

static void post_receive(void)
{
    struct ibv_recv_wr request = {.wr_id = IS_RECEIVE}, *bad;
    int error = ibv_post_recv(rdma.id->qp, &request, &bad);
    if (error)
        fail("ibv_post_recv", error);
}

static void connect_to_writer(void)
{
    check("rdma_resolve_addr",
          rdma_resolve_addr(rdma.id, NULL, (struct sockaddr *)&address, RESOLVE_MS) == 0);
    expect_only(RDMA_CM_EVENT_ADDR_RESOLVED);
    check("rdma_resolve_route", rdma_resolve_route(rdma.id, RESOLVE_MS) == 0);
    expect_only(RDMA_CM_EVENT_ROUTE_RESOLVED);
    create_queue_pair(1, RECEIVES);
    create_memory(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (int i = 0; i < RECEIVES; i++)
        post_receive();
    const struct invitation invitation = {.magic = htobe64(MAGIC),
                                          .address = htobe64((uintptr_t)rdma.memory),
                                          .size = htobe64(rdma.size),
                                          .key = htobe32(rdma.region->rkey),
                                          .slots = htobe32(rdma.slots)};
    struct rdma_conn_param param = usual;
    param.private_data = &invitation;
    param.private_data_len = sizeof(invitation);
    check("rdma_connect", rdma_connect(rdma.id, &param) == 0);
    expect_only(RDMA_CM_EVENT_ESTABLISHED);
}

/* Counts the frames that have come; the first ones find cold caches and are not counted. */
static void take_frames(uint64_t *frames, int64_t *latencies)
{
    struct ibv_wc completion;
    while (poll_once(&completion)) {
        int64_t now = clock_now(), sent;
        memcpy(&sent, rdma.memory + *frames % rdma.slots * rdma.size, sizeof(sent));
        if (*frames >= BENCH_RAW_WARMUP && *frames < paced + BENCH_RAW_WARMUP)
            latencies[*frames - BENCH_RAW_WARMUP] = now - sent;
        (*frames)++;
        post_receive();
    }
}

/* Lets the writer write until it disconnects. */
void bench_run_raw_target(void)
{
    struct rdma_cm_event *event = NULL;
    struct bench_result result = {0};
    init(bench_job.raw_port);
    int64_t *latencies = g_new0(int64_t, paced + 1);
    connect_to_writer();
    while (rdma_get_cm_event(rdma.events, &event) != 0) {
        struct pollfd fds[] = {{.fd = rdma.events->fd, .events = POLLIN},
                               {.fd = rdma.channel->fd, .events = POLLIN},
                               {.fd = bench_control, .events = POLLIN}};
        check("rdma_get_cm_event", errno == EAGAIN || errno == EINTR);
        check("ibv_req_notify_cq", ibv_req_notify_cq(rdma.cq, 0) == 0);
        take_frames(&result.frames, latencies);
        poll(fds, G_N_ELEMENTS(fds), 1000);
        take_notification();
        take_frames(&result.frames, latencies);
        if (fds[2].revents)
            bench_die(GPUD_PEER, "the measurement was abandoned");
    }
    if (event->event != RDMA_CM_EVENT_DISCONNECTED)
        bench_die(GPUD_PEER, "measuring what the network card reaches: %s",
                  rdma_event_str(event->event));
    rdma_ack_cm_event(event);
    destroy();
    if (result.frames > BENCH_RAW_WARMUP)
        result.latencies = MIN(result.frames - BENCH_RAW_WARMUP, paced);
    bench_send_result(&result, latencies);
    g_free(latencies);
}
