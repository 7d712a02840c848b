/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The extension's three commands, and the thread that completes what queues wait for. */
#include "layer.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* === written ================================================================================= */
/* The written map, whose bits are bytes of the object. */

static void written_add(struct dgma_written *written, size_t at, size_t length)
{
    while (length > 0) {
        size_t bit = at % 64, count = length < 64 - bit ? length : 64 - bit;
        uint64_t mask = (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << bit;
        if (count == 64)
            atomic_store_explicit(&written->bits[at / 64], mask, memory_order_release);
        else
            atomic_fetch_or_explicit(&written->bits[at / 64], mask, memory_order_release);
        at += count;
        length -= count;
    }
}

/* Whether the marker has a value that no writer announced, so that its writer does not use the map.
 * `seen`: the owner's record of the value at the last check. */
static bool written_is_foreign(const struct dgma_object *object, const _Atomic uint32_t *marker,
                               uint32_t *seen)
{
    const struct dgma_written *written = object->written;
    uint32_t done = atomic_load(&written->done);
    uint32_t now = atomic_load(marker), said = atomic_load(&written->value);
    bool quiet = atomic_load(&written->begun) == done; /* then the three are consistent */
    bool foreign = quiet && now != *seen && now != said;
    *seen = now;
    return foreign;
}

/* === bring =================================================================================== */
/* Updates an owner's copy with what writers wrote, once the marker has arrived. The poller does it
 * through a queue of the layer's, since the program's own is stalled until then. The buffers of a
 * context and device share one queue. */

struct dgma_copy_queue {
    cl_context context; /* the queue holds it: the handle stays its own */
    cl_device_id device;
    cl_command_queue queue;
    unsigned refs; /* buffers */
    struct dgma_copy_queue *next;
};

static pthread_mutex_t bring_lock = PTHREAD_MUTEX_INITIALIZER; /* also every buffer's copy_queue */
static struct dgma_copy_queue *queues;

static struct dgma_copy_queue *get_locked(cl_context context, cl_device_id device, cl_int *status)
{
    struct dgma_copy_queue *at = queues;
    while (at && (at->context != context || at->device != device))
        at = at->next;
    if (!at) {
        at = calloc(1, sizeof *at);
        cl_command_queue queue =
            at ? dgma_next.clCreateCommandQueue(context, device, 0, status) : NULL;
        if (!queue) {
            if (!at)
                *status = CL_OUT_OF_HOST_MEMORY;
            free(at);
            return NULL;
        }
        *at = (struct dgma_copy_queue){context, device, queue, 0, queues};
        queues = at;
    }
    at->refs++;
    return at;
}

/* Returns a queue that the caller has to release, outside of the lock. */
static cl_command_queue put_locked(struct dgma_copy_queue *of)
{
    if (!of || --of->refs > 0)
        return NULL;
    struct dgma_copy_queue **at = &queues;
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    cl_command_queue queue = of->queue;
    free(of);
    return queue;
}

/* A queue for that, which the caller releases; the program's own is stalled meanwhile. */
static cl_command_queue bring_queue(struct dgma_buffer *buffer, cl_device_id device, cl_int *status)
{
    cl_command_queue queue = NULL, old = NULL;
    *status = CL_SUCCESS;
    pthread_mutex_lock(&bring_lock);
    if (!buffer->copy_queue || buffer->copy_queue->device != device) {
        struct dgma_copy_queue *fresh = get_locked(buffer->context, device, status);
        if (fresh) {
            old = put_locked(buffer->copy_queue);
            buffer->copy_queue = fresh;
        }
    }
    if (*status == CL_SUCCESS)
        *status = dgma_next.clRetainCommandQueue(buffer->copy_queue->queue);
    if (*status == CL_SUCCESS)
        queue = buffer->copy_queue->queue;
    pthread_mutex_unlock(&bring_lock);
    if (old)
        dgma_next.clReleaseCommandQueue(old);
    return queue;
}

void dgma_bring_free(struct dgma_buffer *buffer)
{
    pthread_mutex_lock(&bring_lock);
    cl_command_queue old = put_locked(buffer->copy_queue);
    buffer->copy_queue = NULL;
    pthread_mutex_unlock(&bring_lock);
    if (old)
        dgma_next.clReleaseCommandQueue(old);
}

/* Combines ranges of equal length and distance into one rectangle for the driver. */
struct transfer {
    cl_command_queue queue;
    cl_mem mem;
    const uint8_t *surface;
    cl_event last;
    size_t offset, length, pitch, rows; /* not yet enqueued; rows 0: nothing */
};

static cl_int flush(struct transfer *to)
{
    bool is_rectangle = to->rows > 1 && to->offset % to->pitch + to->length <= to->pitch;
    cl_int status = CL_SUCCESS;
    for (size_t row = 0; row < (is_rectangle ? 1 : to->rows) && status == CL_SUCCESS; row++) {
        size_t offset = to->offset + row * to->pitch;
        if (to->last)
            dgma_next.clReleaseEvent(to->last);
        to->last = NULL;
        if (is_rectangle) {
            const size_t origin[3] = {offset % to->pitch, offset / to->pitch, 0};
            const size_t region[3] = {to->length, to->rows, 1};
            status = dgma_next.clEnqueueWriteBufferRect(to->queue, to->mem, CL_FALSE, origin,
                                                        origin, region, to->pitch, 0, to->pitch, 0,
                                                        to->surface, 0, NULL, &to->last);
        } else {
            status =
                dgma_next.clEnqueueWriteBuffer(to->queue, to->mem, CL_FALSE, offset, to->length,
                                               to->surface + offset, 0, NULL, &to->last);
        }
    }
    to->rows = 0;
    return status;
}

static cl_int bring_add(struct transfer *to, size_t offset, size_t length)
{
    if (to->rows == 1 && length == to->length) {
        to->pitch = offset - to->offset;
        to->rows = 2;
        return CL_SUCCESS;
    }
    if (to->rows > 1 && length == to->length && offset == to->offset + to->rows * to->pitch) {
        to->rows++;
        return CL_SUCCESS;
    }
    cl_int status = flush(to);
    to->offset = offset;
    to->length = length;
    to->rows = 1;
    to->pitch = 0;
    return status;
}

/* Enqueues each written range, and clears it; stops at the first error. */
static cl_int bring_written(struct transfer *to, struct dgma_object *object)
{
    size_t words = (object->total - DGMA_PAGE) / 64, start = 0, end = 0; /* the range so far */
    cl_int status = CL_SUCCESS;
    for (size_t word = 0; word < words && status == CL_SUCCESS; word++) {
        _Atomic uint64_t *at = &object->written->bits[word];
        uint64_t bits = atomic_load_explicit(at, memory_order_relaxed);
        if (bits)
            bits = atomic_exchange_explicit(at, 0, memory_order_acquire);
        while (bits && status == CL_SUCCESS) {
            unsigned first = (unsigned)__builtin_ctzll(bits);
            uint64_t rest = ~(bits >> first);
            unsigned count = rest ? (unsigned)__builtin_ctzll(rest) : 64;
            if (word * 64 + first != end) {
                if (end > start)
                    status = bring_add(to, start, end - start);
                start = word * 64 + first;
            }
            end = word * 64 + first + count;
            bits = first + count < 64 ? bits >> (first + count) << (first + count) : 0;
        }
    }
    if (end > start && status == CL_SUCCESS)
        status = bring_add(to, start, end - start);
    return status == CL_SUCCESS ? flush(to) : status;
}

/* *gate: the last of its commands; NULL: nothing was written. */
static cl_int bring_in(struct dgma_buffer *buffer, cl_mem mem, cl_command_queue queue,
                       cl_event *gate)
{
    struct transfer to = {.queue = queue, .mem = mem, .surface = buffer->surface};
    struct dgma_object *object = buffer->surface_object;
    cl_int status;
    if (written_is_foreign(object, buffer->marker, &buffer->seen_marker)) {
        /* The map does not say what that writer wrote: the whole buffer, in one command. */
        for (size_t word = 0; word < (object->total - DGMA_PAGE) / 64; word++)
            if (atomic_load_explicit(&object->written->bits[word], memory_order_relaxed))
                atomic_exchange_explicit(&object->written->bits[word], 0, memory_order_acquire);
        status = bring_add(&to, 0, buffer->size);
        if (status == CL_SUCCESS)
            status = flush(&to);
    } else {
        status = bring_written(&to, object);
    }
    if (to.last)
        dgma_next.clFlush(queue);
    *gate = to.last;
    return status;
}

/* === operations ============================================================================== */
/* What queues wait for. */

enum dgma_op_kind { DGMA_OP_WAIT, DGMA_OP_WRITE, DGMA_OP_RESIDENT };

/* An operation that runs once `gate` has completed (NULL: at once), and then completes `done`. */
struct dgma_op {
    struct dgma_op *next;
    enum dgma_op_kind kind;
    cl_event gate;      /* owned */
    cl_event done;      /* a user event, owned */
    cl_event behind[2]; /* the events that `done` blocks, owned: PoCL aborts if a command fails
                         * whose event has no reference */
    cl_mem mem;         /* WAIT, WRITE: retained, keeps `marker` and `object` alive */
    struct dgma_object *object; /* WRITE: the object whose pending_writes it decrements */
    _Atomic uint32_t *marker;
    uint32_t value;           /* WAIT: complete at marker >= value; WRITE: what to store */
    uint32_t seen;            /* WAIT: the marker when last polled */
    struct dgma_buffer *copy; /* WAIT: the buffer whose copy is updated; WRITE: the written one */
    cl_command_queue copy_queue; /* WAIT: the queue for the update, owned */
    cl_event before_copy;        /* WAIT: the update waits for this event, owned */
    bool brought;                /* WAIT: the update is done, or will be once `gate` completes */
    struct dgma_boxes boxes;     /* WRITE: the written ranges */
    cl_uint count;               /* RESIDENT */
    cl_bus_address_amd *out;     /* the program's */
    cl_bus_address_amd addresses[];
};

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

/* A release store, which then wakes all sleepers on that word, in any process. */
static void marker_write(_Atomic uint32_t *marker, uint32_t value)
{
    atomic_store_explicit(marker, value, memory_order_release);
    syscall(SYS_futex, marker, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Makes the poller check all operations again. */
static void ring(void)
{
    atomic_fetch_add(&bell, 1);
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
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

/* Releases a gate, unless it has failed: PoCL reports a failure before it has finished with the
 * event, and would abort. Such an event is leaked. */
static void gate_release(cl_event gate)
{
    if (gate_status(gate) >= 0)
        dgma_next.clReleaseEvent(gate);
}

static void CL_CALLBACK gate_completed(cl_event gate, cl_int status, void *user_data)
{
    (void)gate, (void)status, (void)user_data;
    ring();
}

/* So that the poller notices the gate's completion without polling. */
static void watch(cl_event gate)
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
    if (ended > 0) {
        uint32_t seen = op->copy->seen_marker;
        const struct dgma_object *object = op->copy->surface_object;
        if (written_is_foreign(object, op->marker, &seen))
            return CL_QUEUED;
        for (size_t word = 0; word < (object->total - DGMA_PAGE) / 64; word++)
            if (atomic_load_explicit(&object->written->bits[word], memory_order_acquire))
                return CL_QUEUED;
        return CL_COMPLETE;
    }
    op->brought = true;
    cl_int status = bring_in(op->copy, op->mem, op->copy_queue, &op->gate);
    if (status || !op->gate)
        return status;
    watch(op->gate);
    return CL_QUEUED;
}

static void step_write(const struct dgma_op *op)
{
    struct dgma_object *surface = op->copy->surface_object;
    size_t size = surface->total - DGMA_PAGE, start = (size_t)(op->copy->surface - surface->map);
    for (cl_uint i = 0; surface->written && i < op->boxes.count; i++) {
        const struct dgma_box *box = &op->boxes.list[i];
        for (size_t slice = 0; slice < box->slices; slice++)
            for (size_t row = 0; row < box->rows; row++) {
                size_t at = start + box->offset + slice * box->slice_pitch + row * box->row_pitch;
                if (at < size)
                    written_add(surface->written, at,
                                box->width < size - at ? box->width : size - at);
            }
    }
    struct dgma_written *signalled = op->object->written;
    if (signalled) {
        atomic_fetch_add(&signalled->begun, 1);
        atomic_store(&signalled->value, op->value);
    }
    marker_write(op->marker, op->value);
    if (signalled)
        atomic_fetch_add(&signalled->done, 1);
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
    default: /* DGMA_OP_RESIDENT */
        memcpy(op->out, op->addresses, op->count * sizeof op->addresses[0]);
        return CL_COMPLETE;
    }
}

/* Completes `done` and frees the operation, also one that never reached the poller. */
static void op_finish(struct dgma_op *op, cl_int status)
{
    if (op->object)
        atomic_fetch_sub(&op->object->pending_writes, 1);
    dgma_next.clSetUserEventStatus(op->done, status);
    if (op->gate)
        gate_release(op->gate);
    if (op->before_copy)
        gate_release(op->before_copy);
    cl_event events[] = {op->done, op->behind[0], op->behind[1]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            dgma_next.clReleaseEvent(events[i]);
    if (op->copy_queue)
        dgma_next.clReleaseCommandQueue(op->copy_queue);
    if (op->mem)
        dgma_next.clReleaseMemObject(op->mem);
    free(op->boxes.list);
    free(op);
}

static void sleep_on_all(uint32_t heard, long look)
{
    static bool waitv_missing;
    if (waitv_missing || !ops) {
        /* For kernels before 5.16, and sandboxes that refuse futex_waitv: only the tick notices
         * wakes by other processes. */
        struct timespec wait = {.tv_nsec = look};
        syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, heard, ops ? &wait : NULL, NULL, 0);
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

/* Finishes all operations that can be. Returns how many wait at a gate; *finished: some ended. */
static unsigned poll_all(bool *finished)
{
    unsigned at_gate = 0;
    for (struct dgma_op **at = &ops, *op; (op = *at) != NULL;) {
        cl_int status = step(op);
        if (status > CL_COMPLETE) {
            /* Whether it waits for the driver. */
            at_gate +=
                op->gate || (op->kind == DGMA_OP_WAIT && op->before_copy && op->seen >= op->value);
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (ops_end == &op->next)
            ops_end = at;
        op_finish(op, status);
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
        pthread_mutex_lock(&poller_lock);
        bool news = incoming != NULL;
        *ops_end = incoming;
        if (incoming)
            ops_end = incoming_end;
        incoming = NULL;
        incoming_end = &incoming;
        pthread_mutex_unlock(&poller_lock);
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

/* false: the thread cannot be started, logged */
static bool poller_start(void)
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
    ring();
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

/* === event =================================================================================== */
/* The layer returns the driver's own events, of a barrier or a host function; only their command
 * type must be AMD's. The driver reuses an event handle after the program has released it, so the
 * program's references are counted here, too. */

static struct dgma_table events = DGMA_TABLE_INIT;

struct tracked {
    cl_command_type type;
    atomic_uint refs; /* the program's; the driver's own do not count */
};

/* The program holds one reference. */
static void event_track(cl_event event, cl_command_type type)
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
        free(dgma_table_take(&events, event, NULL));
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

void dgma_commands_install(cl_icd_dispatch *table)
{
    table->clRetainEvent = retain_event;
    table->clReleaseEvent = release_event;
    table->clGetEventInfo = get_event_info;
}

/* === commands ================================================================================ */
/* The extension's three commands, built from what every OpenCL 1.2 driver has.
 *
 *   WaitSignal:   [marker as gate] . . poller: marker >= value [, bytes] . . user event
 *                                                                              |
 *                                                                           barrier -> event
 *
 *   WriteSignal:  CPU device:  host function in the queue: store, wake -> event
 *                 others:      bytes from the device . . poller: store, wake . . user event
 *                                                                  |
 *                                                               barrier -> event
 *
 *   MakeBuffersResident:  marker as gate . . poller: addresses -> user event -> barrier -> event */

/* One command, on its queue. */
struct command {
    cl_command_queue queue;
    cl_context context;
    cl_device_id device_id;
    const struct dgma_device *device;
    bool out_of_order;
    cl_uint num_events; /* these three as the program passed them */
    const cl_event *wait_list;
    cl_event *event;
};

static bool begin(struct command *c, cl_command_queue queue, cl_uint num_events,
                  const cl_event *wait_list, cl_event *event)
{
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    *c = (struct command){
        .queue = queue, .num_events = num_events, .wait_list = wait_list, .event = event};
    if (!queue ||
        dgma_next.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof c->context, &c->context,
                                        NULL) ||
        dgma_next.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL) ||
        dgma_next.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties,
                                        NULL))
        return false;
    const struct dgma_cards *card = dgma_table_get(&dgma_queue_cards, queue);
    c->device_id = card ? card->devices[0] : device;
    c->device = dgma_device_get(device);
    c->out_of_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
    return true;
}

static cl_int check_wait_list(const struct command *c)
{
    if (!c->num_events != !c->wait_list)
        return CL_INVALID_EVENT_WAIT_LIST;
    for (cl_uint i = 0; i < c->num_events; i++)
        if (!c->wait_list[i])
            return CL_INVALID_EVENT_WAIT_LIST;
    /* Refuses events that have failed already. PoCL never ends a command behind such an event:
     * clFinish hangs or, on its `basic` device, reports success. */
    for (cl_uint i = 0; i < c->num_events; i++) {
        cl_int status;
        if (dgma_next.clGetEventInfo(c->wait_list[i], CL_EVENT_COMMAND_EXECUTION_STATUS,
                                     sizeof status, &status, NULL))
            return CL_INVALID_EVENT_WAIT_LIST;
        if (status < 0)
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    return CL_SUCCESS;
}

/* The command's place in the queue. */
static cl_int mark(const struct command *c, cl_event *event)
{
    return dgma_next.clEnqueueMarkerWithWaitList(c->queue, c->num_events, c->wait_list, event);
}

static struct dgma_op *op_new(const struct command *c, enum dgma_op_kind kind, cl_uint count,
                              cl_int *status)
{
    *status = CL_OUT_OF_HOST_MEMORY;
    if (!poller_start())
        return NULL;
    struct dgma_op *op = calloc(1, sizeof *op + count * sizeof op->addresses[0]);
    if (!op)
        return NULL;
    op->kind = kind;
    op->count = count;
    op->done = dgma_next.clCreateUserEvent(c->context, status);
    if (op->done) {
        *status = CL_SUCCESS;
        return op;
    }
    free(op);
    return NULL;
}

/* Stalls the queue until `op` (NULL: nothing) is done. The program's event shows as `type`. */
static cl_int stall(const struct command *c, struct dgma_op *op, cl_command_type type)
{
    const cl_event *after = op ? &op->done : NULL;
    cl_event between = NULL, barrier = NULL;
    cl_int status = CL_SUCCESS;
    if (after && c->out_of_order)
        /* A driver may let a barrier with a wait list overtake the barrier before it (PoCL does),
         * but not a marker: through it this stall comes after the earlier ones. */
        status = dgma_next.clEnqueueMarkerWithWaitList(c->queue, 1, after, &between);
    if (between)
        after = &between;
    if (status == CL_SUCCESS)
        status = dgma_next.clEnqueueBarrierWithWaitList(c->queue, after != NULL, after,
                                                        op || c->event ? &barrier : NULL);
    if (status == CL_SUCCESS && c->event) {
        *c->event = barrier;
        event_track(barrier, type);
        if (op)
            dgma_next.clRetainEvent(barrier);
    }
    if (op) {
        op->behind[0] = between;
        op->behind[1] = barrier;
    }
    if (status == CL_SUCCESS)
        dgma_next.clFlush(c->queue);
    return status;
}

/* Stalls the queue until the poller has completed `op`, and owns it in any case. `status`: of its
 * preparation. */
static cl_int submit(const struct command *c, struct dgma_op *op, cl_int status,
                     cl_command_type type)
{
    if (status == CL_SUCCESS)
        status = stall(c, op, type);
    if (status) {
        op_finish(op, status);
        return status;
    }
    if (op->gate || op->before_copy)
        watch(op->gate ? op->gate : op->before_copy);
    pthread_mutex_lock(&poller_lock);
    *incoming_end = op;
    incoming_end = &op->next;
    pthread_mutex_unlock(&poller_lock);
    ring();
    return CL_SUCCESS;
}

/* ---- wait ---- */

static cl_int CL_API_CALL enqueue_wait_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                              cl_uint num_events, const cl_event *wait_list,
                                              cl_event *event)
{
    struct command c;
    if (!begin(&c, queue, num_events, wait_list, event))
        return CL_INVALID_COMMAND_QUEUE;
    struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    if (!buffer && c.device->wait_signal)
        return c.device->wait_signal(queue, mem, value, num_events, wait_list, event);
    if (!buffer || buffer->kind != DGMA_BUS)
        return CL_INVALID_MEM_OBJECT;
    if (c.context != buffer->context)
        return CL_INVALID_CONTEXT;
    cl_int status = check_wait_list(&c);
    if (status)
        return status;

    /* The value counts when the queue reaches the wait. Checking earlier is equivalent, since
     * values only grow, unless this process is about to write the marker (a reset to 0), or the
     * program passes a wait list. */
    bool gated = num_events > 0 || atomic_load(&buffer->marker_object->pending_writes) > 0;
    if (!gated && !buffer->copies &&
        atomic_load_explicit(buffer->marker, memory_order_acquire) >= value)
        return stall(&c, NULL, CL_COMMAND_WAIT_SIGNAL_AMD);
    struct dgma_op *op = op_new(&c, DGMA_OP_WAIT, 0, &status);
    if (!op)
        return status;
    op->marker = buffer->marker;
    op->value = value;
    if (buffer->copies) {
        op->copy = buffer;
        op->copy_queue = bring_queue(buffer, dgma_card_device(c.device_id), &status);
    }
    if (status == CL_SUCCESS && (gated || buffer->copies))
        status = mark(&c, gated ? &op->gate : &op->before_copy);
    if (status == CL_SUCCESS)
        status = dgma_next.clRetainMemObject(mem);
    if (status == CL_SUCCESS)
        op->mem = mem;
    return submit(&c, op, status, CL_COMMAND_WAIT_SIGNAL_AMD);
}

/* ---- write ---- */

struct host_write {
    void *
        surface; /* filled by the driver; with it in the argument list, it keeps the buffer alive */
    _Atomic uint32_t *marker;
    struct dgma_object *object;
    uint32_t value;
};

static void CL_CALLBACK host_write(void *args)
{
    const struct host_write *write = args;
    marker_write(write->marker, write->value);
    atomic_fetch_sub(&write->object->pending_writes, 1);
}

static cl_int write_in_queue(const struct command *c, cl_mem mem, struct dgma_buffer *buffer,
                             _Atomic uint32_t *marker, cl_uint value)
{
    struct host_write write = {.marker = marker, .object = buffer->marker_object, .value = value};
    const void *place = &write.surface;
    /* If a failed wait list prevents the function from running, this is never decremented: waits
     * are then always gated, which is slower but still correct. */
    atomic_fetch_add(&write.object->pending_writes, 1);
    cl_int status =
        dgma_next.clEnqueueNativeKernel(c->queue, host_write, &write, sizeof write, 1, &mem, &place,
                                        c->num_events, c->wait_list, c->event);
    if (status)
        atomic_fetch_sub(&write.object->pending_writes, 1);
    else if (c->event)
        event_track(*c->event, CL_COMMAND_WRITE_SIGNAL_AMD);
    return status;
}

static cl_int write_by_poller(const struct command *c, cl_mem mem, struct dgma_buffer *buffer,
                              _Atomic uint32_t *marker, cl_uint value)
{
    cl_int status;
    struct dgma_op *op = op_new(c, DGMA_OP_WRITE, 0, &status);
    if (!op)
        return status;
    op->copy = buffer;
    op->marker = marker;
    op->value = value;
    op->object = buffer->marker_object;
    atomic_fetch_add(&op->object->pending_writes, 1);
    status =
        dgma_writes_send(c->queue, mem, buffer, c->num_events, c->wait_list, &op->boxes, &op->gate);
    if (status == CL_SUCCESS)
        status = dgma_next.clRetainMemObject(mem);
    if (status == CL_SUCCESS)
        op->mem = mem;
    return submit(c, op, status, CL_COMMAND_WRITE_SIGNAL_AMD);
}

static cl_int CL_API_CALL enqueue_write_signal(cl_command_queue queue, cl_mem mem, cl_uint value,
                                               cl_ulong offset, cl_uint num_events,
                                               const cl_event *wait_list, cl_event *event)
{
    struct command c;
    if (!begin(&c, queue, num_events, wait_list, event))
        return CL_INVALID_COMMAND_QUEUE;
    struct dgma_buffer *buffer = mem ? dgma_buffer_get(mem) : NULL;
    if (!buffer && c.device->write_signal)
        return c.device->write_signal(queue, mem, value, offset, num_events, wait_list, event);
    if (!buffer || buffer->kind != DGMA_EXTERNAL)
        return CL_INVALID_MEM_OBJECT;
    /* AMD's driver accepts offsets up to size + page, which would exceed the mapping. */
    if (offset > buffer->size + DGMA_PAGE - sizeof value ||
        offset > buffer->marker_room - sizeof value)
        return CL_INVALID_BUFFER_SIZE;
    if (offset % sizeof value)
        return CL_INVALID_VALUE;
    if (c.context != buffer->context)
        return CL_INVALID_CONTEXT;
    cl_int status = check_wait_list(&c);
    if (status)
        return status;

    /* In an out-of-order queue a write waits for all that was enqueued before, too. */
    cl_event *joined = NULL, earlier = NULL;
    if (c.out_of_order) {
        joined = malloc((num_events + 1) * sizeof joined[0]);
        if (!joined)
            return CL_OUT_OF_HOST_MEMORY;
        status = dgma_next.clEnqueueMarkerWithWaitList(queue, 0, NULL, &earlier);
        if (num_events)
            memcpy(joined, wait_list, num_events * sizeof joined[0]);
        joined[num_events] = earlier;
        c.num_events = num_events + 1;
        c.wait_list = joined;
    }
    bool declared = buffer->surface_object->written || buffer->marker_object->written;
    bool in_queue = !buffer->copies && !declared && c.device->runs_host_functions;
    if (status == CL_SUCCESS)
        status = (in_queue ? write_in_queue : write_by_poller)(
            &c, mem, buffer, buffer->marker + offset / sizeof value, value);
    if (earlier)
        dgma_next.clReleaseEvent(earlier);
    free(joined);
    if (status == CL_SUCCESS)
        dgma_next.clFlush(queue);
    return status;
}

/* ---- make resident ---- */

static void give_addresses(cl_uint num_mems, const cl_mem *mems, cl_bus_address_amd *addresses)
{
    for (cl_uint i = 0; i < num_mems; i++) {
        const struct dgma_buffer *buffer = dgma_buffer_get(mems[i]);
        addresses[i].surface_bus_address = buffer->surface_object->base;
        addresses[i].marker_bus_address = buffer->surface_object->base + buffer->size;
    }
}

/* Polls the event's status, because clWaitForEvents on PoCL's `basic` device reports success while
 * the command is still blocked by a user event. */
static cl_int wait_until_ended(cl_event event)
{
    cl_int status = dgma_next.clWaitForEvents(1, &event);
    while (status == CL_SUCCESS) {
        cl_int state = CL_COMPLETE;
        status = dgma_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                                          &state, NULL);
        if (status || state == CL_COMPLETE)
            return status;
        if (state < 0)
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return status;
}

/* A blocking call needs neither the thread nor a user event. */
static cl_int make_resident_now(const struct command *c, cl_uint num_mems, const cl_mem *mems,
                                cl_bus_address_amd *addresses)
{
    cl_event reached = NULL;
    cl_int status = mark(c, &reached);
    if (status)
        return status;
    status = wait_until_ended(reached);
    if (status == CL_SUCCESS)
        give_addresses(num_mems, mems, addresses);
    if (status == CL_SUCCESS && c->event) {
        event_track(reached, CL_COMMAND_MAKE_BUFFERS_RESIDENT_AMD);
        *c->event = reached;
    } else {
        gate_release(reached);
    }
    return status;
}

static cl_int CL_API_CALL enqueue_make_resident(cl_command_queue queue, cl_uint num_mems,
                                                cl_mem *mems, cl_bool blocking,
                                                cl_bus_address_amd *addresses, cl_uint num_events,
                                                const cl_event *wait_list, cl_event *event)
{
    struct command c;
    if (!begin(&c, queue, num_events, wait_list, event))
        return CL_INVALID_COMMAND_QUEUE;
    if (!mems)
        return CL_INVALID_MEM_OBJECT;
    if (!addresses || num_mems == 0)
        return CL_INVALID_VALUE;
    if (!dgma_buffer_get(mems[0]) && c.device->make_resident)
        return c.device->make_resident(queue, num_mems, mems, blocking, addresses, num_events,
                                       wait_list, event);
    memset(addresses, 0, num_mems * sizeof addresses[0]);
    for (cl_uint i = 0; i < num_mems; i++) {
        const struct dgma_buffer *buffer = mems[i] ? dgma_buffer_get(mems[i]) : NULL;
        if (!buffer || buffer->kind != DGMA_BUS)
            return CL_INVALID_MEM_OBJECT;
        if (c.context != buffer->context)
            return CL_INVALID_CONTEXT;
    }
    cl_int status = check_wait_list(&c);
    if (status)
        return status;
    for (cl_uint i = 0; i < num_mems; i++)
        if (!dgma_buffer_place(dgma_buffer_get(mems[i]), c.device_id))
            return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (blocking)
        return make_resident_now(&c, num_mems, mems, addresses);
    struct dgma_op *op = op_new(&c, DGMA_OP_RESIDENT, num_mems, &status);
    if (!op)
        return status;
    give_addresses(num_mems, mems, op->addresses);
    op->out = addresses;
    return submit(&c, op, mark(&c, &op->gate), CL_COMMAND_MAKE_BUFFERS_RESIDENT_AMD);
}

void *dgma_command_function(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"clEnqueueWaitSignalAMD", (void *)enqueue_wait_signal},
        {"clEnqueueWriteSignalAMD", (void *)enqueue_write_signal},
        {"clEnqueueMakeBuffersResidentAMD", (void *)enqueue_make_resident},
    };
    for (size_t i = 0; name && i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(name, functions[i].name) == 0)
            return functions[i].function;
    return NULL;
}
