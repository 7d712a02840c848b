/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a failed measurement ends. */
#include "ceilings/ceilings.h"

#include "clock.h"
#include "vendor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* === failure ================================================================================= */

void raw_fail(const struct raw_caller *caller, enum gpud_status status, const char *format, ...)
{
    char reason[GPUD_REASON_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    caller->fail(caller->user, status, reason);
}

/* === driver ================================================================================== */

#define SPIN_NS 1000000

_Static_assert(RAW_NOT_READY == GPUD_GPU_NOT_READY, "the number of both drivers");

static struct raw_driver *const drivers[] = {&raw_cuda, &raw_hip};

/* "cuda" is cuda:0. */
static bool driver_parse(const char *device, const char *prefix, unsigned *gpu)
{
    size_t length = strlen(prefix);
    char *end;
    if (strncmp(device, prefix, length) != 0)
        return false;
    const char *rest = device + length;
    *gpu = 0;
    if (!*rest)
        return true;
    if (rest[0] != ':' || rest[1] < '0' || rest[1] > '9')
        return false;
    unsigned long ordinal = strtoul(rest + 1, &end, 10);
    *gpu = (unsigned)ordinal;
    return !*end && ordinal < RAW_GPUS_MAX;
}

struct raw_driver *raw_driver_of(const char *device, unsigned *gpu)
{
    unsigned parsed;
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        if (!driver_parse(device, drivers[i]->prefix, &parsed))
            continue;
        if (gpu)
            *gpu = parsed;
        return drivers[i];
    }
    return NULL;
}

bool raw_open(struct raw_driver *driver, char *reason, size_t size)
{
    if (!driver->opened)
        driver->opened = driver->open(reason, size);
    return driver->opened;
}

void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result)
{
    const char *name = driver->error_name(result);
    snprintf(reason, size, "%s: %s (%d)", what, name ? name : "an unknown error", result);
}

bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size)
{
    char what[32];
    int result = driver->enter(gpu);
    snprintf(what, sizeof(what), "%s:%u", driver->prefix, gpu);
    if (result != 0)
        raw_say(driver, reason, size, what, result);
    return result == 0;
}

void raw_leave(const struct raw_driver *driver)
{
    driver->leave();
}

/* --- calls ------------------------------------------------------------------------------------ */

bool raw_has_words(const struct raw_driver *driver, unsigned gpu)
{
    return driver->has_words(gpu);
}

int raw_can_access_peer(const struct raw_driver *driver, int *can, unsigned gpu, unsigned peer)
{
    return driver->device_can_access_peer(can, (int)gpu, (int)peer);
}

int raw_enable_peer(const struct raw_driver *driver, unsigned peer)
{
    return driver->enable_peer(peer);
}

int raw_alloc(const struct raw_driver *driver, raw_address *address, size_t size)
{
    return driver->mem_alloc(address, size);
}

int raw_free(const struct raw_driver *driver, raw_address address)
{
    return driver->mem_free(address);
}

/* Mapped, because HIP's pinned memory is then coherent whatever the environment says. */
int raw_host_alloc(const struct raw_driver *driver, void **host, size_t size)
{
    return driver->mem_host_alloc(host, size, GPUD_GPU_HOST_PORTABLE | GPUD_GPU_HOST_MAPPED);
}

int raw_host_free(const struct raw_driver *driver, void *host)
{
    return driver->mem_free_host(host);
}

int raw_host_address(const struct raw_driver *driver, raw_address *address, void *host)
{
    return driver->mem_host_get_device_pointer(address, host, 0);
}

int raw_fill(const struct raw_driver *driver, raw_address address, unsigned char value, size_t size,
             raw_stream stream)
{
    return driver->memset_d8_async(address, value, size, stream);
}

int raw_copy(const struct raw_driver *driver, raw_address to, raw_address from, size_t size,
             raw_stream stream)
{
    return driver->copy(to, from, size, stream);
}

int raw_copy_rows(const struct raw_driver *driver, raw_address to, size_t to_pitch,
                  raw_address from, size_t from_pitch, size_t width, size_t rows, raw_stream stream)
{
    return driver->copy_rows(to, to_pitch, from, from_pitch, width, rows, stream);
}

int raw_stream_create(const struct raw_driver *driver, raw_stream *stream)
{
    return driver->stream_create(stream, GPUD_GPU_STREAM_NON_BLOCKING);
}

int raw_stream_destroy(const struct raw_driver *driver, raw_stream stream)
{
    return driver->stream_destroy(stream);
}

int raw_stream_query(const struct raw_driver *driver, raw_stream stream)
{
    return driver->stream_query(stream);
}

int raw_wait_value(const struct raw_driver *driver, raw_stream stream, raw_address word,
                   uint32_t value)
{
    return driver->wait_value(stream, word, value);
}

int raw_write_value(const struct raw_driver *driver, raw_stream stream, raw_address word,
                    uint32_t value)
{
    return driver->stream_write_value(stream, word, value, 0);
}

bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result)
{
    int64_t start = clock_now(), time = start;
    while ((*result = driver->stream_query(stream)) == RAW_NOT_READY && time < deadline) {
        if (time - start > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        time = clock_now();
    }
    return *result == 0;
}
