/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect._gpudirect.Sender, which the package's own class extends. */
#ifndef GPUDIRECT_PYTHON_SENDER_H
#define GPUDIRECT_PYTHON_SENDER_H

#include "python.h"

int sender_init(PyObject *module);

#endif
