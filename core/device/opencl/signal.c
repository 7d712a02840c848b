/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* DirectGMA's markers. A marker belongs to a buffer: queues of the buffer's owner wait for it,
 * queues of a peer that holds the bus address write it. The comparison is unsigned; a value must
 * never be smaller than one before.
 *
 * The owner writes its own marker, at the start and as poison, through a view of its own bus
 * address, because the extension writes markers in no other way. */
#include "device/opencl/opencl.h"

#include <stdlib.h>

/* How long a driver may need to check a word: a shorter poll would never see it. */
#define LOOK (2 * GPUD_MSEC)

static uint64_t offset_in_page(const struct gpud_memory *memory)
{
    const struct opencl_memory *record = memory->backend;
    return record->bus.marker & (OPENCL_PAGE - 1);
}

/* --- creating ------------------------------------------------------------------------------ */

static enum gpud_status new_record(struct gpud_signal *signal, struct gpud_error *error)
{
    struct opencl_signal *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a signal");
    gpud_lock_init(&record->lock, GPUD_RANK_OPENCL_SIGNAL);
    signal->backend = record;
    return GPUD_OK;
}

static void free_record(struct gpud_signal *signal)
{
    struct opencl_signal *record = signal->backend;
    gpud_lock_destroy(&record->lock);
    free(record);
    signal->backend = NULL;
}

/* Writes our own word from the CPU. */
static enum gpud_status opencl_signal_poison(struct gpud_signal *signal, uint32_t value,
                                             struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(signal->device);
    const struct opencl_memory *record = signal->memory->backend;
    if (!record->view)
        return gpud_fail(error, GPUD_INVALID,
                         "only the owner of a signal can raise it from the CPU");
    cl_event event;
    cl_int code = device->amd.write_signal(device->service->queue, record->view, value,
                                           offset_in_page(signal->memory), 0, NULL, &event);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused to write a signal",
                                signal->device->info.name);
    return gpud_opencl_serve(device, event, "write a signal", error);
}

static enum gpud_status opencl_signal_create(struct gpud_signal *signal, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory || !memory->view)
        return gpud_fail(
            error, GPUD_UNSUPPORTED, "%s waits only for signals of memory that peers write: %s",
            signal->device->info.name,
            signal->device->no_direct[0] ? signal->device->no_direct : "this is not such memory");
    enum gpud_status status = new_record(signal, error);
    if (status != GPUD_OK)
        return status;
    /* Nothing else resets it, and an old value would end the first wait at once. */
    status = opencl_signal_poison(signal, 0, error);
    if (status != GPUD_OK)
        free_record(signal);
    return status;
}

static bool is_watched(const struct opencl_signal *record)
{
    for (const struct opencl_watch *watch = record->watches; watch; watch = watch->next)
        if (!gpud_opencl_queue_idle(watch->queue))
            return true;
    return false;
}

static void opencl_signal_destroy(struct gpud_signal *signal)
{
    struct opencl_signal *record = signal->backend;
    if (!record)
        return;
    /* An enqueued wait cannot be cancelled, only satisfied. */
    if (atomic_load(&signal->waited) || is_watched(record))
        opencl_signal_poison(signal, UINT32_MAX, NULL);
    while (record->watches) {
        struct opencl_watch *watch = record->watches;
        record->watches = watch->next;
        gpud_opencl_queue_retire(watch->queue);
        free(watch);
    }
    free_record(signal);
}

static enum gpud_status opencl_signal_import(struct gpud_signal *signal, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory || memory->view || !memory->bus.surface)
        return gpud_fail(error, GPUD_INVALID,
                         "a signal can be imported only with the memory that it belongs to");
    /* The memory's handle has said where the marker lies, and it was checked. */
    if (signal->offset)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's signal does not belong to the memory that it shared");
    return new_record(signal, error);
}

/* --- using --------------------------------------------------------------------------------- */

