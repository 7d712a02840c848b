/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What lets one thread close an object while others wait in it: the last to leave destroys it. */
#ifndef GPUDIRECT_PYTHON_GUARD_H
#define GPUDIRECT_PYTHON_GUARD_H

#include "python.h"

#include <gpudirect/types.h>

#include <pthread.h>

struct guard {
    pthread_mutex_t lock; /* guards users, closed; held for a few instructions */
    pthread_mutex_t turn; /* held by the calls that the library wants from one thread at a time */
    unsigned users;
    bool closed;
    long pid; /* of the process that made the object */
    const char *name;
};

void guard_init(struct guard *guard, const char *name);
void guard_clear(struct guard *guard);

/* False with an exception if the object is closed. */
bool guard_enter(struct guard *guard);
/* True: the caller is the last user of a closed object, and destroys it. */
bool guard_leave(struct guard *guard);
/* True as for guard_leave(). Closing twice is harmless. */
bool guard_close(struct guard *guard);
bool guard_is_closed(struct guard *guard);

/* A part of a wait, which runs without the GIL and takes timeout_ns at most. */
typedef enum gpud_status (*guard_slice_fn)(void *call, int64_t timeout_ns,
                                           struct gpud_error *error);
/* Runs with the GIL after each part; -1 with an exception ends the wait. */
typedef int (*guard_between_fn)(void *call);

/* Waits for slice() to return something other than GPUD_TIMEOUT, in parts short enough for Python's
 * signal handlers. between may be NULL. Returns 0, or -1 with an exception; *status is the last
 * part's, also where between() raised. one_at_a_time: takes the guard's turn for each part. */
int guard_wait(struct guard *guard, int64_t timeout_ns, bool one_at_a_time, guard_slice_fn slice,
               guard_between_fn between, void *call, enum gpud_status *status);

/* A converter for PyArg_Parse's "O&": seconds or None, into nanoseconds of an int64_t. */
int guard_parse_timeout(PyObject *object, void *timeout_ns);

#endif
