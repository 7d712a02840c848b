/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The driver or the C library fails: each function once, in its first call, or a later one, in a
 * process of its own in which a few frames go from one device to another. Whatever it was: nothing
 * crashes or hangs, every refusal has a sentence, a picture that arrives is whole or flagged, none
 * is lost without a word, and the core breaks none of the driver's rules.
 *
 *     faults_test cuda|libc FROM TO [every]: the calls 1, 4, 16… of each function, or every one */
#include "actor.h"
#include "device/cuda/driver.h"
#include "support/picture.h"
#include "support/spawn_again.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

extern char **environ;

#define FRAMES 8
#define WIDTH 256
#define HEIGHT 64
#define LIFETIME (60 * GPUD_SEC)
/* Without a failure a frame arrives in this time, however busy the machine is. */
#define PATIENCE (15 * GPUD_SEC)
/* After a reported failure it may not arrive. */
#define RESIGNATION (500 * GPUD_MSEC)
#define BAD_MAX 20
#define NOT_REACHED 3 /* the exit status of a process in which nothing failed */

/* What fails. */
struct faults {
    const char *name, *variable; /* of the environment: "function:n" makes the n-th call fail */
    const char *const *function;
    size_t count;
    unsigned (*failures)(void); /* in this process, so far */
    /* Whether what a process said (the file's name) and its exit status are no more than what must
     * follow from this function's failure. */
    bool (*excuses)(const char *function, int status, const char *out);
};

/* --- a CUDA driver that fails ------------------------------------------------------------------
 */

#define BROKE_RULES 86 /* the exit status of a process that did */

static const char *const driver_functions[] = {
#define NAME(member, symbol, arguments) #symbol,
    CUDA_DRIVER_FUNCTIONS(NAME)
#undef NAME
};

static unsigned driver_failures(void)
{
    CUresult (*count)(unsigned *);
    unsigned value = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        SKIP("there is no CUDA driver");
    *(void **)&count = dlsym(library, "fakeCudaFailures");
    if (!count)
        SKIP("this is a real driver, which does not fail on request");
    count(&value);
    return value;
}

static bool gives_back(const char *function)
{
    static const char *const names[] = {
        "cuMemFree_v2",       "cuMemFreeHost",       "cuMemHostUnregister",
        "cuMemUnmap",         "cuMemRelease",        "cuMemAddressFree",
        "cuStreamDestroy_v2", "cuIpcCloseMemHandle", "cuCtxPushCurrent_v2",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(function, names[i]) == 0)
            return true;
    return false;
}

/* If the driver fails to free something, it may remain at the end; nothing else may be wrong. */
static bool only_left_behind(const char *function, int status, const char *out)
{
    char line[512];
    unsigned reports = 0, left = 0;
    if (status != BROKE_RULES || !gives_back(function))
        return false;
    FILE *file = fopen(out, "re");
    while (file && fgets(line, sizeof(line), file)) {
        reports += strncmp(line, "fake libcuda: ", 14) == 0;
        left += strstr(line, "cuDevicePrimaryCtxRelease_v2: the context of device ") != NULL;
    }
    if (file)
        fclose(file);
    return reports > 0 && reports == left;
}

/* --- system calls that fail: no memory, no descriptors, no threads -------------------------------
 * The linker wraps these functions for the library's objects (see meson.build). */

