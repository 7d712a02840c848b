/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* DLPack: the structs of its ABI (0.8 and 1.0, github.com/dmlc/dlpack), and capsules of them. */
#ifndef GPUDIRECT_PYTHON_DLPACK_H
#define GPUDIRECT_PYTHON_DLPACK_H

#include "array.h"
#include "hold.h"
#include "python.h"

/* (device type, number), as __dlpack_device__() returns it. */
PyObject *dlpack_device(const struct hold *hold);

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) of an array in a frame.
 */
PyObject *dlpack_export(struct hold *hold, const struct array *array, PyObject *args,
                        PyObject *names);

#endif
