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
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 5
#define ROUND (400 * GPUD_MSEC)
#define RESOLVE_MS 5000
#define RECEIVES 64
#define SPIN (20 * GPUD_USEC) /* how long to poll for a completion before sleeping */
#define MAGIC UINT64_C(0x6770756472617731)
#define REACHES "measuring what the network card reaches: "

/* Where the target's memory is. Big endian; private data may arrive longer. */
struct invitation {
    uint64_t magic, address, size; /* size of one slot */
    uint32_t key, slots;
};

static struct sockaddr_storage address; /* to listen on, or the writer's */
static struct rdma_cm_id *id;           /* the connection; calls return when they are done */
static uint64_t size;                   /* of a frame */
static uint32_t slots;                  /* frames in the memory */
static uint32_t paced; /* how many frames are counted, one by one; 0: as fast as possible */
static char *memory;
static struct ibv_mr *region;
/* The writer's. */
static struct invitation target; /* address and key in this host's byte order */
static uint64_t piece;           /* the largest single write */
static uint64_t posted, done;    /* frames */

static void check(const char *what, bool works)
{
    if (!works)
        bench_die(GPUD_IO, REACHES "%s: %s", what, g_strerror(errno));
}

static void check_completion(const struct ibv_wc *completion)
{
    if (completion->status != IBV_WC_SUCCESS)
        bench_die(GPUD_PEER, REACHES "%s", ibv_wc_status_str(completion->status));
}

/* Calls that wait for this descriptor have no deadline of their own. */
static void await(int fd, int64_t patience, const char *late)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t deadline = clock_now() + patience;
    while (poll(&ready, 1, 1000) <= 0)
        if (clock_now() > deadline)
            bench_die(GPUD_TIMEOUT,
                      REACHES "%s within %d s: does the card work with rping, or with smaller "
                              "frames?",
                      late, (int)(patience / GPUD_SEC));
}

