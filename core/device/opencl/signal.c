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

/* The shortest time in which a driver can be expected to look at a word: a poll that is shorter
 * would never see it. */
#define LOOK (2 * GPUD_MSEC)

static uint64_t offset_in_page(const struct gpud_memory *memory)
{
    const struct opencl_memory *record = memory->backend;
    return record->bus.marker & (OPENCL_PAGE - 1);
}

/* --- making -------------------------------------------------------------------------------- */

static enum gpud_status new_record(struct gpud_signal *signal, struct gpud_error *error)
{
    struct opencl_signal *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a signal");
    signal->backend = record;
    return GPUD_OK;
}

/* Writes one's own word from the CPU. */
static enum gpud_status poison(struct gpud_signal *signal, uint32_t value, struct gpud_error *error)
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

static enum gpud_status create(struct gpud_signal *signal, struct gpud_error *error)
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
    /* Nobody else does: a value left from before would satisfy the first wait at once. */
    status = poison(signal, 0, error);
    if (status != GPUD_OK) {
        free(signal->backend);
        signal->backend = NULL;
    }
    return status;
}

static void destroy(struct gpud_signal *signal)
{
    struct opencl_signal *record = signal->backend;
    if (!record)
        return;
    /* A wait cannot be taken back, only satisfied. */
    if (record->waited || (record->watcher && !gpud_opencl_queue_idle(record->watcher)))
        poison(signal, UINT32_MAX, NULL);
    gpud_opencl_queue_retire(record->watcher);
    free(record);
}

static enum gpud_status export_handle(struct gpud_signal *signal, struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    handle->type = GPUD_HANDLE_BUS_ADDRESS;
    handle->word[0] = memory->bus.surface;
    handle->word[1] = memory->bus.marker;
    return GPUD_OK;
}

static enum gpud_status import_handle(struct gpud_signal *signal, const struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory || memory->view || !memory->bus.surface)
        return gpud_fail(error, GPUD_INVALID,
                         "a signal can be imported only with the memory that it belongs to");
    /* The memory's handle has fixed where the marker lies, and it was checked. */
    if (handle->type != GPUD_HANDLE_BUS_ADDRESS || handle->word[0] != memory->bus.surface ||
        handle->word[1] != memory->bus.marker)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's signal does not belong to the memory that it shared");
    return new_record(signal, error);
}

/* --- using --------------------------------------------------------------------------------- */

static enum gpud_status post(struct gpud_signal *signal, uint32_t value, struct gpud_queue *queue,
                             struct gpud_error *error)
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

static enum gpud_status wait_queue(struct gpud_signal *signal, uint32_t value,
                                   struct gpud_queue *queue, struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    enum gpud_status status = enqueue_wait(signal, value, queue->backend, error);
    if (status == GPUD_OK)
        record->waited = true;
    return status;
}

/* A queue of the signal's own whose last command waits for value. A wait that timed out before is
 * still there and serves again; one for a larger value stands in the way, so it is left behind with
 * its queue. */
static enum gpud_status watch(struct gpud_signal *signal, uint32_t value, bool *fresh,
                              struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(signal->device);
    struct opencl_signal *record = signal->backend;
    struct opencl_queue *watcher = record->watcher;
    if (watcher && watcher->last && !gpud_opencl_queue_idle(watcher)) {
        if (record->watched == value)
            return GPUD_OK;
        if (record->watched > value) {
            gpud_opencl_queue_retire(watcher);
            record->watcher = NULL;
            record->waited = true;
        }
    }
    if (!record->watcher) {
        enum gpud_status status = gpud_opencl_queue_new(device, &record->watcher, error);
        if (status != GPUD_OK)
            return status;
        gpud_async_add(&device->async, &record->watcher->async);
    }
    record->watched = value;
    *fresh = true;
    return enqueue_wait(signal, value, record->watcher, error);
}

static enum gpud_status wait_host(struct gpud_signal *signal, uint32_t value, int64_t deadline,
                                  struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    bool fresh = false;
    if (value <= record->reached)
        return GPUD_OK;
    enum gpud_status status = watch(signal, value, &fresh, error);
    if (status != GPUD_OK)
        return status;
    if (fresh && deadline < gpud_deadline(LOOK))
        deadline = gpud_deadline(LOOK);
    status = gpud_opencl_queue_finish(record->watcher, deadline, error);
    if (status == GPUD_OK) {
        record->reached = value;
    } else if (status == GPUD_TIMEOUT) {
        gpud_fail(error, status, "the signal does not stand at %u yet", value);
    } else {
        gpud_opencl_queue_retire(record->watcher);
        record->watcher = NULL;
    }
    return status;
}

const struct gpud_signal_ops gpud_opencl_signal_ops = {
    .create = create,
    .destroy = destroy,
    .export_handle = export_handle,
    .import_handle = import_handle,
    .post = post,
    .wait_queue = wait_queue,
    .wait_host = wait_host,
    .poison = poison,
};
