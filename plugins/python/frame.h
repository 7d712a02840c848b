/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect.Frame: a received, captured or lent frame. */
#ifndef GPUDIRECT_PYTHON_FRAME_H
#define GPUDIRECT_PYTHON_FRAME_H

#include "hold.h"
#include "python.h"

int frame_init(PyObject *module);

/* Owns the hold, also if it fails. lender: what `with` submits a lent frame to, by its method
 * submit(); or NULL. */
PyObject *frame_new(struct hold *hold, PyObject *lender);

/* A reference to the hold of a frame that is not released, for a variable that is HELD. NULL with
 * an exception. */
struct hold *frame_get_hold(PyObject *object);
bool frame_is_frame(PyObject *object);

#endif