static enum gpud_status opencl_signal_post(struct gpud_signal *signal, uint32_t value,
                                           struct gpud_queue *queue, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    struct opencl_queue *opencl = queue->backend;
    if (memory->view)
        return gpud_fail(error, GPUD_INVALID,
                         "a queue cannot post its own device's signal, only a peer's");
    enum gpud_status status = gpud_opencl_queue_begin(opencl, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code =
        gpud_opencl_device(signal->device)
            ->amd.write_signal(opencl->queue, memory->memory, value, offset_in_page(signal->memory),
                               OPENCL_AFTER(opencl), &event);
    gpud_opencl_queue_end(opencl, code == CL_SUCCESS ? event : NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused to post a signal",
                                signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status enqueue_wait(struct gpud_signal *signal, uint32_t value,
                                     struct opencl_queue *queue, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory->view)
        return gpud_fail(error, GPUD_INVALID, "a peer's signal can be posted, not waited for");
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code =
        gpud_opencl_device(signal->device)
            ->amd.wait_signal(queue->queue, memory->memory, value, OPENCL_AFTER(queue), &event);
    gpud_opencl_queue_end(queue, code == CL_SUCCESS ? event : NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused to wait for a signal",
                                signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status opencl_signal_wait_queue(struct gpud_signal *signal, uint32_t value,
                                                 struct gpud_queue *queue, struct gpud_error *error)
{
    return enqueue_wait(signal, value, queue->backend, error);
}

/* --- the host waits ------------------------------------------------------------------------ */

/* Drops a watch whose queue has failed and accepts no more work. */
static void drop_watch(struct opencl_watch **link)
{
    struct opencl_watch *gone = *link;
    *link = gone->next;
    gpud_opencl_queue_retire(gone->queue);
    free(gone);
}

static enum gpud_status add_watch(struct gpud_signal *signal, struct opencl_watch **watch,
                                  struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(signal->device);
    struct opencl_signal *record = signal->backend;
    struct opencl_watch *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to wait for a signal");
    enum gpud_status status = gpud_opencl_queue_new(device, &made->queue, error);
    if (status != GPUD_OK) {
        free(made);
        return status;
    }
    gpud_async_add(&device->async, &made->queue->async);
    made->next = record->watches;
    record->watches = *watch = made;
    return GPUD_OK;
}

/* The pending watch for this value, or NULL. A wait that timed out is still pending and is used
 * again, by any thread: there are never more watches than values waited for at one time. Under the
 * lock; *idle: a watch whose wait is over, or NULL. */
static struct opencl_watch *find_watch(struct gpud_signal *signal, uint32_t value,
                                       struct opencl_watch **idle)
{
    struct opencl_signal *record = signal->backend;
    struct opencl_watch *found = NULL;
    *idle = NULL;
    for (struct opencl_watch **link = &record->watches; *link;) {
        struct opencl_watch *watch = *link;
        long result;
        switch (gpud_opencl_async_ops.state(signal->device, watch->queue, &result)) {
        case GPUD_PROGRESS_FAILED:
            drop_watch(link);
            continue;
        case GPUD_PROGRESS_DONE:
            record->reached = watch->value > record->reached ? watch->value : record->reached;
            *idle = watch;
            break;
        case GPUD_PROGRESS_BUSY:
            found = watch->value == value ? watch : found;
            break;
        }
        link = &watch->next;
    }
    return found;
}

/* The event of a wait for this value, for the caller to release; NULL: the word has reached it.
 * Under the lock. *fresh: the wait was enqueued just now. */
static enum gpud_status watch_for(struct gpud_signal *signal, uint32_t value, cl_event *event,
                                  bool *fresh, struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    struct opencl_watch *idle, *watch = find_watch(signal, value, &idle);
    enum gpud_status status = GPUD_OK;
    if (value <= record->reached)
        return GPUD_OK;
    if (!watch) {
        watch = idle;
        if (!watch)
            status = add_watch(signal, &watch, error);
        if (status == GPUD_OK)
            status = enqueue_wait(signal, value, watch->queue, error);
        if (status != GPUD_OK)
            return status;
        watch->value = value;
        *fresh = true;
    }
    *event = gpud_opencl_queue_last(watch->queue);
    return gpud_opencl_queue_start(watch->queue, error);
}

static void note_reached(struct opencl_signal *record, uint32_t value)
{
    gpud_lock_take(&record->lock);
    record->reached = value > record->reached ? value : record->reached;
    gpud_lock_release(&record->lock);
}

static enum gpud_status opencl_signal_wait_host(struct gpud_signal *signal, uint32_t value,
                                                int64_t deadline, struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    cl_event event = NULL;
    bool fresh = false;
    gpud_lock_take(&record->lock);
    enum gpud_status status = watch_for(signal, value, &event, &fresh, error);
    gpud_lock_release(&record->lock);
    if (!event)
        return status;
    if (fresh && deadline < gpud_deadline(LOOK))
        deadline = gpud_deadline(LOOK);
    if (status == GPUD_OK)
        status = gpud_opencl_wait(event, deadline, error);
    clReleaseEvent(event);
    if (status == GPUD_TIMEOUT)
        return gpud_fail(error, status, "the signal does not stand at %u yet", value);
    if (status == GPUD_OK)
        note_reached(record, value);
    return status;
}

static enum gpud_status opencl_signal_look(struct gpud_signal *signal, uint32_t value,
                                           bool *reached, struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    cl_event event = NULL;
    bool fresh = false;
    gpud_lock_take(&record->lock);
    enum gpud_status status = watch_for(signal, value, &event, &fresh, error);
    gpud_lock_release(&record->lock);
    cl_int state = CL_COMPLETE;
    if (event) {
        state = gpud_opencl_state(event);
        clReleaseEvent(event);
    }
    if (status != GPUD_OK)
        return status;
    if (state < 0)
        return gpud_opencl_say_failed(state, error);
    *reached = state == CL_COMPLETE;
    if (*reached)
        note_reached(record, value);
    return GPUD_OK;
}

const struct gpud_signal_ops gpud_opencl_signal_ops = {
    .create = opencl_signal_create,
    .destroy = opencl_signal_destroy,
    .import = opencl_signal_import,
    .post = opencl_signal_post,
    .wait_queue = opencl_signal_wait_queue,
    .wait_host = opencl_signal_wait_host,
    .look = opencl_signal_look,
    .poison = opencl_signal_poison,
};
