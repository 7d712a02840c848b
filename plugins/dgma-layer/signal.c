/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Markers: waits for them, and events. */
#include "layer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* === poller ================================================================================== */
/* One thread per process completes the operations that queues wait for. An operation has a gate
 * (commands that must finish first) and, for a wait, a marker in shared memory. The thread sleeps
 * in one futex_waitv on its bell and on all awaited markers, so that a FUTEX_WAKE by a writer in
 * another process wakes it at once, and an idle process costs nothing. While operations are
 * outstanding it also polls every TICK_NS: for writers that only store (a capture card, other
 * software), and for failed gates, which PoCL does not report to callbacks. After a gate was added
 * the first polls come much sooner, because NVIDIA's driver runs no callback for an empty command,
 * and reports its end only when polled.
 *
 * A wait has no deadline, as in the extension: the queue stalls until the value arrives. */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define TICK_NS 1000000L
#define FIRST_POLL_NS 20000L /* of a gate; doubles after each poll, up to a tick */
#define FINISH_SECONDS 1

static pthread_mutex_t poller_lock = PTHREAD_MUTEX_INITIALIZER; /* `incoming`, `started` */
static struct dgma_op *incoming, **incoming_end = &incoming;
static bool started;
static pthread_t thread;
static _Atomic pid_t thread_pid; /* after a fork the child has no such thread */
static _Atomic uint32_t bell;
static atomic_bool stopping;
static struct dgma_op *ops, **ops_end = &ops; /* outstanding; the thread's own */

