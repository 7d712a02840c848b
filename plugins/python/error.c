/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "error.h"

#include <errno.h>
#include <string.h>

#define STATUSES (GPUD_IO + 1)

static PyObject *classes[STATUSES]; /* by status */
static PyObject *error_class, *taken_back_class, *address_in_use_class;

int error_init(void)
{
    if (error_class)
        return 0;
    PyObject *module = PyImport_ImportModule("gpudirect.errors");
    if (!module)
        return -1;
    error_class = PyObject_GetAttrString(module, "Error");
    taken_back_class = PyObject_GetAttrString(module, "TakenBack");
    address_in_use_class = PyObject_GetAttrString(module, "AddressInUse");
    PyObject *by_name = PyObject_GetAttrString(module, "BY_STATUS");
    int result = error_class && taken_back_class && address_in_use_class && by_name ? 0 : -1;
    for (int status = GPUD_AGAIN; result == 0 && status < STATUSES; status++) {
        classes[status] =
            PyMapping_GetItemString(by_name, gpud_status_string((enum gpud_status)status));
        if (!classes[status])
            result = -1;
    }
    Py_XDECREF(by_name);
    Py_DECREF(module);
    return result;
}

static int set_attribute(PyObject *object, const char *name, PyObject *value)
{
    int result = value ? PyObject_SetAttrString(object, name, value) : -1;
    Py_XDECREF(value);
    return result;
}

static PyObject *find_class(const struct gpud_error *error)
{
    if (error->status == GPUD_IO && error->native == EADDRINUSE && error->origin &&
        strcmp(error->origin, "errno") == 0)
        return address_in_use_class;
    /* A newer library may have statuses that this build does not know. */
    return error->status > GPUD_OK && error->status < STATUSES ? classes[error->status]
                                                               : error_class;
}

PyObject *error_new(const struct gpud_error *error)
{
    PyObject *type = find_class(error);
    PyObject *text =
        PyUnicode_DecodeUTF8(error->reason, (Py_ssize_t)strlen(error->reason), "replace");
    PyObject *made = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    Py_XDECREF(text);
    if (!made)
        return NULL;
    PyObject *origin = error->origin ? PyUnicode_FromString(error->origin) : Py_NewRef(Py_None);
    PyObject *status = PyUnicode_FromString(gpud_status_string(error->status));
    if (set_attribute(made, "status", status) < 0 ||
        set_attribute(made, "native", PyLong_FromLong(error->native)) < 0 ||
        set_attribute(made, "origin", Py_XNewRef(origin)) < 0)
        Py_CLEAR(made);
    Py_XDECREF(origin);
    return made;
}

void *error_raise(const struct gpud_error *error)
{
    PyObject *made = error_new(error);
    if (made)
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    Py_XDECREF(made);
    return NULL;
}

void *error_raise_text(enum gpud_status status, const char *text)
{
    struct gpud_error error = {.status = status};
    PyOS_snprintf(error.reason, sizeof(error.reason), "%s", text);
    return error_raise(&error);
}

void *error_raise_taken_back(void)
{
    PyErr_SetString(taken_back_class,
                    "the sender took the frame back, because it was held for too long, or its "
                    "writer died: the bytes are no longer those of the frame");
    return NULL;
}
