/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The lists of this machine's devices and of this user's channels. */
#ifndef GPUDIRECT_PYTHON_LISTS_H
#define GPUDIRECT_PYTHON_LISTS_H

#include "python.h"

/* Functions of the module. */
PyObject *lists_devices(PyObject *module, PyObject *unused);
PyObject *lists_channels(PyObject *module, PyObject *args, PyObject *names);

#endif
