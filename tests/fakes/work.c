/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The thread of a stream: takes operations in order, checks once more what they touch, does them
 * without the lock. */

#include "fake.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool calling;

bool in_host_function(void)
{
    return calling;
}

static void nap(long microseconds)
{
    const struct timespec time = {.tv_sec = microseconds / 1000000,
                                  .tv_nsec = microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static bool reached(unsigned word, unsigned value, unsigned flags)
{
    switch (flags) {
    case 0: /* GEQ, cyclic */
        return (int)(word - value) >= 0;
    case 1: /* EQ */
        return word == value;
    case 2: /* AND */
        return (word & value) != 0;
    default: /* NOR */
        return ~(word | value) != 0;
    }
}

/* Without a deadline, as the GPU. False: the word's memory ended. */
static bool wait_value(CUstream stream, const struct operation *operation)
{
    const unsigned *word = (const unsigned *)(void *)operation->to.cpu;
    for (long round = 0; !__atomic_load_n(&stream->quit, __ATOMIC_ACQUIRE); round++) {
        if (__atomic_load_n(&operation->to.range->dead, __ATOMIC_ACQUIRE))
            return false;
        if (reached(__atomic_load_n(word, __ATOMIC_ACQUIRE), operation->value, operation->flags))
            return true;
        if (round < 32)
            sched_yield();
        else
            nap(round < 200 ? round : 200);
    }
    return true;
}

static bool between_devices(const struct operation *operation)
{
    const struct range *from = operation->from.range, *to = operation->to.range;
    return from && to && from->kind != RANGE_HOST && to->kind != RANGE_HOST &&
           from->device != to->device;
}

static void copy(const struct operation *operation)
{
    if (fake.peer_mbps > 0 && between_devices(operation))
        nap((long)(operation->width * operation->rows) / fake.peer_mbps);
    const unsigned char *from = operation->staging ? operation->staging : operation->from.cpu;
    for (size_t row = 0; row < operation->rows; row++)
        memmove(operation->to.cpu + row * operation->to_pitch, from + row * operation->from_pitch,
                operation->width);
}

static void fill(const struct operation *operation)
{
    if (operation->element == 1) {
        memset(operation->to.cpu, (int)operation->value, operation->width);
        return;
    }
    for (size_t i = 0; i < operation->width; i += sizeof operation->value)
        memcpy(operation->to.cpu + i, &operation->value, sizeof operation->value);
}

static bool run(CUstream stream, struct operation *operation)
{
    if (fake.delay_us > 0)
        nap(fake.delay_us);
    switch (operation->kind) {
    case COPY:
        copy(operation);
        return true;
    case FILL:
        fill(operation);
        return true;
    case WAIT_VALUE:
        return wait_value(stream, operation);
    case WRITE_VALUE:
        __atomic_store_n((unsigned *)(void *)operation->to.cpu, operation->value, __ATOMIC_RELEASE);
        return true;
    case CALL:
        calling = true;
        operation->function(operation->data);
        calling = false;
        return true;
    case RECORD:
    case FREE:
        return true;
    }
    return true;
}

static bool ended(CUstream stream)
{
    return stream->quit || fake.exiting;
}

static bool wait_dependencies(CUstream stream, const struct operation *operation)
{
    for (unsigned i = 0; i < operation->num_waits; i++) {
        const struct dependency *wait = &operation->waits[i];
        while (wait->stream->completed < wait->serial && !ended(stream))
            pthread_cond_wait(&fake.progress, &fake.lock);
    }
    return !ended(stream);
}

/* False: the stream ends. */
static bool wait_until_let_go(CUstream stream, const struct operation *operation)
{
    while (operation->kind == COPY && (stream->held || fake.hold_copies) && !ended(stream))
        pthread_cond_wait(&fake.progress, &fake.lock);
    return !ended(stream);
}

static void enter_range(struct use *use, int step)
{
    if (use->range)
        use->range->running += (unsigned)step;
}

/* What the driver finds out only here breaks the context, as an illegal address does. */
static void break_context(CUstream stream, const char *why)
{
    report(ERROR_ILLEGAL_ADDRESS, "%s", why);
    stream->context->sticky = ERROR_ILLEGAL_ADDRESS;
}

static void execute(CUstream stream, struct operation *operation)
{
    if (stream->context->sticky != CUDA_SUCCESS)
        return;
    if (!use_valid(&operation->to) || !use_valid(&operation->from)) {
        break_context(stream, "queued work came to memory that was freed or lost its access");
        return;
    }
    enter_range(&operation->to, 1);
    enter_range(&operation->from, 1);
    pthread_mutex_unlock(&fake.lock);
    bool done = run(stream, operation);
    pthread_mutex_lock(&fake.lock);
    enter_range(&operation->to, -1);
    enter_range(&operation->from, -1);
    if (!done)
        break_context(stream, "a wait is left without the memory of its word");
    if (operation->kind == RECORD && operation->event && operation->event->stream == stream &&
        operation->event->serial == operation->serial)
        clock_gettime(CLOCK_MONOTONIC, &operation->event->when);
}

static void give(struct use *use)
{
    if (use->range) {
        use->range->queued--;
        range_unref(use->range);
    }
}

void operation_free(struct operation *operation)
{
    give(&operation->to);
    give(&operation->from);
    free(operation->staging);
    free(operation->waits);
    free(operation);
}

static void complete(CUstream stream)
{
    struct operation *operation = stream->first;
    struct range *freed = operation->kind == FREE ? operation->to.range : NULL;
    stream->first = operation->next;
    if (!stream->first)
        stream->last = NULL;
    unsigned long long serial = operation->serial;
    bool free_it = freed && !freed->dead;
    if (free_it)
        freed->references++;
    operation_free(operation);
    if (free_it) {
        range_retire(freed, "freed");
        range_unref(freed);
    }
    stream->completed = serial;
    pthread_cond_broadcast(&fake.progress);
}

void *stream_work(void *argument)
{
    CUstream stream = argument;
    set_entered("a stream's work");
    pthread_mutex_lock(&fake.lock);
    while (!ended(stream) && (stream->first || stream->object.alive)) {
        if (!stream->first) {
            pthread_cond_wait(&stream->work, &fake.lock);
            continue;
        }
        if (!wait_dependencies(stream, stream->first) || !wait_until_let_go(stream, stream->first))
            break;
        execute(stream, stream->first);
        if (!fake.exiting)
            complete(stream);
    }
    /* Of a process that ends nothing more is done, and nothing is told as done. */
    while (!fake.exiting && stream->first)
        complete(stream);
    stream->has_worker = false;
    pthread_cond_broadcast(&fake.progress);
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}
