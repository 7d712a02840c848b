/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect.Plane: an array in a frame, by DLPack and by the buffer protocol. */
#ifndef GPUDIRECT_PYTHON_VIEW_H
#define GPUDIRECT_PYTHON_VIEW_H

#include "array.h"
#include "hold.h"
#include "python.h"

int view_init(PyObject *module);

PyObject *view_new(struct hold *hold, const struct array *array);

#endif
