/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect._gpudirect.Capture, which the package's own class extends. */
#ifndef GPUDIRECT_PYTHON_CAPTURE_H
#define GPUDIRECT_PYTHON_CAPTURE_H

#include "python.h"

int capture_init(PyObject *module);

#endif
