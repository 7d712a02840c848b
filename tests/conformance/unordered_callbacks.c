/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stands between the core and OpenCL (the linker's --wrap): each callback comes from a thread of
 * its own, up to a millisecond late, so that callbacks overtake each other. */
#include "support/check.h"

#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

typedef void (*callback)(cl_event event, cl_int state, void *arg);

__typeof__(clSetEventCallback) __real_clSetEventCallback, __wrap_clSetEventCallback;

struct call {
    callback fn;
    void *arg;
    cl_event event;
    cl_int state;
};

static void *call_late(void *arg)
{
    static atomic_uint turn;
    struct call *call = arg;
    unsigned late = atomic_fetch_add(&turn, 1) * 7919 % 1000; /* us */
    nanosleep(&(struct timespec){.tv_nsec = late * 1000L}, NULL);
    call->fn(call->event, call->state, call->arg);
    clReleaseEvent(call->event);
    free(call);
    return NULL;
}

static void CL_CALLBACK done(cl_event event, cl_int state, void *arg)
{
    struct call *call = arg;
    pthread_t thread;
    clRetainEvent(event);
    call->event = event;
    call->state = state;
    CHECK(pthread_create(&thread, NULL, call_late, call) == 0, "no thread");
    pthread_detach(thread);
}

cl_int __wrap_clSetEventCallback(cl_event event, cl_int type, callback fn, void *arg)
{
    struct call *call = malloc(sizeof(*call));
    CHECK(call, "out of memory");
    *call = (struct call){.fn = fn, .arg = arg};
    cl_int code = __real_clSetEventCallback(event, type, done, call);
    if (code != CL_SUCCESS)
        free(call);
    return code;
}
