/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two benches on two hosts. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One run, as a receiver needs to know it. */
struct bench_order {
    uint32_t runs;
    char from[32], format[16], route[32];
    uint32_t width, height, fps_num, fps_den, frames, warmup, slots, slow_receiver;
    uint32_t foreign, full, elements;
    int64_t idle;
};

/* The largest message of the other side, except for a result's samples. */
#define BENCH_HOSTS_MESSAGE_MAX 8192

/* === network ================================================================================= */

#define SCHEME "rdma:"
#define PORT_USUAL 7174

bool bench_is_network(const char *text)
{
    return g_str_has_prefix(text, SCHEME);
}

/* The host without brackets; *rest is what follows. */
static void read_host(const char *address, char *host, size_t size, const char **rest)
{
    const char *from = address + strlen(SCHEME);
    from += strspn(from, "/");
    size_t length = from[0] == '[' ? strcspn(++from, "]") : strcspn(from, ":/");
    g_snprintf(host, (gulong)size, "%.*s", (int)length, from);
    *rest = from + length + (from[length] == ']');
}

uint16_t bench_network_control_port(const char *address)
{
    char host[256];
    const char *rest;
    read_host(address, host, sizeof(host), &rest);
    unsigned long port = rest[0] == ':' ? strtoul(rest + 1, NULL, 10) : PORT_USUAL;
    return port > 0 && port < UINT16_MAX ? (uint16_t)(port + 1) : 0;
}

bool bench_network_resolve(const char *address, uint16_t port, struct sockaddr_storage *found,
                           struct bench_failure *failure)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char host[256], service[8];
    const char *rest;
    read_host(address, host, sizeof(host), &rest);
    g_snprintf(service, sizeof(service), "%u", port);
    int error = getaddrinfo(host, service, &hints, &list);
    if (error) {
        failure->status = GPUD_IO;
        g_snprintf(failure->reason, sizeof(failure->reason), "%s: the host \"%s\": %s", address,
                   host, gai_strerror(error));
        return false;
    }
    memcpy(found, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return true;
}

