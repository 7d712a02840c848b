/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "context.h"

#include "error.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpud_context *context;
static long owner;

bool context_is_foreign(long pid)
{
    return pid != (long)getpid();
}

struct gpud_context *context_get(void)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&lock);
    if (!context) {
        status = gpud_context_create(NULL, &context, &error);
        owner = (long)getpid();
    }
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS
    if (status != GPUD_OK)
        return error_raise(&error);
    if (context_is_foreign(owner)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "gpudirect was used before this process was forked: " CONTEXT_SPAWN
                        ", or use gpudirect first in the child");
        return NULL;
    }
    return context;
}
