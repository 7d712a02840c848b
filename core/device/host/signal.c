/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host's signal: a word in memory that both sides map, and a futex on it. */
#include "base/sleep.h"
#include "device/host/host.h"

static _Atomic uint32_t *word_of(struct gpud_signal *signal)
{
    return (_Atomic uint32_t *)(void *)((char *)signal->memory->host + signal->offset);
}

static enum gpud_status check(struct gpud_signal *signal, struct gpud_error *error)
{
    uint64_t size = signal->memory->size;
    if (signal->offset % sizeof(uint32_t) || size < sizeof(uint32_t) ||
        signal->offset > size - sizeof(uint32_t))
        return gpud_fail(error, GPUD_INVALID, "a signal's word at %llu of a memory of %llu bytes",
                         (unsigned long long)signal->offset, (unsigned long long)size);
    return GPUD_OK;
}

static enum gpud_status create(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = check(signal, error);
    if (status == GPUD_OK)
        atomic_store_explicit(word_of(signal), 0, memory_order_release);
    return status;
}

static void destroy(struct gpud_signal *signal)
{
}

static enum gpud_status export_handle(struct gpud_signal *signal, struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    handle->word[0] = signal->offset;
    return GPUD_OK;
}

static enum gpud_status import_handle(struct gpud_signal *signal, const struct gpud_handle *handle,
                                      struct gpud_error *error)
{
    signal->offset = handle->word[0];
    if (check(signal, NULL) != GPUD_OK || signal->memory->read_only)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's signal does not lie in the memory that it shared");
    return GPUD_OK;
}

static enum gpud_status poison(struct gpud_signal *signal, uint32_t value, struct gpud_error *error)
{
    atomic_store_explicit(word_of(signal), value, memory_order_release);
    gpud_futex_wake(word_of(signal));
    return GPUD_OK;
}

static enum gpud_status post(struct gpud_signal *signal, uint32_t value, struct gpud_queue *queue,
                             struct gpud_error *error)
{
    return poison(signal, value, error);
}

static enum gpud_status wait_host(struct gpud_signal *signal, uint32_t value, int64_t deadline,
                                  struct gpud_error *error)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(word_of(signal), memory_order_acquire);
        if (seen >= value)
            return GPUD_OK;
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the signal stands at %u, not yet at %u", seen,
                             value);
        gpud_futex_wait(word_of(signal), seen, deadline);
    }
}

/* The host's queue works at once, so the wait is the caller's; it has an end like every other. */
static enum gpud_status wait_queue(struct gpud_signal *signal, uint32_t value,
                                   struct gpud_queue *queue, struct gpud_error *error)
{
    return wait_host(signal, value, gpud_deadline(GPUD_SEC), error);
}

const struct gpud_signal_ops gpud_host_signal_ops = {
    .create = create,
    .destroy = destroy,
    .export_handle = export_handle,
    .import_handle = import_handle,
    .post = post,
    .wait_queue = wait_queue,
    .wait_host = wait_host,
    .poison = poison,
};