/* Of the address. */
static socklen_t bench_network_length(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* === hosts =================================================================================== */

#define MAGIC UINT64_C(0x6763686568626770)
#define GREETING (5 * GPUD_SEC)

struct hello {
    uint64_t magic, sizes; /* of the following structures */
    char version[32], device[32];
};

/* Takes over the reason of the other side's FAILED. */
static void bench_hosts_take_failure(const struct bench_packet *packet, const char *who,
                                     struct bench_failure *failure)
{
    struct bench_failure theirs;
    if (packet->size != sizeof(theirs)) {
        bench_fail(failure, GPUD_PEER, "%s sent nonsense", who);
        return;
    }
    memcpy(&theirs, packet->data, sizeof(theirs));
    bench_clean_text(theirs.reason, sizeof(theirs.reason));
    bench_fail(failure, GPUD_PEER, "%s: %s", who, theirs.reason);
}

/* --- greeting --------------------------------------------------------------------------------- */

static uint64_t sizes(void)
{
    return sizeof(struct bench_order) << 32 | sizeof(struct bench_summary) << 16 |
           sizeof(struct bench_failure);
}

/* Exchanges greetings. *device: the receivers', which the receiving side sends. */
static bool bench_hosts_greet(int fd, char device[32], struct bench_failure *failure)
{
    struct bench_packet packet;
    struct hello ours = {.magic = MAGIC, .sizes = sizes()}, theirs;
    g_strlcpy(ours.version, gpud_version_string(), sizeof(ours.version));
    g_strlcpy(ours.device, device, sizeof(ours.device));
    if (!bench_send(fd, BENCH_HELLO, &ours, sizeof(ours)))
        return bench_fail(failure, GPUD_PEER, "the other side hung up");
    enum bench_receipt got = bench_receive(fd, clock_now() + GREETING, sizeof(theirs), &packet);
    if (got != BENCH_RECEIVED)
        return bench_fail(failure, GPUD_PEER, "the other side %s",
                          got == BENCH_TIMED_OUT ? "says nothing"
                                                 : "hung up, or is not a gpudirect-bench");
    bool good = packet.type == BENCH_HELLO && packet.size == sizeof(theirs);
    if (good)
        memcpy(&theirs, packet.data, sizeof(theirs));
    g_free(packet.data);
    if (!good || theirs.magic != MAGIC)
        return bench_fail(failure, GPUD_PEER,
                          "the other side is not a gpudirect-bench of this kind of machine");
    bench_clean_text(theirs.version, sizeof(theirs.version));
    bench_clean_text(theirs.device, sizeof(theirs.device));
    if (strcmp(theirs.version, ours.version) != 0 || theirs.sizes != ours.sizes)
        return bench_fail(
            failure, GPUD_UNSUPPORTED,
            "gpudirect-bench is version %s there and %s here: both hosts need the same",
            theirs.version, ours.version);
    g_strlcpy(device, theirs.device, sizeof(theirs.device));
    return true;
}

/* --- orders ----------------------------------------------------------------------------------- */

static void bench_hosts_order(const struct bench_job *job, uint32_t runs, struct bench_order *order)
{
    memset(order, 0, sizeof(*order));
    order->runs = runs;
    memcpy(order->from, job->from, sizeof(order->from));
    memcpy(order->format, job->format, sizeof(order->format));
    memcpy(order->route, job->route, sizeof(order->route));
    order->width = job->width;
    order->height = job->height;
    order->fps_num = job->fps_num;
    order->fps_den = job->fps_den;
    order->frames = job->frames;
    order->warmup = job->warmup;
    order->slots = job->slots;
    order->slow_receiver = job->slow_receiver;
    order->foreign = job->foreign;
    order->full = job->full;
    order->elements = bench_uses_elements(job);
    order->idle = job->idle;
}

static bool in_range(const struct bench_order *order)
{
    double rate = order->fps_den ? (double)order->fps_num / order->fps_den : -1;
    return order->runs >= 1 && order->runs <= BENCH_RUNS_MAX && order->frames >= BENCH_FRAMES_MIN &&
           order->frames <= BENCH_FRAMES_MAX && order->warmup <= BENCH_WARMUP_MAX &&
           order->slots >= 1 && order->slots <= GPUD_SLOTS_MAX && rate >= 0 &&
           rate <= BENCH_RATE_MAX && (order->fps_num == 0 || rate >= BENCH_RATE_MIN) &&
           order->idle >= 0 && order->idle <= BENCH_IDLE_MAX * GPUD_SEC &&
           order->slow_receiver >= GPUD_SLOW_BLOCK && order->slow_receiver <= GPUD_SLOW_DROP_OLDEST;
}

/* Fills in a job from the other side's order; this side's own choices stay. */
static bool bench_hosts_take_order(struct bench_order *order, struct bench_job *job,
                                   struct bench_failure *failure)
{
    struct gpud_layout layout;
    struct gpud_error error;
    bench_clean_text(order->from, sizeof(order->from));
    bench_clean_text(order->format, sizeof(order->format));
    bench_clean_text(order->route, sizeof(order->route));
    if (!in_range(order))
        return bench_fail(failure, GPUD_PEER,
                          "the sending bench asks for what it would refuse itself");
    if (gpud_layout_init(&layout, order->format, order->width, order->height, 0, &error) != GPUD_OK)
        return bench_fail(failure, GPUD_PEER, "the sending bench asks for %s %ux%u: %s",
                          order->format, order->width, order->height, error.reason);
    if (layout.size < BENCH_FRAME_MIN || layout.size > BENCH_FRAME_MAX)
        return bench_fail(failure, GPUD_PEER, "the sending bench asks for frames of %llu bytes",
                          (unsigned long long)layout.size);
    memcpy(job->from, order->from, sizeof(job->from));
    memcpy(job->format, order->format, sizeof(job->format));
    memcpy(job->route, order->route, sizeof(job->route));
    job->width = order->width;
    job->height = order->height;
    job->fps_num = order->fps_num;
    job->fps_den = order->fps_den;
    job->frames = order->frames;
    job->warmup = order->warmup;
    job->slots = order->slots;
    job->slow_receiver = order->slow_receiver;
    job->foreign = order->foreign;
    job->full = order->full;
    job->idle = order->idle;
    job->receivers = job->number = 1;
    job->sink[0] = job->src[0] = '\0';
    bench_describe_caps(job);
    if (bench_uses_rows(job) && !bench_rows_fit(&layout))
        return bench_fail(failure, GPUD_UNSUPPORTED, BENCH_ROWS_UNFIT, job->width, job->height);
    /* The description is made here: one from another host could start any element. */
    if (order->elements && !bench_describe_ours(job))
        return bench_fail(failure, GPUD_INVALID, "the elements cannot be described");
    return true;
}

/* The largest possible result of this job, in bytes. */
static size_t bench_hosts_result_max(const struct bench_job *job)
{
    return sizeof(struct bench_result) + 3 * (size_t)job->frames * sizeof(int64_t);
}

/* === remotes ================================================================================= */

void bench_remotes_init(struct bench_remotes *remotes, uint32_t runs)
{
    *remotes = (struct bench_remotes){.listener = -1, .runs = runs};
}

/* --- connecting ------------------------------------------------------------------------------- */

static bool listen_for_them(struct bench_remotes *remotes, const struct bench_job *job,
                            struct bench_failure *failure)
{
    struct sockaddr_storage address;
    uint16_t port = bench_network_control_port(job->network);
    int one = 1;
    if (!bench_network_resolve(job->network, port, &address, failure))
        return false;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                bind(fd, (struct sockaddr *)&address, bench_network_length(&address)) == 0 &&
                listen(fd, GPUD_RECEIVERS_MAX) == 0;
    if (!good) {
        bench_fail(
            failure, GPUD_IO,
            "TCP port %u, the one after the address's, on which the other hosts' benches connect: "
            "%s",
            port, g_strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    remotes->listener = fd;
    fprintf(stderr, "gpudirect-bench: waiting for %u × gpudirect-bench --receive %s\n",
            job->receivers, job->network);
    return true;
}

/* Accepts one connection; *why says why it was refused, if it is not a receiving bench. */
static void accept_one(struct bench_remotes *remotes, struct bench_failure *why)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int one = 1;
    int fd = accept4(remotes->listener, (struct sockaddr *)&address, &length, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct bench_remote *remote = &remotes->remote[remotes->count];
    *remote = (struct bench_remote){.fd = fd};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (getnameinfo((struct sockaddr *)&address, length, remote->host, sizeof(remote->host), NULL,
                    0, NI_NUMERICHOST) != 0)
        g_strlcpy(remote->host, "another host", sizeof(remote->host));
    if (bench_hosts_greet(fd, remote->device, why))
        remotes->count++;
    else
        close(fd);
}

static bool sender_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool wait_for_one(struct bench_remotes *remotes, struct bench_child *sender, bool elements,
                         struct bench_failure *why, struct bench_failure *failure)
{
    struct pollfd fds[] = {{.fd = remotes->listener, .events = POLLIN},
                           {.fd = sender->fd, .events = POLLIN}};
    int ready = poll(fds, G_N_ELEMENTS(fds), 1000);
    if (bench_caught_signal())
        return bench_fail(failure, GPUD_AGAIN, "interrupted by signal %d (%s)",
                          bench_caught_signal(), g_strsignal(bench_caught_signal()));
    if (ready > 0 && fds[1].revents) {
        if (!bench_children_wait(sender, 1, clock_now() + GPUD_SEC, sender_ready,
                                 "starting the sender", failure))
            return false;
        if (!elements) /* a sink is ready before it has receivers */
            return bench_fail(failure, GPUD_PEER,
                              "the sender found receivers that gpudirect-bench did not start");
    }
    if (ready > 0 && fds[0].revents)
        accept_one(remotes, why);
    return true;
}

/* The receivers' devices, in the form of --to. */
static bool take_devices(const struct bench_remotes *remotes, struct bench_job *job,
                         struct bench_failure *failure)
{
    struct gpud_layout layout;
    job->to[0] = '\0';
    for (uint32_t i = 0; i < remotes->count; i++) {
        if (i > 0)
            g_strlcat(job->to, ",", sizeof(job->to));
        if (g_strlcat(job->to, remotes->remote[i].device, sizeof(job->to)) >= sizeof(job->to))
            return bench_fail(failure, GPUD_INVALID,
                              "the names of all receivers' devices are too long");
    }
    gpud_layout_init(&layout, job->format, job->width, job->height, 0, NULL);
    if (bench_uses_rows(job) && !bench_rows_fit(&layout))
        return bench_fail(failure, GPUD_INVALID, BENCH_ROWS_UNFIT, job->width, job->height);
    return true;
}

bool bench_remotes_gather(struct bench_remotes *remotes, struct bench_job *job,
                          struct bench_child *sender, int64_t deadline,
                          struct bench_failure *failure)
{
    struct bench_failure why = {.reason = ""};
    if (remotes->listener < 0 && !listen_for_them(remotes, job, failure))
        return false;
    while (remotes->count < job->receivers) {
        if (clock_now() > deadline)
            return bench_fail(
                failure, GPUD_TIMEOUT,
                "%u of %u receivers are there: run gpudirect-bench --receive %s on the "
                "others' hosts%s%s%s (--timeout waits longer)",
                remotes->count, job->receivers, job->network,
                why.reason[0] ? " (of one that came: " : "", why.reason, why.reason[0] ? ")" : "");
        if (!wait_for_one(remotes, sender, bench_uses_elements(job), &why, failure))
            return false;
    }
    return take_devices(remotes, job, failure);
}

/* --- a run ------------------------------------------------------------------------------------ */

static struct bench_child child_of(const struct bench_remote *remote, const char *role,
                                   uint32_t number, const struct bench_job *job)
{
    return (struct bench_child){.role = role,
                                .number = number,
                                .host = remote->host,
                                .pid = -1,
                                .fd = remote->fd,
                                .message_max = bench_hosts_result_max(job),
                                .idle_percent = NAN};
}

void bench_remotes_start(struct bench_remotes *remotes, const struct bench_job *job,
                         struct bench_processes *processes)
{
    struct bench_order order;
    bench_hosts_order(job, remotes->runs, &order);
    for (uint32_t i = 0; i < job->receivers; i++) {
        const struct bench_remote *remote = &remotes->remote[i];
        processes->child[processes->count++] = child_of(remote, "receiver", i + 1, job);
        bench_send(remote->fd, BENCH_ORDER, &order, sizeof(order)); /* waiting reports a failure */
    }
}

void bench_remotes_release(struct bench_processes *processes)
{
    for (size_t i = 1; i < processes->count; i++)
        processes->child[i].fd = -1;
}

void bench_remotes_start_target(struct bench_remotes *remotes, const struct bench_job *job,
                                struct bench_child *target)
{
    *target = child_of(&remotes->remote[0], "raw target", 0, job);
    bench_send(target->fd, BENCH_RAW, &job->raw_port, sizeof(job->raw_port));
}

void bench_remotes_sum_up(struct bench_remotes *remotes, const struct bench_summary *summary)
{
    for (uint32_t i = 0; i < remotes->count; i++)
        bench_send(remotes->remote[i].fd, BENCH_SUMMARY, summary, sizeof(*summary));
}

void bench_remotes_close(struct bench_remotes *remotes, const struct bench_failure *failure)
{
    for (uint32_t i = 0; i < remotes->count; i++) {
        if (failure)
            bench_send(remotes->remote[i].fd, BENCH_FAILED, failure, sizeof(*failure));
        close(remotes->remote[i].fd);
    }
    remotes->count = 0;
    if (remotes->listener >= 0)
        close(remotes->listener);
    remotes->listener = -1;
}

/* === receive ================================================================================= */

#define SENDING "the sending bench"
#define RETRY_US 200000
#define CONNECT_MS 2000

struct receiving {
    const struct bench_options *options;
    struct bench_job job;
    int fd;                           /* to the sending bench */
    struct bench_processes processes; /* what is known of the sender, and this receiver */
    struct bench_run *runs;
    uint32_t count, wanted;
    struct bench_failure failure;
};

static bool receive_fail(struct receiving *self, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static bool receive_fail(struct receiving *self, enum gpud_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    self->failure.status = status;
    g_vsnprintf(self->failure.reason, sizeof(self->failure.reason), format, args);
    va_end(args);
    return false;
}

static bool interrupted(struct receiving *self)
{
    int caught = bench_caught_signal();
    if (caught)
        receive_fail(self, GPUD_AGAIN, "interrupted by signal %d (%s)", caught,
                     g_strsignal(caught));
    return caught != 0;
}

/* --- connecting ------------------------------------------------------------------------------- */

/* Returns the socket, or -1 with errno. */
static int try_to_connect(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, error = 0;
    socklen_t length = sizeof(error);
    if (fd < 0)
        return -1;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (connect(fd, (const struct sockaddr *)address, bench_network_length(address)) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = poll(&ready, 1, CONNECT_MS) > 0 ? 0 : ETIMEDOUT;
        if (!error)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    fcntl(fd, F_SETFL, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Tries until the sending bench is there. */
static bool connect_to_sender(struct receiving *self)
{
    const char *address = self->job.network;
    struct sockaddr_storage resolved;
    uint16_t port = bench_network_control_port(address);
    int64_t deadline = clock_now() + self->options->timeout;
    if (!bench_network_resolve(address, port, &resolved, &self->failure))
        return false;
    for (bool first = true;; first = false) {
        char device[32], why[sizeof(self->failure.reason)];
        struct bench_failure greeting;
        self->fd = try_to_connect(&resolved);
        g_strlcpy(why, g_strerror(errno), sizeof(why));
        g_strlcpy(device, self->job.to, sizeof(device));
        if (self->fd >= 0 && bench_hosts_greet(self->fd, device, &greeting))
            return true;
        if (self->fd >= 0) {
            g_strlcpy(why, greeting.reason, sizeof(why));
            close(self->fd);
            self->fd = -1;
            if (greeting.status == GPUD_UNSUPPORTED)
                return receive_fail(self, greeting.status, "%s", greeting.reason);
        }
        if (interrupted(self))
            return false;
        if (clock_now() > deadline)
            return receive_fail(self, GPUD_TIMEOUT,
                                "no gpudirect-bench --to %s --remote is reached by TCP port %u: %s "
                                "(--timeout waits longer)",
                                address, port, why);
        if (first)
            fprintf(stderr, "gpudirect-bench: waiting for gpudirect-bench --to %s --remote\n",
                    address);
        g_usleep(RETRY_US);
    }
}

/* --- one run ---------------------------------------------------------------------------------- */

/* Receives a message of the sending bench; to be freed. false: none came. */
static bool receive(struct receiving *self, int64_t deadline, struct bench_packet *packet)
{
    struct pollfd ready = {.fd = self->fd, .events = POLLIN};
    while (poll(&ready, 1, 1000) <= 0) {
        if (interrupted(self))
            return false;
        if (clock_now() > deadline)
            return receive_fail(self, GPUD_TIMEOUT, SENDING " did not go on in time");
    }
    enum bench_receipt got =
        bench_receive(self->fd, clock_now() + BENCH_STEP_TIMEOUT, BENCH_HOSTS_MESSAGE_MAX, packet);
    if (got != BENCH_RECEIVED)
        return receive_fail(self, GPUD_PEER, SENDING " is gone");
    if (packet->type != BENCH_FAILED)
        return true;
    bench_hosts_take_failure(packet, SENDING, &self->failure);
    g_free(packet->data);
    return false;
}

static bool nonsense(struct receiving *self)
{
    return receive_fail(self, GPUD_PEER, SENDING " sent nonsense");
}

/* Passes each message of the child on to the sending bench. */
static bool forward(struct receiving *self, struct bench_child *child)
{
    struct bench_packet packet;
    enum bench_receipt got =
        bench_receive(child->fd, clock_now() + GPUD_SEC, BENCH_MESSAGE_MAX, &packet);
    if (got == BENCH_TIMED_OUT)
        return true;
    if (got == BENCH_GONE) {
        receive_fail(self, GPUD_PEER, "the %s ended without a result", child->role);
        bench_children_find_death(child, 1, &self->failure);
        return false;
    }
    bool sent = bench_send(self->fd, packet.type, packet.data, packet.size);
    bool good = bench_child_handle(child, &packet, &self->failure);
    g_free(packet.data);
    return good && (sent || receive_fail(self, GPUD_PEER, SENDING " is gone"));
}

static bool measure_idle(struct receiving *self, struct bench_child *child)
{
    bench_idle_measure(child, 1, self->job.idle);
    return bench_send(self->fd, BENCH_IDLE, &child->idle_percent, sizeof(child->idle_percent)) ||
           receive_fail(self, GPUD_PEER, SENDING " is gone");
}

static bool obey(struct receiving *self, struct bench_child *child)
{
    struct bench_packet packet;
    if (!receive(self, clock_now() + BENCH_STEP_TIMEOUT, &packet))
        return false;
    enum bench_message type = packet.type;
    g_free(packet.data);
    if (type == BENCH_IDLE)
        return measure_idle(self, child);
    if (type != BENCH_STOP)
        return nonsense(self);
    bench_send(child->fd, BENCH_STOP, NULL, 0);
    return true;
}

/* Runs until the child has sent its result. */
static bool receive_follow(struct receiving *self, struct bench_child *child, int64_t deadline)
{
    while (!child->finished) {
        struct pollfd fds[] = {{.fd = child->fd, .events = POLLIN},
                               {.fd = self->fd, .events = POLLIN}};
        int ready = poll(fds, G_N_ELEMENTS(fds), 1000);
        if (interrupted(self))
            return false;
        if (clock_now() > deadline)
            return receive_fail(self, GPUD_TIMEOUT, "the %s took too long: see --timeout",
                                child->role);
        if (ready > 0 && fds[0].revents && !forward(self, child))
            return false;
        if (ready > 0 && fds[1].revents && !child->finished && !obey(self, child))
            return false;
    }
    return true;
}

static bool receive_start(struct receiving *self, struct bench_child *child, const char *role)
{
    return bench_child_start(child, role, 0, NULL, 0, &self->failure) &&
           (bench_send(child->fd, BENCH_JOB, &self->job, sizeof(self->job)) || true);
}

static bool run_receiver(struct receiving *self, const struct bench_packet *packet)
{
    struct bench_order order;
    struct bench_job *job = &self->job;
    struct bench_processes *processes = &self->processes;
    if (packet->size != sizeof(order) || processes->count > 0)
        return nonsense(self);
    memcpy(&order, packet->data, sizeof(order));
    if (!bench_hosts_take_order(&order, job, &self->failure))
        return false;
    if (!self->runs) {
        self->wanted = order.runs;
        self->runs = g_new0(struct bench_run, order.runs);
    }
    if (self->count >= self->wanted)
        return nonsense(self);
    *processes = (struct bench_processes){.count = 2, .receivers = 1};
    processes->child[0] = (struct bench_child){.role = "sender", .pid = -1, .fd = -1};
    int64_t duration = self->options->timeout + job->idle + 4 * BENCH_STEP_TIMEOUT;
    if (job->fps_num)
        duration += bench_paced_time(job, (double)job->warmup + job->frames);
    return receive_start(self, &processes->child[1], "receiver") &&
           receive_follow(self, &processes->child[1], clock_now() + duration);
}

static bool run_target(struct receiving *self, const struct bench_packet *packet)
{
    struct bench_child target = {.pid = -1, .fd = -1};
    if (packet->size != sizeof(self->job.raw_port) || self->processes.count == 0)
        return nonsense(self);
    memcpy(&self->job.raw_port, packet->data, packet->size);
    bool good = receive_start(self, &target, "raw-target") &&
                receive_follow(self, &target, clock_now() + 18 * BENCH_STEP_TIMEOUT);
    bench_child_stop(&target, good ? clock_now() + BENCH_STEP_TIMEOUT : 0);
    return good;
}

static bool sum_up(struct receiving *self, const struct bench_packet *packet)
{
    struct bench_summary summary;
    struct bench_processes *processes = &self->processes;
    if (packet->size != sizeof(summary) || processes->count == 0)
        return nonsense(self);
    memcpy(&summary, packet->data, sizeof(summary));
    bench_clean_result(&summary.sender);
    struct bench_child *sender = &processes->child[0], *receiver = &processes->child[1];
    sender->result = summary.sender;
    sender->result.latencies = sender->result.latencies_cpu = sender->result.intervals = 0;
    sender->result.dropped = (int64_t)receiver->result.reported_drops; /* this receiver's only */
    sender->idle_percent = summary.idle_percent;
    struct bench_run *run = &self->runs[self->count++];
    bench_figures_sum_up(processes, &self->job, run);
    bench_ceilings_set_rdma(&self->job, summary.write, &run->ceilings);
    run->ceiling = run->ceilings.ceiling[0];
    bench_figures_compare(&self->job, run);
    bench_child_stop(receiver, clock_now() + BENCH_STEP_TIMEOUT);
    processes->count = 0;
    return true;
}

/* --- all runs --------------------------------------------------------------------------------- */

static bool run_all(struct receiving *self)
{
    bool good = true;
    while (good && (!self->runs || self->count < self->wanted)) {
        struct bench_packet packet;
        if (!receive(self, clock_now() + self->options->timeout + 20 * BENCH_STEP_TIMEOUT, &packet))
            return false;
        if (packet.type == BENCH_ORDER)
            good = run_receiver(self, &packet);
        else if (packet.type == BENCH_RAW)
            good = run_target(self, &packet);
        else if (packet.type == BENCH_SUMMARY)
            good = sum_up(self, &packet);
        else if (packet.type != BENCH_STOP) /* for a receiver that had ended by itself */
            good = nonsense(self);
        g_free(packet.data);
    }
    return good;
}

static int receive_report(struct receiving *self)
{
    struct bench_series series = {&self->job, self->runs, self->wanted};
    bool damaged = false;
    if (self->options->json)
        bench_print_json(&series, NULL);
    else
        bench_print_text(&series, NULL);
    for (uint32_t i = 0; i < self->wanted; i++)
        damaged = damaged || self->runs[i].lost || self->runs[i].torn;
    if (damaged)
        fputs("gpudirect-bench: frames were lost or torn\n", stderr);
    return damaged ? BENCH_EXIT_DAMAGE : EXIT_SUCCESS;
}

int bench_receive_all(const struct bench_options *options)
{
    struct receiving *self = g_new0(struct receiving, 1);
    int status = EXIT_FAILURE;
    self->options = options;
    self->job = options->ours;
    self->fd = -1;
    if (connect_to_sender(self) && run_all(self)) {
        status = receive_report(self);
    } else {
        fprintf(stderr, "gpudirect-bench: %s\n", self->failure.reason);
        if (self->fd >= 0)
            bench_send(self->fd, BENCH_FAILED, &self->failure, sizeof(self->failure));
    }
    if (self->fd >= 0)
        close(self->fd);
    if (self->processes.count > 0)
        bench_child_stop(&self->processes.child[1], 0);
    g_free(self->runs);
    g_free(self);
    return status;
}
