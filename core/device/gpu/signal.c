/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Signals: stream memory operations on a word in pinned host pages, which the CPU can read, and
 * write when a stream waits for a dead writer.
 *
 * Some drivers compare cyclically, some not, and we do not: values stay below 2^31 (a ring gets a
 * new epoch long before). A write has a system-wide fence for the work before it on its stream. */
#include "device/gpu/gpu.h"

static uint64_t gpu_signal_address_of(const struct gpud_signal *signal)
{
    return gpud_gpu_record(signal->memory)->address + signal->offset;
}

static enum gpud_status check_pinned(const struct gpud_signal *signal, struct gpud_error *error)
{
    if (gpud_gpu_record(signal->memory)->kind == GPUD_GPU_PINNED)
        return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "%s waits for words in pinned host memory only: is the limit of locked memory "
                     "(ulimit -l) too low?",
                     signal->device->info.name);
}

static enum gpud_status gpu_signal_create(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = check_pinned(signal, error);
    if (status == GPUD_OK)
        status = gpud_signal_check_word(signal, error);
    if (status == GPUD_OK)
        atomic_store_explicit(gpud_signal_word(signal), 0, memory_order_release);
    return status;
}

static void gpu_signal_destroy(struct gpud_signal *signal)
{
    gpud_signal_raise_word(signal, atomic_load(&signal->waited));
}

static enum gpud_status gpu_signal_import(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = check_pinned(signal, error);
    return status == GPUD_OK ? gpud_signal_import_word(signal, error) : status;
}

static enum gpud_status gpu_signal_post(struct gpud_signal *signal, uint32_t value,
                                        struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(signal->device);
    gpu->driver->enter(gpu);
    int result =
        gpu->driver->stream_write_value(queue->native, gpu_signal_address_of(signal), value, 0);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "%s cannot post a signal",
                             signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status post_both(struct gpud_signal *first, struct gpud_signal *second,
                                  uint32_t value, struct gpud_queue *queue,
                                  struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(first->device);
    if (!gpu->driver->write_both)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s posts one signal at a time",
                         first->device->info.name);
    gpu->driver->enter(gpu);
    int result = gpu->driver->write_both(queue->native, gpu_signal_address_of(first),
                                         gpu_signal_address_of(second), value);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "%s cannot post two signals",
                             first->device->info.name);
    return GPUD_OK;
}

static enum gpud_status gpu_signal_wait_queue(struct gpud_signal *signal, uint32_t value,
                                              struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(signal->device);
    gpu->driver->enter(gpu);
    int result = gpu->driver->wait_value(queue->native, gpu_signal_address_of(signal), value);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "%s cannot wait for a signal",
                             signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status gpu_signal_wait_host(struct gpud_signal *signal, uint32_t value,
                                             int64_t deadline, struct gpud_error *error)
{
    int64_t start = gpud_now();
    for (;;) {
        uint32_t seen = atomic_load_explicit(gpud_signal_word(signal), memory_order_acquire);
        if (seen >= value)
            return GPUD_OK;
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the signal stands at %u, not yet at %u", seen,
                             value);
        gpud_pause(start); /* a GPU cannot wake a thread */
    }
}

/* By the CPU, without the driver: it works even if the driver is stuck. */
static enum gpud_status gpu_signal_poison(struct gpud_signal *signal, uint32_t value,
                                          struct gpud_error *error)
{
    gpud_signal_raise_word(signal, value);
    return GPUD_OK;
}

const struct gpud_signal_ops gpud_gpu_signal_ops = {
    .create = gpu_signal_create,
    .destroy = gpu_signal_destroy,
    .import = gpu_signal_import,
    .post = gpu_signal_post,
    .post_both = post_both,
    .wait_queue = gpu_signal_wait_queue,
    .wait_host = gpu_signal_wait_host,
    .poison = gpu_signal_poison,
};
