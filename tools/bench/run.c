/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of samples after a result. */
static inline uint64_t bench_sample_count(const struct bench_result *result)
{
    return result->latencies + result->latencies_cpu + result->intervals;
}

/* === job ===================================================================================== */

const char *bench_device_of(const struct bench_job *job, uint32_t number, char *device, size_t size)
{
    char **list = g_strsplit(job->to, ",", -1);
    guint count = g_strv_length(list);
    const char *chosen = count ? list[(number > 0 ? number - 1 : 0) % count] : "host";
    g_strlcpy(device, chosen, size);
    g_strstrip(device);
    g_strfreev(list);
    return device;
}

int64_t bench_paced_time(const struct bench_job *job, double frames)
{
    return (int64_t)(frames * 1e9 * job->fps_den / job->fps_num);
}

uint64_t bench_frame_bytes(const struct bench_job *job)
{
    struct gpud_layout layout = {.size = 0};
    gpud_layout_init(&layout, job->format, job->width, job->height, 0, NULL);
    return layout.size;
}

/* === control ================================================================================= */

#define WRITE_DEADLINE_S 10

struct header {
    uint64_t type, size;
};

/* --- sending ---------------------------------------------------------------------------------- */

static bool send_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool send_parts(int fd, enum bench_message type, const void *data, size_t size,
                       const void *more, size_t more_size)
{
    const struct timeval timeout = {.tv_sec = WRITE_DEADLINE_S};
    struct header header = {.type = type, .size = size + more_size};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    return send_all(fd, &header, sizeof(header)) && send_all(fd, data, size) &&
           send_all(fd, more, more_size);
}

bool bench_send(int fd, enum bench_message type, const void *data, size_t size)
{
    return send_parts(fd, type, data, size, NULL, 0);
}

bool bench_send_result(int fd, const struct bench_result *result, const int64_t *latencies)
{
    return send_parts(fd, BENCH_RESULT, result, sizeof(*result), latencies,
                      bench_sample_count(result) * sizeof(*latencies));
}

/* --- receiving -------------------------------------------------------------------------------- */

/* An incomplete message counts as none. */
static enum bench_receipt receive_all(int fd, int64_t deadline, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        int64_t left = deadline - clock_now();
        enum bench_receipt missed = at == data ? BENCH_TIMED_OUT : BENCH_GONE;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int polled = poll(&ready, 1, left > 0 ? (int)MIN(left / GPUD_MSEC + 1, 1000) : 0);
        if (polled < 0)
            return missed; /* interrupted by a signal: the caller checks for one */
        if (polled == 0) {
            if (left <= 0)
                return missed;
            continue;
        }
        ssize_t got = recv(fd, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return BENCH_GONE;
        at += got;
        size -= (size_t)got;
    }
    return BENCH_RECEIVED;
}

enum bench_receipt bench_receive(int fd, int64_t deadline, uint64_t max,
                                 struct bench_packet *packet)
{
    struct header header;
    enum bench_receipt got = receive_all(fd, deadline, &header, sizeof(header));
    if (got != BENCH_RECEIVED)
        return got;
    if (header.size > max)
        return BENCH_GONE;
    /* A message that has begun is read to its end, because the next one starts behind it. */
    void *data = g_malloc(header.size + 1);
    got = receive_all(fd, MAX(deadline, clock_now() + BENCH_STEP_TIMEOUT), data, header.size);
    if (got != BENCH_RECEIVED) {
        g_free(data);
        return BENCH_GONE;
    }
    *packet = (struct bench_packet){
        .type = (enum bench_message)header.type, .size = header.size, .data = data};
    return BENCH_RECEIVED;
}

bool bench_fail(struct bench_failure *failure, enum gpud_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    failure->status = status;
    vsnprintf(failure->reason, sizeof(failure->reason), format, args);
    va_end(args);
    return false;
}

void bench_clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    char *valid = g_utf8_make_valid(text, -1);
    for (char *at = valid; *at; at = g_utf8_next_char(at))
        if (!g_unichar_isprint(g_utf8_get_char(at)))
            memset(at, '?', (size_t)(g_utf8_next_char(at) - at));
    g_strlcpy(text, valid, size);
    g_free(valid);
}

void bench_clean_result(struct bench_result *result)
{
    bench_clean_text(result->route, sizeof(result->route));
    bench_clean_text(result->fallback_reason, sizeof(result->fallback_reason));
}

