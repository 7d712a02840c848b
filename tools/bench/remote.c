/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two benches on two hosts. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest message of the other side, except for a result's samples. */
#define MESSAGE_MAX 8192

struct summary {
    struct bench_result sender;
    /* The ceiling: frames a second (0: not measured), µs a frame (NAN: not measured). */
    double rate, cpu_sender, cpu_receiver;
};

/* === addresses =============================================================================== */

static const struct {
    const char *scheme;
    unsigned long port; /* where an address has none */
} kinds[] = {{"rdma:", 7174}, {"tcp:", 7175}};

/* An index of kinds[]; their number: it is not an address between hosts. */
static size_t find_kind(const char *text)
{
    size_t kind = 0;
    while (kind < G_N_ELEMENTS(kinds) && !g_str_has_prefix(text, kinds[kind].scheme))
        kind++;
    return kind;
}

bool bench_is_network(const char *text)
{
    return find_kind(text) < G_N_ELEMENTS(kinds);
}

bool bench_is_tcp(const char *text)
{
    return g_str_has_prefix(text, "tcp:");
}

const char *bench_network_host(const char *address, char *host, size_t size)
{
    const char *from = strchr(address, ':') + 1;
    from += strspn(from, "/");
    size_t length = from[0] == '[' ? strcspn(++from, "]") : strcspn(from, ":/");
    g_snprintf(host, (gulong)size, "%.*s", (int)length, from);
    return from + length + (from[length] == ']');
}

uint16_t bench_network_control_port(const char *address)
{
    char host[256];
    const char *rest = bench_network_host(address, host, sizeof(host));
    unsigned long port =
        rest[0] == ':' ? strtoul(rest + 1, NULL, 10) : kinds[find_kind(address)].port;
    return port > 0 && port < UINT16_MAX ? (uint16_t)(port + 1) : 0;
}

bool bench_network_resolve(const char *address, uint16_t port, struct sockaddr_storage *found)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char host[256], service[8];
    bench_network_host(address, host, sizeof(host));
    g_snprintf(service, sizeof(service), "%u", port);
    int error = getaddrinfo(host, service, &hints, &list);
    if (error)
        return bench_fail(GPUD_IO, "%s: the host \"%s\": %s", address, host, gai_strerror(error));
    memcpy(found, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return true;
}

static socklen_t length_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* === what both sides exchange ================================================================= */

#define MAGIC UINT64_C(0x6763686568626770)
#define GREETING (5 * GPUD_SEC)

struct hello {
    uint64_t magic, sizes; /* of the structures that follow it */
    char version[32], device[32];
};

/* Exchanges greetings. *device: the receivers', which the receiving side sends. */
static bool greet(int fd, char device[32])
{
    struct bench_packet packet;
    struct hello ours = {.magic = MAGIC,
                         .sizes = (uint64_t)BENCH_ORDER_SIZE << 32 | sizeof(struct summary) << 16 |
                                  sizeof(struct bench_failure)},
                 theirs;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    g_strlcpy(ours.version, gpud_version_string(), sizeof(ours.version));
    g_strlcpy(ours.device, device, sizeof(ours.device));
    if (!bench_send(fd, BENCH_HELLO, &ours, sizeof(ours)))
        return bench_fail(GPUD_PEER, "the other side hung up");
    enum bench_receipt got = bench_receive(fd, clock_now() + GREETING, sizeof(theirs), &packet);
    if (got != BENCH_RECEIVED)
        return bench_fail(GPUD_PEER, "the other side %s",
                          got == BENCH_TIMED_OUT ? "says nothing"
                                                 : "hung up, or is not a gpudirect-bench");
    bool good = packet.type == BENCH_HELLO && packet.size == sizeof(theirs);
    if (good)
        memcpy(&theirs, packet.data, sizeof(theirs));
    g_free(packet.data);
    if (!good || theirs.magic != MAGIC)
        return bench_fail(GPUD_PEER,
                          "the other side is not a gpudirect-bench of this kind of machine");
    bench_clean_text(theirs.version, sizeof(theirs.version));
    bench_clean_text(theirs.device, sizeof(theirs.device));
    if (strcmp(theirs.version, ours.version) != 0 || theirs.sizes != ours.sizes)
        return bench_fail(
            GPUD_UNSUPPORTED,
            "gpudirect-bench is version %s there and %s here: both hosts need the same",
            theirs.version, ours.version);
    g_strlcpy(device, theirs.device, sizeof(theirs.device));
    return true;
}

