/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The process's context, which lives until the process ends: tensors may be dropped at any time
 * until then, and need it. */
#ifndef GPUDIRECT_PYTHON_CONTEXT_H
#define GPUDIRECT_PYTHON_CONTEXT_H

#include "python.h"

#include <gpudirect/device.h>

/* The context of this process. NULL with an exception if it cannot be created, or if the process
 * was forked from the one that created it. */
struct gpud_context *context_get(void);

/* Objects of a parent process are neither used nor destroyed by its children. */
bool context_is_foreign(long pid);
/* For the sentence that refuses it. */
#define CONTEXT_SPAWN                                                      \
    "start processes by multiprocessing's \"spawn\" (torch's DataLoader: " \
    "multiprocessing_context=\"spawn\")"

#endif
