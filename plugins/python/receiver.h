/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect._gpudirect.Receiver, which the package's own class extends. */
#ifndef GPUDIRECT_PYTHON_RECEIVER_H
#define GPUDIRECT_PYTHON_RECEIVER_H

#include "python.h"

int receiver_init(PyObject *module);

#endif
