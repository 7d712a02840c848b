/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The processes of a run, and the messages between them. */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* With --channels a sender and a receiver of each. */
#define CHILDREN_MAX (2 * BENCH_CHANNELS_MAX)
#define CHILD_NAME 128
#define BUILT_WITHOUT_RDMA \
    "this gpudirect-bench was built without rdma: configure it with -Drdma=enabled"
#define NET_NAMESPACES "--net-namespaces: "
#define ROLE_PREFIX "@" /* not an option, and hardly a file name */

int bench_control = -1;
struct bench_job bench_job;
struct gpud_error bench_error;
struct bench_failure bench_failure = {.status = GPUD_IO};

static volatile sig_atomic_t caught;
static bool isolated;
static int spaces[2] = {-1, -1}; /* the sender's and the receivers' network namespaces */
static char program[PATH_MAX] = "/proc/self/exe";

/* === the job ================================================================================== */

const char *bench_device_of(const struct bench_job *job, uint32_t number, char *device, size_t size)
{
    char **list = g_strsplit(job->to, ",", -1);
    guint count = g_strv_length(list);
    g_strlcpy(device, count ? list[(number > 0 ? number - 1 : 0) % count] : "host", size);
    g_strstrip(device);
    g_strfreev(list);
    return device;
}

int64_t bench_paced_time(const struct bench_job *job, double frames)
{
    return (int64_t)(frames * 1e9 * job->fps_den / job->fps_num);
}

struct gpud_layout bench_layout_of(const struct bench_job *job)
{
    struct gpud_layout layout = {.size = job->tensor_bytes, .planes = 1};
    uint32_t part = (uint32_t)(job->tensor_bytes / BENCH_ROWS);
    layout.plane[0] = (struct gpud_plane){.stride = part, .row_bytes = part, .rows = BENCH_ROWS};
    if (!job->tensor_bytes)
        gpud_layout_init(&layout, job->format, job->width, job->height, 0, NULL);
    return layout;
}

int bench_page_create(uint64_t frames)
{
    int page = memfd_create("gpudirect-bench", MFD_CLOEXEC);
    if (page < 0 || ftruncate(page, (off_t)(BENCH_PAGE_SIZE + frames)) == 0)
        return page;
    close(page);
    return -1;
}