static void futex_wake(_Atomic uint32_t *word, bool shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void dgma_marker_write(_Atomic uint32_t *marker, uint32_t value)
{
    atomic_store_explicit(marker, value, memory_order_release);
    futex_wake(marker, true);
}

/* Makes the poller check all operations again, because a gate has completed. */
static void dgma_poller_ring(void)
{
    atomic_fetch_add(&bell, 1);
    futex_wake(&bell, false);
}

void dgma_poller_submit(struct dgma_op *op)
{
    op->next = NULL;
    pthread_mutex_lock(&poller_lock);
    *incoming_end = op;
    incoming_end = &op->next;
    pthread_mutex_unlock(&poller_lock);
    dgma_poller_ring();
}

/* 0: complete, negative: failed, positive: not yet. */
static cl_int gate_status(cl_event gate)
{
    cl_int status = CL_COMPLETE;
    if (dgma_next.clGetEventInfo(gate, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                                 NULL))
        return CL_INVALID_EVENT;
    return status;
}

void dgma_gate_release(cl_event gate)
{
    if (gate_status(gate) >= 0)
        dgma_next.clReleaseEvent(gate);
}

static void CL_CALLBACK gate_completed(cl_event gate, cl_int status, void *user_data)
{
    (void)gate, (void)status, (void)user_data;
    dgma_poller_ring();
}

void dgma_poller_watch(cl_event gate)
{
    dgma_next.clSetEventCallback(gate, CL_COMPLETE, gate_completed, NULL);
}

static cl_int step_wait(struct dgma_op *op)
{
    if (op->brought)
        return CL_COMPLETE;
    op->seen = atomic_load_explicit(op->marker, memory_order_acquire);
    if (op->seen < op->value)
        return CL_QUEUED;
    if (!op->copy)
        return CL_COMPLETE;
    /* Earlier commands may be using the copy. Some drivers report their end late, and a signal
     * without data does not wait for that. */
    cl_int ended = op->before_copy ? gate_status(op->before_copy) : CL_COMPLETE;
    if (ended < 0)
        return ended;
    if (ended > 0)
        return dgma_written_is_empty(op->copy->surface_object, op->marker, op->copy->seen_marker)
                   ? CL_COMPLETE
                   : CL_QUEUED;
    op->brought = true;
    cl_int status = dgma_bring_in(op->copy, op->mem, op->copy_queue, &op->gate);
    if (status || !op->gate)
        return status;
    dgma_poller_watch(op->gate);
    return CL_QUEUED;
}

static void step_write(struct dgma_op *op)
{
    if (op->copy) {
        struct dgma_object *object = op->copy->surface_object;
        for (cl_uint i = 0; i < op->num_boxes; i++)
            dgma_written_add(object, (size_t)(op->copy->surface - object->map), &op->boxes[i]);
    }
    dgma_written_begin_signal(op->object, op->value);
    dgma_marker_write(op->marker, op->value);
    dgma_written_end_signal(op->object);
}

/* Polls an operation once; returns a status like gate_status. */
static cl_int step(struct dgma_op *op)
{
    if (op->gate) {
        cl_int status = gate_status(op->gate);
        if (status != CL_COMPLETE)
            return status;
        dgma_next.clReleaseEvent(op->gate);
        op->gate = NULL;
    }
    switch (op->kind) {
    case DGMA_OP_WAIT:
        return step_wait(op);
    case DGMA_OP_WRITE:
        step_write(op);
        return CL_COMPLETE;
    case DGMA_OP_RESIDENT:
        memcpy(op->out, op->addresses, op->count * sizeof op->addresses[0]);
        return CL_COMPLETE;
    }
    return CL_INVALID_VALUE;
}

void dgma_op_finish(struct dgma_op *op, cl_int status)
{
    if (op->object)
        atomic_fetch_sub(&op->object->pending_writes, 1);
    dgma_next.clSetUserEventStatus(op->done, status);
    if (op->gate)
        dgma_gate_release(op->gate);
    if (op->before_copy)
        dgma_gate_release(op->before_copy);
    cl_event events[] = {op->done, op->behind[0], op->behind[1]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            dgma_next.clReleaseEvent(events[i]);
    if (op->copy_queue)
        dgma_next.clReleaseCommandQueue(op->copy_queue);
    if (op->mem)
        dgma_next.clReleaseMemObject(op->mem);
    free(op->boxes);
    free(op);
}

/* true: there was something. */
static bool append_incoming(void)
{
    pthread_mutex_lock(&poller_lock);
    bool some = incoming != NULL;
    *ops_end = incoming;
    if (incoming)
        ops_end = incoming_end;
    incoming = NULL;
    incoming_end = &incoming;
    pthread_mutex_unlock(&poller_lock);
    return some;
}

/* For kernels before 5.16, and sandboxes that refuse futex_waitv: only the tick notices wakes by
 * other processes. */
static void sleep_on_bell(uint32_t heard, long look)
{
    struct timespec wait = {.tv_nsec = look};
    syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, heard, ops ? &wait : NULL, NULL, 0);
}

static void sleep_on_all(uint32_t heard, long look)
{
    static bool waitv_missing;
    if (waitv_missing || !ops) {
        sleep_on_bell(heard, look);
        return;
    }
    struct futex_waitv words[FUTEX_WAITV_MAX] = {
        {.val = heard, .uaddr = (uintptr_t)&bell, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG}};
    unsigned count = 1;
    for (const struct dgma_op *op = ops; op && count < FUTEX_WAITV_MAX; op = op->next)
        if (op->kind == DGMA_OP_WAIT && !op->gate)
            words[count++] = (struct futex_waitv){
                .val = op->seen, .uaddr = (uintptr_t)op->marker, .flags = FUTEX_32};
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += look;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    if (syscall(SYS_futex_waitv, words, count, 0, &until, CLOCK_MONOTONIC) < 0 &&
        (errno == ENOSYS || errno == EPERM)) {
        waitv_missing = true;
        dgma_log("no futex_waitv here: signals from other processes are seen up to 1 ms late");
    }
}

/* Whether the operation waits for the driver. */
static bool is_at_gate(const struct dgma_op *op)
{
    return op->gate || (op->kind == DGMA_OP_WAIT && op->before_copy && op->seen >= op->value);
}

/* Finishes all operations that can be. Returns how many wait at a gate; *finished: some ended. */
static unsigned poll_all(bool *finished)
{
    unsigned at_gate = 0;
    for (struct dgma_op **at = &ops, *op; (op = *at) != NULL;) {
        cl_int status = step(op);
        if (status > CL_COMPLETE) {
            at_gate += is_at_gate(op);
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (ops_end == &op->next)
            ops_end = at;
        dgma_op_finish(op, status);
        *finished = true;
    }
    return at_gate;
}

static void *poll_ops(void *unused)
{
    (void)unused;
    unsigned before = 0;
    long look = TICK_NS;
    while (!atomic_load(&stopping)) {
        uint32_t heard = atomic_load(&bell); /* before polling, as later operations change it */
        bool news = append_incoming();
        unsigned at_gate = poll_all(&news);
        if (at_gate == 0)
            look = TICK_NS;
        else if (news || at_gate > before)
            look = FIRST_POLL_NS;
        else
            look = 2 * look < TICK_NS ? 2 * look : TICK_NS;
        before = at_gate;
        sleep_on_all(heard, look);
    }
    /* The process ends: the rest is left to the system, since the driver may be shutting down. */
    return NULL;
}

bool dgma_poller_start(void)
{
    pthread_mutex_lock(&poller_lock);
    if (!started && !atomic_load(&stopping)) {
        sigset_t all, before;
        sigfillset(&all); /* signals must go to the program's own threads */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        started = pthread_create(&thread, NULL, poll_ops, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (started) {
            atomic_store(&thread_pid, getpid());
            pthread_setname_np(thread, "dgma-poller");
        }
    }
    bool running = started;
    pthread_mutex_unlock(&poller_lock);
    if (!running)
        dgma_log("the thread that waits for signals cannot be started: %s", strerror(EAGAIN));
    return running;
}

void dgma_poller_finish(void)
{
    /* Before the lock, which a thread that a forked child lacks may have held. */
    if (atomic_load(&thread_pid) != getpid())
        return;
    atomic_store(&stopping, true);
    dgma_poller_ring();
    pthread_mutex_lock(&poller_lock);
    bool join = started && !pthread_equal(thread, pthread_self());
    started = false;
    pthread_mutex_unlock(&poller_lock);
    if (!join)
        return;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FINISH_SECONDS;
    pthread_timedjoin_np(thread, NULL, &until); /* it may hang in a driver that is shutting down */
}

/* === slot ==================================================================================== */
/* Detects dead owners. Each user has an empty file for locks, /dev/shm/gpudirect-dgma-UID: the
 * process that owns slot N holds a read lock on byte N; a process that removes a dead owner's files
 * holds a write lock meanwhile. A process needs one descriptor for any number of buffers.
 *
 * These are POSIX record locks because they belong to the process: a forked helper has the
 * descriptor but not the lock, so the owner's death shows at once, also after SIGKILL, and across
 * containers that share /dev/shm, where pids are meaningless. flock and OFD locks belong to the
 * open file, and would persist in the helper. But with record locks, any close of that file by the
 * process drops all its locks. So it is opened only here, once, and never closed; and it is never
 * removed, because a lock on a removed file has no effect. */

static int lock_fd = -1;

/* Retried after a failure, which may have been a temporary lack of descriptors. */
bool dgma_slot_ready(void)
{
    if (lock_fd >= 0)
        return true;
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/gpudirect-dgma-%u", (unsigned)geteuid());
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        dgma_log("no bus addresses without the file %s for their locks: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        dgma_log("no bus addresses: %s is not a file of this user alone; remove it", path);
        errno = EPERM;
    } else {
        lock_fd = fd;
        return true;
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return false;
}

static bool set_lock(uint32_t slot, short type)
{
    if (!dgma_slot_ready())
        return false;
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return fcntl(lock_fd, F_SETLK, &lock) == 0;
}

bool dgma_slot_own(uint32_t slot)
{
    return set_lock(slot, F_RDLCK);
}

bool dgma_slot_claim_dead(uint32_t slot)
{
    return set_lock(slot, F_WRLCK);
}

void dgma_slot_give(uint32_t slot)
{
    set_lock(slot, F_UNLCK);
}

bool dgma_slot_is_owned(uint32_t slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    return dgma_slot_ready() && fcntl(lock_fd, F_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
}

/* === event =================================================================================== */
/* The layer returns the driver's own events, of a barrier or a host function; only their command
 * type must be AMD's. The driver reuses an event handle after the program has released it, so the
 * program's references are counted here, too. */

static struct dgma_table events = DGMA_TABLE_INIT;

struct tracked {
    cl_command_type type;
    atomic_uint refs; /* the program's; the driver's own do not count */
};

void dgma_event_track(cl_event event, cl_command_type type)
{
    struct tracked *tracked = malloc(sizeof *tracked);
    if (tracked) {
        tracked->type = type;
        atomic_init(&tracked->refs, 1);
        if (dgma_table_put(&events, event, tracked))
            return;
        free(tracked);
    }
    dgma_log("out of memory: an event shows the driver's command type instead of AMD's");
}

static CL_API_ENTRY cl_int CL_API_CALL retain_event(cl_event event)
{
    struct tracked *tracked = dgma_table_get(&events, event);
    cl_int status = dgma_next.clRetainEvent(event);
    if (tracked && status == CL_SUCCESS)
        atomic_fetch_add(&tracked->refs, 1);
    return status;
}

static CL_API_ENTRY cl_int CL_API_CALL release_event(cl_event event)
{
    struct tracked *tracked = dgma_table_get(&events, event);
    /* Removed before the driver can reuse the handle. */
    if (tracked && atomic_fetch_sub(&tracked->refs, 1) == 1)
        free(dgma_table_take(&events, event));
    return dgma_next.clReleaseEvent(event);
}

static CL_API_ENTRY cl_int CL_API_CALL get_event_info(cl_event event, cl_event_info name,
                                                      size_t size, void *value, size_t *size_ret)
{
    cl_int status = dgma_next.clGetEventInfo(event, name, size, value, size_ret);
    if (status || name != CL_EVENT_COMMAND_TYPE || !value)
        return status;
    const struct tracked *tracked = dgma_table_get(&events, event);
    if (tracked)
        memcpy(value, &tracked->type, sizeof tracked->type);
    return CL_SUCCESS;
}

void dgma_event_install(cl_icd_dispatch *table)
{
    table->clRetainEvent = retain_event;
    table->clReleaseEvent = release_event;
    table->clGetEventInfo = get_event_info;
}

/* === unfollowed ============================================================================== */
/* Writes by the program that the layer cannot track. */

static atomic_bool any;

void dgma_unfollowed_note(const char *function)
{
    if (!atomic_exchange(&any, true))
        dgma_log("what %s writes is not followed: each WriteSignal sends its whole buffer",
                 function);
}

bool dgma_unfollowed_any(void)
{
    return atomic_load(&any);
}