/* FUNCTION(name, result, parameters, arguments, the result on failure, errno). */
#define FUNCTIONS(FUNCTION)                                                                        \
    FUNCTION(calloc, void *, (size_t count, size_t size), (count, size), NULL, ENOMEM)             \
    FUNCTION(malloc, void *, (size_t size), (size), NULL, ENOMEM)                                  \
    FUNCTION(reallocarray, void *, (void *old, size_t count, size_t size), (old, count, size),     \
             NULL, ENOMEM)                                                                         \
    FUNCTION(mmap64, void *, (void *at, size_t size, int prot, int flags, int fd, off_t offset),   \
             (at, size, prot, flags, fd, offset), MAP_FAILED, ENOMEM)                              \
    FUNCTION(memfd_create, int, (const char *name, unsigned flags), (name, flags), -1, EMFILE)     \
    FUNCTION(ftruncate64, int, (int fd, off_t size), (fd, size), -1, ENOSPC)                       \
    FUNCTION(fstat64, int, (int fd, struct stat *status), (fd, status), -1, EIO)                   \
    FUNCTION(fstatfs64, int, (int fd, struct statfs64 *fs), (fd, fs), -1, EIO)                     \
    FUNCTION(fchmod, int, (int fd, mode_t mode), (fd, mode), -1, EPERM)                            \
    FUNCTION(mkdir, int, (const char *path, mode_t mode), (path, mode), -1, EACCES)                \
    FUNCTION(flock, int, (int fd, int operation), (fd, operation), -1, ENOLCK)                     \
    FUNCTION(eventfd, int, (unsigned count, int flags), (count, flags), -1, EMFILE)                \
    FUNCTION(socket, int, (int domain, int type, int protocol), (domain, type, protocol), -1,      \
             EMFILE)                                                                               \
    FUNCTION(bind, int, (int fd, const struct sockaddr *address, socklen_t size),                  \
             (fd, address, size), -1, EACCES)                                                      \
    FUNCTION(listen, int, (int fd, int backlog), (fd, backlog), -1, EADDRINUSE)                    \
    FUNCTION(connect, int, (int fd, const struct sockaddr *address, socklen_t size),               \
             (fd, address, size), -1, EAGAIN)                                                      \
    FUNCTION(accept4, int, (int fd, struct sockaddr *address, socklen_t *size, int flags),         \
             (fd, address, size, flags), -1, EMFILE)                                               \
    FUNCTION(getsockopt, int, (int fd, int level, int name, void *value, socklen_t *size),         \
             (fd, level, name, value, size), -1, ENOMEM)                                           \
    FUNCTION(sendmsg, ssize_t, (int fd, const struct msghdr *message, int flags),                  \
             (fd, message, flags), -1, ENOBUFS)                                                    \
    FUNCTION(recvmsg, ssize_t, (int fd, struct msghdr *message, int flags), (fd, message, flags),  \
             -1, ENOMEM)                                                                           \
    FUNCTION(poll, int, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),   \
             -1, ENOMEM)                                                                           \
    FUNCTION(                                                                                      \
        ppoll, int,                                                                                \
        (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask), \
        (fds, count, timeout, mask), -1, ENOMEM)                                                   \
    FUNCTION(getrandom, ssize_t, (void *data, size_t size, unsigned flags), (data, size, flags),   \
             -1, EAGAIN)                                                                           \
    FUNCTION(                                                                                      \
        pthread_create, int,                                                                       \
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),   \
        (thread, attributes, run, arg), EAGAIN, EAGAIN)

static const char *const libc_functions[] = {
#define NAME(name, result, arguments, values, failure, error) #name,
    FUNCTIONS(NAME)
#undef NAME
        "open64",
    "fcntl64",
};

static atomic_uint failed;

static unsigned libc_failures(void)
{
    return atomic_load(&failed);
}

/* Counts a call of this function; true: this call must fail. */
static bool fails(const char *function, atomic_uint *calls)
{
    const char *rule = getenv("GPUD_TEST_FAIL");
    size_t length = strlen(function);
    if (!rule || strncmp(rule, function, length) != 0 || rule[length] != ':' ||
        atomic_fetch_add(calls, 1) + 1 != strtoul(rule + length + 1, NULL, 10))
        return false;
    atomic_fetch_add(&failed, 1);
    return true;
}