struct bench_page *bench_page_map(int page)
{
    struct stat file;
    void *mapped =
        page < 0 || fstat(page, &file) < 0
            ? MAP_FAILED
            : mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* === messages ================================================================================= */

#define WRITE_DEADLINE_S 10

struct header {
    uint64_t type, size;
};

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

/* The number of samples after a result. */
static uint64_t samples_of(const struct bench_result *result)
{
    return result->latencies + result->latencies_cpu;
}

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

/* === in a child =============================================================================== */

void bench_die(enum gpud_status status, const char *format, ...)
{
    struct bench_failure failure = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(failure.reason, sizeof(failure.reason), format, args);
    va_end(args);
    bench_send(bench_control, BENCH_FAILED, &failure, sizeof(failure));
    _exit(EXIT_FAILURE);
}

void bench_must(const char *what, enum gpud_status status)
{
    if (status != GPUD_OK)
        bench_die(status, "%s%s%s", what ? what : "", what ? ": " : "", bench_error.reason);
}

void bench_must_gpu(const struct raw_driver *driver, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(driver, reason, sizeof(reason), what, result);
    bench_die(GPUD_IO, "%s", reason);
}

struct gpud_context *bench_create_context(void)
{
    struct gpud_context *context;
    bench_must("a context", gpud_context_create(NULL, &context, &bench_error));
    return context;
}

struct gpud_media bench_media_of(const struct bench_job *job)
{
    const struct gpud_layout layout = bench_layout_of(job);
    const struct gpud_fraction rate = {job->fps_num, job->fps_den};
    const uint32_t part = layout.plane[0].row_bytes;
    if (!job->tensor_bytes)
        return (struct gpud_media){.picture = {.layout = layout, .rate = rate}};
    return (struct gpud_media){
        .kind = GPUD_MEDIA_TENSOR,
        .tensors = {.count = 1,
                    .rate = rate,
                    .tensor[0] = {.code = GPUD_TENSOR_UINT,
                                  .bits = 8,
                                  .lanes = 1,
                                  .dimensions = 2,
                                  .size = {BENCH_ROWS, part},
                                  .stride = {part, 1}}},
    };
}

struct gpud_sender *bench_create_sender(struct gpud_context *context, const char *address)
{
    const struct bench_job *job = &bench_job;
    struct gpud_sender *sender;
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_media media = bench_media_of(job);
    params.address = address;
    params.device = job->from;
    params.slots = job->slots;
    params.slow_receiver = (enum gpud_slow_receiver)job->slow_receiver;
    params.standby = job->standby;
    params.route = job->route[0] ? job->route : NULL;
    params.psk_file = job->psk_file[0] ? job->psk_file : NULL;
    params.allow_unauthenticated = job->allow_unauthenticated;
    bench_must(NULL, gpud_sender_create(context, &params, &sender, &bench_error));
    bench_must(NULL, gpud_sender_configure(sender, &media, &bench_error));
    return sender;
}

struct gpud_receiver *bench_create_receiver(struct gpud_context *context, const char *address,
                                            const char *device,
                                            void (*on_event)(void *user, enum gpud_event event,
                                                             const void *data))
{
    const struct bench_job *job = &bench_job;
    struct gpud_receiver *receiver;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = address;
    params.device = device;
    params.slots = job->slots;
    params.route = job->route[0] ? job->route : NULL;
    params.psk_file = job->psk_file[0] ? job->psk_file : NULL;
    params.on_event = on_event;
    bench_must(NULL, gpud_receiver_create(context, &params, &receiver, &bench_error));
    return receiver;
}

raw_stream bench_gpu_open(struct raw_driver *driver, unsigned gpu)
{
    char reason[GPUD_REASON_MAX];
    raw_stream stream;
    if (!raw_open(driver, reason, sizeof(reason)) ||
        !raw_enter(driver, gpu, reason, sizeof(reason)))
        bench_die(GPUD_NO_DEVICE, "%s", reason);
    bench_must_gpu(driver, "a stream", raw_stream_create(driver, &stream));
    return stream;
}

void *bench_gpu_pinned(const struct raw_driver *driver, size_t size, raw_address *address)
{
    void *host;
    bench_must_gpu(driver, BENCH_MARKING "pinned memory", raw_host_alloc(driver, &host, size));
    memset(host, 0, size);
    bench_must_gpu(driver, BENCH_MARKING "the address of pinned memory",
                   raw_host_address(driver, address, host));
    return host;
}

void bench_gpu_finish(const struct raw_driver *driver, raw_stream stream)
{
    int result;
    if (raw_finish(driver, stream, clock_now() + BENCH_STEP_TIMEOUT, &result))
        return;
    if (result == RAW_NOT_READY)
        bench_die(GPUD_TIMEOUT, "the GPU did not come to the end of its work in time");
    bench_must_gpu(driver, BENCH_MARKING "the stream", result);
}

void bench_say(enum bench_message type)
{
    bench_send(bench_control, type, NULL, 0);
}

void bench_send_result(const struct bench_result *result, const int64_t *latencies)
{
    send_parts(bench_control, BENCH_RESULT, result, sizeof(*result), latencies,
               samples_of(result) * sizeof(*latencies));
}

void bench_expect(enum bench_message type, int64_t patience, void *data, size_t size)
{
    struct bench_packet packet;
    enum bench_receipt got =
        bench_receive(bench_control, clock_now() + patience, BENCH_MESSAGE_MAX, &packet);
    if (got == BENCH_GONE)
        _exit(EXIT_FAILURE);
    if (got == BENCH_TIMED_OUT)
        bench_die(GPUD_TIMEOUT, "the coordinator of the measurement did not go on in time");
    if (packet.type != type || packet.size != size)
        bench_die(GPUD_INVALID, "the coordinator of the measurement sent message %d instead of %d",
                  (int)packet.type, (int)type);
    if (size)
        memcpy(data, packet.data, size);
    g_free(packet.data);
}

bool bench_received(enum bench_message type)
{
    struct pollfd ready = {.fd = bench_control, .events = POLLIN};
    if (poll(&ready, 1, 0) <= 0)
        return false;
    bench_expect(type, BENCH_STEP_TIMEOUT, NULL, 0);
    return true;
}

static void run_receiver(void)
{
    if (bench_job.elements)
        bench_run_receiver_gst();
    else if (bench_job.floor)
        bench_run_receiver_floor();
    else
        bench_run_receiver_core();
}

/* A network without gpudirect. Without RDMA the library refuses such an address earlier, unless
 * only ceilings are measured. */
static void run_raw_writer(void)
{
    if (bench_is_tcp(bench_job.network))
        bench_run_tcp_writer();
#ifdef GPUD_WITH_RDMA
    else
        bench_run_rdma_writer();
#else
    else
        bench_die(GPUD_UNSUPPORTED, BUILT_WITHOUT_RDMA);
#endif
}

static void run_raw_target(void)
{
    if (bench_is_tcp(bench_job.network))
        bench_run_tcp_target();
#ifdef GPUD_WITH_RDMA
    else
        bench_run_rdma_target();
#else
    else
        bench_die(GPUD_UNSUPPORTED, BUILT_WITHOUT_RDMA);
#endif
}

bool bench_be_child(int argc, char **argv)
{
    static const struct {
        const char *role;
        void (*run)(void);
    } roles[] = {
        {"sender", bench_run_sender},
        {"receiver", run_receiver},
        {"echo", bench_run_echo},
        {"words", bench_run_words},
        {"raw", bench_run_raw},
        {"channel-senders", bench_run_channel_senders},
        {"channel-receivers", bench_run_channel_receivers},
        {"failover-sender", bench_run_failover_sender},
        {"failover-receiver", bench_run_failover_receiver},
        {"raw-writer", run_raw_writer},
        {"raw-target", run_raw_target},
    };
    if (argc != 3 || !g_str_has_prefix(argv[1], ROLE_PREFIX))
        return false;
    bench_control = atoi(argv[2]);
    fcntl(bench_control, F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    bench_expect(BENCH_JOB, BENCH_STEP_TIMEOUT, &bench_job, sizeof(bench_job));
    for (size_t i = 0; i < G_N_ELEMENTS(roles); i++)
        if (strcmp(argv[1] + strlen(ROLE_PREFIX), roles[i].role) == 0)
            roles[i].run();
    return true;
}

/* === in the coordinator ======================================================================= */

bool bench_fail(enum gpud_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bench_failure.status = status;
    vsnprintf(bench_failure.reason, sizeof(bench_failure.reason), format, args);
    va_end(args);
    return false;
}

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

bool bench_interrupted(void)
{
    if (caught)
        bench_fail(GPUD_AGAIN, "interrupted by signal %d (%s)", (int)caught, g_strsignal(caught));
    return caught != 0;
}

char *bench_make_directory(void)
{
    GError *error = NULL;
    char *path = g_dir_make_tmp("gpudirect-bench-XXXXXX", &error);
    if (!path)
        bench_fail(GPUD_IO, "%s", error->message);
    g_clear_error(&error);
    return path;
}

void bench_remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(path);
}

/* --- starting --------------------------------------------------------------------------------- */

/* The coordinator has one thread and no device open, so calls that are not async-signal-safe are
 * allowed between fork and exec. */
G_NORETURN static void exec_role(const char *mark, pid_t parent, const struct bench_job *job)
{
    const int inherited[] = {bench_control, job->ping, job->pong, job->page};
    char number[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (isolated ? 0 : parent))
        _exit(EXIT_FAILURE); /* the parent died before the prctl; in a namespace, where it is not
                              * visible, the control socket shows that */
    /* As in a container: drivers look up their own process in /proc by the PID of their namespace.
     * The existing /proc is made private first, or the new mount would appear in other mount
     * namespaces. Making "/" private would not help: in a chroot it is not a mount point. */
    if (!bench_enter_space(g_str_has_prefix(mark, ROLE_PREFIX "receiver") ||
                           strcmp(mark, ROLE_PREFIX "raw-target") == 0))
        bench_die(GPUD_IO, "the network namespace cannot be entered: %s", g_strerror(errno));
    if (isolated && mount(NULL, "/proc", NULL, MS_PRIVATE, NULL) < 0)
        bench_die(GPUD_IO,
                  "--pid-namespaces: /proc cannot be kept from other mount namespaces (%s), "
                  "so none is mounted: mount proc there, or leave the option out",
                  g_strerror(errno));
    if (isolated && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        bench_die(GPUD_IO,
                  "--pid-namespaces: a PID namespace's own /proc cannot be mounted (%s): run "
                  "it where proc may be mounted, or leave the option out",
                  g_strerror(errno));
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    for (size_t i = 0; i < G_N_ELEMENTS(inherited); i++)
        if (inherited[i] >= 0)
            fcntl(inherited[i], F_SETFD, 0);
    /* Elements may print; standard output is reserved for the report. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    snprintf(number, sizeof(number), "%d", bench_control);
    execl(program, "gpudirect-bench", mark, number, (char *)NULL);
    bench_die(GPUD_IO, "%s cannot be started: %s", program, g_strerror(errno));
}

void bench_children_isolate(void)
{
    /* By name: from another mount namespace, /proc/self/exe of a program in a chroot is the path
     * outside, and the loader would look there for libraries. */
    gchar *path = g_file_read_link("/proc/self/exe", NULL);
    isolated = true;
    if (path)
        g_strlcpy(program, path, sizeof(program));
    g_free(path);
}

bool bench_enter_space(bool receiver)
{
    if (spaces[receiver] < 0)
        return true;
    if (setns(spaces[receiver], CLONE_NEWNET) != 0)
        return false;
    /* A /sys that lists the namespace's network devices; without it only UCX fails. */
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0)
        mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    return true;
}

/* Runs ip, from iproute2, in this process's network namespace. */
static bool run_ip(const char *format, ...) G_GNUC_PRINTF(1, 2);

static bool run_ip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gchar *rest = g_strdup_vprintf(format, args), *command = g_strconcat("ip ", rest, NULL);
    va_end(args);
    gchar **argv = g_strsplit(command, " ", -1), *said = NULL;
    GError *error = NULL;
    int status = 0;
    bool good = g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL,
                             NULL, NULL, NULL, &said, &status, &error);
    if (!good)
        bench_fail(GPUD_IO, NET_NAMESPACES "%s (apt install iproute2)", error->message);
    else if (status != 0)
        good = bench_fail(GPUD_IO, NET_NAMESPACES "%s: %s", command, g_strchomp(said));
    g_clear_error(&error);
    g_free(said);
    g_strfreev(argv);
    g_free(command);
    g_free(rest);
    return good;
}