/* Fills in a job from the other side's order; this side's own choices stay. */
static bool take_order(struct bench_job *job, const void *order)
{
    struct gpud_layout layout;
    struct gpud_error error;
    memcpy(job, order, BENCH_ORDER_SIZE);
    bench_clean_text(job->from, sizeof(job->from));
    bench_clean_text(job->format, sizeof(job->format));
    bench_clean_text(job->route, sizeof(job->route));
    double rate = job->fps_den ? (double)job->fps_num / job->fps_den : -1;
    if (job->runs < 1 || job->runs > BENCH_RUNS_MAX || job->frames < BENCH_FRAMES_MIN ||
        job->frames > BENCH_FRAMES_MAX || job->warmup > BENCH_WARMUP_MAX || job->slots < 1 ||
        job->slots > GPUD_SLOTS_MAX || rate < 0 || rate > BENCH_RATE_MAX ||
        (job->fps_num > 0 && rate < BENCH_RATE_MIN) || job->slow_receiver < GPUD_SLOW_BLOCK ||
        job->slow_receiver > GPUD_SLOW_DROP_OLDEST)
        return bench_fail(GPUD_PEER, "the sending bench asks for what it would refuse itself");
    if (gpud_layout_init(&layout, job->format, job->width, job->height, 0, &error) != GPUD_OK)
        return bench_fail(GPUD_PEER, "the sending bench asks for %s %ux%u: %s", job->format,
                          job->width, job->height, error.reason);
    layout = bench_layout_of(job);
    if (job->tensor_bytes % BENCH_TENSOR_STEP || layout.size < BENCH_FRAME_MIN ||
        layout.size > BENCH_FRAME_MAX)
        return bench_fail(GPUD_PEER, "the sending bench asks for frames of %llu bytes",
                          (unsigned long long)layout.size);
    job->receivers = job->number = 1;
    job->on_gpu = bench_works_on_gpu(job, job->from);
    job->fills = job->on_gpu && layout.size <= BENCH_FILLED_MAX;
    bench_describe_caps(job);
    if (!bench_is_marked(&layout.plane[0]))
        return bench_fail(GPUD_UNSUPPORTED, BENCH_UNMARKED, job->width, job->height);
    /* The description is made here: one from another host could start any element. */
    if (job->elements && !bench_describe_ours(job))
        return bench_fail(GPUD_INVALID, "the elements cannot be described");
    return true;
}

/* === the sending side ======================================================================== */

static int listener = -1;
static struct remote {
    int fd;
    char host[64], device[32];
} remotes[GPUD_RECEIVERS_MAX];
static uint32_t remote_count;

