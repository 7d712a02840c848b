/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "guard.h"

#include "context.h"
#include "error.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SLICE (50 * GPUD_MSEC)

PyObject *guard_new(PyTypeObject *type, const struct guard_ops *ops)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct guarded *object = (struct guarded *)allocate(type, 0);
    if (!object)
        return NULL;
    pthread_mutex_init(&object->guard.lock, NULL);
    pthread_mutex_init(&object->guard.turn, NULL);
    object->guard.pid = (long)getpid();
    object->guard.ops = ops;
    return (PyObject *)object;
}

void guard_free(PyObject *object)
{
    struct guarded *self = (struct guarded *)object;
    PyTypeObject *type = Py_TYPE(object);
    guard_close(self);
    pthread_mutex_destroy(&self->guard.lock);
    pthread_mutex_destroy(&self->guard.turn);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static void destroy(struct guarded *object)
{
    Py_BEGIN_ALLOW_THREADS
    object->guard.ops->destroy((PyObject *)object);
    Py_END_ALLOW_THREADS
}

static void raise_closed(const struct guard *guard)
{
    char text[64];
    snprintf(text, sizeof(text), "the %s is closed", guard->ops->name);
    error_raise_text(GPUD_CLOSED, text);
}

static bool check_process(const struct guard *guard)
{
    if (!context_is_foreign(guard->pid))
        return true;
    PyErr_Format(PyExc_RuntimeError,
                 "the %s belongs to the process that this one was forked from: " CONTEXT_SPAWN
                 ", and make it there",
                 guard->ops->name);
    return false;
}

static bool enter_open(struct guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    bool open = !guard->closed;
    guard->users += open;
    pthread_mutex_unlock(&guard->lock);
    return open;
}

bool guard_enter(struct guarded *object)
{
    struct guard *guard = &object->guard;
    if (!check_process(guard))
        return false;
    bool open = enter_open(guard);
    if (!open)
        raise_closed(guard);
    return open;
}

void guard_leave(struct guarded *object)
{
    struct guard *guard = &object->guard;
    pthread_mutex_lock(&guard->lock);
    bool last = --guard->users == 0 && guard->closed;
    pthread_mutex_unlock(&guard->lock);
    if (last)
        destroy(object);
}

static void read_info(struct guarded *object)
{
    if (!enter_open(&object->guard))
        return;
    object->guard.ops->read_info((PyObject *)object);
    guard_leave(object);
}

bool guard_read_info(struct guarded *object)
{
    if (!check_process(&object->guard))
        return false;
    read_info(object);
    return true;
}

void guard_close(struct guarded *object)
{
    struct guard *guard = &object->guard;
    if (context_is_foreign(guard->pid))
        return;
    read_info(object);
    pthread_mutex_lock(&guard->lock);
    /* Else the last call that still waits destroys it, when this part of its wait is over. */
    bool unused = !guard->closed && guard->users == 0;
    guard->closed = true;
    pthread_mutex_unlock(&guard->lock);
    if (unused)
        destroy(object);
}

static bool is_closed(struct guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    bool closed = guard->closed;
    pthread_mutex_unlock(&guard->lock);
    return closed;
}

PyObject *guard_method_close(PyObject *object, PyObject *unused)
{
    guard_close((struct guarded *)object);
    return Py_NewRef(Py_None);
}

PyObject *guard_get_closed(PyObject *object, void *closure)
{
    return PyBool_FromLong(is_closed(&((struct guarded *)object)->guard));
}

PyObject *guard_method_fileno(PyObject *object, PyObject *unused)
{
    struct guarded *self = (struct guarded *)object;
    struct gpud_error error;
    enum gpud_status status;
    int fd;
    if (!guard_enter(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = self->guard.ops->get_fd(object, &fd, &error);
    Py_END_ALLOW_THREADS
    guard_leave(self);
    return status == GPUD_OK ? PyLong_FromLong(fd) : error_raise(&error);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * GPUD_SEC + time.tv_nsec;
}

int guard_wait(struct guarded *object, int64_t timeout_ns, bool one_at_a_time, guard_slice_fn slice,
               guard_between_fn between, void *call, enum gpud_status *status)
{
    struct guard *guard = &object->guard;
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
        if (between && between(call) < 0) {
            *status = GPUD_OK;
            return -1;
        }
        if (*status == GPUD_OK)
            return 0;
        if ((*status == GPUD_TIMEOUT || *status == GPUD_AGAIN) && is_closed(guard)) {
            raise_closed(guard);
            *status = GPUD_CLOSED;
            return -1;
        }
        if (*status != GPUD_TIMEOUT || now() - begin >= timeout_ns) {
            error_raise(&error);
            return -1;
        }
        if (PyErr_CheckSignals() < 0) {
            *status = GPUD_OK;
            return -1;
        }
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
