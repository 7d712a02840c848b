/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A memory is shared by pointer while another thread drops a reference to it: the last reference
 * takes it out of the table of what is shared. That thread is stopped where it has looked at the
 * memory, and has not dropped its reference yet. */
#include "base/base.h"
#include "device/device.h"
#include "support/check.h"
#include "support/make.h"

#include <pthread.h>
#include <semaphore.h>

#define SIZE 4096

static _Thread_local bool stops;
static sem_t stopped, go;

void gpud_stop_point(const char *name)
{
    if (!stops || strcmp(name, "memory: references read") != 0)
        return;
    stops = false;
    sem_post(&stopped);
    sem_wait(&go);
}

static void *drop(void *arg)
{
    struct gpud_memory *memory = arg;
    stops = true;
    gpud_memory_unref(&memory);
    return NULL;
}

int main(void)
{
    struct gpud_memory *memory, *imported;
    struct gpud_handle handle;
    test_alarm(100);
    sem_init(&stopped, 0, 0);
    sem_init(&go, 0, 0);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_device *host = OPEN_DEVICE(context, "host");
    WORKS(gpud_memory_alloc_for(host, SIZE, GPUD_USAGE_SHARE, &memory, &e));
    pthread_t thread = NEW_THREAD(drop, gpud_memory_ref(memory));
    sem_wait(&stopped);
    gpud_memory_export_local(memory, &handle);
    WORKS(gpud_memory_import(host, &handle, SIZE, GPUD_USAGE_SHARE, &imported, &e));
    gpud_memory_unref(&imported);
    gpud_memory_unref(&memory); /* the other thread's is the last one */
    sem_post(&go);
    pthread_join(thread, NULL);
    CHECK(!context->local[handle.word[1] - 1], "the table has a memory that is gone");
    EXPECT(GPUD_PEER, "does not have",
           gpud_memory_import(host, &handle, SIZE, GPUD_USAGE_SHARE, &imported, &e));
    gpud_device_close(&host);
    gpud_context_destroy(&context);
    return 0;
}
