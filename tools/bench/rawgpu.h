/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The GPU drivers themselves, opened at run time and independent of the library under test: for the
 * ceilings that it is compared with, and for the work that an application puts on its own streams.
 * rawcuda.c and rawhip.c have a vendor's own declarations; nothing else knows which one it is. */
#ifndef GPUD_TOOLS_BENCH_RAWGPU_H
#define GPUD_TOOLS_BENCH_RAWGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned long long raw_address; /* in GPU memory, or of pinned memory as GPUs see it */
typedef void *raw_stream;

#define RAW_GPUS_MAX 256

struct raw_driver {
    const char *vendor; /* "CUDA" */
    const char *prefix; /* of its devices' names: "cuda" of cuda:0 */
    int not_ready;      /* what stream_query() returns of a stream that is at work */

    /* Loads and initialises it; where it is open, does nothing. The first call must not race with
     * another. false: the reason. */
    bool (*open)(char *reason, size_t size);
    const char *(*error_name)(int result); /* NULL: unknown */

    /* Streams of this GPU write words in pinned memory, and wait for them. */
    bool (*has_words)(unsigned gpu);

    /* The others return 0, or the driver's own error. */

    /* Makes a GPU this thread's current one, until leave(), which comes back to the one before. The
     * GPU's context is the one that all users in the process share; it stays until the end. */
    int (*enter)(unsigned gpu);
    void (*leave)(void);
    int (*can_access_peer)(int *can, unsigned gpu, unsigned peer);
    int (*enable_peer)(unsigned peer); /* for the current GPU; it may have been enabled before */

    int (*alloc)(raw_address *address, size_t size);
    int (*free)(raw_address address);
    /* Pinned memory, which all GPUs of the vendor can use. */
    int (*host_alloc)(void **host, size_t size);
    int (*host_free)(void *host);
    int (*host_address)(raw_address *address, void *host);

    int (*fill)(raw_address address, unsigned char value, size_t size, raw_stream stream);
    int (*copy)(raw_address to, raw_address from, size_t size, raw_stream stream);
    int (*copy_rows)(raw_address to, size_t to_pitch, raw_address from, size_t from_pitch,
                     size_t width, size_t rows, raw_stream stream);

    int (*stream_create)(raw_stream *stream); /* it does not wait for the default stream */
    int (*stream_destroy)(raw_stream stream);
    int (*stream_query)(raw_stream stream);
    int (*wait_value)(raw_stream stream, raw_address word, uint32_t value); /* until it is >= */
    int (*write_value)(raw_stream stream, raw_address word, uint32_t value);
};

extern const struct raw_driver raw_cuda, raw_hip;

/* The driver of a device: "cuda:3" → raw_cuda and 3. NULL: not a device of these drivers. The
 * number may be NULL. */
const struct raw_driver *raw_driver_of(const char *device, unsigned *gpu);

/* A failed call as text: "memory on the GPU: CUDA_ERROR_OUT_OF_MEMORY (2)". */
void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result);

/* Enters a GPU of an open driver; false: the reason. */
bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size);

/* Waits until the stream is idle, polling without sleep for the first millisecond. false: the
 * deadline (monotonic ns) passed; where the stream failed, *result is not the driver's not_ready.
 */
bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result);

#endif
