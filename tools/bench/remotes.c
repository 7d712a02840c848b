/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "remotes.h"

#include "network.h"
#include "options.h"
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