/* Puts this process into a new network namespace. */
static bool make_space(int *space)
{
    if (unshare(CLONE_NEWNET) == 0)
        *space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return *space >= 0 || bench_fail(GPUD_IO, NET_NAMESPACES "%s%s", g_strerror(errno),
                                     errno == EPERM ? " (it is for root)" : "");
}

bool bench_children_separate(const char *host, const char *peer_host)
{
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    bool good = (home >= 0 || bench_fail(GPUD_IO, NET_NAMESPACES "%s", g_strerror(errno))) &&
                make_space(&spaces[1]) && make_space(&spaces[0]) &&
                run_ip("link add bench0 type veth peer name bench1 netns /proc/%d/fd/%d",
                       (int)getpid(), spaces[1]) &&
                run_ip("address add %s/31 dev bench0", host) && run_ip("link set bench0 up") &&
                run_ip("link set lo up") &&
                (setns(spaces[1], CLONE_NEWNET) == 0 ||
                 bench_fail(GPUD_IO, NET_NAMESPACES "%s", g_strerror(errno))) &&
                run_ip("address add %s/31 dev bench1", peer_host) && run_ip("link set bench1 up") &&
                run_ip("link set lo up");
    if (home >= 0 && setns(home, CLONE_NEWNET) != 0 && good)
        good = bench_fail(GPUD_IO, NET_NAMESPACES "%s", g_strerror(errno));
    if (home >= 0)
        close(home);
    return good;
}

