/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What lets one thread close an object while others wait in it: the last to leave destroys it. */
#ifndef GPUDIRECT_PYTHON_GUARD_H
#define GPUDIRECT_PYTHON_GUARD_H

#include "python.h"

#include <gpudirect/types.h>

#include <pthread.h>

struct guard_ops {
    const char *name;
    /* Both run without the GIL; destroy() may find nothing to destroy. */
    void (*destroy)(PyObject *object);
    enum gpud_status (*get_fd)(PyObject *object, int *fd, struct gpud_error *error);
    /* Copies state and counters into the object. With the GIL; there may be nothing to read. */
    void (*read_info)(PyObject *object);
};

struct guard {
    pthread_mutex_t lock; /* guards users, closed; held for a few instructions */
    pthread_mutex_t turn; /* held by the calls that the library wants from one thread at a time */
    unsigned users;
    bool closed;
    long pid; /* of the process that made the object */
    const struct guard_ops *ops;
};

/* Defines read_info() for struct NAME, whose members are called NAME and info. */
#define GUARD_READ_INFO(name)                                               \
    static void read_info(PyObject *object)                                 \
    {                                                                       \
        struct name *self = (struct name *)object;                          \
        self->info = (struct gpud_##name##_info)GPUD_INFO_INIT(self->info); \
        if (self->name)                                                     \
            gpud_##name##_get_info(self->name, &self->info);                \
    }

/* How objects with a guard begin. */
struct guarded {
    PyObject_HEAD struct guard guard;
};

/* A new object of a type that begins with struct guarded, for its tp_new; zeroed. */
PyObject *guard_new(PyTypeObject *type, const struct guard_ops *ops);
/* For its tp_dealloc: closes the object, and frees it last. */
void guard_free(PyObject *object);

/* False with an exception if the object is closed. */
bool guard_enter(struct guarded *object);
void guard_leave(struct guarded *object);
/* Lets the object read its info, which stays as it was when the object was closed. False with an
 * exception in a process that was forked. */
bool guard_read_info(struct guarded *object);
/* Closing twice is harmless. */
void guard_close(struct guarded *object);

/* Methods and an attribute that all of them have. */
PyObject *guard_method_close(PyObject *object, PyObject *unused);
PyObject *guard_method_fileno(PyObject *object, PyObject *unused);
PyObject *guard_get_closed(PyObject *object, void *closure);

/* A part of a wait, which runs without the GIL and takes timeout_ns at most. */
typedef enum gpud_status (*guard_slice_fn)(void *call, int64_t timeout_ns,
                                           struct gpud_error *error);
/* Runs with the GIL after each part; -1 with an exception ends the wait. */
typedef int (*guard_between_fn)(void *call);

/* Waits for slice() to return something other than GPUD_TIMEOUT, in parts short enough for Python's
 * signal handlers. between may be NULL. Returns 0, or -1 with an exception; *status is what the
 * exception says, GPUD_OK where it is not the library's but that of a handler. one_at_a_time: takes
 * the guard's turn for each part. */
int guard_wait(struct guarded *object, int64_t timeout_ns, bool one_at_a_time, guard_slice_fn slice,
               guard_between_fn between, void *call, enum gpud_status *status);

/* A converter for PyArg_Parse's "O&": seconds or None, into nanoseconds of an int64_t. */
int guard_parse_timeout(PyObject *object, void *timeout_ns);

#endif