static void init(uint16_t port)
{
    if (!bench_network_resolve(bench_job.network, port, &address))
        bench_die(bench_failure.status, "%s", bench_failure.reason);
    size = bench_layout_of(&bench_job).size;
    slots = bench_job.slots;
    paced = bench_raw_paced(&bench_job);
    check("rdma_create_id", rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
}

/* On the card that the connection is bound to, for so many writes and receives at a time. */
static void create_memory(uint32_t writes, uint32_t receives, int access)
{
    struct ibv_qp_init_attr attributes = {
        .cap = {.max_send_wr = writes,
                .max_recv_wr = receives,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    check("rdma_create_qp", rdma_create_qp(id, NULL, &attributes) == 0);
    memory = mmap(NULL, size * slots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check("memory for the frames", memory != MAP_FAILED);
    memset(memory, 1, size * slots);
    region = ibv_reg_mr(id->pd, memory, size * slots, access);
    if (!region)
        bench_die(GPUD_NO_MEMORY,
                  REACHES "%.1f MiB cannot be registered: %s (raise the limit, ulimit -l)",
                  (double)(size * slots) / (1 << 20), g_strerror(errno));
}

static const struct rdma_conn_param usual = {
    .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

/* === the writer ============================================================================== */

/* Posts the next frame in pieces that the card accepts; the last one is signalled. */
static void post_frame(bool notify)
{
    uint64_t offset = posted % slots * size;
    for (uint64_t at = 0; at < size; at += piece) {
        bool last = at + piece >= size;
        struct ibv_sge part = {.addr = (uintptr_t)memory + offset + at,
                               .length = (uint32_t)(last ? size - at : piece),
                               .lkey = region->lkey};
        struct ibv_send_wr request = {
            .sg_list = &part,
            .num_sge = 1,
            .opcode = last && notify ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
            .send_flags = last ? IBV_SEND_SIGNALED : 0,
            .wr.rdma = {.remote_addr = target.address + offset + at, .rkey = target.key},
        };
        struct ibv_send_wr *bad;
        errno = ibv_post_send(id->qp, &request, &bad);
        check("ibv_post_send", !errno);
    }
    posted++;
}

/* Spins for a moment, for fast cards, then sleeps: software cards need the processor. */
static void complete_frame(void)
{
    struct ibv_wc completion;
    int64_t start = clock_now();
    int got = 0;
    while (got == 0 && clock_now() - start < SPIN)
        got = ibv_poll_cq(id->send_cq, 1, &completion);
    while (got == 0) {
        struct ibv_cq *cq;
        void *user;
        check("ibv_req_notify_cq", ibv_req_notify_cq(id->send_cq, 0) == 0);
        got = ibv_poll_cq(id->send_cq, 1, &completion);
        if (got)
            break;
        await(id->send_cq_channel->fd, 6 * BENCH_STEP_TIMEOUT, "a frame was not written");
        check("ibv_get_cq_event", ibv_get_cq_event(id->send_cq_channel, &cq, &user) == 0);
        ibv_ack_cq_events(cq, 1);
    }
    check("ibv_poll_cq", got > 0);
    check_completion(&completion);
    done++;
}

/* Frames a second; `window` of them are under way all the time, also from round to round. */
static double write_for_a_while(uint32_t window)
{
    int64_t start = clock_now(), now = start;
    uint64_t first = done;
    while (now - start < ROUND || done - first < 2 * window) {
        while (posted - done < window)
            post_frame(false);
        complete_frame();
        now = clock_now();
    }
    return (double)(done - first) * 1e9 / (double)(now - start);
}

static double write_rate(uint32_t window)
{
    double rates[ROUNDS];
    for (uint32_t i = 0; i < window; i++)
        post_frame(false);
    complete_frame();
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = write_for_a_while(window);
    while (done < posted)
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
        memcpy(memory + posted % slots * size, &now, sizeof(now));
        post_frame(true);
        complete_frame();
    }
}

/* Returns how many frames can be under way. */
static uint32_t accept_target(struct rdma_cm_id *listener)
{
    struct ibv_device_attr card;
    struct ibv_port_attr port;
    await(listener->channel->fd, 2 * BENCH_STEP_TIMEOUT, "no target connected");
    check("rdma_get_request", rdma_get_request(listener, &id) == 0);
    const struct rdma_conn_param *asked = &id->event->param.conn;
    if (asked->private_data && asked->private_data_len >= sizeof(target))
        memcpy(&target, asked->private_data, sizeof(target));
    if (be64toh(target.magic) != MAGIC || be64toh(target.size) != size ||
        be32toh(target.slots) != slots)
        bench_die(GPUD_PEER, REACHES "the peer is not a gpudirect-bench, or has frames of another "
                                     "size");
    target.address = be64toh(target.address);
    target.key = be32toh(target.key);
    errno = ibv_query_device(id->verbs, &card);
    if (!errno)
        errno = ibv_query_port(id->verbs, id->port_num, &port);
    check("ibv_query_port", !errno);
    piece = MIN(size, port.max_msg_sz);
    uint64_t pieces = (size + piece - 1) / piece;
    uint32_t window = (uint32_t)CLAMP((uint64_t)card.max_qp_wr / pieces, 1, slots);
    create_memory((uint32_t)(window * pieces), 1, 0);
    struct rdma_conn_param param = usual;
    check("rdma_accept", rdma_accept(id, &param) == 0);
    return window;
}

void bench_run_rdma_writer(void)
{
    struct bench_result result = {0};
    init(0);
    check("rdma_bind_addr", rdma_bind_addr(id, (struct sockaddr *)&address) == 0);
    check("rdma_listen", rdma_listen(id, 1) == 0);
    uint16_t port = be16toh(rdma_get_src_port(id));
    bench_send(bench_control, BENCH_LISTENING, &port, sizeof(port));
    uint32_t window = accept_target(id);
    if (paced)
        write_at_pace();
    else
        result.raw_rate = write_rate(window);
    result.frames = done;
    bench_send_result(&result, NULL);
    rdma_disconnect(id); /* returns when the target has ended, too */
}

/* === the target ============================================================================== */

static void post_receive(void)
{
    struct ibv_recv_wr request = {.num_sge = 0}, *bad;
    errno = ibv_post_recv(id->qp, &request, &bad);
    check("ibv_post_recv", !errno);
}

static void connect_to_writer(void)
{
    check("rdma_resolve_addr",
          rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, RESOLVE_MS) == 0);
    check("rdma_resolve_route", rdma_resolve_route(id, RESOLVE_MS) == 0);
    create_memory(1, RECEIVES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (int i = 0; i < RECEIVES; i++)
        post_receive();
    const struct invitation invitation = {.magic = htobe64(MAGIC),
                                          .address = htobe64((uintptr_t)memory),
                                          .size = htobe64(size),
                                          .key = htobe32(region->rkey),
                                          .slots = htobe32(slots)};
    struct rdma_conn_param param = usual;
    param.private_data = &invitation;
    param.private_data_len = sizeof(invitation);
    check("rdma_connect", rdma_connect(id, &param) == 0);
    fcntl(id->channel->fd, F_SETFL, O_NONBLOCK);
    fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK);
}

/* Counts the frames that have come; the first ones find cold caches and are not counted. Receives
 * that are left when the writer disconnects are no failure. */
static void take_frames(uint64_t *frames, int64_t *latencies)
{
    struct ibv_wc completion;
    while (ibv_poll_cq(id->recv_cq, 1, &completion) > 0 &&
           completion.status != IBV_WC_WR_FLUSH_ERR) {
        int64_t now = clock_now(), sent;
        check_completion(&completion);
        memcpy(&sent, memory + *frames % slots * size, sizeof(sent));
        if (*frames >= BENCH_RAW_WARMUP && *frames < paced + BENCH_RAW_WARMUP)
            latencies[*frames - BENCH_RAW_WARMUP] = now - sent;
        (*frames)++;
        post_receive();
    }
}

/* Lets the writer write until it disconnects. */
void bench_run_rdma_target(void)
{
    struct rdma_cm_event *event = NULL;
    struct bench_result result = {0};
    init(bench_job.raw_port);
    int64_t *latencies = g_new0(int64_t, paced + 1);
    connect_to_writer();
    while (rdma_get_cm_event(id->channel, &event) != 0) {
        struct pollfd fds[] = {{.fd = id->channel->fd, .events = POLLIN},
                               {.fd = id->recv_cq_channel->fd, .events = POLLIN},
                               {.fd = bench_control, .events = POLLIN}};
        struct ibv_cq *cq;
        void *user;
        check("rdma_get_cm_event", errno == EAGAIN || errno == EINTR);
        check("ibv_req_notify_cq", ibv_req_notify_cq(id->recv_cq, 0) == 0);
        take_frames(&result.frames, latencies);
        poll(fds, G_N_ELEMENTS(fds), 1000);
        if (ibv_get_cq_event(id->recv_cq_channel, &cq, &user) == 0)
            ibv_ack_cq_events(cq, 1);
        take_frames(&result.frames, latencies);
        if (fds[2].revents)
            bench_die(GPUD_PEER, "the measurement was abandoned");
    }
    if (event->event != RDMA_CM_EVENT_DISCONNECTED)
        bench_die(GPUD_PEER, REACHES "%s", rdma_event_str(event->event));
    if (result.frames > BENCH_RAW_WARMUP)
        result.latencies = MIN(result.frames - BENCH_RAW_WARMUP, paced);
    bench_send_result(&result, latencies);
    g_free(latencies);
}