bool bench_start(struct bench_child *child, const char *role, uint32_t number,
                 const struct bench_job *job)
{
    int ends[2];
    *child = (struct bench_child){.role = role, .number = number};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return bench_fail(GPUD_IO, "no control socket: %s", g_strerror(errno));
    char *mark = g_strconcat(ROLE_PREFIX, role, NULL);
    pid_t parent = getpid();
    pid_t pid = isolated ? (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL,
                                          NULL, NULL, NULL)
                         : fork();
    if (pid == 0) {
        bench_control = ends[1];
        exec_role(mark, parent, job);
    }
    g_free(mark);
    close(ends[1]);
    child->fd = ends[0];
    if (pid < 0)
        return bench_fail(GPUD_IO, "no process for the %s: %s%s", role, g_strerror(errno),
                          isolated && errno == EPERM ? " (--pid-namespaces is for root)" : "");
    child->pid = pid;
    bench_send(child->fd, BENCH_JOB, job, sizeof(*job)); /* waiting explains why it has ended */
    return true;
}

/* --- ending ----------------------------------------------------------------------------------- */

static bool reap(struct bench_child *child, int64_t deadline, int *status)
{
    while (child->pid > 0) {
        pid_t got = waitpid(child->pid, status, WNOHANG);
        if (got == child->pid || (got < 0 && errno != EINTR)) {
            child->pid = 0;
            return true;
        }
        if (clock_now() >= deadline)
            return false;
        g_usleep(1000);
    }
    return true;
}

/* Closes the connection, which ends a child that waits for a message. */
static void hang_up(struct bench_child *child)
{
    if (child->fd > 0)
        close(child->fd);
    child->fd = 0;
}

