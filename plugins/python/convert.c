/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "convert.h"

#include <string.h>

static const char *const policies[] = {
    [GPUD_SLOW_BLOCK] = "block",
    [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
    [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
};

PyObject *convert_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *convert_time(uint64_t ns)
{
    return ns == UINT64_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(ns);
}

PyObject *convert_media(const struct gpud_media *media)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    if (gpud_media_to_string(media, text, sizeof(text), NULL) != GPUD_OK)
        return Py_NewRef(Py_None);
    return convert_text(text);
}

PyObject *convert_policy(enum gpud_slow_receiver policy)
{
    if (policy <= GPUD_SLOW_DEFAULT || policy > GPUD_SLOW_DROP_OLDEST)
        return Py_NewRef(Py_None);
    return PyUnicode_FromString(policies[policy]);
}

int convert_parse_policy(PyObject *object, void *policy)
{
    enum gpud_slow_receiver *result = policy;
    *result = GPUD_SLOW_DEFAULT;
    if (object == Py_None)
        return 1;
    if (!PyUnicode_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "slow_receiver is a text, or None");
        return 0;
    }
    for (int i = GPUD_SLOW_BLOCK; i <= GPUD_SLOW_DROP_OLDEST; i++)
        if (PyUnicode_CompareWithASCIIString(object, policies[i]) == 0) {
            *result = (enum gpud_slow_receiver)i;
            return 1;
        }
    PyErr_Format(PyExc_ValueError,
                 "slow_receiver is \"block\", \"drop-newest\" or \"drop-oldest\", not %R", object);
    return 0;
}

int convert_parse_device(PyObject *object, void *device)
{
    const char **result = device;
    *result = NULL;
    if (object == Py_None)
        return 1;
    if (!PyArg_Parse(object, "s;device is a text, or None", result))
        return 0;
    if (strcmp(*result, "cpu") == 0) /* as torch and numpy call it */
        *result = "host";
    return 1;
}

int convert_parse_busy_poll(PyObject *object, void *busy_poll_ns)
{
    int64_t *result = busy_poll_ns;
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred())
        return 0;
    if (!(seconds > -10 && seconds < 10)) {
        PyErr_SetString(PyExc_ValueError, "busy_poll is a number of seconds below 10");
        return 0;
    }
    *result = (int64_t)(seconds * 1e9);
    return 1;
}

PyObject *convert_to_numpy(PyObject *self, PyObject *args, PyObject *names)
{
    PyObject *memory = PyMemoryView_FromObject(self);
    PyObject *first = memory ? PyTuple_Pack(1, memory) : NULL;
    PyObject *all = first ? PySequence_Concat(first, args) : NULL;
    PyObject *numpy = all ? PyImport_ImportModule("numpy") : NULL;
    PyObject *function = numpy ? PyObject_GetAttrString(numpy, "asarray") : NULL;
    PyObject *array = function ? PyObject_Call(function, all, names) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(numpy);
    Py_XDECREF(all);
    Py_XDECREF(first);
    Py_XDECREF(memory);
    return array;
}