#define WRAP(name, result, arguments, values, failure, error) \
    result __real_##name arguments;                           \
    result __wrap_##name arguments;                           \
    result __wrap_##name arguments                            \
    {                                                         \
        static atomic_uint calls;                             \
        if (!fails(#name, &calls))                            \
            return __real_##name values;                      \
        errno = error;                                        \
        return failure;                                       \
    }
FUNCTIONS(WRAP)
#undef WRAP

typeof(open64) __real_open64, __wrap_open64;
int __wrap_open64(const char *path, int flags, ...)
{
    static atomic_uint calls;
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (!fails("open64", &calls))
        return __real_open64(path, flags, mode);
    errno = EMFILE;
    return -1;
}

typeof(fcntl64) __real_fcntl64, __wrap_fcntl64;
int __wrap_fcntl64(int fd, int command, ...)
{
    static atomic_uint calls;
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!fails("fcntl64", &calls))
        return __real_fcntl64(fd, command, argument);
    errno = EMFILE;
    return -1;
}

static bool never(const char *function, int status, const char *out)
{
    return false;
}

static const struct faults kinds[] = {
    {"cuda", "GPUD_FAKE_CUDA_FAIL", driver_functions,
     sizeof(driver_functions) / sizeof(driver_functions[0]), driver_failures, only_left_behind},
    {"libc", "GPUD_TEST_FAIL", libc_functions, sizeof(libc_functions) / sizeof(libc_functions[0]),
     libc_failures, never},
};

/* --- the process in which a call fails -------------------------------------------------------- */

struct stage {
    const char *address, *to;
    atomic_bool over;
    atomic_uint arrived, flagged, words; /* words: reported failures */
    atomic_uint events, ends;            /* at the receiver */
    atomic_uint lost;                    /* links, or their receivers */
    unsigned sent, events_sent;
};

/* A failure, which must have a reason. */
static void told(struct stage *stage, const char *where, const struct gpud_error *error)
{
    atomic_fetch_add(&stage->words, 1);
    if (strlen(error->reason) < 10)
        FAIL("%s fails without a sentence: \"%s\"", where, error->reason);
    SAY("%s: %s", where, error->reason);
}

static void on_log(void *user, enum gpud_log_level level, const char *area, const char *text)
{
    struct stage *stage = user;
    atomic_fetch_add(&stage->words, level <= GPUD_LOG_WARNING);
    SAY("%s: %s", area, text);
}

static struct gpud_context *open_context(struct stage *stage)
{
    const struct gpud_context_params params = {
        .size = sizeof(params),
        .log = on_log,
        .log_user = stage,
        .log_level = GPUD_LOG_WARNING /* whatever the environment says */
    };
    struct gpud_context *context;
    struct gpud_error error = {.reason = ""};
    if (gpud_context_create(&params, &context, &error) == GPUD_OK)
        return context;
    told(stage, "the context", &error);
    return NULL;
}

static void look_at(struct stage *stage, struct gpud_frame *frame)
{
    struct gpud_error error = {.reason = ""};
    uint32_t plane, row, byte;
    void *data;
    struct gpud_frame_info info = INFO(frame, frame);
    if (gpud_frame_map(frame, GPUD_READ, PATIENCE, &data, &error) != GPUD_OK) {
        told(stage, "the receiver's map", &error);
        return;
    }
    /* First the bytes: the sender may take a frame back while it is read. */
    bool whole = picture_check(&info.layout, data, info.offset, &plane, &row, &byte);
    if (INFO(frame, frame).flags & GPUD_FRAME_CORRUPTED)
        atomic_fetch_add(&stage->flagged, 1);
    else if (!whole)
        FAIL("picture %llu is torn, and not flagged", (unsigned long long)info.offset);
    gpud_frame_unmap(frame);
}

/* Each follows the frame of its number: none arrives too early, or twice. */
static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct stage *stage = user;
    if (event != GPUD_EVENT_USER)
        return;
    const struct gpud_user_event *said = data;
    unsigned number = atomic_fetch_add(&stage->events, 1) + 1;
    if (atomic_load(&stage->lost) == 0 && said->kind != number)
        FAIL("event %u where %u is due", said->kind, number);
}

