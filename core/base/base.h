/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What every room uses: errors, logs, text, descriptors, locks, sleep, and files of the system. */
#ifndef GPUD_BASE_BASE_H
#define GPUD_BASE_BASE_H

#include "base/library.h"
#include <gpudirect/types.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* === clock =================================================================================== */
/* Time. Inside the library a wait is given an absolute deadline on CLOCK_MONOTONIC, in nanoseconds,
 * so that it can be handed down through retries without growing; relative timeouts exist in the
 * public API only. */

static inline int64_t gpud_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * GPUD_SEC + now.tv_nsec;
}

/* Saturates, so that a caller's INT64_MAX means "very long". */
static inline int64_t gpud_deadline_from(int64_t now, int64_t timeout_ns)
{
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

static inline int64_t gpud_deadline(int64_t timeout_ns)
{
    return gpud_deadline_from(gpud_now(), timeout_ns);
}

static inline struct timespec gpud_timespec(int64_t ns)
{
    if (ns < 0)
        ns = 0;
    return (struct timespec){.tv_sec = (time_t)(ns / GPUD_SEC), .tv_nsec = (long)(ns % GPUD_SEC)};
}

/* The time until the deadline, for calls that take a relative time. */
static inline struct timespec gpud_time_left(int64_t deadline)
{
    return gpud_timespec(deadline - gpud_now());
}

/* Sleeps for so many ns, or until a signal. */
static inline void gpud_nap(int64_t ns)
{
    struct timespec time = gpud_timespec(ns);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Initialises a condition whose timed waits use this clock. */
static inline void gpud_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* === error =================================================================================== */
/* The first function that detects a fault reports it, once, with the exact cause; its callers only
 * return. */

#define GPUD_PRINTF(string, first) __attribute__((format(printf, string, first)))

/* Fills *error (which may be NULL) and returns status. */
enum gpud_status gpud_fail(struct gpud_error *error, enum gpud_status status, const char *format,
                           ...) GPUD_PRINTF(3, 4);

/* The same for a failed external call: native is its error number, origin the kind of number. */
enum gpud_status gpud_fail_native(struct gpud_error *error, enum gpud_status status,
                                  const char *origin, long native, const char *format, ...)
    GPUD_PRINTF(5, 6);

/* The same for a failed system call: appends strerror(errno), and chooses the status by errno. */
enum gpud_status gpud_fail_errno(struct gpud_error *error, const char *format, ...)
    GPUD_PRINTF(2, 3);

/* snprintf into a fixed array, truncated silently after a whole character: for names and reasons.
 */
#define gpud_print(array, ...) ((void)gpud_print_n(array, sizeof(array), __VA_ARGS__))

int gpud_print_n(char *text, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* FNV-1a of a text. */
static inline uint32_t gpud_hash(const char *text)
{
    uint32_t hash = 2166136261;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619;
    return hash;
}

/* === directory =============================================================================== */
/* The user's own directory for files with a bare name ("cam1"). */

/* The characters of a bare name. */
#define GPUD_NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Whether a text is a bare name: such characters, not beginning with a dot. */
bool gpud_is_name(const char *text);

/* The first that is set: GPUDIRECT_DIR, NVIDIA_DRA_LOCAL_IPC_DIR (a folder that the pods of one
 * resource claim share), XDG_RUNTIME_DIR/gpudirect. Else /run/user/UID/gpudirect where the system
 * has made that folder for this user alone, else /tmp/gpudirect-UID, whose name any user can take
 * first. The first two may also name a folder of several users, as /tmp is: then it is
 * gpudirect-UID in there. It need not exist. */
enum gpud_status gpud_runtime_directory(char *path, size_t size, struct gpud_error *error);

/* "/run/user"; tests have another one. */
extern const char *gpud_runtime_base;

/* The same, created if needed. No other user can enter it, or put files there. */
enum gpud_status gpud_private_directory(char *path, size_t size, struct gpud_error *error);

/* === fd ====================================================================================== */
/* File descriptors and sealed shared memory. */

enum gpud_share {
    GPUD_SHARE_READ_ONLY, /* importers can only map it for reading (F_SEAL_FUTURE_WRITE) */
    GPUD_SHARE_WRITABLE,  /* importers can write it, too */
    GPUD_SHARE_LATER,     /* shared only after gpud_memfd_close_writing(), then as READ_ONLY */
};

/* Forbids new writable mappings; existing ones stay. Idempotent. */
enum gpud_status gpud_memfd_close_writing(int fd, struct gpud_error *error);

/* Whether this process may make a file of this size (ulimit -f); *limit is the maximum. Trying is
 * not an option: beyond the limit the kernel sends SIGXFSZ, which kills. */
bool gpud_file_fits(uint64_t size, uint64_t *limit);

/* Makes a zeroed memfd of a fixed, sealed size and maps it writable here. The caller owns both the
 * descriptor and the mapping. */
enum gpud_status gpud_memfd_create(const char *name, uint64_t size, enum gpud_share share, int *fd,
                                   void **data, struct gpud_error *error);

/* Checks that a peer's descriptor is a memfd of ordinary pages that cannot shrink and has at least
 * size bytes; otherwise an access might kill this process with SIGBUS. GPUD_PEER if it is not. */
enum gpud_status gpud_memfd_check(int fd, uint64_t size, struct gpud_error *error);

/* Maps a peer's memfd after that check. The descriptor stays the caller's. */
enum gpud_status gpud_memfd_map(int fd, uint64_t size, bool writable, void **data,
                                struct gpud_error *error);

/* data may be NULL. false: the kernel refused (errno), and the pages stay mapped. For whole
 * mappings of the two functions above this happens only at the process's limit of mappings. */
bool gpud_memory_unmap_pages(void *data, uint64_t size);

/* A child that this process forks does not keep the descriptor, which it could hold open for longer
 * than this process lives: there it becomes a socket without a peer. Close it by gpud_fd_close();
 * before other code closes it, call gpud_fd_let_children_keep(), for its number is used again. */
void gpud_fd_keep_from_children(int fd);
void gpud_fd_let_children_keep(int fd);

/* Makes a non-blocking eventfd readable; does nothing for -1. And reads it, or a timerfd, so that
 * it is not readable until the next time. */
void gpud_event_raise(int fd);
void gpud_event_drain(int fd);

/* Makes an epoll descriptor readable while fd is. */
bool gpud_fd_watch(int epoll, int fd);

/* The type of its file, as in st_mode; 0: an object of the kernel's without a file. Unlike fstat()
 * it does not ask a file system in user space, which may never answer. false: errno says why. */
bool gpud_fd_type(int fd, mode_t *type);

/* Whether it is a dma-buf. Asked of the kernel's own file system, because the ioctls of dma-bufs
 * wait for fences without a deadline. */
bool gpud_fd_is_dmabuf(int fd);

/* Closes *fd and makes it -1; does nothing for -1. */
void gpud_fd_close(int *fd);

/* Waits until it is readable. GPUD_AGAIN: *interrupted was set, which is seen within 20 ms; it
 * may be NULL. GPUD_TIMEOUT: the deadline has passed. */
enum gpud_status gpud_fd_wait(int fd, int64_t deadline, const atomic_bool *interrupted);

/* The same for either of two; -1: none. */
enum gpud_status gpud_fd_wait_both(int fd, int other, int64_t deadline,
                                   const atomic_bool *interrupted);

/* === host ==================================================================================== */
/* Identifies this machine, and this process's clock. */

/* The same for all processes of a running machine, including containers; different after every
 * boot. All zero: the system does not tell. Fails only if this process has no descriptor left. */
enum gpud_status gpud_host_read_id(uint8_t id[16], struct gpud_error *error);

/* Identifies this process's namespace of a kind; 0: unknown, or the system has none. A container
 * may have its own:
 *
 *     "time"   CLOCK_MONOTONIC with an offset: two processes of a machine share a clock if this
 *              number is the same
 *     "pid"    a process id is unique only in it: two containers may each have a process 1
 *     "net"    ports of two have nothing to do with each other */
uint64_t gpud_host_namespace(const char *kind);

/* Whether the kernel may show this process someone else's user (or group) under this number: a user
 * namespace shows all ids that it does not map as 65534. False in the initial namespace, which maps
 * all. */
bool gpud_host_user_is_ambiguous(uid_t user);
bool gpud_host_group_is_ambiguous(gid_t group);

/* The file with the machine's id. Tests replace it to appear on another machine. */
extern const char *gpud_host_id_file;

/* === list ==================================================================================== */
/* A list of the public API, gpud_<x>_list: entries of one size, each of which begins with the
 * public record, whose first field is its size. One thread fills it; afterwards it is only read. */

struct gpud_list {
    const char *what; /* one of them, for sentences: "capture card" */
    size_t entry_size, record_size;
    char *entries; /* NULL: none */
    uint32_t count;
};

/* Appends an entry that is zero but for its record's size; valid until the next is added. NULL: out
 * of memory, which *error says. */
void *gpud_list_add(struct gpud_list *list, struct gpud_error *error);
void *gpud_list_entry(const struct gpud_list *list, uint32_t index);

/* Copies a record into the caller's, which may be of an older release. GPUD_INVALID: the index is
 * count or more, or the caller's size is not set. */
enum gpud_status gpud_list_get_info(const struct gpud_list *list, uint32_t index, void *info,
                                    struct gpud_error *error);

/* An array of pointers to each entry of another array, for the public records in which a record
 * leads to others. To be freed with free(); NULL: out of memory. */
void *gpud_list_point(void *entries, size_t count, size_t entry_size);

/* Frees the entries, not what they point to. */
void gpud_list_clear(struct gpud_list *list);

/* === lock ==================================================================================== */
/* Mutexes with a rank. A thread takes locks only in increasing order of rank, so that threads
 * cannot deadlock. enum gpud_rank is that order; core/README.md says what each lock guards, which
 * threads take it, and which locks are taken under it.
 *
 *     struct gpud_lock lock;
 *     gpud_lock_init(&lock, GPUD_RANK_SENDER);          or GPUD_LOCK_INITIALIZER(rank)
 *     gpud_lock_take(&lock);
 *     while (!ready)
 *         gpud_lock_wait_until(&lock, &condition, deadline);
 *     gpud_lock_release(&lock);
 *
 * With GPUD_LOCK_CHECKS (buildtype=debug, a sanitizer, the core that tests/kill links) each thread
 * keeps a list of the locks it holds, and the process aborts with a message when a lock is taken
 * out of order or twice, released by a thread that does not hold it, or held while the thread
 * sleeps on another lock's condition. Otherwise a gpud_lock is a plain pthread mutex. */

/* Outermost first: a lock may be taken while holding ones listed above it, never the reverse; two
 * locks of one rank are never held together. */
enum gpud_rank {
    GPUD_RANK_OPENING,
    /* stream: an application's calls, and the threads of a sender, a receiver, a transfer */
    GPUD_RANK_TRANSFER,
    GPUD_RANK_TRANSFER_CONNECTION,
    GPUD_RANK_SENDER,
    GPUD_RANK_RECEIVER,
    GPUD_RANK_SESSION,
    GPUD_RANK_GROUP,
    GPUD_RANK_POOL_WAKE,
    GPUD_RANK_TRANSFER_COMPLETIONS,
    /* capture */
    GPUD_RANK_CAPTURE_NODE,
    GPUD_RANK_CAPTURE_DRIVER,
    GPUD_RANK_CAPTURE_RING,
    GPUD_RANK_CAPTURE_INFO,
    GPUD_RANK_CAPTURE_INTERRUPT,
    GPUD_RANK_TARGET,
    GPUD_RANK_TARGET_RING,
    /* wire: connections between hosts */
    GPUD_RANK_HUBS,
    GPUD_RANK_TCP_RECEIVE,
    GPUD_RANK_TCP_CHANNEL,
    GPUD_RANK_TCP_IO,
    GPUD_RANK_RDMA_CLOSING,
    GPUD_RANK_RDMA_CHANNEL,
    GPUD_RANK_RDMA_ARM,
    GPUD_RANK_RDMA_RECORDS,
    GPUD_RANK_RDMA_RECORD,
    GPUD_RANK_ANNOUNCE,
    /* device */
    GPUD_RANK_RDMA_WAYS,
    GPUD_RANK_RDMA_DOMAIN,
    GPUD_RANK_RDMA_CONNECTION,
    GPUD_RANK_MAP,
    GPUD_RANK_CONTEXT,
    GPUD_RANK_OPENCL_SIGNAL,
    GPUD_RANK_QUEUES,
    GPUD_RANK_COMMANDS,
    GPUD_RANK_OPENCL_EXTERNAL,
    GPUD_RANK_COMPLETIONS,
    GPUD_RANK_BOUNCES,
    GPUD_RANK_PINS,
    GPUD_RANK_OPENS,
    GPUD_RANK_IDENTIFY,
    GPUD_RANK_EVENTS,
    GPUD_RANK_WORKER,
    GPUD_RANK_ABANDONED,
    GPUD_RANKS,
};

#ifdef GPUD_LOCK_CHECKS

struct gpud_lock {
    pthread_mutex_t mutex;
    enum gpud_rank rank;
};

#define GPUD_LOCK_INITIALIZER(its_rank)                         \
    {                                                           \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (its_rank), \
    }

/* gpud_lock_expect aborts unless the lock may be taken now; the next two update the list. */
void gpud_lock_expect(const struct gpud_lock *lock);
void gpud_lock_noted(const struct gpud_lock *lock);
void gpud_lock_forgotten(const struct gpud_lock *lock);
void gpud_lock_expect_alone(const struct gpud_lock *lock);

/* Whether the calling thread holds a lock of that rank. */
bool gpud_lock_held(enum gpud_rank rank);

/* The calling thread must hold the lock, or none of that rank: nothing in a release build. */
void gpud_lock_assert_held(const struct gpud_lock *lock);
void gpud_lock_assert_free(enum gpud_rank rank);

#else

struct gpud_lock {
    pthread_mutex_t mutex;
};

#define GPUD_LOCK_INITIALIZER(its_rank)     \
    {                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, \
    }
#define gpud_lock_expect(lock) ((void)0)
#define gpud_lock_noted(lock) ((void)0)
#define gpud_lock_forgotten(lock) ((void)0)
#define gpud_lock_expect_alone(lock) ((void)0)
#define gpud_lock_assert_held(lock) ((void)0)
#define gpud_lock_assert_free(rank) ((void)0)

#endif

static inline void gpud_lock_init(struct gpud_lock *lock, enum gpud_rank rank)
{
    *lock = (struct gpud_lock)GPUD_LOCK_INITIALIZER(rank);
    pthread_mutex_init(&lock->mutex, NULL);
}

/* The holder inherits the highest priority of the waiting threads: for locks that real-time threads
 * share with others. Contended calls then always go through the kernel. */
void gpud_lock_init_inheriting(struct gpud_lock *lock, enum gpud_rank rank);

static inline void gpud_lock_destroy(struct gpud_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void gpud_lock_take(struct gpud_lock *lock)
{
    gpud_lock_expect(lock);
    pthread_mutex_lock(&lock->mutex);
    gpud_lock_noted(lock);
}

/* Does not wait, so it may be called in any order; locks taken while it is held still need a
 * greater rank. */
static inline bool gpud_lock_try(struct gpud_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    gpud_lock_noted(lock);
    return true;
}

static inline void gpud_lock_release(struct gpud_lock *lock)
{
    gpud_lock_forgotten(lock);
    pthread_mutex_unlock(&lock->mutex);
}

/* The thread must hold no other lock, because only this one is dropped meanwhile. */
static inline void gpud_lock_wait(struct gpud_lock *lock, pthread_cond_t *condition)
{
    gpud_lock_expect_alone(lock);
    pthread_cond_wait(condition, &lock->mutex);
}

/* The condition must be from gpud_cond_init(). false: the deadline has passed. */
static inline bool gpud_lock_wait_until(struct gpud_lock *lock, pthread_cond_t *condition,
                                        int64_t deadline)
{
    struct timespec at = gpud_timespec(deadline);
    gpud_lock_expect_alone(lock);
    return pthread_cond_timedwait(condition, &lock->mutex, &at) == 0;
}

/* === log ===================================================================================== */
/* The log of one context. Nothing here is called once a frame, and no handle, rkey or bus address
 * is printed. */

/* The rate limit, because a peer can cause any number of lines. Errors are exempt: each ends
 * something. */
#define GPUD_LOG_LINES_MAX 100 /* in a second of the clock */

struct gpud_log {
    gpud_log_fn fn;
    void *user;
    enum gpud_log_level level;
    uint32_t lines_max;
    _Atomic uint64_t lines; /* the last second that had any, and in the lower half how many */
};

/* fn NULL: stderr. level 0: GPUDIRECT_LOG's level, or else warnings. */
void gpud_log_init(struct gpud_log *log, gpud_log_fn fn, void *user, enum gpud_log_level level);

/* Logs how many lines were left out, if that was not logged yet. */
void gpud_log_finish(struct gpud_log *log);

/* Counts a line at that time, in ns. true: it may be printed. *left_out: how many lines of an
 * earlier second were not, which the caller is to log. Thread-safe. */
bool gpud_log_count(struct gpud_log *log, int64_t now, uint32_t *left_out);
void gpud_log_print(const struct gpud_log *log, enum gpud_log_level level, const char *area,
                    const char *format, ...) GPUD_PRINTF(4, 5);

#define gpud_log_at(log, at, ...)                 \
    do {                                          \
        if ((at) <= (log)->level)                 \
            gpud_log_print(log, at, __VA_ARGS__); \
    } while (0)
#define gpud_log_error(log, ...) gpud_log_at(log, GPUD_LOG_ERROR, __VA_ARGS__)
#define gpud_log_warning(log, ...) gpud_log_at(log, GPUD_LOG_WARNING, __VA_ARGS__)
#define gpud_log_info(log, ...) gpud_log_at(log, GPUD_LOG_INFO, __VA_ARGS__)
#define gpud_log_debug(log, ...) gpud_log_at(log, GPUD_LOG_DEBUG, __VA_ARGS__)

/* === library ================================================================================= */
/* Libraries that the shared libgpudirect opens when something of theirs is first needed, and does
 * not link: see library.h. */

#define GPUD_LIBRARY(name) extern struct gpud_library gpud_library_##name __attribute__((weak))
GPUD_LIBRARY(avahi);
GPUD_LIBRARY(hwloc);
GPUD_LIBRARY(opencl);
GPUD_LIBRARY(openssl); /* by gpud_openssl_open() alone */
GPUD_LIBRARY(rdma);    /* librdmacm, and libibverbs with it */
#undef GPUD_LIBRARY

/* The same as gpud_library_open(), with GPUD_UNSUPPORTED where that is false. */
static inline enum gpud_status gpud_library_need(struct gpud_library *library,
                                                 struct gpud_error *error)
{
    char why[GPUD_REASON_MAX];
    return gpud_library_open(library, why, sizeof(why))
               ? GPUD_OK
               : gpud_fail(error, GPUD_UNSUPPORTED, "%s", why);
}

/* === pace ==================================================================================== */
/* Predicts the next of a steady series of events, such as pictures at a fixed rate, so that a
 * thread can be awake in time and save the tens of microseconds that waking up takes. Events
 * without a steady rate are not predicted. */

/* Starts zeroed. Times are those of gpud_now(), in ns. */
struct gpud_pace {
    int64_t last;      /* time of the last event; 0: none yet */
    int64_t due;       /* the earliest time of the next one, with few exceptions */
    int64_t period;    /* 0: unknown */
    int64_t cover;     /* how much later than `due` it may come, with few exceptions */
    int64_t lag;       /* how late timers wake us up, on average */
    uint32_t off_pace; /* events in a row far from their expected time */
    uint32_t followed; /* events with this period */
};

/* Records an event. */
void gpud_pace_learn(struct gpud_pace *pace, int64_t now);

/* Whether it pays to be awake for the next event, from *from until *until: no longer than `limit`
 * and a small part of a period. false: it does not, or too little is known; the outputs are not
 * set. */
bool gpud_pace_window(const struct gpud_pace *pace, int64_t limit, int64_t *from, int64_t *until);

/* Records how late a sleep until *from ended. */
void gpud_pace_overslept(struct gpud_pace *pace, int64_t late);

/* === probe =================================================================================== */
/* Places that a tracer can attach to while the program runs (USDT, provider "gpudirect"): bpftrace,
 * perf, SystemTap, gdb. Until one does, each is one instruction that does nothing. Names and
 * arguments are for people: pipelines/monitoring/frames.bt uses them. */

/* clang-format off */
/*     submit    sender   its receivers  sequence        a frame is handed to the library
 *     publish   sender   link           sequence        a receiver may take it
 *     drop      sender   link           lost so far     a receiver loses a frame
 *     claim     session  sequence       latency in ns   a receiver takes a frame; 0: unknown
 *     release   session  entry          frames so far   and gives it back */
/* clang-format on */
#if GPUD_WITH_PROBES
#include <sys/sdt.h>
#define GPUD_PROBE(name, object, a, b) DTRACE_PROBE3(gpudirect, name, object, a, b)
#else
#define GPUD_PROBE(name, object, a, b) ((void)0)
#endif

/* === process ================================================================================= */
/* The system's information about another process, for messages; and whether this one is ending. */

/* Its name. false: no such process is visible, and *name is unchanged. */
bool gpud_process_name(pid_t pid, char *name, size_t size);

/* Whether it is stopped (SIGSTOP, a debugger) and does nothing until it is continued. */
bool gpud_process_is_stopped(pid_t pid);

/* Whether it has ended, or is ending: its descriptors are closed a moment before it is gone. Also
 * false if that is not visible. Its process id may have been reused. */
bool gpud_process_has_ended(pid_t pid);

/* A descriptor that is readable when the process at the other end of a Unix socket has ended, even
 * if a child of it, or a process id used again, outlives it. −1: the system has none, and if
 * *has_ended, because the process is gone. pid: as the socket's credentials say; 0: unknown. */
int gpud_process_watch(int socket, pid_t pid, bool *has_ended);

/* Whether exit() ends this process: threads that still run see their connections end. It is noted
 * before the first goodbye is said. */
bool gpud_process_is_ending(void);
void gpud_process_note_ending(void);

/* === shared ================================================================================== */
/* Reads memory that another process may be writing. With a plain load or memcpy() the compiler may
 * read twice, and use another value than it checked. These functions read each word exactly once.
 * _Atomic words do not need them. */

/* May alias any type. */
typedef uint64_t __attribute__((may_alias)) gpud_shared_word;

/* Copies a word-aligned range. It may be torn between words, never within one. */
static inline void gpud_shared_read(void *to, const void *from, size_t size)
{
    gpud_shared_word *into = to;
    const gpud_shared_word *word = from;
    size_t words = size / sizeof(*word);
    for (size_t i = 0; i < words; i++)
        into[i] = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
    for (size_t at = words * sizeof(*word); at < size; at++)
        ((uint8_t *)to)[at] = __atomic_load_n((const uint8_t *)from + at, __ATOMIC_RELAXED);
}

/* === sized =================================================================================== */
/* Structs of the public API whose first field is `size`: a program built with another release has
 * another size, and works as <gpudirect/version.h> promises. New fields go to the end, never into
 * the padding after the last one, which an older program's size covers. */

/* Reads the caller's params, of any release, into this release's struct `to` of `known` bytes.
 * Fields that an older program lacks become 0; those beyond `known` must be 0, because they would
 * be ignored. `required`: the end of the first mandatory field. `name`: the struct's, for reasons.
 * On failure `to` is not written. */
#define GPUD_END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

enum gpud_status gpud_sized_read(void *to, size_t known, const void *from, size_t required,
                                 const char *name, struct gpud_error *error);

/* Fills the caller's struct of `size` bytes, keeping its size field; bytes beyond our struct become
 * zero. Does nothing if size was never set. */
void gpud_sized_copy(void *to, size_t size, const void *from, size_t from_size);

/* The same for one entry of the caller's array of `max`, which all have the first one's size; does
 * nothing beyond max. */
void gpud_sized_entry(void *list, size_t max, size_t at, const void *from, size_t from_size);

/* === sleep =================================================================================== */
/* clang-format off */
/* How one side waits for a word that another thread or process writes: it spins first, if recent
 * waits were short enough for that to pay, and then sleeps in the kernel.
 *
 * Each side has two words in memory that both map, and no word is written by both:
 *
 *     asleep   0: awake; else the number of this sleep, and its mode
 *     kicks    how often this side has woken the other; the other sleeps on it
 *
 *     sleeper                                   waker
 *     k = the other's kicks                     stores what the sleeper waits for
 *     asleep = a new number                     fence
 *     fence                                     n = the other's asleep
 *     checks once more                          n, and n was not woken before: kicks++, FUTEX_WAKE
 *     FUTEX_WAIT while kicks is k
 *     asleep = 0
 *
 * At least one side's check sees the other side's store. The numbers limit it to one wake for each
 * sleep, although the waker does not clear the sleeper's word; they repeat after 2^30 sleeps, and a
 * wake is missed only if none of those was woken. While both are awake a hand-over costs no system
 * call. Futexes are used rather than eventfds because waking never blocks, whatever a hostile peer
 * does, there is no descriptor to pass, check and leak, and a wake is one system call on each side.
 * A hostile peer can cost a system call a frame, or a sleep until its deadline. */
/* clang-format on */

/* Waits until *word differs from value, another thread wakes it, or the deadline passes; may return
 * spuriously. The word may be shared between processes. */
void gpud_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t deadline);
void gpud_futex_wake(_Atomic uint32_t *word);

/* How a side sleeps: the low bits of its `asleep`. */
enum gpud_sleep_mode {
    GPUD_SLEEP_FUTEX = 1, /* on the other's `kicks` */
    GPUD_SLEEP_POLL = 2,  /* in poll() on the control connection, woken by a message */
};

#define GPUD_SLEEP_MODES UINT32_C(3)

struct gpud_sleeper {
    _Atomic uint32_t *asleep; /* ours */
    _Atomic uint32_t *kicks;  /* theirs */
    _Atomic uint32_t sleep;   /* our value of *asleep, which a peer may overwrite */
    _Atomic uint32_t sleeps;  /* the last number used */
};

struct gpud_waker {
    const _Atomic uint32_t *asleep; /* theirs */
    _Atomic uint32_t *kicks;        /* ours */
    _Atomic uint32_t kicked;        /* the last sleep that we ended */
};

/* Announces a sleep. The caller checks once more afterwards and then sleeps; with POLL it must have
 * read its messages before. Call gpud_sleep_end() when awake. */
void gpud_sleep_begin(struct gpud_sleeper *sleeper, enum gpud_sleep_mode mode);
void gpud_sleep_end(struct gpud_sleeper *sleeper);

/* Sleeps until it is woken or the deadline passes, unless ready(arg). May return spuriously. One
 * thread at a time. */
void gpud_sleep(struct gpud_sleeper *sleeper, bool (*ready)(void *arg), void *arg,
                int64_t deadline);

/* Wakes a thread of this side from gpud_sleep(); call it after the store that the thread waits for.
 * Only the other side may write `kicks`, so this calls the kernel until that sleep is over. */
void gpud_sleeper_rouse(struct gpud_sleeper *sleeper);

/* The number of the peer's sleep, if no wake has been sent for it yet; else 0. Call it after the
 * store that the sleeper waits for, and a fence: one serves the stores for several sleepers. */
static inline uint32_t gpud_waker_look_fenced(const struct gpud_waker *waker)
{
    uint32_t sleep = atomic_load_explicit(waker->asleep, memory_order_acquire);
    return sleep == atomic_load_explicit(&waker->kicked, memory_order_relaxed) ? 0 : sleep;
}

/* The same after the store alone. */
static inline uint32_t gpud_waker_look(const struct gpud_waker *waker)
{
    /* Orders the caller's store before the load; the sleeper's fence is in gpud_sleep_begin(). */
    atomic_thread_fence(memory_order_seq_cst);
    return gpud_waker_look_fenced(waker);
}

/* Whether this thread is to end the sleep: several threads of a side may try. */
bool gpud_waker_claim(struct gpud_waker *waker, uint32_t sleep);

/* Ends a sleep on the futex. */
void gpud_waker_kick(struct gpud_waker *waker);

/* How long spinning has paid lately, and whether yielding may; starts zeroed. */
struct gpud_spin {
    int64_t window; /* ns */
    int64_t no_yields_until;
    bool yields; /* the last sleep was shorter than any between paced frames */
};

/* Spins until ready(arg) or that time, with at least one check. true: it became ready. */
bool gpud_poll(bool (*ready)(void *arg), void *arg, int64_t until);

/* The same for the length of the window; then, in a fast stream, yields while other threads need
 * this processor. */
bool gpud_spin(struct gpud_spin *spin, bool (*ready)(void *arg), void *arg);

/* Adapts the window after a wait of this many ns: long waits close it, short ones open it. */
void gpud_spin_learn(struct gpud_spin *spin, int64_t waited);

/* === stop ==================================================================================== */
/* Named points in the hand-off of frames at which a test can end the process. Installed libraries
 * have none: only a build with GPUD_STOP_POINTS calls the function, which the test program
 * supplies. Any thread may pass a point, also under locks. */

#ifdef GPUD_STOP_POINTS
void gpud_stop_point(const char *name);
#define GPUD_STOP_POINT(name) gpud_stop_point(name)
#else
#define GPUD_STOP_POINT(name) ((void)0)
#endif

/* === sysfs =================================================================================== */
/* Reads /sys, which every user can do: opens nothing that a driver would notice. */

/* The prefix of every path below /sys and /dev: "". Tests replace it by a folder of their own. */
extern const char *gpud_sysfs_root;

#define GPUD_SYSFS_NAME_MAX 64

/* A path below gpud_sysfs_root. */
#define GPUD_SYSFS_PATH_MAX 512

void gpud_sysfs_path(char path[GPUD_SYSFS_PATH_MAX], const char *format, ...) GPUD_PRINTF(2, 3);

/* The first line of a file, without the newline. false: it cannot be read, and the text is "". */
bool gpud_sysfs_read(char *text, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* The last part of a symbolic link's target, for example a driver's name. */
bool gpud_sysfs_follow(char *name, size_t size, const char *format, ...) GPUD_PRINTF(3, 4);

/* Lists a folder in the order of names and the numbers in them. Free it with free(); NULL: it is
 * empty, or out of memory. */
struct gpud_sysfs_name {
    char text[GPUD_SYSFS_NAME_MAX];
};

struct gpud_sysfs_name *gpud_sysfs_list(size_t *count, const char *format, ...) GPUD_PRINTF(2, 3);

/* Whether a name is that of a PCI function below /sys/devices, "0000:63:00.0"; domains of virtual
 * buses have more digits. */
bool gpud_sysfs_is_pci(const char *name);

/* The nearest PCI function above a link's target, as in "0000:63:00.0": some drivers put a device
 * of their own in between. "": no such entry. */
#define GPUD_SYSFS_PCI_MAX 16

void gpud_sysfs_find_pci(char *pci, size_t size, const char *link);

/* === text ==================================================================================== */
/* Untrusted text, and text in arrays: UTF-8 throughout. */

/* Makes untrusted text safe for logs, terminals and interfaces that need UTF-8: replaces every byte
 * of an invalid, control (C0, DEL, C1), line separator or direction-changing character by '?'. The
 * size is unchanged. */
void gpud_text_clean(char *text, size_t size);

/* The length, at most three bytes less, at which a text that was cut after `length` bytes ends with
 * a whole character. Invalid UTF-8 is kept. */
size_t gpud_text_whole(const char *text, size_t length);

/* vsnprintf that truncates only after a whole character. */
int gpud_text_format(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