static bool listen_for_them(const struct bench_job *job)
{
    struct sockaddr_storage address;
    uint16_t port = bench_network_control_port(job->network);
    int one = 1;
    if (!bench_network_resolve(job->network, port, &address))
        return false;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&address, length_of(&address)) != 0 ||
        listen(fd, GPUD_RECEIVERS_MAX) != 0) {
        bench_fail(
            GPUD_IO,
            "TCP port %u, the one after the address's, on which the other hosts' benches connect: "
            "%s",
            port, g_strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    listener = fd;
    fprintf(stderr, "gpudirect-bench: waiting for %u × gpudirect-bench --receive %s\n",
            job->receivers, job->network);
    return true;
}

/* Accepts one connection; *why says why it was refused, if it is not a receiving bench. */
static void accept_one(struct bench_failure *why)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int fd = accept4(listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct remote *remote = &remotes[remote_count];
    *remote = (struct remote){.fd = fd};
    if (getnameinfo((struct sockaddr *)&address, length, remote->host, sizeof(remote->host), NULL,
                    0, NI_NUMERICHOST) != 0)
        g_strlcpy(remote->host, "another host", sizeof(remote->host));
    if (greet(fd, remote->device)) {
        remote_count++;
    } else {
        *why = bench_failure;
        close(fd);
    }
}

static bool wait_for_one(struct bench_child *sender, bool elements, struct bench_failure *why)
{
    struct pollfd fds[] = {{.fd = listener, .events = POLLIN},
                           {.fd = sender->fd, .events = POLLIN}};
    int ready = poll(fds, G_N_ELEMENTS(fds), 1000);
    if (bench_interrupted())
        return false;
    if (ready > 0 && fds[1].revents) {
        if (!bench_wait(sender, 1, 0, 1, BENCH_IS_READY, clock_now() + GPUD_SEC,
                        "starting the sender" BENCH_TOO_LONG))
            return false;
        if (!elements) /* a sink is ready before it has receivers */
            return bench_fail(GPUD_PEER,
                              "the sender found receivers that gpudirect-bench did not start");
    }
    if (ready > 0 && fds[0].revents)
        accept_one(why);
    return true;
}

bool bench_remotes_gather(struct bench_job *job, struct bench_child *sender, int64_t deadline)
{
    struct bench_failure why = {.reason = ""};
    if (listener < 0 && !listen_for_them(job))
        return false;
    while (remote_count < job->receivers) {
        if (clock_now() > deadline)
            return bench_fail(
                GPUD_TIMEOUT,
                "%u of %u receivers are there: run gpudirect-bench --receive %s on the "
                "others' hosts%s%s%s (--timeout waits longer)",
                remote_count, job->receivers, job->network,
                why.reason[0] ? " (of one that came: " : "", why.reason, why.reason[0] ? ")" : "");
        if (!wait_for_one(sender, job->elements, &why))
            return false;
    }
    /* The receivers' devices, in the form of --to. */
    job->to[0] = '\0';
    for (uint32_t i = 0; i < remote_count; i++) {
        if (i > 0)
            g_strlcat(job->to, ",", sizeof(job->to));
        if (g_strlcat(job->to, remotes[i].device, sizeof(job->to)) >= sizeof(job->to))
            return bench_fail(GPUD_INVALID, "the names of all receivers' devices are too long");
    }
    return true;
}

static struct bench_child child_of(const struct remote *remote, const char *role, uint32_t number,
                                   const struct bench_job *job)
{
    return (struct bench_child){.role = role,
                                .number = number,
                                .host = remote->host,
                                .fd = remote->fd,
                                .message_max = sizeof(struct bench_result) +
                                               2 * (uint64_t)job->frames * sizeof(int64_t)};
}

void bench_remotes_start(const struct bench_job *job, struct bench_processes *processes)
{
    for (uint32_t i = 0; i < job->receivers; i++) {
        const struct remote *remote = &remotes[i];
        processes->child[processes->count++] = child_of(remote, "receiver", i + 1, job);
        bench_send(remote->fd, BENCH_ORDER, job, BENCH_ORDER_SIZE); /* waiting reports a failure */
    }
}

void bench_remotes_start_target(const struct bench_job *job, struct bench_child *target)
{
    *target = child_of(&remotes[0], "raw target", 0, job);
    bench_send(target->fd, BENCH_RAW, &job->raw_port, sizeof(job->raw_port));
}

void bench_remotes_sum_up(const struct bench_result *sender, const struct bench_ceiling *ceiling)
{
    const struct summary summary = {.sender = *sender,
                                    .rate = ceiling->value,
                                    .cpu_sender = ceiling->cpu_sender,
                                    .cpu_receiver = ceiling->cpu_receiver};
    for (uint32_t i = 0; i < remote_count; i++)
        bench_send(remotes[i].fd, BENCH_SUMMARY, &summary, sizeof(summary));
}

void bench_remotes_close(bool failed)
{
    for (uint32_t i = 0; i < remote_count; i++) {
        if (failed)
            bench_send(remotes[i].fd, BENCH_FAILED, &bench_failure, sizeof(bench_failure));
        close(remotes[i].fd);
    }
    if (listener >= 0)
        close(listener);
    listener = -1;
    remote_count = 0;
}

/* === the receiving side ====================================================================== */

#define SENDING "the sending bench"
#define RETRY_US 200000
#define CONNECT_S 2

static struct bench_job job;
static int64_t timeout;
static int sending = -1;                 /* the connection to the sending bench */
static struct bench_processes processes; /* what is known of the sender, and this receiver */
static struct bench_run *runs;
static uint32_t count, wanted;

static bool nonsense(void)
{
    return bench_fail(GPUD_PEER, SENDING " sent nonsense");
}

/* Returns the socket, or -1 with errno. */
static int try_to_connect(const struct sockaddr_storage *address)
{
    const struct timeval patience = {.tv_sec = CONNECT_S};
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* of connecting, too */
    if (connect(fd, (const struct sockaddr *)address, length_of(address)) == 0)
        return fd;
    int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
}

/* Tries until the sending bench is there. */
static bool connect_to_sender(void)
{
    struct sockaddr_storage resolved;
    uint16_t port = bench_network_control_port(job.network);
    int64_t deadline = clock_now() + timeout;
    if (!bench_network_resolve(job.network, port, &resolved))
        return false;
    for (bool first = true;; first = false) {
        char device[32], why[sizeof(bench_failure.reason)];
        sending = try_to_connect(&resolved);
        g_strlcpy(why, g_strerror(errno), sizeof(why));
        g_strlcpy(device, job.to, sizeof(device));
        if (sending >= 0 && greet(sending, device))
            return true;
        if (sending >= 0) {
            g_strlcpy(why, bench_failure.reason, sizeof(why));
            close(sending);
            sending = -1;
            if (bench_failure.status == GPUD_UNSUPPORTED)
                return false;
        }
        if (bench_interrupted())
            return false;
        if (clock_now() > deadline)
            return bench_fail(GPUD_TIMEOUT,
                              "no gpudirect-bench --to %s --remote is reached by TCP port %u: %s "
                              "(--timeout waits longer)",
                              job.network, port, why);
        if (first)
            fprintf(stderr, "gpudirect-bench: waiting for gpudirect-bench --to %s --remote\n",
                    job.network);
        g_usleep(RETRY_US);
    }
}

/* Receives a message of the sending bench; to be freed. false: none came. */
static bool receive(int64_t deadline, struct bench_packet *packet)
{
    enum bench_receipt got;
    while ((got = bench_receive(sending, clock_now() + GPUD_SEC, MESSAGE_MAX, packet)) ==
           BENCH_TIMED_OUT) {
        if (bench_interrupted())
            return false;
        if (clock_now() > deadline)
            return bench_fail(GPUD_TIMEOUT, SENDING " did not go on in time");
    }
    if (got == BENCH_GONE)
        return bench_fail(GPUD_PEER, SENDING " is gone");
    if (packet->type != BENCH_FAILED)
        return true;
    struct bench_failure theirs;
    bool whole = packet->size == sizeof(theirs);
    if (whole)
        memcpy(&theirs, packet->data, sizeof(theirs));
    g_free(packet->data);
    if (!whole)
        return nonsense();
    bench_clean_text(theirs.reason, sizeof(theirs.reason));
    return bench_fail(GPUD_PEER, SENDING ": %s", theirs.reason);
}

/* Passes each message of the child on to the sending bench. */
static bool forward(struct bench_child *child)
{
    struct bench_packet packet;
    enum bench_receipt got =
        bench_receive(child->fd, clock_now() + GPUD_SEC, BENCH_MESSAGE_MAX, &packet);
    if (got == BENCH_TIMED_OUT)
        return true;
    if (got == BENCH_GONE) {
        bench_fail(GPUD_PEER, "the %s ended without a result", child->role);
        bench_find_death(child, 1);
        return false;
    }
    bool sent = bench_send(sending, packet.type, packet.data, packet.size);
    bool good = bench_handle(child, &packet);
    g_free(packet.data);
    return good && (sent || bench_fail(GPUD_PEER, SENDING " is gone"));
}

/* Starts the child, and stands for it until it has sent its result. */
static bool run_child(struct bench_child *child, const char *role, int64_t duration)
{
    int64_t deadline = clock_now() + duration;
    if (!bench_start(child, role, 0, &job))
        return false;
    while (!child->finished) {
        struct pollfd fds[] = {{.fd = child->fd, .events = POLLIN},
                               {.fd = sending, .events = POLLIN}};
        int ready = poll(fds, G_N_ELEMENTS(fds), 1000);
        if (bench_interrupted())
            return false;
        if (clock_now() > deadline)
            return bench_fail(GPUD_TIMEOUT, "the %s took too long", child->role);
        if (ready > 0 && fds[0].revents && !forward(child))
            return false;
        if (ready > 0 && fds[1].revents && !child->finished) {
            struct bench_packet packet;
            if (!receive(clock_now() + BENCH_STEP_TIMEOUT, &packet))
                return false;
            g_free(packet.data);
            if (packet.type != BENCH_STOP)
                return nonsense();
            bench_send(child->fd, BENCH_STOP, NULL, 0);
        }
    }
    return true;
}

static bool run_receiver(const struct bench_packet *packet)
{
    if (packet->size != BENCH_ORDER_SIZE || processes.count > 0)
        return nonsense();
    if (!take_order(&job, packet->data))
        return false;
    if (!runs) {
        wanted = job.runs;
        runs = g_new0(struct bench_run, wanted);
    }
    if (count >= wanted)
        return nonsense();
    processes = (struct bench_processes){.count = 2};
    int64_t duration = timeout + 4 * BENCH_STEP_TIMEOUT;
    if (job.fps_num)
        duration += bench_paced_time(&job, (double)job.warmup + job.frames);
    return run_child(&processes.child[1], "receiver", duration);
}

static bool run_target(const struct bench_packet *packet)
{
    struct bench_child target = {.pid = 0};
    if (packet->size != sizeof(job.raw_port) || processes.count == 0)
        return nonsense();
    memcpy(&job.raw_port, packet->data, packet->size);
    bool good = run_child(&target, "raw-target", 18 * BENCH_STEP_TIMEOUT);
    bench_stop(&target, good ? clock_now() + BENCH_STEP_TIMEOUT : 0);
    return good;
}

static bool sum_up(const struct bench_packet *packet)
{
    struct summary summary;
    if (packet->size != sizeof(summary) || processes.count == 0)
        return nonsense();
    memcpy(&summary, packet->data, sizeof(summary));
    struct bench_result *sender = &processes.child[0].result;
    struct bench_child *receiver = &processes.child[1];
    *sender = summary.sender;
    bench_clean_text(sender->route, sizeof(sender->route));
    bench_clean_text(sender->fallback_reason, sizeof(sender->fallback_reason));
    sender->latencies = sender->latencies_cpu = 0;
    sender->dropped = (int64_t)receiver->result.reported_drops; /* this receiver's only */
    struct bench_run *run = &runs[count++];
    bench_figures_sum_up(&processes, &job, run);
    run->ceilings.count = 1;
    run->ceilings.ceiling[0] =
        bench_ceiling_of_network(&job, summary.rate, summary.cpu_sender, summary.cpu_receiver);
    bench_figures_compare(&job, run);
    bench_stop(receiver, clock_now() + BENCH_STEP_TIMEOUT);
    processes.count = 0;
    return true;
}

static bool run_all(void)
{
    bool good = true;
    while (good && (!runs || count < wanted)) {
        struct bench_packet packet;
        if (!receive(clock_now() + timeout + 20 * BENCH_STEP_TIMEOUT, &packet))
            return false;
        if (packet.type == BENCH_ORDER)
            good = run_receiver(&packet);
        else if (packet.type == BENCH_RAW)
            good = run_target(&packet);
        else if (packet.type == BENCH_SUMMARY)
            good = sum_up(&packet);
        else if (packet.type != BENCH_STOP) /* for a receiver that had ended by itself */
            good = nonsense();
        g_free(packet.data);
    }
    return good;
}

int bench_receive_all(const struct bench_options *options)
{
    int status = EXIT_FAILURE;
    job = options->ours;
    timeout = options->timeout;
    if (connect_to_sender() && run_all()) {
        status = bench_report(options->json, &(struct bench_series){&job, runs, wanted}, NULL);
    } else {
        fprintf(stderr, "gpudirect-bench: %s\n", bench_failure.reason);
        if (sending >= 0)
            bench_send(sending, BENCH_FAILED, &bench_failure, sizeof(bench_failure));
    }
    if (sending >= 0)
        close(sending);
    if (processes.count > 0)
        bench_stop(&processes.child[1], 0);
    g_free(runs);
    return status;
}