bool bench_stop(struct bench_child *child, int64_t deadline)
{
    int status = 0;
    bool by_itself = reap(child, deadline, &status);
    if (!by_itself) {
        kill(child->pid, SIGKILL);
        reap(child, clock_now() + BENCH_STEP_TIMEOUT, &status);
    }
    hang_up(child);
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

void bench_find_death(struct bench_child *children, size_t count)
{
    int64_t deadline = clock_now() + 50 * GPUD_MSEC;
    do {
        for (size_t i = 0; i < count && !caught; i++) {
            int status = 0;
            char name[CHILD_NAME];
            pid_t pid = children[i].pid;
            if (pid <= 0 || !reap(&children[i], 0, &status) || !WIFSIGNALED(status))
                continue;
            bench_fail(GPUD_PEER, "the %s (process %d) was killed by signal %d (%s)",
                       name_of(&children[i], name), (int)pid, WTERMSIG(status),
                       g_strsignal(WTERMSIG(status)));
            return;
        }
        g_usleep(2000);
    } while (clock_now() < deadline && !caught);
}

bool bench_stop_all(struct bench_child *children, size_t count, bool good, int64_t patience)
{
    if (!good)
        bench_find_death(children, count);
    for (size_t i = 0; i < count && !good; i++)
        hang_up(&children[i]);
    int64_t deadline = clock_now() + (good ? BENCH_STEP_TIMEOUT : patience);
    for (size_t i = count; i-- > 0;)
        if (!bench_stop(&children[i], deadline) && good)
            good = bench_fail(GPUD_TIMEOUT, "the %s did not end by itself and was killed",
                              children[i].role);
    return good;
}

/* --- messages --------------------------------------------------------------------------------- */

static bool take_result(struct bench_child *child, struct bench_packet *packet)
{
    struct bench_result *result = &child->result;
    if (packet->size < sizeof(*result))
        return false;
    memcpy(result, packet->data, sizeof(*result));
    size_t samples = packet->size - sizeof(*result);
    if (MAX(result->latencies, result->latencies_cpu) > samples ||
        samples_of(result) * sizeof(int64_t) != samples)
        return false;
    child->latencies = g_memdup2((char *)packet->data + sizeof(*result), samples);
    child->finished = true;
    if (child->host) {
        bench_clean_text(result->route, sizeof(result->route));
        bench_clean_text(result->fallback_reason, sizeof(result->fallback_reason));
    }
    return true;
}

bool bench_handle(struct bench_child *child, struct bench_packet *packet)
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
    if (packet->type == BENCH_FAILED && packet->size == sizeof(struct bench_failure)) {
        struct bench_failure *reported = packet->data;
        if (child->host)
            bench_clean_text(reported->reason, sizeof(reported->reason));
        return bench_fail(child->host ? GPUD_PEER : reported->status, "%s: %s",
                          name_of(child, name), reported->reason);
    }
    return bench_fail(GPUD_PEER, "the %s sent nonsense", name_of(child, name));
}

static bool read_child(struct bench_child *child)
{
    struct bench_packet packet;
    char name[CHILD_NAME];
    uint64_t max = child->message_max ? child->message_max : BENCH_MESSAGE_MAX;
    enum bench_receipt got = bench_receive(child->fd, clock_now() + GPUD_SEC, max, &packet);
    if (got == BENCH_TIMED_OUT)
        return true;
    if (got == BENCH_GONE)
        return bench_fail(GPUD_PEER, "the %s ended without a result", name_of(child, name));
    bool good = bench_handle(child, &packet);
    g_free(packet.data);
    return good;
}

bool bench_wait(struct bench_child *children, size_t count, size_t first, size_t needed,
                enum bench_stage stage, int64_t deadline, const char *late)
{
    for (;;) {
        struct pollfd fds[CHILDREN_MAX];
        int64_t left = deadline - clock_now();
        size_t there = 0;
        for (size_t i = first; i < first + needed; i++)
            there += stage == BENCH_IS_READY ? children[i].ready : children[i].finished;
        if (there == needed)
            return true;
        if (bench_interrupted())
            return false;
        if (left <= 0)
            return bench_fail(GPUD_TIMEOUT, "%s", late);
        for (size_t i = 0; i < count; i++)
            fds[i] =
                (struct pollfd){.fd = children[i].finished ? -1 : children[i].fd, .events = POLLIN};
        if (poll(fds, count, (int)MIN(left / GPUD_MSEC + 1, 1000)) <= 0)
            continue;
        for (size_t i = 0; i < count; i++)
            if (fds[i].revents && !read_child(&children[i]))
                return false;
    }
}
