/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "guard.h"

#include "context.h"
#include "error.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SLICE (50 * GPUD_MSEC)

void guard_init(struct guard *guard, const char *name)
{
    pthread_mutex_init(&guard->lock, NULL);
    pthread_mutex_init(&guard->turn, NULL);
    guard->pid = (long)getpid();
    guard->name = name;
}

void guard_clear(struct guard *guard)
{
    pthread_mutex_destroy(&guard->lock);
    pthread_mutex_destroy(&guard->turn);
}

static void raise_closed(const struct guard *guard)
{
    char text[64];
    snprintf(text, sizeof(text), "the %s is closed", guard->name);
    error_raise_text(GPUD_CLOSED, text);
}

bool guard_enter(struct guard *guard)
{
    if (context_is_foreign(guard->pid)) {
        PyErr_Format(PyExc_RuntimeError,
                     "the %s belongs to the process that this one was forked from", guard->name);
        return false;
    }
    pthread_mutex_lock(&guard->lock);
    bool closed = guard->closed;
    if (!closed)
        guard->users++;
    pthread_mutex_unlock(&guard->lock);
    if (closed)
        raise_closed(guard);
    return !closed;
}

bool guard_leave(struct guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    bool last = --guard->users == 0 && guard->closed;
    pthread_mutex_unlock(&guard->lock);
    return last;
}

bool guard_close(struct guard *guard)
{
    if (context_is_foreign(guard->pid))
        return false;
    pthread_mutex_lock(&guard->lock);
    bool last = !guard->closed && guard->users == 0;
    guard->closed = true;
    pthread_mutex_unlock(&guard->lock);
    return last;
}

bool guard_is_closed(struct guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    bool closed = guard->closed;
    pthread_mutex_unlock(&guard->lock);
    return closed;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * GPUD_SEC + time.tv_nsec;
}

int guard_wait(struct guard *guard, int64_t timeout_ns, bool one_at_a_time, guard_slice_fn slice,
               guard_between_fn between, void *call, enum gpud_status *status)
{
    struct gpud_error error;
    int64_t begin = now();
    for (;;) {
        int64_t left = timeout_ns - (now() - begin);
        left = left < 0 ? 0 : left;
        Py_BEGIN_ALLOW_THREADS
        if (one_at_a_time)
            pthread_mutex_lock(&guard->turn);
        *status = slice(call, left < SLICE ? left : SLICE, &error);
        if (one_at_a_time)
            pthread_mutex_unlock(&guard->turn);
        Py_END_ALLOW_THREADS
        if (between && between(call) < 0)
            return -1;
        if (*status == GPUD_OK)
            return 0;
        if ((*status == GPUD_TIMEOUT || *status == GPUD_AGAIN) && guard_is_closed(guard)) {
            raise_closed(guard);
            *status = GPUD_CLOSED;
            return -1;
        }
        if (*status != GPUD_TIMEOUT || left <= SLICE) {
            error_raise(&error);
            return -1;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}

int guard_parse_timeout(PyObject *object, void *timeout_ns)
{
    int64_t *result = timeout_ns;
    *result = INT64_MAX;
    if (object == Py_None)
        return 1;
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_SetString(PyExc_TypeError, "a timeout is a number of seconds, or None");
        return 0;
    }
    if (!(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout is at least 0 seconds; None has no end");
        return 0;
    }
    if (seconds < 1e9)
        *result = (int64_t)(seconds * 1e9);
    return 1;
}
