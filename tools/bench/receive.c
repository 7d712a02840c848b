/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "receive.h"

#include "figures.h"
#include "hosts.h"
#include "idle.h"
#include "network.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool fail(struct receiving *self, enum gpud_status status, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static bool fail(struct receiving *self, enum gpud_status status, const char *format, ...)
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
        fail(self, GPUD_AGAIN, "interrupted by signal %d (%s)", caught, g_strsignal(caught));
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
                return fail(self, greeting.status, "%s", greeting.reason);
        }
        if (interrupted(self))
            return false;
        if (clock_now() > deadline)
            return fail(self, GPUD_TIMEOUT,
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
            return fail(self, GPUD_TIMEOUT, SENDING " did not go on in time");
    }
    enum bench_receipt got =
        bench_receive(self->fd, clock_now() + BENCH_STEP_TIMEOUT, BENCH_HOSTS_MESSAGE_MAX, packet);
    if (got != BENCH_RECEIVED)
        return fail(self, GPUD_PEER, SENDING " is gone");
    if (packet->type != BENCH_FAILED)
        return true;
    bench_hosts_take_failure(packet, SENDING, &self->failure);
    g_free(packet->data);
    return false;
}

static bool nonsense(struct receiving *self)
{
    return fail(self, GPUD_PEER, SENDING " sent nonsense");
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
        fail(self, GPUD_PEER, "the %s ended without a result", child->role);
        bench_children_find_death(child, 1, &self->failure);
        return false;
    }
    bool sent = bench_send(self->fd, packet.type, packet.data, packet.size);
    bool good = bench_child_handle(child, &packet, &self->failure);
    g_free(packet.data);
    return good && (sent || fail(self, GPUD_PEER, SENDING " is gone"));
}

static bool measure_idle(struct receiving *self, struct bench_child *child)
{
    bench_idle_measure(child, 1, self->job.idle);
    return bench_send(self->fd, BENCH_IDLE, &child->idle_percent, sizeof(child->idle_percent)) ||
           fail(self, GPUD_PEER, SENDING " is gone");
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
static bool follow(struct receiving *self, struct bench_child *child, int64_t deadline)
{
    while (!child->finished) {
        struct pollfd fds[] = {{.fd = child->fd, .events = POLLIN},
                               {.fd = self->fd, .events = POLLIN}};
        int ready = poll(fds, G_N_ELEMENTS(fds), 1000);
        if (interrupted(self))
            return false;
        if (clock_now() > deadline)
            return fail(self, GPUD_TIMEOUT, "the %s took too long: see --timeout", child->role);
        if (ready > 0 && fds[0].revents && !forward(self, child))
            return false;
        if (ready > 0 && fds[1].revents && !child->finished && !obey(self, child))
            return false;
    }
    return true;
}

static bool start(struct receiving *self, struct bench_child *child, const char *role)
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
    return start(self, &processes->child[1], "receiver") &&
           follow(self, &processes->child[1], clock_now() + duration);
}

static bool run_target(struct receiving *self, const struct bench_packet *packet)
{
    struct bench_child target = {.pid = -1, .fd = -1};
    if (packet->size != sizeof(self->job.raw_port) || self->processes.count == 0)
        return nonsense(self);
    memcpy(&self->job.raw_port, packet->data, packet->size);
    bool good = start(self, &target, "raw-target") &&
                follow(self, &target, clock_now() + 18 * BENCH_STEP_TIMEOUT);
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

static int report(struct receiving *self)
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
        status = report(self);
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
