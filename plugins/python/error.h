/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Failures of the library as Python's exceptions. */
#ifndef GPUDIRECT_PYTHON_ERROR_H
#define GPUDIRECT_PYTHON_ERROR_H

#include "python.h"

#include <gpudirect/types.h>

/* Looks up the classes of gpudirect/errors.py. */
int error_init(void);

/* The exception of error->status, whose text is the library's sentence. NULL with another exception
 * if it cannot be made. */
PyObject *error_new(const struct gpud_error *error);

/* Raises that exception. Returns NULL. */
void *error_raise(const struct gpud_error *error);

/* The same with a sentence of this package. Returns NULL. */
void *error_raise_text(enum gpud_status status, const char *text);

/* Raises gpudirect.TakenBack. Returns NULL. */
void *error_raise_taken_back(void);

#endif
