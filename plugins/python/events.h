/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Events that the library reports without the GIL, until a handler can be called with it. */
#ifndef GPUDIRECT_PYTHON_EVENTS_H
#define GPUDIRECT_PYTHON_EVENTS_H

#include "python.h"

#include <gpudirect/receiver.h>

struct event;

/* Zeroed: none. */
struct events {
    struct event *first, *last;
};

/* Copies an event; one for which there is no memory is lost. */
void events_note(struct events *events, uint32_t member, const struct gpud_user_event *user);
/* All of them, which the caller delivers. */
struct events events_take(struct events *events);
/* Calls handler(member, kind, data), or handler(kind, data), for each, with the GIL. NULL: drops
 * them. Those behind one whose handler raises are lost: -1. */
int events_deliver(struct events events, PyObject *handler, bool with_member);

/* A converter for PyArg_Parse's "O&": something to call, or None, which is NULL; borrowed. */
int events_parse_handler(PyObject *object, void *handler);

#endif
