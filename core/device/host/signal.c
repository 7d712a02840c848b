/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host's signal: a word in memory that both sides map, and a futex on it. */
#include "base/base.h"
#include "device/host/host.h"

static enum gpud_status host_signal_create(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = gpud_signal_check_word(signal, error);
    if (status == GPUD_OK)
        atomic_store_explicit(gpud_signal_word(signal), 0, memory_order_release);
    return status;
}

static void host_signal_destroy(struct gpud_signal *signal)
{
}

static enum gpud_status host_signal_poison(struct gpud_signal *signal, uint32_t value,
                                           struct gpud_error *error)
{
    gpud_signal_raise_word(signal, value);
    gpud_futex_wake(gpud_signal_word(signal));
    return GPUD_OK;
}

static enum gpud_status host_signal_post(struct gpud_signal *signal, uint32_t value,
                                         struct gpud_queue *queue, struct gpud_error *error)
{
    return host_signal_poison(signal, value, error);
}

static enum gpud_status host_signal_wait_host(struct gpud_signal *signal, uint32_t value,
                                              int64_t deadline, struct gpud_error *error)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(gpud_signal_word(signal), memory_order_acquire);
        if (seen >= value)
            return GPUD_OK;
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the signal stands at %u, not yet at %u", seen,
                             value);
        gpud_futex_wait(gpud_signal_word(signal), seen, deadline);
    }
}

/* The host's queue is synchronous, so the caller waits; with a deadline, like every wait. */
static enum gpud_status host_signal_wait_queue(struct gpud_signal *signal, uint32_t value,
                                               struct gpud_queue *queue, struct gpud_error *error)
{
    return host_signal_wait_host(signal, value, gpud_deadline(GPUD_SEC), error);
}

const struct gpud_signal_ops gpud_host_signal_ops = {
    .create = host_signal_create,
    .destroy = host_signal_destroy,
    .import = gpud_signal_import_word,
    .post = host_signal_post,
    .wait_queue = host_signal_wait_queue,
    .wait_host = host_signal_wait_host,
    .poison = host_signal_poison,
};