static void *receive(void *arg)
{
    struct stage *stage = arg;
    AUTO(gpud_context_destroy) struct gpud_context *context = open_context(stage);
    if (!context) {
        atomic_fetch_add(&stage->lost, 1);
        return NULL;
    }
    AUTO(gpud_receiver_destroy) struct gpud_receiver *receiver = NULL;
    struct gpud_error error = {.reason = ""};
    const struct gpud_receiver_params params = {.size = sizeof(params),
                                                .address = stage->address,
                                                .device = stage->to,
                                                .on_event = on_event,
                                                .user = stage};
    if (gpud_receiver_create(context, &params, &receiver, &error) != GPUD_OK) {
        atomic_fetch_add(&stage->lost, 1);
        told(stage, "the receiver", &error);
    }
    while (receiver && !atomic_load(&stage->over)) {
        struct gpud_frame *frame;
        enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
        if (status == GPUD_OK) {
            look_at(stage, frame);
            gpud_frame_release(&frame);
            atomic_fetch_add(&stage->arrived, 1);
        } else if (status == GPUD_CLOSED) {
            atomic_fetch_add(&stage->ends, 1);
        } else if (status != GPUD_TIMEOUT && !atomic_load(&stage->over)) {
            atomic_fetch_add(&stage->lost, 1);
            told(stage, "the receiver's acquire", &error);
            gpud_test_nap(10);
        }
    }
    return NULL;
}