/* --- in a child ------------------------------------------------------------------------------- */

void bench_child_fail(int fd, enum gpud_status status, const char *format, ...)
{
    struct bench_failure failure = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(failure.reason, sizeof(failure.reason), format, args);
    va_end(args);
    bench_send(fd, BENCH_FAILED, &failure, sizeof(failure));
    _exit(EXIT_FAILURE);
}

G_NORETURN static void fail(void *user, enum gpud_status status, const char *reason)
{
    bench_child_fail(*(const int *)user, status, "%s", reason);
}

struct raw_caller bench_child_caller(const int *fd)
{
    return (struct raw_caller){.fail = fail, .user = (void *)(uintptr_t)fd};
}

void bench_child_expect(int fd, enum bench_message type, int64_t deadline, void *data, size_t size)
{
    struct bench_packet packet;
    enum bench_receipt got = bench_receive(fd, deadline, BENCH_MESSAGE_MAX, &packet);
    if (got == BENCH_GONE)
        _exit(EXIT_FAILURE);
    if (got == BENCH_TIMED_OUT)
        bench_child_fail(fd, GPUD_TIMEOUT,
                         "the coordinator of the measurement did not go on in time");
    if (packet.type != type || packet.size != size)
        bench_child_fail(fd, GPUD_INVALID,
                         "the coordinator of the measurement sent message %d instead of %d",
                         (int)packet.type, (int)type);
    if (size)
        memcpy(data, packet.data, size);
    g_free(packet.data);
}

bool bench_child_received(int fd, enum bench_message type)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 0) <= 0)
        return false;
    bench_child_expect(fd, type, clock_now() + BENCH_STEP_TIMEOUT, NULL, 0);
    return true;
}

/* === children ================================================================================ */

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

/* Closes the connection, which ends a child that waits for a message. */
static void bench_child_hang_up(struct bench_child *child)
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

static const char *children_name_of(const struct bench_child *child, char text[CHILD_NAME])
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
                       children_name_of(&children[i], name), (int)pid, WTERMSIG(status),
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
                   children_name_of(child, name), reported->reason);
        return false;
    }
    bench_fail(failure, GPUD_PEER, "the %s sent nonsense", children_name_of(child, name));
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
    bench_fail(failure, GPUD_PEER, "the %s ended without a result", children_name_of(child, name));
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

/* === run ===================================================================================== */
/* The coordinator of one run, as drawn in bench.h. Sockets lie in a directory made for the run. */

/* --- the directory ---------------------------------------------------------------------------- */

void bench_show_progress(uint32_t number, uint32_t count)
{
    if (count < 2 || !isatty(STDERR_FILENO) ||
        g_strcmp0(g_getenv("GPUDIRECT_PROGRESS"), "off") == 0)
        return;
    fputs("\r\033[K", stderr);
    if (number)
        fprintf(stderr, "run %u of %u", number, count);
}

char *bench_make_directory(struct bench_failure *failure)
{
    GError *error = NULL;
    char *path = g_dir_make_tmp("gpudirect-bench-XXXXXX", &error);
    if (!path) {
        failure->status = GPUD_IO;
        g_strlcpy(failure->reason, error->message, sizeof(failure->reason));
        g_clear_error(&error);
    }
    return path;
}

void bench_remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

/* Makes a key for this run if one is needed and none is given, so that other programs on the
 * network cannot connect. */
static bool make_key(struct bench_job *job, const char *directory, struct bench_failure *failure)
{
    guchar random[32];
    if (!job->network[0] || job->remote || job->psk_file[0] || job->allow_unauthenticated)
        return true;
    g_snprintf(job->psk_file, sizeof(job->psk_file), "%s/" BENCH_KEY_FILE, directory);
    int fd = open(job->psk_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && getrandom(random, sizeof(random), 0) == sizeof(random);
    char *text = g_base64_encode(random, sizeof(random));
    good = good && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!good) {
        failure->status = GPUD_IO;
        g_snprintf(failure->reason, sizeof(failure->reason), "no key can be written to %s: %s",
                   job->psk_file, g_strerror(errno));
    }
    g_free(text);
    if (fd >= 0)
        close(fd);
    return good;
}

