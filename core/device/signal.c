/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals: the checks around a backend's signal ops. */
#include "device/device.h"

#include <stdlib.h>

static enum gpud_status no_signals(const struct gpud_device *device, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_UNSUPPORTED, "the queues of %s wait for no signals%s%s",
                     device->info.name, device->no_direct[0] ? ": " : "", device->no_direct);
}

/* What create and import share: the record, and the reference on the memory. */
static struct gpud_signal *new_signal(struct gpud_memory *memory, uint64_t offset)
{
    struct gpud_signal *signal = calloc(1, sizeof(*signal));
    if (!signal)
        return NULL;
    signal->device = memory->device;
    signal->memory = gpud_memory_ref(memory);
    signal->offset = offset;
    return signal;
}

static enum gpud_status finish_new(struct gpud_signal *made, enum gpud_status status,
                                   struct gpud_signal **signal)
{
    if (status != GPUD_OK) {
        gpud_memory_unref(&made->memory);
        free(made);
        return status;
    }
    *signal = made;
    return GPUD_OK;
}

enum gpud_status gpud_signal_create(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error)
{
    if (!(memory->device->caps & GPUD_CAP_SIGNALS))
        return no_signals(memory->device, error);
    struct gpud_signal *made = new_signal(memory, offset);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a signal");
    return finish_new(made, memory->device->ops->signal->create(made, error), signal);
}

enum gpud_status gpud_signal_import(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error)
{
    if (!(memory->device->caps & GPUD_CAP_SIGNALS))
        return no_signals(memory->device, error);
    struct gpud_signal *made = new_signal(memory, offset);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a signal");
    return finish_new(made, memory->device->ops->signal->import(made, error), signal);
}

void gpud_signal_destroy(struct gpud_signal **signal)
{
    if (!signal || !*signal)
        return;
    struct gpud_signal *gone = *signal;
    *signal = NULL;
    gone->device->ops->signal->destroy(gone);
    gpud_memory_unref(&gone->memory);
    free(gone);
}

static enum gpud_status check_value(uint64_t value, struct gpud_error *error)
{
    if (value > GPUD_SIGNAL_WORD_MAX)
        return gpud_fail(error, GPUD_INVALID, "a signal cannot reach %llu: its word ends at %u",
                         (unsigned long long)value, GPUD_SIGNAL_WORD_MAX);
    return GPUD_OK;
}

/* Spares the driver's call where the queue has nothing to do before it. */
static bool raise_at_rest(struct gpud_signal *signal, uint64_t value, struct gpud_queue *queue)
{
    if (!(signal->device->caps & GPUD_CAP_PAGE_SIGNALS) || !gpud_queue_is_resting(queue))
        return false;
    gpud_signal_raise_word(signal, (uint32_t)value);
    return true;
}

enum gpud_status gpud_signal_post(struct gpud_signal *signal, uint64_t value,
                                  struct gpud_queue *queue, struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    if (raise_at_rest(signal, value, queue))
        return GPUD_OK;
    status = signal->device->ops->signal->post(signal, (uint32_t)value, queue, error);
    gpud_queue_use(queue);
    return status;
}

enum gpud_status gpud_signal_post_both(struct gpud_signal *first, struct gpud_signal *second,
                                       uint64_t value, struct gpud_queue *queue,
                                       struct gpud_error *error)
{
    const struct gpud_signal_ops *ops = first->device->ops->signal;
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    if (raise_at_rest(first, value, queue)) {
        gpud_signal_raise_word(second, (uint32_t)value);
        return GPUD_OK;
    }
    if (!ops->post_both)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s posts one signal at a time",
                         first->device->info.name);
    status = ops->post_both(first, second, (uint32_t)value, queue, error);
    gpud_queue_use(queue);
    return status;
}

/* Recorded before the driver is called: a call that failed may have enqueued the wait all the same,
 * and releasing a wait that is not there does no harm. */
enum gpud_status gpud_signal_wait_queue(struct gpud_signal *signal, uint64_t value,
                                        struct gpud_queue *queue, struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    uint32_t waited = atomic_load_explicit(&signal->waited, memory_order_relaxed);
    while (waited < value &&
           !atomic_compare_exchange_weak(&signal->waited, &waited, (uint32_t)value))
        ;
    status = signal->device->ops->signal->wait_queue(signal, (uint32_t)value, queue, error);
    gpud_queue_use(queue);
    return status;
}

enum gpud_status gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value, int64_t deadline,
                                       struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    return status == GPUD_OK
               ? signal->device->ops->signal->wait_host(signal, (uint32_t)value, deadline, error)
               : status;
}

enum gpud_status gpud_signal_look(struct gpud_signal *signal, uint64_t value, bool *reached,
                                  struct gpud_error *error)
{
    const struct gpud_signal_ops *ops = signal->device->ops->signal;
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    if (ops->look)
        return ops->look(signal, (uint32_t)value, reached, error);
    status = ops->wait_host(signal, (uint32_t)value, 0, error);
    if (status != GPUD_OK && status != GPUD_TIMEOUT)
        return status;
    *reached = status == GPUD_OK;
    return GPUD_OK;
}

enum gpud_status gpud_signal_poison(struct gpud_signal *signal, uint64_t value,
                                    struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    return status == GPUD_OK ? signal->device->ops->signal->poison(signal, (uint32_t)value, error)
                             : status;
}

/* --- words with a host address --------------------------------------------------------------- */

_Atomic uint32_t *gpud_signal_word(const struct gpud_signal *signal)
{
    return (_Atomic uint32_t *)(void *)((char *)signal->memory->host + signal->offset);
}

enum gpud_status gpud_signal_check_word(const struct gpud_signal *signal, struct gpud_error *error)
{
    uint64_t size = signal->memory->size;
    if (signal->offset % sizeof(uint32_t) || size < sizeof(uint32_t) ||
        signal->offset > size - sizeof(uint32_t))
        return gpud_fail(error, GPUD_INVALID, "a signal's word at %llu of a memory of %llu bytes",
                         (unsigned long long)signal->offset, (unsigned long long)size);
    return GPUD_OK;
}

enum gpud_status gpud_signal_import_word(struct gpud_signal *signal, struct gpud_error *error)
{
    if (gpud_signal_check_word(signal, NULL) != GPUD_OK || signal->memory->read_only)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's signal does not lie in the memory that it shared");
    return GPUD_OK;
}

void gpud_signal_raise_word(struct gpud_signal *signal, uint32_t value)
{
    _Atomic uint32_t *word = gpud_signal_word(signal);
    uint32_t seen = atomic_load(word);
    while (seen < value && !atomic_compare_exchange_weak(word, &seen, value))
        ;
}