/* A frame in the application's own memory of the sender's device. */
static enum gpud_status wrap(struct gpud_device *device, const struct gpud_layout *layout,
                             struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_memory *memory;
    enum gpud_status status =
        gpud_memory_alloc(device, layout->size, GPUD_MEMORY_PLAIN, &memory, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_frame_wrap(memory, 0, layout, frame, error);
    gpud_memory_unref(&memory);
    return status;
}

static enum gpud_status paint(struct gpud_frame *frame, const struct gpud_layout *layout,
                              uint64_t number, struct gpud_error *error)
{
    void *data;
    enum gpud_status status = gpud_frame_map(frame, GPUD_WRITE, PATIENCE, &data, error);
    if (status != GPUD_OK)
        return status;
    picture_write(layout, data, number);
    gpud_frame_unmap(frame);
    struct gpud_frame_info info = INFO(frame, frame);
    info.offset = number;
    return gpud_frame_set_info(frame, &info, error);
}

static void send_frames(struct stage *stage, struct gpud_sender *sender, struct gpud_device *device,
                        const struct gpud_layout *layout)
{
    for (unsigned number = 1; number <= FRAMES; number++) {
        struct gpud_error error = {.reason = ""};
        struct gpud_frame *frame = NULL;
        enum gpud_status status = number % 2 ? gpud_sender_acquire(sender, PATIENCE, &frame, &error)
                                             : wrap(device, layout, &frame, &error);
        if (status == GPUD_OK)
            status = paint(frame, layout, number, &error);
        if (status == GPUD_OK)
            status = gpud_sender_submit(sender, &frame, PATIENCE, &error);
        if (status == GPUD_OK)
            stage->sent++;
        else
            told(stage, "a frame", &error);
        gpud_frame_release(&frame);
        if (gpud_sender_send_event(sender, number, "x", 1, &error) == GPUD_OK)
            stage->events_sent++;
        else
            told(stage, "an event", &error);
    }
    if (gpud_sender_send_eos(sender, NULL) != GPUD_OK)
        FAIL("the end cannot be sent");
}

/* false: the wait has timed out. */
static bool go_on_waiting(const struct stage *stage, int64_t start)
{
    int64_t waited = gpud_test_now() - start;
    return waited < (atomic_load(&stage->words) ? RESIGNATION : PATIENCE);
}

static enum gpud_status wait_for_receiver(struct stage *stage, struct gpud_sender *sender,
                                          struct gpud_error *error)
{
    int64_t start = gpud_test_now();
    enum gpud_status status;
    do
        status = gpud_sender_wait(sender, 1, 20 * GPUD_MSEC, error);
    while (status == GPUD_TIMEOUT && go_on_waiting(stage, start));
    return status;
}

static void wait_for_frames(struct stage *stage)
{
    int64_t start = gpud_test_now();
    while (atomic_load(&stage->arrived) < stage->sent && go_on_waiting(stage, start))
        gpud_test_nap(5);
}

static void send_all(struct stage *stage, const char *from, struct gpud_context *context)
{
    AUTO(gpud_device_close) struct gpud_device *device = NULL;
    AUTO(gpud_sender_destroy) struct gpud_sender *sender = NULL;
    struct gpud_error error = {.reason = ""};
    struct gpud_layout layout = LAYOUT("UYVY", WIDTH, HEIGHT, 0);
    enum gpud_status status = gpud_device_open(context, from, &device, &error);
    if (status == GPUD_OK)
        status = gpud_sender_create(
            context, WITH_SIZE(gpud_sender_params, .address = stage->address, .device = from),
            &sender, &error);
    if (status == GPUD_OK)
        status = gpud_sender_configure(sender, PICTURE(&layout), &error);
    if (status == GPUD_OK)
        status = wait_for_receiver(stage, sender, &error);
    if (status != GPUD_OK)
        told(stage, "the sender", &error);
    if (status == GPUD_OK) {
        send_frames(stage, sender, device, &layout);
        /* Events behind a lost frame still arrive. */
        struct gpud_sender_info info = GPUD_INFO_INIT(info);
        int64_t start = gpud_test_now();
        for (;;) {
            gpud_sender_get_info(sender, &info);
            if (atomic_load(&stage->lost) || info.disconnects || atomic_load(&stage->ends))
                break;
            CHECK(gpud_test_now() - start < PATIENCE, "the end of the stream does not come");
            gpud_test_nap(5);
        }
        CHECK(atomic_load(&stage->lost) || info.disconnects ||
                  atomic_load(&stage->events) == stage->events_sent,
              "of %u events %u came", stage->events_sent, atomic_load(&stage->events));
        wait_for_frames(stage);
    }
    atomic_store(&stage->over, true);
}

static int play(const struct faults *faults, const char *address, const char *from, const char *to)
{
    struct stage stage = {.address = address, .to = to};
    pthread_t thread;
    bool receives = pthread_create(&thread, NULL, receive, &stage) == 0;
    struct gpud_context *context = receives ? open_context(&stage) : NULL;
    if (context)
        send_all(&stage, from, context);
    atomic_store(&stage.over, true);
    if (receives)
        pthread_join(thread, NULL);
    gpud_context_destroy(&context);
    unsigned arrived = atomic_load(&stage.arrived), words = atomic_load(&stage.words);
    SAY("%u sent, %u arrived, %u of them flagged; told of %u failures", stage.sent, arrived,
        atomic_load(&stage.flagged), words);
    CHECK(arrived >= stage.sent || words > 0, "of %u frames %u were lost without a word",
          stage.sent, stage.sent - arrived);
    /* Without a failure there may be words, too: a machine that is busy enough is told of as one
     * whose peer does not answer. */
    return faults->failures() > 0 ? 0 : NOT_REACHED;
}

/* --- all of them ------------------------------------------------------------------------------ */

static char directory[] = "/tmp/gpudirect-faults-XXXXXX";

/* Several at once, because each waits most of the time. */
#define WORKERS 4

static struct {
    const struct faults *faults;
    const char *from, *to;
    bool every;
    atomic_size_t next; /* function */
    atomic_uint bad, reached, runs;
    pthread_mutex_t printing;
} work = {.printing = PTHREAD_MUTEX_INITIALIZER};

struct worker {
    pthread_t thread;
    char address[96], out[96]; /* the socket, and what the process says */
    char rule[96];
};

static pid_t start(struct worker *worker)
{
    char *argv[] = {"faults",          (char *)work.faults->name, "--play",     worker->address,
                    (char *)work.from, (char *)work.to,           worker->rule, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, worker->out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    CHECK(spawn_again(&child, &actions, argv, environ) == 0, "no process");
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* The exit status of a process in which this call fails. */
static int run(struct worker *worker, const char *function, unsigned call)
{
    snprintf(worker->rule, sizeof(worker->rule), "%s:%u", function, call);
    pid_t child = start(worker);
    int64_t deadline = gpud_test_now() + LIFETIME;
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (gpud_test_now() >= deadline) {
            kill(child, SIGABRT);
            waitpid(child, &status, 0);
            return -1;
        }
        gpud_test_nap(1);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void complain(const struct worker *worker, const char *function, unsigned call, int status)
{
    char line[512];
    FILE *file = fopen(worker->out, "re");
    pthread_mutex_lock(&work.printing);
    fprintf(stderr, "%s, call %u: %s (%d)\n", function, call, status < 0 ? "a hang" : "a failure",
            status);
    while (file && fgets(line, sizeof(line), file))
        fputs(line, stderr);
    pthread_mutex_unlock(&work.printing);
    if (file)
        fclose(file);
}

static void try_function(struct worker *worker, const char *function)
{
    for (unsigned call = 1; atomic_load(&work.bad) < BAD_MAX; call += work.every ? 1 : 3 * call) {
        int status = run(worker, function, call);
        atomic_fetch_add(&work.runs, 1);
        if (status == NOT_REACHED)
            return;
        atomic_fetch_add(&work.reached, 1);
        if (status == 0 || work.faults->excuses(function, status, worker->out))
            continue;
        complain(worker, function, call, status);
        atomic_fetch_add(&work.bad, 1);
    }
}

static void *try_functions(void *arg)
{
    for (size_t i; (i = atomic_fetch_add(&work.next, 1)) < work.faults->count;)
        try_function(arg, work.faults->function[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[WORKERS];
    const struct faults *faults = &kinds[argc > 1 && strcmp(argv[1], "libc") == 0];
    bool plays = argc == 7 && strcmp(argv[2], "--play") == 0;
    CHECK(argc >= 4, "cuda|libc <from> <to> [every]");
    if (plays)
        setenv(faults->variable, argv[6], 1);
    if (faults == &kinds[0])
        driver_failures(); /* or there is no such driver */
    if (plays)
        return play(faults, argv[3], argv[4], argv[5]);
    work.faults = faults;
    work.from = argv[2];
    work.to = argv[3];
    work.every = argc > 4;
    CHECK(mkdtemp(directory), "no directory");
    SAY("from %s to %s, while %s fails", work.from, work.to, faults->name);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(workers[i].address, sizeof(workers[i].address), "unix:%s/%d", directory, i);
        snprintf(workers[i].out, sizeof(workers[i].out), "%s/%d.out", directory, i);
        CHECK(pthread_create(&workers[i].thread, NULL, try_functions, &workers[i]) == 0,
              "no thread");
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        unlink(workers[i].out);
        unlink(workers[i].address + strlen("unix:"));
        snprintf(workers[i].out, sizeof(workers[i].out), "%s/%d.lock", directory, i);
        unlink(workers[i].out);
    }
    rmdir(directory);
    SAY("  %u failures in %u runs", atomic_load(&work.reached), atomic_load(&work.runs));
    CHECK(work.bad == 0, "%u of %u failures were not borne", atomic_load(&work.bad),
          atomic_load(&work.reached));
    return 0;
}
