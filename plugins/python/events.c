/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "python.h"

#include <stdlib.h>
#include <string.h>

struct event {
    struct event *next;
    uint32_t member, kind;
    size_t size;
    char data[];
};

void events_note(struct events *events, uint32_t member, const struct gpud_user_event *user)
{
    struct event *event = malloc(sizeof(*event) + user->size);
    if (!event)
        return;
    event->next = NULL;
    event->member = member;
    event->kind = user->kind;
    event->size = user->size;
    if (user->size)
        memcpy(event->data, user->data, user->size);
    if (events->first)
        events->last->next = event;
    else
        events->first = event;
    events->last = event;
}

struct events events_take(struct events *events)
{
    struct events taken = *events;
    *events = (struct events){NULL, NULL};
    return taken;
}

static PyObject *events_call(PyObject *handler, const struct event *event, bool with_member)
{
    unsigned member = event->member, kind = event->kind;
    Py_ssize_t size = (Py_ssize_t)event->size;
    if (with_member)
        return PyObject_CallFunction(handler, "IIy#", member, kind, event->data, size);
    return PyObject_CallFunction(handler, "Iy#", kind, event->data, size);
}

int events_deliver(struct events events, PyObject *handler, bool with_member)
{
    int result = 0;
    /* A handler may drop the last reference to the object that has it. */
    Py_XINCREF(handler);
    while (events.first) {
        struct event *event = events.first;
        events.first = event->next;
        PyObject *done = handler && result == 0 ? events_call(handler, event, with_member) : NULL;
        if (handler && !done)
            result = -1;
        Py_XDECREF(done);
        free(event);
    }
    Py_XDECREF(handler);
    return result;
}

int events_parse_handler(PyObject *object, void *handler)
{
    PyObject **result = handler;
    *result = NULL;
    if (object == Py_None)
        return 1;
    if (!PyCallable_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%R is no function to call: give one, or None", object);
        return 0;
    }
    *result = object;
    return 1;
}
