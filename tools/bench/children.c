/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* With --channels a sender and a receiver of each. */
#define CHILDREN_MAX (2 * BENCH_CHANNELS_MAX)
#define CHILD_NAME 128
#define ROLE_PREFIX "@" /* not an option, and hardly a file name */

static volatile sig_atomic_t caught;
static bool isolated;
static char program[PATH_MAX] = "/proc/self/exe";

static void on_signal(int number)
{
    caught = number;
}

void bench_catch_signals(void)
{
    const struct sigaction action = {.sa_handler =
                                         on_signal}; /* no SA_RESTART: waits are interrupted */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

int bench_caught_signal(void)
{
    return caught;
}

/* --- starting --------------------------------------------------------------------------------- */

/* As in a container: drivers look up their own process in /proc by the PID of their namespace. The
 * existing /proc is made private first, or the new mount would appear in other mount namespaces.
 * Making "/" private would not help: in a chroot it is not a mount point. */
static void mount_own_proc(int fd)
{
    if (mount(NULL, "/proc", NULL, MS_PRIVATE, NULL) < 0)
        bench_child_fail(fd, GPUD_IO,
                         "--pid-namespaces: /proc cannot be kept from other mount namespaces (%s), "
                         "so none is mounted: mount proc there, or leave the option out",
                         g_strerror(errno));
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        bench_child_fail(
            fd, GPUD_IO,
            "--pid-namespaces: a PID namespace's own /proc cannot be mounted (%s): run "
            "it where proc may be mounted, or leave the option out",
            g_strerror(errno));
}

/* The coordinator has one thread and no device open, so calls that are not async-signal-safe are
 * allowed between fork and exec. */
G_NORETURN static void exec_role(const char *role, int fd, pid_t parent, const int *inherited,
                                 size_t inherited_count)
{
    char number[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (isolated ? 0 : parent))
        _exit(EXIT_FAILURE); /* the parent died before the prctl; in a namespace, where it is not
                              * visible, the control socket shows that */
    if (isolated)
        mount_own_proc(fd);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    for (size_t i = 0; i < inherited_count; i++)
        fcntl(inherited[i], F_SETFD, 0);
    fcntl(fd, F_SETFD, 0);
    /* Elements may print; standard output is reserved for the report. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    snprintf(number, sizeof(number), "%d", fd);
    execl(program, "gpudirect-bench", role, number, (char *)NULL);
    bench_child_fail(fd, GPUD_IO, "%s cannot be started: %s", program, g_strerror(errno));
}

void bench_children_isolate(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    isolated = true;
    if (length <= 0)
        return;
    /* By name: from another mount namespace, /proc/self/exe of a program in a chroot is the path
     * outside, and the loader would look there for libraries. */
    memcpy(program, path, (size_t)length);
    program[length] = 0;
}

static pid_t start_process(void)
{
    if (!isolated)
        return fork();
    return (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
}

bool bench_child_start(struct bench_child *child, const char *role, uint32_t number,
                       const int *inherited, size_t inherited_count, struct bench_failure *failure)
{
    int ends[2];
    *child = (struct bench_child){
        .role = role, .number = number, .pid = -1, .fd = -1, .idle_percent = NAN};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        bench_fail(failure, GPUD_IO, "no control socket: %s", g_strerror(errno));
        return false;
    }
    char *mark = g_strconcat(ROLE_PREFIX, role, NULL);
    pid_t parent = getpid();
    child->pid = start_process();
    if (child->pid == 0)
        exec_role(mark, ends[1], parent, inherited, inherited_count);
    g_free(mark);
    close(ends[1]);
    child->fd = ends[0];
    if (child->pid < 0) {
        bench_fail(failure, GPUD_IO, "no process for the %s: %s%s", role, g_strerror(errno),
                   isolated && errno == EPERM ? " (--pid-namespaces is for root)" : "");
        return false;
    }
    return true;
}

const char *bench_role(int argc, char **argv, int *fd)
{
    if (argc != 3 || !g_str_has_prefix(argv[1], ROLE_PREFIX))
        return NULL;
    *fd = atoi(argv[2]);
    fcntl(*fd, F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    return argv[1] + strlen(ROLE_PREFIX);
}

/* --- ending ----------------------------------------------------------------------------------- */

static bool reap(struct bench_child *child, int64_t deadline, int *status)
{
    while (child->pid > 0) {
        pid_t got = waitpid(child->pid, status, WNOHANG);
        if (got == child->pid || (got < 0 && errno != EINTR)) {
            child->pid = -1;
            return true;
        }
        if (clock_now() >= deadline)
            return false;
        g_usleep(1000);
    }
    return true;
}

void bench_child_hang_up(struct bench_child *child)
{
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
}

bool bench_child_stop(struct bench_child *child, int64_t deadline)
{
    int status = 0;
    bool by_itself = reap(child, deadline, &status);
    if (!by_itself) {
        kill(child->pid, SIGKILL);
        reap(child, clock_now() + BENCH_STEP_TIMEOUT, &status);
    }
    bench_child_hang_up(child);
    g_clear_pointer(&child->latencies, g_free);
    return by_itself;
}

static const char *name_of(const struct bench_child *child, char text[CHILD_NAME])
{
    g_strlcpy(text, child->role, CHILD_NAME);
    if (child->number)
        g_snprintf(text, CHILD_NAME, "%s %u", child->role, child->number);
    if (child->host) {
        g_strlcat(text, " on ", CHILD_NAME);
        g_strlcat(text, child->host, CHILD_NAME);
    }
    return text;
}

bool bench_children_find_death(struct bench_child *children, size_t count,
                               struct bench_failure *failure)
{
    int64_t deadline = clock_now() + 50 * GPUD_MSEC;
    do {
        for (size_t i = 0; i < count; i++) {
            int status = 0;
            char name[CHILD_NAME];
            pid_t pid = children[i].pid;
            if (pid <= 0 || !reap(&children[i], 0, &status) || !WIFSIGNALED(status))
                continue;
            bench_fail(failure, GPUD_PEER, "the %s (process %d) was killed by signal %d (%s)",
                       name_of(&children[i], name), (int)pid, WTERMSIG(status),
                       g_strsignal(WTERMSIG(status)));
            return true;
        }
        g_usleep(2000);
    } while (clock_now() < deadline);
    return false;
}

/* --- messages --------------------------------------------------------------------------------- */

static bool take_result(struct bench_child *child, struct bench_packet *packet)
{
    if (packet->size < sizeof(child->result))
        return false;
    memcpy(&child->result, packet->data, sizeof(child->result));
    size_t samples = packet->size - sizeof(child->result);
    const struct bench_result *result = &child->result;
    if (MAX(MAX(result->latencies, result->latencies_cpu), result->intervals) > samples ||
        bench_sample_count(&child->result) * sizeof(int64_t) != samples)
        return false;
    child->latencies = g_memdup2((char *)packet->data + sizeof(child->result), samples);
    child->finished = true;
    if (child->host)
        bench_clean_result(&child->result);
    return true;
}

static bool take_idle(struct bench_child *child, const struct bench_packet *packet)
{
    if (packet->size != sizeof(child->idle_percent))
        return false;
    memcpy(&child->idle_percent, packet->data, sizeof(child->idle_percent));
    child->idle_known = true;
    return true;
}

bool bench_child_handle(struct bench_child *child, struct bench_packet *packet,
                        struct bench_failure *failure)
{
    char name[CHILD_NAME];
    if (packet->type == BENCH_LISTENING && packet->size == sizeof(child->port))
        memcpy(&child->port, packet->data, sizeof(child->port));
    if (packet->type == BENCH_LISTENING || packet->type == BENCH_READY) {
        child->ready = true;
        return true;
    }
    if (packet->type == BENCH_RESULT && take_result(child, packet))
        return true;
    if (packet->type == BENCH_IDLE && child->host && take_idle(child, packet))
        return true;
    if (packet->type == BENCH_FAILED && packet->size == sizeof(struct bench_failure)) {
        struct bench_failure *reported = packet->data;
        if (child->host)
            bench_clean_text(reported->reason, sizeof(reported->reason));
        bench_fail(failure, child->host ? GPUD_PEER : reported->status, "%s: %s",
                   name_of(child, name), reported->reason);
        return false;
    }
    bench_fail(failure, GPUD_PEER, "the %s sent nonsense", name_of(child, name));
    return false;
}

static bool read_child(struct bench_child *child, struct bench_failure *failure)
{
    struct bench_packet packet;
    char name[CHILD_NAME];
    uint64_t max = child->message_max ? child->message_max : BENCH_MESSAGE_MAX;
    enum bench_receipt got = bench_receive(child->fd, clock_now() + GPUD_SEC, max, &packet);
    if (got == BENCH_RECEIVED) {
        bool good = bench_child_handle(child, &packet, failure);
        g_free(packet.data);
        return good;
    }
    if (got == BENCH_TIMED_OUT)
        return true;
    bench_fail(failure, GPUD_PEER, "the %s ended without a result", name_of(child, name));
    return false;
}

bool bench_children_wait(struct bench_child *children, size_t count, int64_t deadline,
                         bool (*done)(struct bench_child *children, size_t count), const char *what,
                         struct bench_failure *failure)
{
    while (!done(children, count)) {
        struct pollfd fds[CHILDREN_MAX];
        int64_t left = deadline - clock_now();
        if (caught || left <= 0) {
            if (caught)
                bench_fail(failure, GPUD_AGAIN, "interrupted by signal %d (%s)", (int)caught,
                           g_strsignal(caught));
            else
                bench_fail(failure, GPUD_TIMEOUT, "%s took too long: see --timeout", what);
            return false;
        }
        for (size_t i = 0; i < count; i++)
            fds[i] =
                (struct pollfd){.fd = children[i].finished ? -1 : children[i].fd, .events = POLLIN};
        if (poll(fds, count, (int)MIN(left / GPUD_MSEC + 1, 1000)) <= 0)
            continue;
        for (size_t i = 0; i < count; i++)
            if (fds[i].revents && !read_child(&children[i], failure))
                return false;
    }
    return true;
}

static bool has_finished(struct bench_child *children, size_t count)
{
    return children[0].finished;
}

bool bench_child_run(const struct bench_job *job, const char *role, int64_t timeout,
                     const char *what, struct bench_result *result, struct bench_failure *failure)
{
    struct bench_child child;
    bool good = bench_child_start(&child, role, 0, NULL, 0, failure) &&
                bench_send(child.fd, BENCH_JOB, job, sizeof(*job)) &&
                bench_children_wait(&child, 1, clock_now() + timeout, has_finished, what, failure);
    if (!good && !bench_caught_signal())
        bench_children_find_death(&child, 1, failure);
    *result = child.result;
    bench_child_stop(&child, good ? clock_now() + BENCH_STEP_TIMEOUT : 0);
    return good;
}
