/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The GPU drivers themselves, opened at run time and independent of the library under test: for
 * what it is compared with, and for the work that an application puts on its own streams. */
#ifndef GPUD_TOOLS_CEILINGS_H
#define GPUD_TOOLS_CEILINGS_H

#include "device/gpu/calls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t raw_address; /* in GPU memory, or of pinned memory as GPUs see it */
typedef void *raw_stream;

#define RAW_GPUS_MAX 256
#define RAW_NOT_READY GPUD_GPU_NOT_READY /* stream_query() of a busy stream */

#define RAW_CALL(member, arguments) int(*member) arguments;

/* Complete once it is open, and constant from then on. */
struct raw_driver {
    const char *vendor; /* "CUDA" */
    const char *prefix; /* of its devices' names: "cuda" in cuda:0 */
    bool opened;

    GPUD_GPU_CALLS(RAW_CALL)

    bool (*open)(char *reason, size_t size); /* fills in the calls */
    const char *(*error_name)(int result);   /* NULL: unknown */

    /* Whether streams of this GPU write words in pinned memory, and wait for them. */
    bool (*has_words)(unsigned gpu);
    /* These return 0, or the driver's own error. */
    int (*enter)(unsigned gpu);
    void (*leave)(void);
    int (*enable_peer)(unsigned peer);
    int (*copy)(raw_address to, raw_address from, size_t size, raw_stream stream);
    int (*copy_rows)(raw_address to, size_t to_pitch, raw_address from, size_t from_pitch,
                     size_t width, size_t rows, raw_stream stream);
    int (*wait_value)(raw_stream stream, raw_address word, uint32_t value);
};
#undef RAW_CALL

extern struct raw_driver raw_cuda, raw_hip;

/* The driver of a device: "cuda:3" → raw_cuda and 3. NULL: not a device of these drivers. The
 * number may be NULL. */
struct raw_driver *raw_driver_of(const char *device, unsigned *gpu);

/* Loads and initialises the driver; does nothing if it is open. The first call must not race with
 * another. false: the reason. */
bool raw_open(struct raw_driver *driver, char *reason, size_t size);

/* A failed call as text: "memory on the GPU: CUDA_ERROR_OUT_OF_MEMORY (2)". */
void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result);

/* Makes a GPU of an open driver this thread's current one, until raw_leave(), which restores the
 * previous one. All users in the process share the GPU's context, which stays until the end. false:
 * the reason. */
bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size);

/* Waits until the stream is idle, polling without sleep for the first millisecond. false: the
 * deadline (monotonic ns) passed, or the stream failed: then *result is not RAW_NOT_READY. */
bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result);

/* CUDA alone has contexts besides the GPU's own, as GStreamer makes them. Makes one current, until
 * raw_leave(&raw_cuda); the driver must be open. */
int raw_cuda_push(void *context);

/* --- the calls: 0, or the driver's own error -------------------------------------------------- */

static inline void raw_leave(const struct raw_driver *driver)
{
    driver->leave();
}

/* For the current GPU; it may be enabled already. */
static inline int raw_enable_peer(const struct raw_driver *driver, unsigned peer)
{
    return driver->enable_peer(peer);
}

static inline int raw_alloc(const struct raw_driver *driver, raw_address *address, size_t size)
{
    return driver->mem_alloc(address, size);
}

static inline int raw_free(const struct raw_driver *driver, raw_address address)
{
    return driver->mem_free(address);
}

/* Pinned memory, which all GPUs of the vendor can use. Mapped, because HIP's is then coherent
 * whatever the environment says. */
static inline int raw_host_alloc(const struct raw_driver *driver, void **host, size_t size)
{
    return driver->mem_host_alloc(host, size, GPUD_GPU_HOST_PORTABLE | GPUD_GPU_HOST_MAPPED);
}

static inline int raw_host_address(const struct raw_driver *driver, raw_address *address,
                                   void *host)
{
    return driver->mem_host_get_device_pointer(address, host, 0);
}

static inline int raw_copy(const struct raw_driver *driver, raw_address to, raw_address from,
                           size_t size, raw_stream stream)
{
    return driver->copy(to, from, size, stream);
}

/* The stream does not wait for the default stream. */
static inline int raw_stream_create(const struct raw_driver *driver, raw_stream *stream)
{
    return driver->stream_create(stream, GPUD_GPU_STREAM_NON_BLOCKING);
}

static inline int raw_stream_destroy(const struct raw_driver *driver, raw_stream stream)
{
    return driver->stream_destroy(stream);
}

static inline int raw_write_value(const struct raw_driver *driver, raw_stream stream,
                                  raw_address word, uint32_t value)
{
    return driver->stream_write_value(stream, word, value, 0);
}

#endif
