/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Python's API as the extension uses it: the stable ABI of 3.11, the first that has the buffer
 * protocol. */
#ifndef GPUDIRECT_PYTHON_PYTHON_H
#define GPUDIRECT_PYTHON_PYTHON_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#endif
