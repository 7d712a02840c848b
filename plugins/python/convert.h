/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values between Python and C. */
#ifndef GPUDIRECT_PYTHON_CONVERT_H
#define GPUDIRECT_PYTHON_CONVERT_H

#include "python.h"

#include <gpudirect/sender.h>

/* A text of the library's, which may end in mid-character. For Py_BuildValue's "N". */
PyObject *convert_text(const char *text);
/* None for UINT64_MAX. */
PyObject *convert_time(uint64_t ns);
/* The media in the syntax of caps; None if it cannot be written. */
PyObject *convert_media(const struct gpud_media *media);

/* `__array__` of what has the buffer protocol. numpy calls it only where that refuses, and makes an
 * array of the object itself, without the reason, where there is no such method. */
PyObject *convert_to_numpy(PyObject *self, PyObject *args, PyObject *names);

/* The name of a policy: "block", "drop-newest", "drop-oldest"; None. */
PyObject *convert_policy(enum gpud_slow_receiver policy);
/* A converter for PyArg_Parse's "O&", into an enum gpud_slow_receiver. */
int convert_parse_policy(PyObject *object, void *policy);

/* A converter for PyArg_Parse's "O&": a device's name or None, into a const char * that lives as
 * long as the object. */
int convert_parse_device(PyObject *object, void *device);

/* A converter for PyArg_Parse's "O&": seconds of busy polling, into nanoseconds of an int64_t. */
int convert_parse_busy_poll(PyObject *object, void *busy_poll_ns);

#endif