static bool fill_in_directory(struct bench_job *job, const char *directory,
                              struct bench_failure *failure)
{
    char *texts[] = {job->sink, job->src};
    if (job->network[0])
        memcpy(job->address, job->network, sizeof(job->address));
    else
        g_snprintf(job->address, sizeof(job->address), "unix:%s/link", directory);
    if (!make_key(job, directory, failure))
        return false;
    for (int i = 0; i < 2; i++) {
        GString *text = g_string_new(texts[i]);
        g_string_replace(text, "{dir}", directory, 0);
        bool fits = g_strlcpy(texts[i], text->str, sizeof(job->sink)) < sizeof(job->sink);
        g_string_free(text, TRUE);
        if (!fits) {
            failure->status = GPUD_INVALID;
            g_strlcpy(failure->reason, "the description of the elements is too long",
                      sizeof(failure->reason));
            return false;
        }
    }
    return true;
}

/* --- the processes
 * --------------------------------------------------------------------------------- */

static bool sender_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool all_ready(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!children[i].ready)
            return false;
    return true;
}

static bool sender_finished(struct bench_child *children, size_t count)
{
    return children[0].finished;
}

static bool run_all_finished(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!children[i].finished)
            return false;
    return true;
}

static bool run_start_process(struct bench_processes *processes, const char *role,
                              const struct bench_job *job, struct bench_failure *failure)
{
    struct bench_child *child = &processes->child[processes->count++];
    return bench_child_start(child, role, job->number, &job->page, job->page >= 0, failure) &&
           (bench_send(child->fd, BENCH_JOB, job, sizeof(*job)) ||
            true); /* if it has ended, waiting for it explains why */
}

static bool joins_finished(struct bench_child *children, size_t count)
{
    return children[count - 1].finished;
}

/* Lets receivers join from the start of the measured section. The sender goes on until all have
 * left, so that a slow machine changes figures, not counts. */
static bool follow_joins(struct bench_processes *processes, int64_t deadline,
                         struct bench_failure *failure)
{
    if (!bench_children_wait(processes->child, processes->count, deadline, sender_ready,
                             "the warm-up", failure))
        return false;
    bench_send(processes->child[1 + processes->receivers].fd, BENCH_GO, NULL, 0);
    if (!bench_children_wait(processes->child, processes->count, deadline, joins_finished,
                             "joining and leaving", failure))
        return false;
    processes->child[0].ready = false;
    bench_send(processes->child[0].fd, BENCH_GO, NULL, 0);
    return true;
}

static bool all_idle_known(struct bench_child *children, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (!children[i].idle_known)
            return false;
    return true;
}

/* Measures the sender and the receivers between the last frame and the end of the stream. */
static bool follow_idle(struct bench_processes *processes, const struct bench_job *job,
                        int64_t deadline, struct bench_failure *failure)
{
    if (!bench_children_wait(processes->child, processes->count, deadline, sender_ready, "sending",
                             failure))
        return false;
    if (job->remote)
        for (size_t i = 1; i < processes->count; i++)
            bench_send(processes->child[i].fd, BENCH_IDLE, NULL, 0);
    bench_idle_measure(processes->child, 1 + processes->receivers, job->idle);
    if (job->remote &&
        !bench_children_wait(processes->child, processes->count, clock_now() + BENCH_STEP_TIMEOUT,
                             all_idle_known, "the time without frames", failure))
        return false;
    bench_send(processes->child[0].fd, BENCH_GO, NULL, 0);
    return true;
}

static bool start_receivers(struct bench_processes *processes, struct bench_job *job,
                            struct bench_remotes *remotes, struct bench_failure *failure)
{
    processes->receivers = job->receivers;
    if (remotes) {
        if (!bench_remotes_gather(remotes, job, &processes->child[0], clock_now() + job->patience,
                                  failure))
            return false;
        bench_remotes_start(remotes, job, processes);
        return true;
    }
    for (job->number = 1; job->number <= job->receivers; job->number++)
        if (!run_start_process(processes, "receiver", job, failure))
            return false;
    job->number = 0;
    return !job->joins || run_start_process(processes, "joiner", job, failure);
}

