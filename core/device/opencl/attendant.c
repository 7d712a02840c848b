/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions. A driver calls back for each event, from whatever thread it likes and in any order
 * (NVIDIA's from five); those that wait are told one after the other, in the order of the queue.
 * The queue is in-order: when a command is done, so are all before it. */
#include "device/opencl/opencl.h"

#include <stdlib.h>

/* Held by the list until it is told, and by the driver's callback. */
struct opencl_completion {
    struct opencl_completion *next;
    struct opencl_attendant *attendant;
    unsigned references;
    cl_event event;
    bool done;
    enum gpud_status status; /* once done */
    gpud_complete_fn fn;
    void *arg;
};

/* Outlives its queue, because the driver's callbacks may. */
struct opencl_attendant {
    pthread_mutex_t lock; /* of what follows, and of the completions */
    struct opencl_completion *first, **end;
    bool telling; /* somebody is, and looks once more before it leaves */
    unsigned references;
};

struct opencl_attendant *gpud_opencl_attendant_create(void)
{
    struct opencl_attendant *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    made->end = &made->first;
    made->references = 1;
    return made;
}

void gpud_opencl_attendant_unref(struct opencl_attendant *attendant)
{
    pthread_mutex_lock(&attendant->lock);
    bool last = --attendant->references == 0;
    pthread_mutex_unlock(&attendant->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&attendant->lock);
    free(attendant);
}

/* Under the lock. */
static void completion_unref(struct opencl_completion *completion)
{
    if (--completion->references > 0)
        return;
    clReleaseEvent(completion->event);
    free(completion);
}

/* Under the lock. */
static void mark_done(struct opencl_completion *completion, bool failed)
{
    if (!completion->done)
        completion->status = failed || gpud_opencl_state(completion->event) < 0 ? GPUD_IO : GPUD_OK;
    completion->done = true;
}

/* Without the lock: whoever is told may use the queue, or drop it. */
static void tell_those_done(struct opencl_attendant *attendant)
{
    pthread_mutex_lock(&attendant->lock);
    bool busy = attendant->telling;
    attendant->telling = true;
    while (!busy && attendant->first && attendant->first->done) {
        struct opencl_completion *completion = attendant->first;
        attendant->first = completion->next;
        if (!attendant->first)
            attendant->end = &attendant->first;
        pthread_mutex_unlock(&attendant->lock);
        completion->fn(completion->arg, completion->status);
        pthread_mutex_lock(&attendant->lock);
        completion_unref(completion);
    }
    attendant->telling = busy;
    pthread_mutex_unlock(&attendant->lock);
}

/* --- the driver's callback ----------------------------------------------------------------- */

static _Thread_local bool in_callback;

bool gpud_opencl_in_callback(void)
{
    return in_callback;
}

static void CL_CALLBACK complete(cl_event event, cl_int code, void *arg)
{
    struct opencl_completion *completion = arg;
    struct opencl_attendant *attendant = completion->attendant;
    pthread_mutex_lock(&attendant->lock);
    for (struct opencl_completion *before = attendant->first;
         !completion->done && before != completion; before = before->next)
        mark_done(before, false);
    /* Some drivers say what was asked for, not what became of the command. */
    mark_done(completion, code < 0);
    completion_unref(completion);
    pthread_mutex_unlock(&attendant->lock);

    bool nested = in_callback;
    in_callback = true;
    tell_those_done(attendant);
    in_callback = nested;
    gpud_opencl_attendant_unref(attendant);
}

/* --- what a queue asks for ----------------------------------------------------------------- */

struct opencl_completion *gpud_opencl_attend(struct opencl_attendant *attendant, cl_event event,
                                             gpud_complete_fn fn, void *arg)
{
    struct opencl_completion *completion = malloc(sizeof(*completion));
    if (!completion)
        return NULL;
    clRetainEvent(event);
    *completion = (struct opencl_completion){
        .attendant = attendant, .references = 2, .event = event, .fn = fn, .arg = arg};
    pthread_mutex_lock(&attendant->lock);
    attendant->references++;
    *attendant->end = completion;
    attendant->end = &completion->next;
    pthread_mutex_unlock(&attendant->lock);
    return completion;
}

/* Takes a completion out again that the driver did not accept; false: it was told meanwhile, or is
 * about to be. */
static bool withdraw(struct opencl_completion *completion)
{
    struct opencl_attendant *attendant = completion->attendant;
    pthread_mutex_lock(&attendant->lock);
    bool waits = !completion->done;
    if (waits) {
        struct opencl_completion **link = &attendant->first;
        while (*link != completion)
            link = &(*link)->next;
        *link = completion->next;
        if (!*link)
            attendant->end = link;
        completion->references--;
    }
    completion_unref(completion); /* the callback's */
    pthread_mutex_unlock(&attendant->lock);
    gpud_opencl_attendant_unref(attendant);
    return waits;
}

enum gpud_status gpud_opencl_call_back(struct opencl_completion *completion,
                                       struct gpud_error *error)
{
    cl_int code = clSetEventCallback(completion->event, CL_COMPLETE, complete, completion);
    if (code == CL_SUCCESS || !withdraw(completion))
        return GPUD_OK;
    return gpud_opencl_fail(error, code, "the driver cannot tell when a queue is done");
}

void gpud_opencl_attendant_fail(struct opencl_attendant *attendant)
{
    pthread_mutex_lock(&attendant->lock);
    for (struct opencl_completion *each = attendant->first; each; each = each->next)
        mark_done(each, true);
    pthread_mutex_unlock(&attendant->lock);
    tell_those_done(attendant);
}
