/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect.Group: receivers that hand on instants together. */
#ifndef GPUDIRECT_PYTHON_GROUP_H
#define GPUDIRECT_PYTHON_GROUP_H

#include "python.h"

int group_init(PyObject *module);

#endif