static bool run_processes(struct bench_processes *processes, struct bench_job *job,
                          struct bench_remotes *remotes, const char *directory, int64_t timeout,
                          struct bench_failure *failure)
{
    struct bench_child *sender = &processes->child[0];
    if (!run_start_process(processes, "sender", job, failure) ||
        !bench_children_wait(sender, 1, clock_now() + job->patience, sender_ready,
                             "starting the sender", failure))
        return false;
    sender->ready = false;
    if (!start_receivers(processes, job, remotes, failure))
        return false;
    int64_t deadline = clock_now() + timeout;
    if (!bench_children_wait(sender, processes->count,
                             clock_now() + job->patience + BENCH_STEP_TIMEOUT, all_ready,
                             "connecting the receivers", failure))
        return false;
    /* Removed once no more receivers connect, so that even a killed coordinator leaves nothing
     * behind. With --join receivers connect until the end. */
    if (!job->joins)
        bench_remove_directory(directory);
    sender->ready = false;
    bench_send(sender->fd, BENCH_GO, NULL, 0);
    if (job->joins && !follow_joins(processes, deadline, failure))
        return false;
    if (job->idle && !follow_idle(processes, job, deadline, failure))
        return false;
    if (!bench_children_wait(sender, processes->count, deadline, sender_finished, "sending",
                             failure))
        return false;
    for (size_t i = 1; i < processes->count; i++)
        bench_send(processes->child[i].fd, BENCH_STOP, NULL, 0);
    if (!bench_children_wait(sender, processes->count, clock_now() + 2 * BENCH_STEP_TIMEOUT,
                             run_all_finished, "receiving", failure))
        return false;
    bench_send(sender->fd, BENCH_STOP, NULL, 0);
    return true;
}

static bool end_processes(struct bench_processes *processes, bool good, bool elements,
                          struct bench_failure *failure)
{
    if (!good && !bench_caught_signal())
        bench_children_find_death(processes->child, processes->count, failure);
    for (size_t i = 0; i < processes->count && !good; i++)
        bench_child_hang_up(&processes->child[i]);
    /* Elements may have files to remove; the core's only file is the socket in the bench's
     * directory. */
    int64_t deadline = good       ? clock_now() + BENCH_STEP_TIMEOUT
                       : elements ? clock_now() + 2 * GPUD_SEC
                                  : 0;
    for (size_t i = processes->count; i-- > 0;) {
        if (bench_child_stop(&processes->child[i], deadline) || !good)
            continue;
        good = false;
        failure->status = GPUD_TIMEOUT;
        g_snprintf(failure->reason, sizeof(failure->reason),
                   "the %s did not end by itself and was killed", processes->child[i].role);
    }
    return good;
}

/* --- the run ---------------------------------------------------------------------------------- */

static bool run_link(struct bench_job *job, int64_t timeout, struct bench_remotes *remotes,
                     struct bench_run *run, struct bench_result *sender,
                     struct bench_failure *failure)
{
    job->page = bench_uses_rows(job) && bench_uses_elements(job) ? bench_submit_times_create() : -1;
    char *directory = bench_make_directory(failure);
    if (!directory) {
        if (job->page >= 0)
            close(job->page);
        return false;
    }
    struct bench_processes *processes = g_new0(struct bench_processes, 1);
    bool good = fill_in_directory(job, directory, failure) &&
                run_processes(processes, job, remotes, directory, timeout, failure);
    if (good)
        bench_figures_sum_up(processes, job, run);
    *sender = processes->child[0].result;
    if (remotes)
        bench_remotes_release(processes);
    good = end_processes(processes, good, bench_uses_elements(job), failure);
    bench_remove_directory(directory);
    g_free(processes);
    g_free(directory);
    if (job->page >= 0)
        close(job->page);
    return good;
}

bool bench_run(const struct bench_job *wanted, int64_t timeout, struct bench_remotes *remotes,
               struct bench_run *run, struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct bench_result sender;
    *run = (struct bench_run){.route = ""};
    /* A network ceiling comes last, because the library best explains why it cannot use the
     * network. */
    bool last = job.network[0] != '\0';
    if (!last && !bench_ceilings_measure(&job, remotes, &run->ceilings, failure))
        return false;
    if (!run_link(&job, timeout, remotes, run, &sender, failure))
        return false;
    if (last && !bench_ceilings_measure(&job, remotes, &run->ceilings, failure))
        return false;
    bench_figures_compare(&job, run);
    if (remotes)
        bench_remotes_sum_up(remotes, &(struct bench_summary){.sender = sender,
                                                              .idle_percent = run->idle_sender,
                                                              .write = run->ceiling.value});
    return true;
}
